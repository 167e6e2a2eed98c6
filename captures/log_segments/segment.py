"""The batches of one segment, and what is damaged in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from dissectors.budget import LimitReached, limit, shown
from dissectors.records import Batch, RecordSet, first_batch, record_set

_Kind = Literal["checksum", "format", "truncated", "zeros"]

_WINDOW = 4 << 20
"""Bytes read at a time; a larger batch gets a window of its size."""
_SEARCHED = 1 << 20, 32 << 20
"""Bytes of the first and of the largest window in which the next batch is searched."""


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch of a segment whose checksum is valid.

    :ivar position: of its first byte in the file
    """

    batch: Batch
    position: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are not valid batches.

    :ivar kind: ``checksum``: a batch whose bytes do not match its checksum; ``format``: bytes without a batch header;
        ``truncated``: an incomplete batch at the end of the file; ``zeros``: only zeros up to the end, as in a file
        that was allocated in advance (``log.preallocate``)
    :ivar position: of the first byte in the file
    :ivar batch: the batch whose checksum does not match; None otherwise
    """

    kind: _Kind
    file: Path
    position: int
    size: int
    reason: str
    batch: Batch | None = None

    @property
    def lossy(self) -> bool:
        """Whether batches may be lost."""
        return self.kind != "zeros"


def read_segment(path: Path) -> Iterator[StoredBatch | Damage]:
    """Yield the batches of a segment, and the damaged bytes between them, in the order of the file.

    Reading continues after damage with the next batch of magic 2 whose checksum is valid. Bytes that are appended in
    the meantime are not read.

    :raises OSError: if the file cannot be read
    """
    with path.open("rb") as file:
        yield from _Segment(path, file).read()


class _Segment:
    """One pass over a segment.

    :ivar position: of the next batch in the file
    :ivar window: bytes to read there
    :ivar next_valid: position of the valid batch that was searched last
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.size = os.fstat(file.fileno()).st_size
        self.position = 0
        self.window = _WINDOW
        self.next_valid = 0

    def read(self) -> Iterator[StoredBatch | Damage]:
        """Yield the content; see :func:`read_segment`."""
        damages = 0
        while self.position < self.size:
            window = self._bytes(self.position, self.window)
            if not window:  # the broker has shortened the file since it was opened
                return
            for each in self._in_window(window):
                yield each
                damages += isinstance(each, Damage)
                if damages > limit("file_damage") and self.position < self.size:
                    reason = f"more damage than the limit {shown('file_damage')}: the rest is not read"
                    yield self._damage("format", self.size - self.position, reason)
                    return

    def _in_window(self, window: bytes) -> Iterator[StoredBatch | Damage]:
        """Yield the content of a window; afterwards `position` and `window` are those of the next one."""
        start, self.window = self.position, _WINDOW
        found = record_set(window)
        for batch in found:
            if batch.crc_valid:
                self.position = start + batch.end
                yield StoredBatch(batch, start + batch.start)
                continue
            following = self._next_batch(self.position + 1)
            size = min(batch.size, following - self.position)  # less if its length is damaged, too
            yield self._damage("checksum", size, "the checksum does not match", batch)
            if size < batch.size:
                return
        rest = window[self.position - start :]
        if rest and not self._continues(rest, found, moved=self.position > start):
            yield self._unreadable(rest, found)

    def _continues(self, rest: bytes, found: RecordSet, *, moved: bool) -> bool:
        """Return whether the next window has the batch at the end of this one.

        :param rest: the bytes after the last batch
        :param moved: whether there were batches before
        """
        if found.problems:
            return moved and isinstance(found.problems[0], LimitReached)
        announced = self._announced(found)
        if self.position + max(announced, len(rest) + 1) > self.size or announced > limit("frame_bytes"):
            return False
        if not moved:
            self.window = announced
        return True

    @staticmethod
    def _announced(found: RecordSet) -> int:
        """Return the announced size of the incomplete batch, 0 if unknown."""
        return (found.trailing.announced or 0) if found.trailing is not None else 0

    def _unreadable(self, rest: bytes, found: RecordSet) -> Damage:
        """Return the damage at bytes that are no whole batch."""
        if found.problems and not any(rest[:64]) and self._only_zeros(self.position):
            size = self.size - self.position
            return self._damage("zeros", size, f"{size:,} bytes of zeros at the end")
        size = self._next_batch(self.position + 1) - self.position
        at_end = self.position + size == self.size
        if found.problems:
            return self._damage("format", size, found.problems[0].reason)
        announced = self._announced(found)
        whole = f"a batch of {announced:,} bytes" if announced else "the header of a batch"
        if at_end and (not announced or announced > size):
            return self._damage("truncated", size, f"the file ends after {size:,} bytes of {whole}")
        return self._damage("format", size, f"only {size:,} bytes of {whole}")

    def _damage(self, kind: _Kind, size: int, reason: str, batch: Batch | None = None) -> Damage:
        """Return the damage at `position`, and move behind it."""
        damage = Damage(kind, self.path, self.position, size, reason, batch)
        self.position += size
        return damage

    def _bytes(self, position: int, size: int) -> bytes:
        self.file.seek(position)
        return self.file.read(min(size, self.size - position))

    def _only_zeros(self, position: int) -> bool:
        while window := self._bytes(position, _WINDOW):
            if window != bytes(len(window)):
                return False
            position += len(window)
        return True

    def _next_batch(self, position: int) -> int:
        """Return the position of the first valid batch from `position` on, the end of the file without one."""
        if position <= self.next_valid:
            return self.next_valid
        size, largest = _SEARCHED
        while position < self.size:
            window = self._bytes(position, size)
            at = first_batch(window)
            if at < len(window):
                position += at
                break
            if position + len(window) >= self.size:
                position = self.size
            elif size < largest:
                size *= 2
            else:  # a batch may begin in the second half and end beyond it
                position += len(window) // 2
        self.next_valid = position
        return position
