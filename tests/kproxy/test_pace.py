"""Slow work is not done too often."""

from __future__ import annotations

import pytest

from kproxy import pace
from kproxy.pace import Pace


@pytest.mark.parametrize(
    ("least", "took", "again"),
    [(0.0, 0.1, 2.0), (1.0, 0.01, 1.0), (1.0, 0.2, 4.0), (0.0, 0.0, 0.0)],
)
def test_it_takes_a_small_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, least: float, took: float, again: float
) -> None:
    now = 100.0
    monkeypatch.setattr(pace, "monotonic", lambda: now)
    mine = Pace(least)
    assert mine.due
    with mine.step():
        now += took
    ended = now
    if again:
        now = ended + again - 0.001
        assert not mine.due
    now = ended + again + 0.001
    assert mine.due
