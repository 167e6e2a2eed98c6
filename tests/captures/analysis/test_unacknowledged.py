"""Data that was retransmitted and not acknowledged."""

from __future__ import annotations

import numpy as np
import pytest

from captures.analysis.unacknowledged import cut_off
from captures.packets import ACK
from captures.packets.header_scan import Headers
from dissectors.units import SECOND

Row = tuple[float, int, int, int]
"""Seconds, sequence number, acknowledgment number, length."""


def headers(*rows: Row) -> Headers:
    time, seq, ack, length = (np.array(column) for column in zip(*rows, strict=True))
    flags = np.full(len(rows), ACK, np.uint8)
    return Headers((time * SECOND).astype(np.int64), seq, ack, flags, length)


RESENT = headers((1, 100, 50, 20), *((second, 120, 50, 20) for second in (2, 3, 5, 9)))


@pytest.mark.parametrize(
    ("answered", "seconds"),
    [
        ([(1.1, 50, 120, 0), (12, 50, 140, 9)], [(2, 12)]),
        # one direction was lost: its data arrives, and acknowledges nothing new
        ([(1.1, 50, 120, 0), (4, 50, 120, 9), (6, 50, 120, 9), (12, 59, 140, 0)], [(2, 12)]),
        # a longer time without data
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
