"""Bounded temporary files, for bytes that cannot be read twice.

A spool grows at its end only, and an offset means the same byte for ever. The bytes lie in chunks, files that are
unlinked from the start, so that nothing is left behind however the program ends. When the spools of one
:class:`Quota` together would hold more than it allows, the oldest chunk is given back, whichever spool it is of.
"""

from __future__ import annotations

import errno
import os
import tempfile
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO

from captures.packets.errors import SpoolDropped

DEFAULT_SPOOL = 8 << 30
"""Bytes that spools may hold unless told otherwise."""

_CHUNKS = 32  # in a full quota: what is given back at a time is a thirty-second of it
_LEAST_CHUNK = 1 << 16
_RESERVE = 1 << 30  # bytes left to others on the file system, or a tenth of it where that is less


def spool_directory() -> str:
    """Where temporary files of many gigabytes belong.

    What ``TMPDIR`` says; else ``/var/tmp``, because ``/tmp`` is kept in memory on many systems
    (file-hierarchy(7): "programs that require temporary files of unbounded size should use /var/tmp").
    """
    told = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    large = "/var/tmp"  # noqa: S108  # the files have no name
    usable = not told and Path(large).is_dir() and os.access(large, os.W_OK | os.X_OK)
    return large if usable else tempfile.gettempdir()


def spare_bytes(directory: str) -> int:
    """Bytes that may be written to a file system without filling it up, negative if it is filled up already."""
    system = os.statvfs(directory)
    reserve = min(_RESERVE, system.f_blocks * system.f_frsize // 10)
    return system.f_bavail * system.f_frsize - reserve


@dataclass(slots=True, eq=False)
class _Chunk:
    """Bytes [start, start + size) of a spool; `siblings` are all chunks of that spool, in order."""

    file: IO[bytes]
    start: int
    siblings: list[_Chunk] = field(repr=False)
    size: int = 0


class Quota:
    """What spools may hold together.

    :param limit: bytes; never is the file system filled beyond a reserve, so it may be less
    """

    def __init__(self, limit: int = DEFAULT_SPOOL) -> None:
        self.limit = limit
        self._held = 0
        self._chunks: list[_Chunk] = []  # the oldest first

    @cached_property
    def directory(self) -> str:
        """Where the chunks are."""
        return spool_directory()

    @cached_property
    def chunk_size(self) -> int:
        """Bytes of a full chunk."""
        return max(min(self.limit, spare_bytes(self.directory)) // _CHUNKS, _LEAST_CHUNK)

    def new_chunk(self, start: int, siblings: list[_Chunk]) -> None:
        """Begin a chunk behind its siblings."""
        while spare_bytes(self.directory) < self.chunk_size and self._drop_oldest():
            pass
        file = tempfile.TemporaryFile(prefix="kproxy-", buffering=0, dir=self.directory)  # noqa: SIM115  # until dropped
        chunk = _Chunk(file, start, siblings)
        siblings.append(chunk)
        self._chunks.append(chunk)

    def write(self, chunk: _Chunk, data: memoryview) -> int:
        """Write to the end of a chunk; returns how many bytes were written.

        :raises OSError: if there is no room, though nothing else is held
        """
        while self._held + len(data) > self.limit and self._drop_oldest(besides=chunk):
            pass
        while True:
            try:
                written = os.pwrite(chunk.file.fileno(), data, chunk.size)
            except OSError as error:
                if error.errno != errno.ENOSPC or not self._drop_oldest(besides=chunk):
                    raise
            else:
                chunk.size += written
                self._held += written
                return written

    def give_back(self, chunks: list[_Chunk]) -> None:
        """Drop all of these."""
        for chunk in list(chunks):
            self._drop(chunk)

    def _drop_oldest(self, besides: _Chunk | None = None) -> bool:
        oldest = next((chunk for chunk in self._chunks if chunk is not besides), None)
        if oldest is None:
            return False
        self._drop(oldest)
        return True

    def _drop(self, chunk: _Chunk) -> None:
        self._chunks.remove(chunk)
        chunk.siblings.remove(chunk)
        chunk.file.close()
        self._held -= chunk.size


class Spool:
    """Bytes in temporary files, of which the oldest may be gone.

    :param path: what errors name
    :ivar size: bytes appended so far, dropped ones included
    """

    def __init__(self, path: str, quota: Quota) -> None:
        self._path = path
        self._quota = quota
        self._chunks: list[_Chunk] = []
        self.size = 0

    @property
    def begin(self) -> int:
        """Offset of the first byte that is still there."""
        return self._chunks[0].start if self._chunks else self.size

    def append(self, data: bytes) -> int:
        """Add bytes at the end; returns the offset of the first.

        :raises OSError: if they cannot be written
        """
        place, rest = self.size, memoryview(data)
        while rest:
            if not self._chunks or self._chunks[-1].size >= self._quota.chunk_size:
                self._quota.new_chunk(self.size, self._chunks)
            chunk = self._chunks[-1]
            written = self._quota.write(chunk, rest[: self._quota.chunk_size - chunk.size])
            self.size += written
            rest = rest[written:]
        return place

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end.

        :raises Dropped: if they are no longer there
        """
        buffer = bytearray(max(min(size, self.size - offset), 0))
        return bytes(buffer[: self.read_into(offset, memoryview(buffer))])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset`; returns the bytes read, fewer only at the end.

        :raises Dropped: if they are no longer there
        """
        if offset < self.begin:
            raise SpoolDropped(self._path, offset)
        done = 0
        first = bisect_right(self._chunks, offset, key=lambda chunk: chunk.start) - 1
        for chunk in self._chunks[max(first, 0) :]:
            inside = offset + done - chunk.start
            done += fill(chunk.file.fileno(), inside, buffer[done : done + max(chunk.size - inside, 0)])
            if done == len(buffer):
                break
        return done

    def close(self) -> None:
        """Give all back."""
        self._quota.give_back(self._chunks)


def fill(fd: int, offset: int, buffer: memoryview) -> int:
    """Fill `buffer` from `offset` of a file; returns the bytes read, fewer only at its end."""
    done = 0
    while done < len(buffer):
        count = os.preadv(fd, [buffer[done:]], offset + done)
        if not count:
            break
        done += count
    return done
