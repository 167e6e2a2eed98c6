"""Synchronisation of directions: what waits and how long; nothing is lost or reordered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.exchanges.reorder_barrier import ReorderBarrier
from captures.packets import GapCause, Gaps, SegmentBlock


def block(
    segments: Sequence[tuple[int, int, int]],
    gaps: Sequence[tuple[int, int]] = (),
    cause: GapCause = GapCause.UNKNOWN,
    cut: int = -1,
) -> SegmentBlock:
    """Segments as (stream, position, number) of 10 bytes each, gaps of 5 as (stream, position), both in order.

    :param cut: the packet cut by the snapshot length, if that caused the gaps
    """
    stream, position, number = np.array(segments, np.int64).reshape(-1, 3).T
    gap_stream, gap_position = np.array(gaps, np.int64).reshape(-1, 2).T
    zeros, none = np.zeros(len(stream), np.int64), np.zeros(len(gaps), np.int64)
    return SegmentBlock(
        stream=stream,
        position=position,
        offset=zeros,
        length=zeros + 10,
        time=number * 1000,
        delivered=number * 1000,
        number=number,
        flags=zeros.astype(np.uint8),
        gaps=Gaps(gap_stream, gap_position, none + 5, (none + cause).astype(np.uint8), none + cut, none),
        connections=range(0),
        source=None,
        block=None,
    )


def content(found: SegmentBlock) -> list[tuple[int, int]]:
    return list(zip(found.stream.tolist(), found.position.tolist(), strict=True))


def test_without_waiting_packets_a_block_passes() -> None:
    given_block = block([(0, 0, 1), (1, 0, 2)])
    assert ReorderBarrier().feed(given_block, {}) is given_block


@pytest.mark.parametrize("cause", [GapCause.NOT_CAPTURED, GapCause.SNAPLEN])
def test_what_came_after_the_waiting_packet_waits(cause: GapCause) -> None:
    """Packet 5 of stream 0 waits: in stream 1, packet 4 passes and packet 6 does not; stream 2 is unrelated.

    A gap before packet 6 shows with packet 6, unless it was cut from packet 4.
    """
    step, is_cut = ReorderBarrier(), cause is GapCause.SNAPLEN
    segments = [(0, 0, 3), (1, 0, 4), (1, 15, 6), (2, 0, 7)]
    first = step.feed(block(segments, [(1, 10)], cause, 4 if is_cut else -1), {0: 5})
    assert content(first) == [(0, 0), (1, 0), (2, 0)]
    assert first.gaps.position.tolist() == ([10] if is_cut else [])
    second = step.feed(block([(1, 30, 8)], [(1, 25)], cause, 6 if is_cut else -1), {0: 5})
    assert (content(second), len(second.gaps)) == ([], 0)
    third = step.feed(block([(0, 10, 5), (3, 0, 9)]), {})
    assert content(third) == [(0, 10), (1, 15), (1, 30), (3, 0)]
    gaps = list(zip(third.gaps.position.tolist(), third.gaps.segment.tolist(), strict=True))
    assert gaps == ([(25, 2)] if is_cut else [(10, 1), (25, 2)])
    assert content(step.feed(block([(0, 20, 10)]), {})) == [(0, 20)]


def test_what_fills_a_part_of_the_hole_waits_for_what_the_other_direction_sent_earlier() -> None:
    """Packet 5 of stream 0 waits, and packet 6 of stream 1 with it; packet 9 brings the beginning of the hole."""
    step = ReorderBarrier()
    assert content(step.feed(block([(1, 0, 6)]), {0: 5})) == []
    assert content(step.feed(block([(0, 0, 9)]), {0: 5})) == []
    given_up = step.feed(block([(0, 15, 5)], [(0, 10)]), {})
    assert content(given_up) == [(0, 0), (0, 15), (1, 0)]
    assert given_up.gaps.segment.tolist() == [1]


def test_a_packet_of_which_nothing_was_captured_waits_with_the_others() -> None:
    """Packet 6 of stream 1, of which the snapshot length left nothing, waits as if it had its bytes."""
    step = ReorderBarrier()
    first = step.feed(block([(1, 0, 4)], [(1, 10)], GapCause.SNAPLEN, 6), {0: 5})
    assert (content(first), len(first.gaps)) == ([(1, 0)], 0)
    second = step.feed(block([(1, 15, 7)]), {})
    assert (content(second), second.gaps.position.tolist(), second.gaps.number.tolist()) == (
        [(1, 15)],
        [10],
        [6],
    )


@pytest.mark.slow
@given(st.data())
def test_nothing_is_lost_or_turned_around(data: st.DataObject) -> None:
    step, number, ends = ReorderBarrier(), 0, [0, 0, 0, 0]
    fed: list[tuple[int, int]] = []
    read: list[tuple[int, int]] = []
    for _ in range(data.draw(st.integers(1, 5))):
        segments = []
        for stream in data.draw(st.lists(st.integers(0, 3), max_size=8)):
            number += 1
            segments.append((stream, ends[stream], number))
            ends[stream] += 10
        fed += [(stream, position) for stream, position, _ in segments]
        waiting = data.draw(st.dictionaries(st.integers(0, 3), st.integers(0, number), max_size=2))
        read += content(step.feed(block(sorted(segments)), waiting))
    read += content(step.feed(block([]), {}))
    for stream in range(4):
        assert [each for each in read if each[0] == stream] == [each for each in fed if each[0] == stream]
