"""Alignment of the clocks of a capture's files, and removal of packets that several files contain.

The files are compared two by two. From the file that starts first, each other one is reached over the files that share
most packets; the offsets along that path align its clock. The times of files that share no packets stay unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np

from captures.arrays import Bools, Int64s, UInt64s
from captures.packets.addresses import AddressBook
from captures.packets.clock_offsets import (
    MOST_KEPT,
    ClockOffset,
    Sightings,
    UniquePackets,
    clock_offset,
    keys_of,
)
from captures.packets.files import CaptureFile
from captures.packets.table import PacketBlock

_ALL_PAIRS = 32
"""Of more files, only those that overlap in time are compared."""
_MIN_KEPT = 1 << 12
_RECENT_PACKETS = 1 << 15
"""Number of recent packets searched for copies."""


class ClockComparison(NamedTuple):
    """Two files whose clocks were compared.

    :ivar file: the file
    :ivar reference: the file it was compared with, which is nearer to the first file
    :ivar offset: how far the clock of `file` is ahead of that of `reference`
    """

    file: CaptureFile
    reference: CaptureFile
    offset: ClockOffset


class Clocks:
    """Collects packets that several files share while the files are read, to compare their clocks.

    :param addresses: address book of all files
    :param files: all files
    """

    def __init__(self, addresses: AddressBook, files: list[CaptureFile]) -> None:
        most = max(2 * MOST_KEPT // max(len(files), 1), _MIN_KEPT)
        self._files = files
        self._sightings = [Sightings(addresses, most) for _ in files]
        self._times: list[tuple[int, int] | None] = [None for _ in files]

    def see(self, file: int, block: PacketBlock) -> None:
        """Add packets of a file, with the file's times."""
        if not len(block):
            return
        self._sightings[file].add(block)
        low, high = self._times[file] or (1 << 62, 0)
        self._times[file] = min(low, int(block.time.min())), max(high, int(block.time.max()))

    def compare(self) -> list[ClockComparison]:
        """Return the possible comparisons, ordered so that references precede the files that refer to them."""
        count, seen = len(self._sightings), [each.once() for each in self._sightings]
        found: dict[tuple[int, int], ClockOffset] = {}
        pairs = combinations(range(count), 2) if count <= _ALL_PAIRS else self._overlapping()
        for one, other in pairs:
            offset = clock_offset(seen[one], seen[other])
            if offset is not None:
                found[one, other] = offset
        return list(self._tree(found, seen))

    def _overlapping(self) -> Iterator[tuple[int, int]]:
        spans = sorted((*span, file) for file, span in enumerate(self._times) if span is not None)
        for at, (_, end, one) in enumerate(spans):
            for begin, _, other in islice(spans, at + 1, None):
                if begin > end:
                    break
                yield min(one, other), max(one, other)

    def _tree(
        self, found: dict[tuple[int, int], ClockOffset], seen: list[UniquePackets]
    ) -> Iterator[ClockComparison]:
        """Reach as many files as possible, each over the pair with the most packets; start again if none is left."""
        reached: set[int] = set()
        while True:
            edges = [pair for pair in found if len(reached.intersection(pair)) == 1]
            if edges:
                pair = max(edges, key=lambda pair: found[pair].packets)
                reference, file = sorted(pair, key=lambda number: number not in reached)
                reached.add(file)
                offset = found.get((reference, file)) or clock_offset(seen[reference], seen[file])
                assert offset is not None, "what they share does not depend on which comes first"
                yield ClockComparison(self._files[file], self._files[reference], offset)
                continue
            beginnings = [min(pair) for pair in found if not reached.intersection(pair)]
            if not beginnings:
                return
            reached.add(min(beginnings))


def aligned(times: Int64s, offsets: tuple[ClockOffset, ...]) -> Int64s:
    """Return times after subtracting the offsets one after another."""
    for offset in offsets:
        times = times - offset.at(times)
    return times


class Copies:
    """Identifies packets that another file has already delivered; retransmissions are not copies.

    :ivar count: number of copies
    """

    def __init__(self) -> None:
        self.count = 0
        self._key: UInt64s = np.empty(0, np.uint64)
        self._file: Int64s = np.empty(0, np.int64)
        self._copies_possible = 0  # packets that may still have copies since several files were last read
        self._waiting: deque[tuple[PacketBlock, Int64s]] = deque()
        self._waiting_packets = 0

    def fresh(self, block: PacketBlock, file: Int64s, *, several: bool) -> Bools:
        """Return a mask of the packets to deliver: the n-th of equal packets comes from whichever file has it first.

        :param block: the next packets, in the order of delivery
        :param file: file number of each packet
        :param several: whether several files are being read
        """
        if several:
            self._copies_possible = _RECENT_PACKETS
        elif not self._copies_possible:
            self._wait(block, file)
            return np.ones(len(block), np.bool_)
        else:
            self._copies_possible = max(self._copies_possible - len(block), 0)
        self._waiting_packets = 0
        while self._waiting:
            earlier, its_file = self._waiting.popleft()
            self._remember(keys_of(earlier), its_file)
        key = keys_of(block)
        fresh = self._without_copies(key, file)
        self._remember(key, file)
        self.count += len(block) - int(fresh.sum())
        return fresh

    def _wait(self, block: PacketBlock, file: Int64s) -> None:
        """Keep packets in case another file starts here; otherwise they need no key."""
        self._waiting.append((replace(block, windows=()), file))
        self._waiting_packets += len(block)
        while self._waiting_packets - len(self._waiting[0][0]) >= _RECENT_PACKETS:
            self._waiting_packets -= len(self._waiting.popleft()[0])

    def _remember(self, key: UInt64s, file: Int64s) -> None:
        self._key = np.append(self._key, key)[-_RECENT_PACKETS:]
        self._file = np.append(self._file, file)[-_RECENT_PACKETS:]

    def _without_copies(self, key: UInt64s, file: Int64s) -> Bools:
        count = len(key)
        key, file = np.append(self._key, key), np.append(self._file, file)
        arrival = np.arange(len(key))
        in_file = _rank(np.lexsort((arrival, file, key)), key, file)
        order = np.lexsort((arrival, key))
        new = np.append(True, key[order][1:] != key[order][:-1])
        # the highest rank so far of the same key; ranks are below the number of packets, so keys do not collide
        rank = in_file[order] + np.cumsum(new) * len(key)
        before = np.maximum.accumulate(np.append(-1, rank))[:-1]
        fresh = np.empty(len(key), np.bool_)
        fresh[order] = rank > before
        return fresh[-count:]


def _rank(order: Int64s, *columns: Int64s | UInt64s) -> Int64s:
    """Return the number of equal rows before each row, in an order that groups equal rows."""
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    positions = np.arange(len(order))
    rank = np.empty(len(order), np.int64)
    rank[order] = positions - np.maximum.accumulate(np.where(new, positions, 0))
    return rank
