"""The peak rate of events."""

from __future__ import annotations

from captures.analysis.findings.common import Busiest
from tests.captures.analysis.findings.record_kit import SECOND


def test_the_busiest_stretch_counts() -> None:
    busiest = Busiest()
    for at in range(10):
        busiest.add(at * 20 * SECOND)
    assert (busiest.count, busiest.rate) == (1, 1.0)
    for at in range(101):
        busiest.add(300 * SECOND + at * SECOND // 20)
    assert (busiest.count, busiest.rate) == (101, 20.2)
    busiest.add(900 * SECOND)
    assert busiest.rate == 20.2


def test_less_than_a_second_counts_as_one() -> None:
    busiest = Busiest()
    assert busiest.rate == 0
    for at in range(30):
        busiest.add(at)
    assert busiest.rate == 30
