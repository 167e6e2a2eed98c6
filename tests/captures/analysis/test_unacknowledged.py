"""Retransmitted, unacknowledged data."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

from captures.analysis.unacknowledged import cut_off, suspended
from captures.packets import ACK
from captures.packets.header_scan import Headers
from dissectors.units import SECOND

_HEADER = bytes.fromhex("8010 01f5 0000 0000 0101 080a") + bytes(8)
"""A TCP header from its data offset on; timestamps are its only option."""
Row = tuple[float, int, int, int]
"""Seconds, sequence number, acknowledgment number, length."""


def headers(*rows: Row) -> Headers:
    time, seq, ack, length = (np.array(column) for column in zip(*rows, strict=True))
    flags = np.full(len(rows), ACK, np.uint8)
    offsets = np.arange(len(rows)) * len(_HEADER) + len(_HEADER)
    return Headers((time * SECOND).astype(np.int64), seq, ack, flags, length, offsets)


RESENT = headers((1, 100, 50, 20), *((second, 120, 50, 20) for second in (2, 3, 5, 9)))


@pytest.mark.parametrize(
    ("answered", "seconds"),
    [
        ([(1.1, 50, 120, 0), (12, 50, 140, 9)], [(2, 12)]),
        # one direction was lost: its data arrives, but acknowledges nothing new
        ([(1.1, 50, 120, 0), (4, 50, 120, 9), (6, 50, 120, 9), (12, 59, 140, 0)], [(2, 12)]),
        # a longer period without data
        ([(1.1, 50, 120, 0), (9.1, 50, 140, 0), (60, 50, 140, 0)], [(2, 9.1)]),
        # a paused process: its kernel acknowledges, or announces a closed window
        ([(1.1, 50, 120, 0), (2.1, 50, 140, 0), (12, 50, 140, 9)], []),
        ([(1.1, 50, 120, 0), *((second + 0.1, 50, 120, 0) for second in (2, 3, 5, 9)), (12, 50, 140, 9)], []),
        # no end was seen
        ([(1.1, 50, 120, 0)], []),
    ],
)
def test_what_is_cut_off(answered: list[Row], seconds: list[tuple[float, float]]) -> None:
    found = [(begin / SECOND, end / SECOND) for begin, end in cut_off(RESENT, headers(*answered))]
    assert found == seconds


def test_without_packets_nothing_is_cut_off() -> None:
    assert not [*cut_off(RESENT, Headers.none()), *cut_off(Headers.none(), RESENT)]


@pytest.mark.parametrize(
    ("ticks", "behind"),
    [
        ([0, 1_000, 13_000, 14_000], 0),
        ([0, 1_000, 1_500, 2_500], 11.5),
        # a clock of 100 Hz that wraps around
        ([2**32 - 150, 2**32 - 50, 1_150, 1_250], 0),
        # one that never advances, and packets without timestamps
        ([7, 7, 7, 7], None),
        ([None] * 4, None),
    ],
)
def test_the_clock_of_a_suspended_host_stands_still(ticks: list[int | None], behind: float | None) -> None:
    stamps = [_HEADER[:12] + each.to_bytes(4) + bytes(4) if each is not None else bytes(20) for each in ticks]
    source = Mock(read=lambda offset, size: b"".join(stamps)[offset : offset + size])
    sent = headers(*((second, 100, 50, 20) for second in (0, 1, 13, 14)))
    found = suspended(source, sent, 2 * SECOND)
    assert (found if found is None else found / SECOND) == behind


@pytest.mark.parametrize(
    ("stamps", "behind"),
    [
        # another clock: behind NAT, a later connection has the same endpoints
        ([(0, 0), (1, 1_000), (13, 3_000_000_000), (14, 3_000_001_000)], None),
        ([(0, 0), (1, 1_000), (13, 1_000_000_000), (14, 1_000_001_000)], None),
        # microseconds wrap around after 71 minutes
        ([(0, 0), (1, 10**6), (2_401, 2_401 * 10**6), (2_402, 2_402 * 10**6)], 0),
        ([(0, 0), (1, 10**6), (4_801, 4_801 * 10**6), (4_802, 4_802 * 10**6)], None),
        # the last packet was sent when the silence began
        ([(0, 0), (2, 2_000), (13, 2_000), (14, 3_000)], 11),
    ],
)
def test_the_clock_is_followed_as_far_as_it_is_the_same(
    stamps: list[tuple[int, int]], behind: int | None
) -> None:
    data = b"".join(_HEADER[:12] + (ticks % 2**32).to_bytes(4) + bytes(4) for _, ticks in stamps)
    sent = headers(*((second, 100, 50, 20) for second, _ in stamps))
    found = suspended(Mock(read=lambda offset, size: data[offset : offset + size]), sent, 2 * SECOND)
    assert (found if found is None else found / SECOND) == behind


def test_a_host_that_does_not_continue_shows_no_clock() -> None:
    assert (
        suspended(Mock(read=lambda offset, size: bytes(size)), headers((0, 100, 50, 20)), 2 * SECOND) is None
    )
