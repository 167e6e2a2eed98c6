"""The one error that an unusable capture file raises."""

from __future__ import annotations


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
