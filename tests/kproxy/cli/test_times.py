"""Human-readable times."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import click
import pytest

from captures.filters.values import resolved
from captures.time_format import clock, milliseconds, span, zone_name
from kproxy.cli.options import DURATION

FIRST = 1_795_254_658_908_000_000  # 2026-11-21T09:50:58.908Z
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5s", 5 * SECOND),
        ("1m30s", 90 * SECOND),
        ("250ms", SECOND // 4),
        ("2.5s", 5 * SECOND // 2),
        ("1h", 3600 * SECOND),
        ("7us", 7_000),
        ("2min", 120 * SECOND),
        ("1d", 86_400 * SECOND),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert DURATION.convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["", "5", "s5", "5s!", "-5s"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration: write 90s"):
        DURATION.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0s", FIRST),
        ("+1.5s", FIRST + 3 * SECOND // 2),
        ("09:51", 1_795_254_660 * SECOND),
        ("09:51:01.5", 1_795_254_661 * SECOND + SECOND // 2),
        ("2026-11-21T09:51:00Z", 1_795_254_660 * SECOND),
        ("2026-11-21T11:51:00+02:00", 1_795_254_660 * SECOND),
        ("2026-11-21 09:51:00", 1_795_254_660 * SECOND),
        ("2026-11-21T09:51:00.123456789Z", 1_795_254_660 * SECOND + 123_456_789),
        ("soon", None),
    ],
)
def test_time_format(text: str, expected: int | None) -> None:
    assert resolved(text, FIRST, UTC) == expected


def test_zones_are_named() -> None:
    assert zone_name(FIRST, UTC) == "UTC"
    assert zone_name(FIRST, timezone(timedelta(hours=5, minutes=30))) == "UTC+05:30"
    assert clock(FIRST, timezone(timedelta(hours=2))) == "11:50:58.908"


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (3_900_000_000, "3.9 s"),
        (125 * SECOND, "2 min 5 s"),
        (3 * 3600 * SECOND, "3 h"),
        (1_500_000, "1.5 ms"),
    ],
)
def test_spans(nanoseconds: int, shown: str) -> None:
    assert span(nanoseconds) == shown


def test_milliseconds_keep_what_matters() -> None:
    assert milliseconds(3_001_159_000) == "3001.2"
    assert milliseconds(45_000) == "0.045"
