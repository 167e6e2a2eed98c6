"""Ranges of offsets, and the first that covered them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from captures.analysis.journey.covers import first_cover, rows_at

RANGE = st.tuples(st.integers(0, 60), st.integers(-1, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))
RANGES = st.lists(RANGE, max_size=30)


def columns(ranges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(ranges, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(RANGES)
def test_what_covers_an_offset_first_keeps_it(ranges: list[tuple[int, int]]) -> None:
    owner: dict[int, int] = {}
    again: dict[tuple[int, int, int], int] = {}
    for row, (first, last) in enumerate(ranges):
        for offset in range(first, last + 1):
            if offset in owner:
                again[offset, owner[offset], row] = 1
            owner.setdefault(offset, row)
    cover, overlaps = first_cover(*columns(ranges))
    offsets = np.arange(80)
    assert rows_at(cover, offsets).tolist() == [owner.get(offset, -1) for offset in range(80)]
    found = [
        (offset, each.before, each.refetched)
        for each in overlaps
        for offset in range(each.first, each.last + 1)
    ]
    assert sorted(found) == sorted(again)
    assert cover.firsts == sorted(cover.firsts)
