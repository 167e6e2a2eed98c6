"""Counts over time, for captures of any length."""

from __future__ import annotations

from captures.analysis.comparison.time_slices import MOST_EXAMPLES, MOST_SLICES, TimeSlicedCounts

SECOND = 1_000_000_000


def test_slices_cover_all_of_the_time_and_nothing_is_lost() -> None:
    rhythm: TimeSlicedCounts[str] = TimeSlicedCounts()
    begin = 1_795_000_000 * SECOND
    for second in range(1_000):
        rhythm.add("a", begin + second * SECOND, second + 1)
        if second < 500:
            rhythm.add("b", begin + second * SECOND, second + 1, count=2)
    for key, total in (("a", 1_000), ("b", 1_000)):
        slices = rhythm.slices(key)
        assert MOST_SLICES / 2 <= len(slices) <= MOST_SLICES
        assert sum(slices) == rhythm.total(key) == total
    assert rhythm.slices("b")[-1] == 0
    assert rhythm.kinds() == {"a", "b"}
    assert rhythm.examples("a") == tuple(range(1, MOST_EXAMPLES + 1))


def test_what_was_never_seen() -> None:
    rhythm: TimeSlicedCounts[str] = TimeSlicedCounts()
    rhythm.cover(5 * SECOND)
    assert (rhythm.total("a"), rhythm.slices("a"), rhythm.examples("a"), rhythm.kinds()) == (0, [], (), set())


def test_times_may_come_in_any_order() -> None:
    rhythm: TimeSlicedCounts[str] = TimeSlicedCounts()
    for time in (50, 10, 90, 10):
        rhythm.add("a", time * SECOND, time)
    assert sum(rhythm.slices("a")) == 4
    assert rhythm.slices("a")[0] == 2
