"""Moments in words."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

from captures.moments import NANOSECONDS, Clock, clock, day, span, zone_name

NOON = 1_790_078_400 * NANOSECONDS
"""2026-09-22T12:00:00Z."""


def test_moments() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert (day(NOON, UTC), clock(NOON + 1_999_999, UTC)) == ("2026-09-22", "12:00:00.001")
    assert (clock(NOON, east), zone_name(NOON, east), zone_name(NOON, UTC)) == (
        "17:30:00.000",
        "UTC+05:30",
        "UTC",
    )


def test_a_clock_tells_dates_where_there_is_more_than_one() -> None:
    hour = 3600 * NANOSECONDS
    assert Clock.of(NOON, NOON + hour, UTC)(NOON) == "12:00:00.000"
    assert Clock.of(NOON, NOON + 12 * hour, UTC)(NOON) == "2026-09-22 12:00:00.000"
    assert not Clock.of(NOON, NOON + 12 * hour, timezone(timedelta(hours=-5))).dated


def test_spans() -> None:
    seconds = (0.0004, 0.25, 3.94, 125, 7320)
    assert [span(round(each * NANOSECONDS)) for each in seconds] == [
        "0.4 ms",
        "250.0 ms",
        "3.9 s",
        "2 min 5 s",
        "2 h 2 min",
    ]
