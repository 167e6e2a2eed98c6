"""The offset between the clocks of two captures, estimated from packets that both contain.

A packet captured at two hosts has two times, which differ by the offset of the clocks and by the network delay. One
direction alone cannot separate the two. Both directions can, as in NTP (RFC 5905 section 8): in the direction that the
first capture sees first, the difference is the offset plus a delay, in the other one it is the offset minus a delay.
The smallest delay of each direction counts, as the least disturbed one: the offset lies between the two differences.
Their middle is the estimate, and half their distance is its uncertainty.

The captures do not say where they were made. The differences themselves show which of the two saw a direction first,
because no packet arrives before it was sent.

Clocks drift. The estimate is made in several time windows; if they agree within their uncertainty, the offset is
constant; else they may lie on a line; else (a clock was set) the offset is followed from window to window.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from captures.arrays import Bools, Floats, Int64s, UInt64s
from captures.packets.addresses import AddressBook
from captures.packets.table import PacketBlock

MOST_KEPT = 1 << 17
"""Packets kept per capture. Of more, a sample is kept, the same in every capture: by their sequence numbers."""

LEAST_SHARED = 4
"""Fewer common packets are no evidence: they may be retransmissions."""

_DRAWS = 1 << 24
_ALL_ROWS = slice(None)
_DUPLICATE_NS = 10_000_000
"""ns within which a repeated packet is the same one on another interface, not a retransmission."""
_PACKETS_A_WINDOW = 32
"""Number of packets of each direction that a window should have."""
_MOST_WINDOWS = 64
_MOST_DRIFT = 1e-3
"""Maximum drift of a clock; NTP corrects at most half of it (MAXFREQ in RFC 5905)."""
_MIN_LINE = 3
"""Number of windows required for a line."""
_TOLERANCE = 1_000.0
"""ns that two estimates may always differ: many captures have only microseconds."""
_USUAL_QUANTILE = 0.99
"""Fraction of packets that sets the usual delay; the rest, held up or sent again, are seldom twice as late."""
_MAJORITY = 0.9
"""Fraction of windows that have to agree; in the others all packets may have been held up."""


class UniquePackets(NamedTuple):
    """Packets that occur once in a capture.

    :ivar key: identifies each packet, ascending
    :ivar time: ns since the epoch
    :ivar hosts: two rows, numbers of the source and destination hosts; valid in this capture only
    """

    key: UInt64s
    time: Int64s
    hosts: Int64s


class Sightings:
    """Packets as one capture saw them: identity and time.

    The compared captures must number their endpoints by one address book.

    :param addresses: address book of all captures
    :param most: packets to keep
    """

    def __init__(self, addresses: AddressBook, most: int = MOST_KEPT) -> None:
        self._addresses = addresses
        self._most = most
        self._bits = 0  # number of leading zero bits required of a packet's draw
        self._parts: list[tuple[UInt64s, Int64s]] = []
        self._size = 0

    def add(self, block: PacketBlock) -> None:
        """Add the packets of a block that have payload; keep-alives are excluded because they are all alike."""
        draw = _draws(block.seq.astype(np.int64))
        rows = np.flatnonzero((draw < _DRAWS >> self._bits) & (block.length > 1) & (block.time > 0))
        if not len(rows):
            return
        self._parts.append(
            (keys_of(block, rows), np.stack([block.time, block.src, block.dst, draw])[:, rows])
        )
        self._size += len(rows)
        while self._size > self._most:
            self._bits += 1
            kept = [rest[3] < _DRAWS >> self._bits for _, rest in self._parts]
            self._parts = [
                (key[few], rest[:, few]) for (key, rest), few in zip(self._parts, kept, strict=True)
            ]
            self._size = sum(len(key) for key, _ in self._parts)

    def once(self) -> UniquePackets:
        """Return the packets that were sent once."""
        if not self._parts:
            return UniquePackets(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty((2, 0), np.int64))
        key = np.concatenate([key for key, _ in self._parts])
        rest = np.concatenate([rest for _, rest in self._parts], axis=1)
        order = np.lexsort((rest[0], key))
        key, rest = key[order], rest[:, order]
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        last = np.append(first[1:], len(key)) - 1
        first = first[rest[0][last] - rest[0][first] <= _DUPLICATE_NS]
        return UniquePackets(key[first], rest[0][first], self._hosts(rest[1:3, first]))

    def _hosts(self, ends: Int64s) -> Int64s:
        known, inverse = np.unique(ends, return_inverse=True)
        hosts = [self._addresses.address(end) for end in known.tolist()]
        numbers = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
        found = np.array([numbers[host] for host in hosts], np.int64)[inverse].reshape(ends.shape)
        # both ends on one host: its processes count as hosts
        found[:, found[0] == found[1]] = ends[:, found[0] == found[1]] + len(numbers)
        return found


def keys_of(block: PacketBlock, rows: Int64s | slice = _ALL_ROWS) -> UInt64s:
    """Return 64-bit hashes that distinguish packets, but are equal for the same packet captured elsewhere."""

    def wide(column: NDArray[Any]) -> UInt64s:
        return column[rows].astype(np.uint64)

    ends = wide(block.src) << np.uint64(32) | wide(block.dst)
    numbers = wide(block.seq) << np.uint64(32) | wide(block.ack)
    rest = wide(block.length) << np.uint64(8) | wide(block.flags)
    return _mixed(_mixed(_mixed(ends) ^ numbers) ^ rest)


def _draws(seq: Int64s) -> Int64s:
    """Return pseudo-random numbers below :data:`_DRAWS`, equal for equal sequence numbers."""
    draws: Int64s = seq * 0x9E3779B1 >> 8 & _DRAWS - 1
    return draws


def _mixed(value: UInt64s) -> UInt64s:
    """Mix the bits so that every bit of the result depends on every bit of the value (SplitMix64's finaliser)."""
    value = (value ^ value >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ value >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return value ^ value >> np.uint64(31)


class ClockOffset(msgspec.Struct, frozen=True):
    """How far one clock is ahead of another.

    A constant offset has one moment; a drifting one has one moment and a drift; an irregular one has many moments.

    :ivar packets: number of packets that both captures contain
    :ivar moments: ns since the epoch, ascending, by the clock that is ahead
    :ivar offsets: ns that it is ahead at these moments, interpolated linearly between them
    :ivar drift: seconds gained per second
    :ivar lead: ns by which the capture may see a packet earlier than the other one, apart from outliers: twice the
        usual network delay
    :ivar uncertainty: maximum error of the offset in ns; None if packets were seen in one direction only: then the
        offset includes the network delay
    """

    packets: int
    moments: Int64s
    offsets: Int64s
    drift: float
    uncertainty: int | None
    lead: int = 0

    @property
    def offset(self) -> int:
        """Offset at the first moment, in ns."""
        return int(self.offsets[0])

    @property
    def matters(self) -> bool:
        """Whether the offset exceeds its uncertainty."""
        return self.irregular or bool(self.drift) or abs(self.offset) > max(self.uncertainty or 0, _TOLERANCE)

    @property
    def irregular(self) -> bool:
        """Whether the clock was set, or ran unevenly."""
        return len(self.moments) > 1

    def at(self, times: Int64s) -> Int64s:
        """Return how far the clock is ahead at its own times, in ns; subtract it to align them."""
        since = times - self.moments[0]
        more: Floats
        if self.irregular:
            more = np.interp(since, self.moments - self.moments[0], self.offsets - self.offset)
        else:
            more = since * self.drift
        ahead: Int64s = self.offset + np.rint(more).astype(np.int64)
        return ahead


def clock_offset(first: UniquePackets, second: UniquePackets) -> ClockOffset | None:
    """Return how far the second capture's clock is ahead of the first one's; None if they share too few packets."""
    _, at, also_at = np.intersect1d(first.key, second.key, assume_unique=True, return_indices=True)
    if len(at) < LEAST_SHARED:
        return None
    time = second.time[also_at]
    difference = time - first.time[at]
    found = offset_of(time, difference, *first.hosts[:, at])
    earlier = found.at(time) - difference
    return replace(found, lead=max(2 * int(np.quantile(earlier, _USUAL_QUANTILE)), 0))


def offset_of(time: Int64s, difference: Int64s, source: Int64s, target: Int64s) -> ClockOffset:
    """Return the offset that explains the differences between the two times of each packet.

    :param time: ns since the epoch, by the clock whose offset is wanted
    :param difference: ns, that time minus the other one
    :param source: number of the sending host
    :param target: number of the receiving host
    """
    forward, decided = _directions(difference, source, target)
    middle = int(np.median(difference))
    if not decided.any():
        return ClockOffset(len(time), time[:1], np.array([middle]), 0.0, None)
    order = np.flatnonzero(decided)[np.argsort(time[decided], kind="stable")]
    begin, forward = time[order[:1]], forward[order]
    # relative to their median, floats hold nanoseconds even if a clock was never set
    since, ahead = time[order] - begin, (difference[order] - middle).astype(np.float64)
    windows = _Windows.of(since, ahead, forward)
    if windows.agree:
        return ClockOffset(len(time), begin, windows.middle + middle, 0.0, windows.uncertainty)
    drift = windows.slope
    level = _Windows.of(since, ahead - since * drift, forward)
    if level.agree and abs(drift) <= _MOST_DRIFT:
        return ClockOffset(len(time), begin, level.middle + middle, drift, level.uncertainty)
    offsets = np.rint(windows.offset).astype(np.int64) + middle
    return ClockOffset(len(time), windows.moment + begin, offsets, 0.0, windows.uncertainty)


def _directions(difference: Int64s, source: Int64s, target: Int64s) -> tuple[Bools, Bools]:
    """Return masks of the packets that the first capture saw first, and of those for which this is known.

    Between two hosts, the delay is added in the direction with the larger differences.
    """
    up = source < target
    pairs = np.stack([np.minimum(source, target), np.maximum(source, target)])
    _, which = np.unique(pairs, axis=1, return_inverse=True)
    which = which.reshape(-1)
    upwards, downwards = _medians(difference, which, up), _medians(difference, which, ~up)
    decided: Bools = ~(np.isnan(upwards) | np.isnan(downwards))[which]
    forward: Bools = up == (upwards >= downwards)[which]
    return forward, decided


def _medians(values: Int64s, group: Int64s, chosen: Bools) -> Floats:
    """Return the median of the chosen values of each group, numbered from 0; NaN for groups without any."""
    medians = np.full(int(group.max(initial=-1)) + 1, np.nan)
    values, group = values[chosen], group[chosen]
    order = np.lexsort((values, group))
    known, begin, count = np.unique(group[order], return_index=True, return_counts=True)
    medians[known] = values[order][begin + count // 2]
    return medians


class _Windows(msgspec.Struct, frozen=True):
    """Estimates for consecutive time windows.

    :ivar moment: ns since the first packet
    :ivar offset: ns
    :ivar distance: ns, half the distance between the two directions
    """

    moment: Int64s
    offset: Floats
    distance: Floats

    @classmethod
    def of(cls, since: Int64s, ahead: Floats, forward: Bools) -> _Windows:
        """Split the packets into windows that have enough packets of both directions.

        :param since: ns since the first packet, ascending
        :param ahead: ns by which the second time of each packet is larger
        :param forward: whether the first capture saw it first
        """
        rarer = np.flatnonzero(forward if 2 * forward.sum() <= len(forward) else ~forward)
        count = min(max(len(rarer) // _PACKETS_A_WINDOW, 1), _MOST_WINDOWS)
        ends = rarer[np.arange(1, count) * len(rarer) // count]
        made = [
            _estimate(since[low:high], ahead[low:high], forward[low:high])
            for low, high in zip([0, *ends], [*ends, len(since)], strict=True)
            if 0 < forward[low:high].sum() < high - low
        ]
        moments, offsets, distances = zip(*made, strict=True)
        return cls(np.array(moments, np.int64), np.array(offsets), np.array(distances))

    @property
    def middle(self) -> Int64s:
        """The offset if it is the same in all windows, as an array of one."""
        return np.array([round(float(np.median(self.offset)))], np.int64)

    @property
    def uncertainty(self) -> int:
        """Maximum error of the offset, in ns."""
        return round(float(np.median(self.distance)))

    @property
    def agree(self) -> bool:
        """Whether one offset explains the windows, apart from a few disturbed ones."""
        apart = np.abs(self.offset - np.median(self.offset))
        return len(apart) < _MIN_LINE or bool(
            np.mean(apart <= np.maximum(self.distance, _TOLERANCE)) >= _MAJORITY
        )

    @property
    def slope(self) -> float:
        """The drift: the median of the slopes between all pairs of windows (Theil-Sen)."""
        one, other = np.triu_indices(len(self.moment), 1)
        slopes = (self.offset[other] - self.offset[one]) / np.maximum(
            self.moment[other] - self.moment[one], 1
        )
        return float(np.median(slopes))


def _estimate(since: Int64s, ahead: Floats, forward: Bools) -> tuple[int, float, float]:
    """Return moment, offset, and half the distance between the directions, from the least delayed packet of each."""
    there, back = np.flatnonzero(forward), np.flatnonzero(~forward)
    upper, lower = there[np.argmin(ahead[there])], back[np.argmax(ahead[back])]
    moment = (int(since[upper]) + int(since[lower])) // 2
    return moment, (ahead[upper] + ahead[lower]) / 2, abs(ahead[upper] - ahead[lower]) / 2
