"""Consumers that fetch too often without new data, and consumers that wait too long for more."""

from __future__ import annotations

from typing import Any

from captures.analysis.findings.common import NO_FETCH
from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.fetches import EmptyFetches
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import MS, NOW, batch, fetch, of_recording


def every(ms: int, count: int = 200, **what: Any) -> list[Exchange]:
    return [fetch(number=at + 1, time=NOW + at * ms * MS, **what) for at in range(count)]


def test_a_consumer_that_does_not_let_the_broker_wait() -> None:
    (found,) = of_exchanges(EmptyFetches, *every(20, wait=10))
    assert (found.subject, found.severity, found.count) == ("client app", Severity.LOW, 200)
    assert (
        "100% of the fetches of client app from 10.0.0.1:9092 returned empty, up to 50 a second"
        " (fetch.max.wait.ms=10, fetch.min.bytes=1)" in found.sentence
    )


def test_long_polls_are_as_they_should_be() -> None:
    assert of_exchanges(EmptyFetches, *every(500)) == []
    assert of_exchanges(EmptyFetches, *every(20, 90)) == []
    busy = [each for pair in zip(every(20), every(20, 400, records=batch(1)), strict=False) for each in pair]
    assert of_exchanges(EmptyFetches, *busy, *every(20, records=batch(1))) == []


def test_followers_errors_and_throttled_answers_do_not_count() -> None:
    throttled = every(20)
    for each in throttled:
        assert each.response is not None
        each.response.value["throttle_time_ms"] = 100
    assert of_exchanges(EmptyFetches, *every(20, replica=2), *every(20, error=3), *throttled) == []


def test_each_connection_is_judged_by_itself() -> None:
    several = [fetch(connection=at % 20, time=NOW + at * 20 * MS) for at in range(1000)]
    assert of_exchanges(EmptyFetches, *several) == []


def test_records_that_wait_for_more() -> None:
    slow = every(600, 30, records=batch(1), least=10_000, latency=499 * MS)
    (found,) = of_exchanges(EmptyFetches, *slow)
    assert found.subject == "client app, min_bytes"
    assert (
        "Client app waited all of its fetch.max.wait.ms (500) for 30 responses with records" in found.sentence
    )
    assert of_exchanges(EmptyFetches, *every(600, 30, records=batch(1), least=10_000, latency=3 * MS)) == []
    assert of_exchanges(EmptyFetches, *every(600, 30, records=batch(1), latency=499 * MS)) == []


def test_healthy_consumers() -> None:
    for name in ("20_k430_java_none", "21_k430_java_sticky", "26_k430_steady_clients"):
        assert of_recording(name, EmptyFetches) == []


def test_what_it_cannot_judge() -> None:
    assert made(EmptyFetches, exchanges=[fetch(replica=2)]).blind() == NO_FETCH
    assert made(EmptyFetches, exchanges=[fetch(error=3)]).blind() == ""
