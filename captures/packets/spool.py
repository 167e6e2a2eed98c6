"""Bounded temporary files, for bytes that cannot be read twice.

A spool grows only at its end, and an offset means the same byte for ever. The bytes are stored in chunks, files that
are unlinked from the start, so that nothing is left behind however the program ends. When the spools of one
:class:`Quota` together would exceed it, the oldest chunk is dropped, whichever spool it belongs to.
"""

from __future__ import annotations

import errno
import os
import tempfile
from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import IO

import msgspec

from captures.packets.errors import SpoolDropped

DEFAULT_SPOOL = 8 << 30
"""Default quota of spools in bytes."""

_CHUNKS = 32  # number of chunks in a full quota
_LEAST_CHUNK = 1 << 16
_RESERVE = 1 << 30  # bytes left free on the file system, or a tenth of it if that is less


def spool_directory() -> str:
    """Return the directory for temporary files of many gigabytes.

    It is ``TMPDIR`` if set; else ``/var/tmp``, because ``/tmp`` is kept in memory on many systems
    (file-hierarchy(7): "programs that require temporary files of unbounded size should use /var/tmp").
    """
    configured = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    large = "/var/tmp"  # noqa: S108  # the files have no name
    usable = not configured and Path(large).is_dir() and os.access(large, os.W_OK | os.X_OK)
    return large if usable else tempfile.gettempdir()


def spare_bytes(directory: str) -> int:
    """Return how many bytes may be written to a file system without filling it up, negative if it is already full."""
    system = os.statvfs(directory)
    reserve = min(_RESERVE, system.f_blocks * system.f_frsize // 10)
    return system.f_bavail * system.f_frsize - reserve


class _Chunk(msgspec.Struct, eq=False):
    """Bytes [start, start + size) of a spool; `siblings` are all chunks of that spool, in order."""

    file: IO[bytes]
    start: int
    siblings: list[_Chunk]
    size: int = 0


class Quota:
    """A common limit of several spools.

    :param limit: bytes; spools may hold less, because a reserve of the file system is never used
    """

    def __init__(self, limit: int = DEFAULT_SPOOL) -> None:
        self.limit = limit
        self._held = 0
        self._chunks: list[_Chunk] = []  # the oldest first

    @cached_property
    def directory(self) -> str:
        """The directory of the chunks."""
        return spool_directory()

    @cached_property
    def chunk_size(self) -> int:
        """Size of a full chunk in bytes."""
        return max(min(self.limit, spare_bytes(self.directory)) // _CHUNKS, _LEAST_CHUNK)

    def new_chunk(self, start: int, siblings: list[_Chunk]) -> None:
        """Start a chunk after its siblings."""
        while spare_bytes(self.directory) < self.chunk_size and self._drop_oldest():
            pass
        file = tempfile.TemporaryFile(prefix="kproxy-", buffering=0, dir=self.directory)  # noqa: SIM115  # until dropped
        chunk = _Chunk(file, start, siblings)
        siblings.append(chunk)
        self._chunks.append(chunk)

    def write(self, chunk: _Chunk, data: memoryview) -> int:
        """Write to the end of a chunk; return the number of bytes written.

        :raises OSError: if there is no room even after dropping everything else
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
        """Drop these chunks."""
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
    """Bytes in temporary files, of which the oldest may have been dropped.

    :param path: path shown in errors
    :ivar size: bytes appended so far, dropped ones included
    """

    def __init__(self, path: str, quota: Quota) -> None:
        self._path = path
        self._quota = quota
        self._chunks: list[_Chunk] = []
        self.size = 0

    @property
    def begin(self) -> int:
        """Offset of the first available byte."""
        return self._chunks[0].start if self._chunks else self.size

    def append(self, data: bytes) -> int:
        """Append bytes; return the offset of the first.

        :raises OSError: if they cannot be written
        """
        position, rest = self.size, memoryview(data)
        while rest:
            if not self._chunks or self._chunks[-1].size >= self._quota.chunk_size:
                self._quota.new_chunk(self.size, self._chunks)
            chunk = self._chunks[-1]
            written = self._quota.write(chunk, rest[: self._quota.chunk_size - chunk.size])
            self.size += written
            rest = rest[written:]
        return position

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end.

        :raises SpoolDropped: if they are no longer available
        """
        buffer = bytearray(max(min(size, self.size - offset), 0))
        return bytes(buffer[: self.read_into(offset, memoryview(buffer))])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset`; return the number of bytes read, fewer only at the end.

        :raises SpoolDropped: if they are no longer available
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
        self._quota.give_back(self._chunks)


def fill(fd: int, offset: int, buffer: memoryview) -> int:
    """Fill `buffer` from `offset` of a file; return the number of bytes read, fewer only at its end."""
    done = 0
    while done < len(buffer):
        count = os.preadv(fd, [buffer[done:]], offset + done)
        if not count:
            break
        done += count
    return done
