"""Settings that show only in the timing of requests."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.clients.request_timing import RequestTiming, configured
from captures.analysis.clients.settings import Setting, ValueSource, by_key
from captures.exchanges import Exchange
from tests.captures.analysis.kit import MS, error, exchange

SECOND = 1_000 * MS


def at(key: int, milliseconds: float, number: int = 1, **fields: Any) -> Exchange:
    return exchange(key, 3, time=1_000 * SECOND + round(milliseconds * MS), number=number, **fields)


def settings(*exchanges: Exchange, streams: bool = False) -> dict[str, Setting]:
    rhythm = RequestTiming()
    for each in exchanges:
        rhythm.add(each)
    return by_key(list(rhythm.settings(streams=streams)))


@pytest.mark.parametrize(
    ("milliseconds", "value"),
    [
        ([1007, 1030, 1136], 1000),
        ([969, 1000, 1001], 1000),
        ([3003, 3004, 3002], 3000),
        ([1497, 1500, 1527], 1500),
        ([496, 500, 501], 500),
        ([1300, 1302, 1306], 1300),
        ([1234, 1234, 1235], 1234),
        ([2.1, 2.2, 2.3], 2),
        ([0.2, 0.3], 0),
    ],
)
def test_an_interval_as_somebody_would_configure_it(milliseconds: list[float], value: int) -> None:
    assert configured([round(each * MS) for each in milliseconds]) == value


def test_heartbeats() -> None:
    found = settings(*(at(12, 3001 * each, 10 + each) for each in range(6)))["heartbeat.interval.ms"]
    assert (found.value, found.how, found.count, found.evidence) == (
        3000,
        ValueSource.ESTIMATED,
        5,
        (11, 12, 13),
    )
    assert "5 of 5 intervals between heartbeats" in found.note


def test_a_rebalance_is_no_interval() -> None:
    beats = [at(12, 1000 * each) for each in range(4)]
    later = [at(12, 9000 + 1000 * each) for each in range(3)]
    assert settings(*beats, at(11, 3100), *later)["heartbeat.interval.ms"].count == 5


def test_heartbeats_of_several_members_on_connections_of_their_own() -> None:
    both = [at(12, 1000 * each + 400 * member, connection=member) for each in range(5) for member in range(2)]
    assert settings(*both)["heartbeat.interval.ms"].value == 1000


def test_commits_in_equal_intervals_are_automatic() -> None:
    found = settings(*(at(8, 5000 * each) for each in range(5)))
    assert found["auto.commit.interval.ms"].value == 5000
    assert found["enable.auto.commit"].value == "true"
    assert "by a timer looks the same" in found["enable.auto.commit"].note


def test_commits_of_kafka_streams_are_its_own() -> None:
    found = settings(*(at(8, 30_000 * each) for each in range(5)), streams=True)
    assert set(found) == {"commit.interval.ms"}


def test_commits_at_any_time_tell_nothing() -> None:
    assert not settings(*(at(8, moment) for moment in (0, 10, 900, 1000, 4000, 4100, 9000)))


def test_metadata_age() -> None:
    refreshes = [at(3, 5_000 + 300_000 * each, each + 2) for each in range(6)]
    found = settings(at(3, 0), *refreshes)
    assert found["metadata.max.age.ms"].value == 300_000


def test_metadata_of_clients_that_start_again_and_again_has_no_age() -> None:
    assert not settings(*(at(3, 6000 * each, connection=each) for each in range(8)))


def test_metadata_of_clients_that_come_after_another_has_no_age() -> None:
    each = [(3000 * number, number) for number in range(8)]
    asked = [at(3, start + late, connection=number) for start, number in each for late in (0, 2000)]
    assert "metadata.max.age.ms" not in settings(*asked)


def test_metadata_that_errors_ask_for_has_no_age() -> None:
    # code 29: TOPIC_AUTHORIZATION_FAILED, which only an operator can fix
    again = [at(3, 5000 + 1000 * each, errors=[error(29)]) for each in range(8)]
    assert "metadata.max.age.ms" not in settings(at(3, 0), *again)


def test_backoff_is_the_shortest_wait_after_an_error() -> None:
    # 15: COORDINATOR_NOT_AVAILABLE; answers take 2 ms
    waits = [at(10, moment, errors=[error(15)]) for moment in (0, 102, 230, 500)]
    found = settings(*waits, at(10, 1000))["retry.backoff.ms"]
    assert (found.value, found.count) == (100, 4)


@pytest.mark.parametrize("moments", [(0, 2.5, 5, 7.5), (0, 52, 900, 3000), (0, 102, 204)])
def test_what_is_asked_again_at_once_or_hardly_ever_tells_of_no_backoff(moments: tuple[float, ...]) -> None:
    assert "retry.backoff.ms" not in settings(*(at(10, moment, errors=[error(15)]) for moment in moments))


def test_nothing_comes_of_nothing() -> None:
    assert settings() == {}
    assert settings(exchange(None, None)) == {}
