"""Chunk files within a bound, written at one end and read as one growing capture.

Each chunk is a whole pcap file, so that it can be read by itself, whatever became of the program. A writer asks for
a chunk, appends whole records to it, and says so; the reader is woken and finds the chunks joined, each without its
file header but the first. When there would be more than the bound allows, the oldest chunk is dropped.

* A chunk gets its place in the joined capture when the reader comes to it. What is dropped before that was never
  there for the reader: to it, those packets were not captured. They are counted.
* The chunk that the reader is in is not dropped, and never is a file that the user asked for.
* What the reader had and what was dropped since raises :class:`~captures.packets.errors.SpoolDropped`.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Condition
from typing import IO

from captures import private
from captures.packets.errors import SpoolDropped
from captures.packets.feeds import Stop
from captures.packets.pcap import FILE_HEADER
from captures.packets.source import Source
from captures.packets.spool import Quota, fill, spare_bytes, spool_directory

_CHUNKS = 64  # in a full ring: what is dropped at a time is a sixty-fourth of it
_LEAST_CHUNK, _MOST_CHUNK = 1 << 16, 64 << 20

SUFFIX = ".pcap"


@dataclass(slots=True, eq=False)
class Chunk:
    """One chunk file.

    :ivar number: 1 for the first
    :ivar file: open for reading and writing
    :ivar path: None if the file has no name
    :ivar asked_for: whether it is the user's, and stays
    :ivar size: bytes of it that are whole records
    :ivar packets: how many
    :ivar ended: whether no more will be written to it
    """

    number: int
    file: IO[bytes]
    path: Path | None
    asked_for: bool = False
    size: int = 0
    packets: int = 0
    ended: bool = False


@dataclass(slots=True, eq=False)
class _ChunkRange:
    """A chunk with its place: byte ``inside`` of the file is byte ``base`` of the joined capture."""

    base: int
    inside: int
    chunk: Chunk

    @property
    def end(self) -> int:
        return self.base + max(self.chunk.size - self.inside, 0)


class Ring:
    """Chunk files; one thread writes, another reads, for which it is a store of :mod:`captures.packets.source`.

    :ivar limit: bytes that the chunks may have together, None for no bound; less than given since the disk was full
    :param folder: where they are; None for files without a name where temporary files are, of which nothing is left
        behind
    :param first: where the first chunk goes, a file that the user asked for, and its path
    :ivar path: what errors name
    :ivar size: bytes of the joined capture that the reader has come to
    :ivar compression: none
    :ivar damage: none; what is missing was not captured
    :ivar expected: unknown: how many bytes there will be
    :ivar read_by_someone: whether there is a reader
    :ivar unread: packets that were dropped before the reader came to them
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
        """End the current chunk and begin another; returns the descriptor of its file.

        :raises OSError: if there is no room, though all older chunks were dropped
        """
        with self._changed:
            self._end_chunk()
            first, self._first = self._first, None
            while first is None and not self._room() and self._drop_oldest():
                pass
            chunk = self._named_or_not() if first is None else Chunk(self._made + 1, *first, asked_for=True)
            self._made += 1
            self._chunks.append(chunk)
            return chunk.file.fileno()

    def wrote(self, packets: int) -> bool:
        """Take note that whole records were appended to the current chunk; returns whether it is full."""
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
        """What the current chunk is called, for messages."""
        chunk = self._chunks[-1] if self._chunks else None
        return self.path if chunk is None or chunk.path is None else str(chunk.path)

    def broke(self) -> None:
        """Take note that writing failed: what is not a whole record is cut off, and the bound is lowered."""
        with self._changed:
            chunk = self._chunks[-1]
            os.ftruncate(chunk.file.fileno(), chunk.size)
            self._end_chunk()
            if not chunk.asked_for:
                self.limit = self._held

    def finish(self) -> None:
        """Take note that nothing more will be written."""
        with self._changed:
            self._end_chunk()
            self._finished = True
            self._changed.notify_all()

    def _end_chunk(self) -> None:
        if self._chunks:
            self._chunks[-1].ended = True
            self._changed.notify_all()

    def _named_or_not(self) -> Chunk:
        if self._folder is None:
            file: IO[bytes] = tempfile.TemporaryFile(prefix="kproxy-", buffering=0, dir=self._where)  # noqa: SIM115  # until dropped
            return Chunk(self._made + 1, file, None)
        path = self._folder / f"{self._made + 1:08}{SUFFIX}"
        return Chunk(
            self._made + 1, os.fdopen(private.opened(path, os.O_RDWR | os.O_EXCL), "w+b", buffering=0), path
        )

    def _room(self) -> bool:
        """Whether another chunk fits: into the bound, and on the disk.

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
        """Offset of the first byte from which on nothing was dropped."""
        with self._changed:
            begin = self._end
            for mapped in reversed(self._mapped):
                if mapped.end != begin:
                    break
                begin = mapped.base
            return begin

    @property
    def waiting(self) -> int:
        """Bytes that are there, and that the reader has not come to."""
        with self._changed:
            last = self._mapped[-1].chunk.number if self._mapped else 0
            return self._end - self.size + sum(chunk.size for chunk in self._chunks if chunk.number > last)

    @property
    def complete(self) -> bool:
        """Whether no more bytes will come than :attr:`size`."""
        with self._changed:
            return self._finished and self.size == self._end and self._following() is None

    def held(self, offset: int) -> bool:
        """Whether nothing was dropped from a byte on."""
        return offset >= self.begin

    def wait_for(self, size: int) -> bool:
        """Let the reader come to that many bytes as soon as they are there; False if no more will come."""
        with self._changed:
            while self.size < size and not self.complete:
                self._go_on()
            return self.size >= size

    def _go_on(self) -> None:
        """Wait until there is more than :attr:`size`, and let the reader have it; or wait for the end."""
        while self._end == self.size and not self.complete:
            following = self._following()
            if following is not None:
                self._mapped.append(_ChunkRange(self._end, FILE_HEADER if self._mapped else 0, following))
            else:
                self._changed.wait()
        self.size = self._end

    @property
    def _end(self) -> int:
        """Where the chunk ends that the reader is in."""
        return self._mapped[-1].end if self._mapped else 0

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of what the reader has come to.

        :raises Dropped: if they are no longer there
        """
        buffer = bytearray(max(min(size, self.size - offset), 0))
        return bytes(buffer[: self.read_into(offset, memoryview(buffer))])

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset`; returns the bytes read, as many as are there.

        :raises Dropped: if they are no longer there
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
        """Return the chunk that the reader comes to next, None if it is not there yet."""
        if not self._mapped:
            return next((chunk for chunk in self._chunks if chunk.size), None)
        last = self._mapped[-1].chunk
        if not last.ended:
            return None
        return next((chunk for chunk in self._chunks if chunk.number > last.number), None)

    def close(self) -> None:
        """Remove the chunks, but for what the user asked for."""
        with self._changed:
            self._finished = True
            for chunk in self._chunks:
                chunk.file.close()
                if chunk.path is not None and not chunk.asked_for:
                    chunk.path.unlink(missing_ok=True)
            self._chunks.clear()
            self._mapped.clear()
            self._changed.notify_all()


class _EndOfCapture(Stop):
    """The wish that capturing end, which ends the ring."""

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
    return Source(ring.path, lambda: ring, quota, stop, [stop.close, ring.close])
