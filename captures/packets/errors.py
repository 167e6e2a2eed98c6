"""Errors of unusable captures, and of bytes that are no longer available."""

from __future__ import annotations

from typing import Any


class CaptureError(Exception):
    """A file that cannot be read as a capture.

    Damage inside a capture does not raise: everything readable is read, and damaged places are listed in
    :attr:`captures.packets.table.Statistics.damage`.

    :ivar path: the file, or ``-`` for standard input
    :ivar offset: byte offset of the error in the (decompressed) capture
    :ivar reason: what is wrong, in words
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        self.path = path
        self.offset = offset
        self.reason = reason
        where = f" at byte {offset}" if offset else ""
        super().__init__(f"{path}{where}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling with all attributes; by default only the text would be kept."""
        return _restored, (type(self), self.path, self.offset, self.reason)


def _restored(kind: type[CaptureError], path: str, offset: int, reason: str) -> CaptureError:
    error = kind.__new__(kind)
    CaptureError.__init__(error, path, offset, reason)
    return error


DROPPED = "dropped from the spool (--spool enlarges it), or with their file"


class SpoolDropped(CaptureError):  # noqa: N818  # says what happened to the bytes, reads well at the raise
    """Requested bytes were dropped from a bounded spool, see :mod:`captures.packets.spool`."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__(path, offset, f"the bytes were {DROPPED}")


class FileGone(SpoolDropped):
    """A file of a capture was deleted or replaced after the capture was opened."""

    def __init__(self, path: str, reason: str) -> None:
        CaptureError.__init__(self, path, 0, reason)


class NotACapture(CaptureError):  # noqa: N818  # says what is wrong, reads well at the raise
    """A file of another kind, or an empty one."""
