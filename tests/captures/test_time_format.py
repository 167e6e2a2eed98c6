"""Times in words."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

from captures.time_format import Clock, clock, day, latency, milliseconds_range, span, zone_name
from dissectors.units import SECOND

NOON = 1_790_078_400 * SECOND
"""2026-09-22T12:00:00Z."""


def test_time_format() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert (day(NOON, UTC), clock(NOON + 1_999_999, UTC)) == ("2026-09-22", "12:00:00.001")
    assert (clock(NOON, east), zone_name(NOON, east), zone_name(NOON, UTC)) == (
        "17:30:00.000",
        "UTC+05:30",
        "UTC",
    )


def test_a_clock_tells_dates_where_there_is_more_than_one() -> None:
    hour = 3600 * SECOND
    assert Clock.of(NOON, NOON + hour, UTC)(NOON) == "12:00:00.000"
    assert Clock.of(NOON, NOON + 12 * hour, UTC)(NOON) == "2026-09-22 12:00:00.000"
    assert not Clock.of(NOON, NOON + 12 * hour, timezone(timedelta(hours=-5))).dated


def test_spans() -> None:
    seconds = (0.0004, 0.25, 0.99996, 3.94, 99.96, 125, 900, 7320, 7384, 90_000, 360_000)
    assert [span(round(each * SECOND)) for each in seconds] == [
        "0.4 ms",
        "250 ms",
        "1 s",
        "3.9 s",
        "1 min 40 s",
        "2 min 5 s",
        "15 min",
        "2 h 2 min",
        "2 h 3 min",
        "25 h",
        "4 d 4 h",
    ]


def test_latencies_have_three_digits() -> None:
    found = [latency(each) for each in (950, 84_000, 1_250_000, 999_600, 31_400_000_000, 125 * SECOND)]
    assert found == ["950 ns", "84 µs", "1.25 ms", "1 ms", "31.4 s", "2 min 5 s"]


def test_ranges_of_latencies() -> None:
    assert milliseconds_range([1_200_000]) == "1.2 ms"
    assert milliseconds_range([800_000, 3_012_400_000, 42_000]) == "0.042 to 3012.4 ms"
