"""Ranges of present bytes give the same as a set of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from captures.packets.coverage import Coverage

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30)


@given(RANGES, st.integers(0, 80))
def test_ranges_are_those_of_a_set_of_bytes(ranges: list[tuple[int, int]], before: int) -> None:
    there, model = Coverage(), set[int]()
    for start, size in ranges:
        added = set(range(start, start + size))
        if size:
            assert there.has(start, start + size) == (added <= model)
        new = there.add(start, start + size)
        assert new == sorted(new)
        assert {at for low, high in new for at in range(low, high)} == added - model
        model |= added
        assert all(one[1] < two[0] for one, two in zip(there.ranges, there.ranges[1:], strict=False))
        assert {at for low, high in there.ranges for at in range(low, high)} == model
    assert len(there) == len(there.ranges)
    kept = [(low, high) for low, high in there.ranges if high > before]
    there.forget(before)
    assert there.ranges == kept
    assert bool(there) == bool(kept)
