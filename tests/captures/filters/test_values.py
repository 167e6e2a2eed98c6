"""Numbers with units, moments and addresses."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from fractions import Fraction

import pytest

from captures.filters import values

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("-1", -1),
        ("+2", 2),
        ("1.5", Fraction(3, 2)),
        ("1_000", 1000),
        ("0x1F", 31),
        ("", None),
        ("1e3", None),
        ("1.", None),
        ("٣", None),
        ("9" * 400, None),
        ("three", None),
    ],
)
def test_numbers(text, expected):
    assert values.number(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1ns", 1),
        ("250us", 250_000),
        ("250µs", 250_000),
        ("1.5ms", 1_500_000),
        ("2s", 2 * SECOND),
        ("1m30s", 90 * SECOND),
        ("1h", 3600 * SECOND),
        ("1d", 86400 * SECOND),
        ("-5s", -5 * SECOND),
        ("5", None),
        ("s", None),
        ("1s ", None),
        ("1s2", None),
    ],
)
def test_durations(text, expected):
    assert values.duration(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1B", 1),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1.5kb", 1500),
        ("1KiB", 1024),
        ("2MiB", 2 << 20),
        ("1GB", 10**9),
        ("1GiB", 1 << 30),
        ("1", None),
        ("kB", None),
        ("1TB", None),
        ("1iB", None),
    ],
)
def test_sizes(text, expected):
    assert values.size(text) == expected


START = 1_795_254_658_908_000_000  # 2026-11-21T09:50:58.908Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5s", START + 5 * SECOND),
        ("+1m", START + 60 * SECOND),
        ("09:51:00", 1_795_254_660 * SECOND),
        ("09:51:00.25", 1_795_254_660 * SECOND + SECOND // 4),
        ("09:51", 1_795_254_660 * SECOND),
        ("2026-11-21T09:51:00Z", 1_795_254_660 * SECOND),
        ("2026-11-21T10:51:00+01:00", 1_795_254_660 * SECOND),
        ("2026-11-21T09:51:00", 1_795_254_660 * SECOND),
        ("2026-11-21T09:51:00.123456789Z", 1_795_254_660 * SECOND + 123_456_789),
        ("2026-11-21", 1_795_219_200 * SECOND),
    ],
)
def test_time_format(text, expected):
    found = values.moment(text, UTC)
    assert found is not None
    assert found.resolve(START) == expected


def test_times_of_day_are_in_the_zone():
    found = values.moment("10:51:00", timezone(timedelta(hours=1)))
    assert found is not None
    assert found.resolve(START) == 1_795_254_660 * SECOND


@pytest.mark.parametrize("text", ["24:00", "9:51", "2026-13-01", "2026-11-21T25:00:00Z", "noon", "", "5"])
def test_no_moments(text):
    assert values.moment(text, UTC) is None


@pytest.mark.parametrize(
    ("text", "fits", "others"),
    [
        ("10.0.0.7", ["10.0.0.7:9092", "10.0.0.7:1"], ["10.0.0.70:9092", "[::1]:9092"]),
        ("10.0.0.7:9092", ["10.0.0.7:9092"], ["10.0.0.7:9093"]),
        (":9092", ["10.0.0.7:9092", "[::1]:9092"], ["10.0.0.7:90"]),
        ("10.0.0.0/8", ["10.255.0.1:1"], ["11.0.0.1:1", "[::1]:1", "broker:1"]),
        ("::1", ["[::1]:9092", "[0:0:0:0:0:0:0:1]:1"], ["[::2]:9092"]),
        ("[::1]:9092", ["[::1]:9092"], ["[::1]:9093"]),
        ("2001:db8::/32", ["[2001:db8::5]:1"], ["[2001:db9::5]:1", "10.0.0.1:1"]),
        ("Broker-1:9092", ["broker-1:9092"], ["broker-2:9092"]),
    ],
)
def test_endpoints(text, fits, others):
    test = values.endpoint(text)
    assert test is not None
    assert all(map(test, fits))
    assert not any(map(test, others))


@pytest.mark.parametrize("text", ["10.0.0.0/33", "a/b", ""])
def test_no_endpoints(text):
    assert values.endpoint(text) is None
