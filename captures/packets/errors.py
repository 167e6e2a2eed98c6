"""What an unusable capture raises, and bytes of one that are no longer there."""

from __future__ import annotations

from typing import Any


class CaptureError(Exception):
    """A file that cannot be read as a capture.

    Damage inside a capture does not raise: what can be read is read, and the rest is listed in
    :attr:`captures.packets.table.Statistics.damage`.

    :ivar path: the file, or ``-`` for standard input
    :ivar offset: byte offset of the fault in the (decompressed) capture
    :ivar reason: what is wrong, in words
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        self.path = path
        self.offset = offset
        self.reason = reason
        where = f" at byte {offset}" if offset else ""
        super().__init__(f"{path}{where}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Let it go to other processes, as it is; otherwise it would be made again of its text alone."""
        return _again, (type(self), self.path, self.offset, self.reason)


def _again(kind: type[CaptureError], path: str, offset: int, reason: str) -> CaptureError:
    error = kind.__new__(kind)
    CaptureError.__init__(error, path, offset, reason)
    return error


DROPPED = "dropped from the spool (--spool enlarges it), or with their file"


class SpoolDropped(CaptureError):  # noqa: N818  # says what happened to the bytes, reads well at the raise
    """Bytes were asked for that a bounded spool has given back, see :mod:`captures.packets.spool`."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__(path, offset, f"the bytes were {DROPPED}")


class FileGone(SpoolDropped):
    """A file of a capture was deleted, or another took its place, after the capture was opened."""

    def __init__(self, path: str, reason: str) -> None:
        CaptureError.__init__(self, path, 0, reason)


class NotACapture(CaptureError):  # noqa: N818  # says what is wrong, reads well at the raise
    """A file of some other kind, or an empty one."""
