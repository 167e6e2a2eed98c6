"""Chunk files of limited total size, written at one end and read as one growing capture.

Each chunk is a whole pcap file, so that it can be read by itself, even after a crash. A writer asks for a chunk,
appends whole records to it, and reports that; the reader wakes up and finds the chunks joined, each but the first
without its file header. When the limit is exceeded, the oldest chunk is dropped.

* A chunk gets its place in the joined capture when the reader reaches it. A chunk dropped before that never existed for
  the reader, as if its packets had not been captured. They are counted.
* The chunk that the reader is in is never dropped, nor is a file that the user asked for.
* Reading data that the reader has reached but that was dropped since raises
  :class:`~captures.packets.errors.SpoolDropped`.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from threading import Condition
from typing import IO

import msgspec

from captures import private
from captures.packets.errors import SpoolDropped
from captures.packets.feeds import StopSignal
from captures.packets.pcap import FILE_HEADER
from captures.packets.source import Source
from captures.packets.spool import Quota, fill, spare_bytes, spool_directory

_CHUNKS = 64  # in a full ring: a sixty-fourth of it is dropped at a time
_LEAST_CHUNK, _MOST_CHUNK = 1 << 16, 64 << 20

SUFFIX = ".pcap"


class Chunk(msgspec.Struct, eq=False):
    """A chunk file.

    :ivar number: 1 for the first
    :ivar file: open for reading and writing
    :ivar path: None if the file has no name
    :ivar asked_for: whether the user asked for the file, so that it stays
    :ivar size: bytes of whole records
    :ivar packets: number of packets
    :ivar ended: whether it is complete
    """

    number: int
    file: IO[bytes]
    path: Path | None
    asked_for: bool = False
    size: int = 0
    packets: int = 0
    ended: bool = False


class _ChunkRange(msgspec.Struct, eq=False):
    """A chunk with its place: byte ``inside`` of the file is byte ``base`` of the joined capture."""

    base: int
    inside: int
    chunk: Chunk

    @property
    def end(self) -> int:
        return self.base + max(self.chunk.size - self.inside, 0)


class Ring:
    """Chunk files that one thread writes and another reads, to which it is a store of :mod:`captures.packets.source`.

    :ivar limit: bytes of all chunks, None for no limit; lowered when the disk is full
    :param folder: of the chunks; None for unnamed temporary files, which leave no trace
    :param first: file and path for the first chunk, a file that the user asked for
    :ivar path: name in error messages
    :ivar size: bytes of the joined capture that the reader has reached
    :ivar compression: always empty
    :ivar damage: always empty: missing packets count as not captured
    :ivar expected: None: the final size is not known
    :ivar read_by_someone: whether there is a reader
    :ivar unread: packets that were dropped before the reader reached them
    """

    compression = damage = ""
    expected = None

    def __init__(
        self,
        limit: int | None = None,
        *,
        folder: Path | None = None,
        first: tuple[IO[bytes], Path] | None = None,
    ) -> None:
        self.path = "the captured packets" if folder is None else str(folder)
        self.size = 0
        self.read_by_someone = False
        self.unread = 0
        self.limit = limit
        self._folder = folder
        self._first = first
        self._chunks: deque[Chunk] = deque()
        self._held = 0
        self._made = 0
        self._finished = False
        self._mapped: list[_ChunkRange] = []
        self._changed = Condition()

    @cached_property
    def chunk_size(self) -> int:
        """Bytes after which a chunk is full."""
        room = spare_bytes(self._where)
        most = room if self.limit is None else min(self.limit, room)
        return min(max(most // _CHUNKS, _LEAST_CHUNK), _MOST_CHUNK)

    @cached_property
    def _where(self) -> str:
        return spool_directory() if self._folder is None else str(self._folder)

    # ------------------------------------------------------------ the writer
    def new_chunk(self) -> int:
        """End the current chunk and begin another; return the descriptor of its file.

        :raises OSError: if there is no room even though all older chunks were dropped
        """
        with self._changed:
            self._end_chunk()
            first, self._first = self._first, None
            while first is None and not self._has_room() and self._drop_oldest():
                pass
            chunk = self._new_file() if first is None else Chunk(self._made + 1, *first, asked_for=True)
            self._made += 1
            self._chunks.append(chunk)
            return chunk.file.fileno()

    def wrote(self, packets: int) -> bool:
        """Register whole records appended to the current chunk; return whether it is full."""
        with self._changed:
            chunk = self._chunks[-1]
            size = os.fstat(chunk.file.fileno()).st_size
            self._held += 0 if chunk.asked_for else size - chunk.size
            chunk.size = size
            chunk.packets += packets
            while self.limit is not None and self._held > self.limit and self._drop_oldest():
                pass
            self._changed.notify_all()
            return size >= self.chunk_size and not chunk.asked_for

    @property
    def writing(self) -> str:
        """Name of the current chunk, for messages."""
        chunk = self._chunks[-1] if self._chunks else None
        return self.path if chunk is None or chunk.path is None else str(chunk.path)

    def broke(self) -> None:
        """Recover from a failed write: cut off a partial record, end the chunk, and lower the limit."""
        with self._changed:
            chunk = self._chunks[-1]
            os.ftruncate(chunk.file.fileno(), chunk.size)
            self._end_chunk()
            if not chunk.asked_for:
                self.limit = self._held

    def finish(self) -> None:
        """End the capture: nothing more will be written."""
        with self._changed:
            self._end_chunk()
            self._finished = True
            self._changed.notify_all()

    def _end_chunk(self) -> None:
        if self._chunks:
            self._chunks[-1].ended = True
            self._changed.notify_all()

    def _new_file(self) -> Chunk:
        if self._folder is None:
            file: IO[bytes] = tempfile.TemporaryFile(prefix="kproxy-", buffering=0, dir=self._where)  # noqa: SIM115  # until dropped
            return Chunk(self._made + 1, file, None)
        path = self._folder / f"{self._made + 1:08}{SUFFIX}"
        return Chunk(
            self._made + 1, os.fdopen(private.opened(path, os.O_RDWR | os.O_EXCL), "w+b", buffering=0), path
        )

    def _has_room(self) -> bool:
        """Return whether another chunk fits within the limit and on the disk.

        :raises OSError: if it does not fit on the disk, and there is nothing to drop
        """
        if self.limit is not None and self._held + self.chunk_size > self.limit:
            return False
        if spare_bytes(self._where) >= self.chunk_size:
            return True
        if not any(map(self._may_be_dropped, self._chunks)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return False

    def _drop_oldest(self) -> bool:
        chunk = next(filter(self._may_be_dropped, self._chunks), None)
        if chunk is None:
            return False
        if self.read_by_someone and not (self._mapped and chunk.number <= self._mapped[-1].chunk.number):
            self.unread += chunk.packets
        self._chunks.remove(chunk)
        self._mapped = [mapped for mapped in self._mapped if mapped.chunk is not chunk]
        self._held -= chunk.size
        chunk.file.close()
        if chunk.path is not None:
            chunk.path.unlink(missing_ok=True)
        return True

    def _may_be_dropped(self, chunk: Chunk) -> bool:
        in_use = bool(self._mapped) and self._mapped[-1].chunk is chunk
        return chunk.ended and not chunk.asked_for and not in_use

    # ------------------------------------------------------------ the reader
    @property
    def begin(self) -> int:
        """Offset after which nothing was dropped."""
        with self._changed:
            begin = self._end
            for mapped in reversed(self._mapped):
                if mapped.end != begin:
                    break
                begin = mapped.base
            return begin

    @property
    def waiting(self) -> int:
        """Bytes that were written and the reader has not reached."""
        with self._changed:
            last = self._mapped[-1].chunk.number if self._mapped else 0
            return self._end - self.size + sum(chunk.size for chunk in self._chunks if chunk.number > last)

    @property
    def complete(self) -> bool:
        """Whether no bytes beyond :attr:`size` will follow."""
        with self._changed:
            return self._finished and self.size == self._end and self._following() is None

    def held(self, offset: int) -> bool:
        """Return whether nothing after `offset` was dropped."""
        return offset >= self.begin

    def wait_for(self, size: int) -> bool:
        """Wait until the joined capture has `size` bytes; return False if it ends before."""
        with self._changed:
            while self.size < size and not self.complete:
                self._extend()
            return self.size >= size

    def _extend(self) -> None:
        """Wait until there is more than :attr:`size` and let the reader have it, or until the end."""
        while self._end == self.size and not self.complete:
            following = self._following()
            if following is not None:
                self._mapped.append(_ChunkRange(self._end, FILE_HEADER if self._mapped else 0, following))
            else:
                self._changed.wait()
        self.size = self._end

    @property
    def _end(self) -> int:
        """Offset of the end of the chunk that the reader is in."""
        return self._mapped[-1].end if self._mapped else 0

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes from `offset`; fewer only at the end of what the reader has reached.

        :raises SpoolDropped: if they were dropped
        """
        buffer = bytearray(max(min(size, self.size - offset), 0))
        return bytes(buffer[: self.read_into(offset, memoryview(buffer))])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` with the bytes from `offset` on; return how many were read.

        :raises SpoolDropped: if they were dropped
        """
        with self._changed:
            done = 0
            while done < len(buffer) and offset + done < self.size:
                mapped = self._at(offset + done)
                inside = offset + done - mapped.base + mapped.inside
                part = buffer[done : done + mapped.chunk.size - inside]
                done += fill(mapped.chunk.file.fileno(), inside, part)
            return done

    def _at(self, offset: int) -> _ChunkRange:
        for mapped in reversed(self._mapped):
            if mapped.base <= offset < mapped.end:
                return mapped
        raise SpoolDropped(self.path, offset)

    def _following(self) -> Chunk | None:
        """Return the chunk that the reader reaches next, None if it does not exist yet."""
        if not self._mapped:
            return next((chunk for chunk in self._chunks if chunk.size), None)
        last = self._mapped[-1].chunk
        if not last.ended:
            return None
        return next((chunk for chunk in self._chunks if chunk.number > last.number), None)

    def close(self) -> None:
        """Remove the chunks, except a file that the user asked for."""
        with self._changed:
            self._finished = True
            for chunk in self._chunks:
                chunk.file.close()
                if chunk.path is not None and not chunk.asked_for:
                    chunk.path.unlink(missing_ok=True)
            self._chunks.clear()
            self._mapped.clear()
            self._changed.notify_all()


class _EndOfCapture(StopSignal):
    """A request to stop capturing, which ends the ring."""

    def __init__(self, stop_writing: Callable[[], None]) -> None:
        super().__init__()
        self._stop_writing = stop_writing

    def request(self) -> None:
        """Wake waiting readers, and let the writer finish the ring."""
        super().request()
        self._stop_writing()


def ring_source(ring: Ring, stop_writing: Callable[[], None], quota: Quota) -> Source:
    """Return the joined chunks of a ring as a live source, which removes them when it is closed.

    :param stop_writing: called by :meth:`Source.stop`; the source ends when the ring is finished
    :param quota: for bytes that are kept beside the capture
    """
    ring.read_by_someone = True
    stop = _EndOfCapture(stop_writing)
    closing = ExitStack()
    closing.callback(stop.close)
    closing.callback(ring.close)
    return Source(ring.path, lambda _: ring, quota, closing, stop)
