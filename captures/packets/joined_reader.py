"""The packets of several files as those of one capture, in time order.

Consecutive files, as left by rotation, are read one after another, block by block, as fast as a single
file. Where files overlap in time (captures of two interfaces, hosts or directions), their packets are merged: the next
packet is always the earliest of the files' next packets, so packets of one file keep their order whatever
its clock did. A file is opened when the merge reaches its first packet.

Packets are numbered through all files as by ``mergecap``, except that where files overlap, non-TCP packets count with
the next TCP packet of their file or, after the last one, with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

import numpy as np
from msgspec import structs

from captures.arrays import Int64s
from captures.packets.addresses import AddressBook
from captures.packets.alignment import Clocks, Copies, aligned
from captures.packets.errors import CaptureError
from captures.packets.files import CaptureFile, FileSeries, FoundFiles, Rotation, find_files, is_one_file
from captures.packets.joined_source import JoinedSource, base_of
from captures.packets.rare import FragmentStore
from captures.packets.reader import BLOCK_SIZE, PacketReader
from captures.packets.records import Interface
from captures.packets.source import KEPT, Source, open_source
from captures.packets.spool import DEFAULT_SPOOL, Quota
from captures.packets.table import PacketBlock, Statistics, Window

_NEVER = (1 << 63) - 1
_LEAST_BLOCK = 1 << 16
_FULL_BLOCKS = 4  # if more files overlap, later ones get smaller blocks


class _Cursor:
    """A file that is being read: its next packets, and how far they were delivered.

    :ivar order: index of the file among all
    :ivar reader: reads its packets
    :ivar block: packets read; those from ``row`` on are to be delivered
    :ivar consumed: number in its file of the last delivered packet
    :ivar comments: packet comments that wait for the next TCP packet, by number in the file
    """

    def __init__(self, order: int, reader: PacketReader, file: CaptureFile, clocks: Clocks | None) -> None:
        self.order = order
        self.reader = reader
        self._file = file
        self._clocks = clocks
        self.block: PacketBlock | None = None
        self.row = 0
        self.consumed = 0
        self.comments: dict[int, str] = {}
        self.interfaces: list[int] = []
        self.secrets = 0
        self._keys = np.zeros(0, np.int64)
        self._latest = 0

    def load(self) -> bool:
        """Read the next packets; return whether there are any.

        :raises CaptureError: if the file can no longer be read
        """
        for block in self.reader:
            self.comments |= block.comments
            if self._clocks is not None:
                self._clocks.see(self.order, block)
            block.time = aligned(block.time, self._file.clock)
            self.block, self.row = block, 0
            if len(block):
                # a clock may have been set back: a packet sorts after those before it in the file
                keys = block.time + self._file.lag
                self._keys = np.maximum(np.maximum.accumulate(keys), self._latest)
                self._latest = int(self._keys[-1])
                return True
        return False

    @property
    def end(self) -> tuple[int, int]:
        """The merge position after the packets read."""
        return self._latest, self.order

    @property
    def used_up(self) -> bool:
        """Whether all packets read were delivered."""
        return self.row == len(self._keys)

    def stop(self, limit: tuple[int, int]) -> int:
        time, order = limit
        return int(np.searchsorted(self._keys, time, "right" if self.order <= order else "left"))

    def take(self, stop: int) -> tuple[PacketBlock, Int64s]:
        assert self.block is not None
        rows = slice(self.row, stop)
        self.row = stop
        columns: dict[str, Any] = {name: getattr(self.block, name)[rows] for name in PacketBlock.COLUMNS}
        return replace(self.block, **columns), self._keys[rows]


class JoinedReader:
    """Iterates over the packets of a joined capture, a :class:`PacketBlock` at a time, in time order.

    It has the attributes of :class:`PacketReader`, covering all files.

    :param kind: class that reads the packets of one file
    :param files: numbers of the files to read; default: all
    :ivar source: the capture
    :ivar addresses: the endpoints found so far
    :ivar interfaces: the interfaces found so far; a file reuses equal ones of a file that has ended
    :ivar secrets: TLS key logs (NSS format) embedded in the files, found so far
    """

    def __init__(
        self,
        source: JoinedSource,
        block_size: int,
        kind: Callable[..., PacketReader] = PacketReader,
        files: range | None = None,
    ) -> None:
        self.source = source
        self.addresses = AddressBook()
        self.interfaces: list[Interface] = []
        self._free: dict[tuple[int | str, ...], list[int]] = {}
        """Interfaces of files that have ended, by their properties; the first one first."""
        self.secrets: list[bytes] = []
        self._kind = kind
        self._block_size = block_size
        self._fragments = FragmentStore()
        self._opened = 0 if files is None else files.start
        self._stop = None if files is None else files.stop
        self._cursors: list[_Cursor] = []
        # a live capture's files are not all known; a subset of the files has only some of the packets
        comparing = source.clocks is None and not source.live and files is None
        self._clocks = Clocks(self.addresses, source.files) if comparing else None
        self._copies = Copies()
        self._number = 0
        self._ended = Statistics()
        self._ended_size = 0
        self._blocks = self._read()

    @property
    def statistics(self) -> Statistics:
        total = Statistics()
        for each in (self._ended, *(cursor.reader.statistics for cursor in self._cursors)):
            total.add(each)
        total.fragments_waiting = self._fragments.waiting
        return total

    @property
    def done(self) -> int:
        """Bytes of the capture read so far."""
        return self._ended_size + sum(cursor.reader.done for cursor in self._cursors)

    def __iter__(self) -> Iterator[PacketBlock]:
        return self

    def __next__(self) -> PacketBlock:
        return next(self._blocks)

    # ------------------------------------------------------------ the merge
    def _read(self) -> Iterator[PacketBlock]:
        while self._cursors or self._opened < self._known:
            limit = min([self._next_file(), *(cursor.end for cursor in self._cursors)])
            taking = [(cursor, stop) for cursor in self._cursors if (stop := cursor.stop(limit)) > cursor.row]
            if taking:
                block = self._merged(taking)
                if len(block) or block.comments:
                    yield block
            else:
                yield from self._open_next()
            for cursor in [cursor for cursor in self._cursors if cursor.used_up]:
                yield from self._load(cursor)
        if self._clocks is not None:
            self.source.clocks = self._clocks.compare()
        self.source.copies = self._copies.count

    @property
    def _known(self) -> int:
        """The number of files, or the end of the range to read."""
        return len(self.source.files) if self._stop is None else self._stop

    def _next_file(self) -> tuple[int, int]:
        """Return the merge position of the next unopened file."""
        if self._opened == self._known:
            return _NEVER, _NEVER
        time = self.source.files[self._opened].first_time
        return (_NEVER if time is None else time), self._opened

    def _open_next(self) -> Iterator[PacketBlock]:
        number = self._opened
        self._opened += 1
        size = self._block_size * _FULL_BLOCKS // max(len(self._cursors) + 1, _FULL_BLOCKS)
        try:
            reader = self._kind(
                self.source.part(number),
                max(size, min(self._block_size, _LEAST_BLOCK)),
                addresses=self.addresses
                if self.source.files[number].captured is None
                else self.addresses.apart(),
                fragments=self._fragments,
            )
        except CaptureError as error:
            self.source.report(error)
            return
        cursor = _Cursor(number, reader, self.source.files[number], self._clocks)
        self._cursors.append(cursor)
        yield from self._load(cursor)

    def _load(self, cursor: _Cursor) -> Iterator[PacketBlock]:
        """Read more of a file. At its end, yield remaining comments on non-TCP packets."""
        try:
            more = cursor.load()
        except CaptureError as error:
            self.source.report(error)
            more = False
        self.secrets += cursor.reader.secrets[cursor.secrets :]
        cursor.secrets = len(cursor.reader.secrets)
        for interface in cursor.reader.interfaces[len(cursor.interfaces) :]:
            cursor.interfaces.append(self._interface(interface))
        if more:
            return
        self._cursors.remove(cursor)
        for number in cursor.interfaces:
            heappush(self._free.setdefault(structs.astuple(self.interfaces[number]), []), number)
        self.source.finished(cursor.order)
        self._ended.add(cursor.reader.statistics)
        self._ended_size += cursor.reader.done
        if cursor.comments and cursor.block is not None:
            nothing, _ = cursor.take(cursor.row)
            last = {number - cursor.consumed + self._number: text for number, text in cursor.comments.items()}
            yield replace(nothing, source=self.source, windows=(), comments=last)
        self._number += cursor.reader.statistics.packets - cursor.consumed

    def _merged(self, taking: list[tuple[_Cursor, int]]) -> PacketBlock:
        parts, keys = zip(*(cursor.take(stop) for cursor, stop in taking), strict=True)
        cursors = [cursor for cursor, _ in taking]
        steps = [
            np.diff(part.number, prepend=cursor.consumed) for cursor, part in zip(cursors, parts, strict=True)
        ]
        order = np.argsort(np.concatenate(keys), kind="stable") if len(parts) > 1 else slice(None)
        number = np.cumsum(np.concatenate(steps)[order]) + self._number
        self._number = int(number[-1])
        by_file = np.empty(len(number), np.int64)
        by_file[order] = number
        comments: dict[int, str] = {}
        for cursor, part, numbers in zip(
            cursors, parts, np.split(by_file, np.cumsum([len(part) for part in parts])[:-1]), strict=True
        ):
            comments |= _renumbered(cursor.comments, part.number, numbers)
            cursor.consumed = int(part.number[-1])
        placed = [self._placed(cursor, part) for cursor, part in zip(cursors, parts, strict=True)]
        first = placed[0]
        columns: dict[str, Any] = {name: getattr(first, name) for name in PacketBlock.COLUMNS}
        if len(placed) > 1:
            columns = {
                name: np.concatenate([getattr(part, name) for part in placed])[order] for name in columns
            }
        columns["number"] = number
        file = np.repeat([cursor.order for cursor in cursors], [len(part) for part in parts])[order]
        fresh = self._copies.fresh(replace(first, **columns), file, several=len(self._cursors) > 1)
        if comments:  # keep comments on copies
            fresh |= np.isin(number, list(comments))
        if not fresh.all():
            columns = {name: column[fresh] for name, column in columns.items()}
        windows = tuple(window for part in placed for window in part.windows)
        return replace(first, source=self.source, windows=windows, comments=comments, **columns)

    def _placed(self, cursor: _Cursor, block: PacketBlock) -> PacketBlock:
        """Return a block of a file with its offsets and interfaces converted to those of the joined capture."""
        base = base_of(cursor.order)
        columns: dict[str, Any] = {}
        for name in block.PLACES:
            place = getattr(block, name)
            columns[name] = np.where(place >= KEPT, place, place + base)
        known = np.array([*cursor.interfaces, -1], np.int32)
        windows = tuple(Window(each.data, each.offset + base, each.size) for each in block.windows)
        return replace(block, windows=windows, interface=known[block.interface], **columns)

    def _interface(self, interface: Interface) -> int:
        free = self._free.get(structs.astuple(interface))
        if free:
            return heappop(free)
        self.interfaces.append(interface)
        return len(self.interfaces) - 1


def _renumbered(waiting: dict[int, str], was: Int64s, now: Int64s) -> dict[int, str]:
    """Take the waiting comments on packets up to the last of `was`; return them by new numbers.

    :param was: numbers of the TCP packets in their file
    :param now: their new numbers; packets between them keep their distance to the next one
    """
    passed = [number for number in waiting if number <= was[-1]]
    following = np.searchsorted(was, passed)
    return {
        int(now[at]) - int(was[at]) + number: waiting.pop(number)
        for number, at in zip(passed, following.tolist(), strict=True)
    }


def read_packets(
    source: Source, block_size: int = BLOCK_SIZE, kind: type[PacketReader] = PacketReader
) -> PacketReader | JoinedReader:
    """Return the TCP packets of a capture in blocks of about `block_size` bytes of each file.

    :param kind: class that reads the packets of one file
    :raises CaptureError: if the source is not a pcap or pcapng file; on iteration if reading it fails
    """
    if isinstance(source, JoinedSource):
        return JoinedReader(source, block_size, kind)
    return kind(source, block_size)


def open_files(
    paths: Sequence[str], *, follow: bool = False, spool: int = DEFAULT_SPOOL, align_clocks: bool = False
) -> Source:
    """Open the captures that paths, patterns and folders stand for, as one.

    :param align_clocks: convert the times of all files to the clock of the first one, for which they are read twice
    :param follow: whether more is still being written: to the single file, or to the newest of several, until a newer
        one appears in the folder or matches the pattern
    :param spool: number of bytes kept of input that cannot be read twice
    :raises CaptureError: if no file can be read; if only some fail, their errors are in
        :attr:`JoinedSource.unreadable`
    """
    quota = Quota(spool)
    if len(paths) == 1 and is_one_file(paths[0]):
        return open_source(paths[0], follow=follow, spool=quota)
    found = find_files(paths, quota, logs_beside_packets=not follow and not align_clocks, follow=follow)
    if not found.files:
        first, *others = found.unreadable
        also = "".join(f"; {other}" for other in others)
        raise CaptureError(first.path, first.offset, f"{first.reason}{also}")
    if align_clocks:
        return _by_one_clock(found, quota)
    return JoinedSource(found, quota, Rotation(paths, found, quota) if follow else None)


def open_succession(
    path: str, succession: FileSeries, *, begin: int = 0, spool: int = DEFAULT_SPOOL
) -> Source:
    """Open a recording in progress, and follow it until its program has ended.

    :param path: a file, or a folder or a pattern of files that are written one after another
    :param begin: byte of a single file at which the recording starts
    :param spool: number of bytes kept of input that cannot be read twice
    :raises CaptureError: if there is nothing yet, or it cannot be read
    """
    quota = Quota(spool)
    if is_one_file(path):
        return open_source(path, follow=True, over=succession.over, first=begin, spool=quota)
    found = find_files([path], quota, succession)
    if not found.files:
        raise found.unreadable[0]
    return JoinedSource(found, quota, Rotation([path], found, quota, succession))


def _by_one_clock(found: FoundFiles, quota: Quota) -> JoinedSource:
    """Read the files to compare their clocks, and open them with their clocks aligned.

    :raises CaptureError: if one of them is a pipe or followed
    """
    pipe = next((file for file in found.files if file.source is not None), None)
    if pipe is not None:
        reason = "that requires reading it twice"
        if pipe.is_log:
            reason = "a request log shares no packets with other files"
        raise CaptureError(pipe.path, 0, f"its clock cannot be aligned, because {reason}")
    first = JoinedSource(structs.replace(found, unreadable=[]), quota)
    for _ in JoinedReader(first, BLOCK_SIZE, PacketReader):
        pass
    first.close()
    for file, reference, offset in first.clocks or ():
        file.clock = (offset, *reference.clock)
        file.lag = reference.lag + offset.lead
        if file.first_time is not None:
            file.first_time = int(aligned(np.array([file.first_time]), file.clock)[0])
    found.files.sort(key=lambda file: (file.first_time is None, file.first_time or 0))
    made = JoinedSource(found, quota)
    made.clocks = first.clocks
    return made
