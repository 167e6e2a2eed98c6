"""Throttling by quotas."""

from __future__ import annotations

from captures.analysis.throttling import Throttle, Throttles, ThrottleStats
from captures.exchanges import Exchange
from tests.captures.analysis.kit import MS, exchange, unanswered


def produced(throttle_ms: int, **fields) -> Exchange:
    return exchange(0, 9, response={"throttle_time_ms": throttle_ms}, **fields)


def counted(*exchanges: Exchange) -> ThrottleStats:
    stats = ThrottleStats()
    for each in exchanges:
        stats.add(each)
    return stats


def test_throttle_times_are_added_up() -> None:
    stats = counted(
        produced(0, number=1),
        produced(200, number=2, time=5),
        produced(1000, number=3, time=9, broker="10.0.0.2:9092"),
    )
    (row,) = stats.result()
    assert (row.client, row.api, row.responses, row.throttled) == ("app", "Produce", 3, 2)
    assert (row.total_ms, row.max_ms, row.first_number, row.first, row.last) == (1200, 1000, 2, 5, 9)
    assert row.brokers == ["10.0.0.1:9092", "10.0.0.2:9092"]


def test_an_answer_that_took_the_time_it_tells_was_held_back() -> None:
    (row,) = counted(
        produced(100, latency=101 * MS), produced(100, latency=102 * MS, time=2_000 * MS)
    ).result()
    assert (row.throttled, row.held, row.paused) == (2, 2, 0)


def test_a_request_sent_into_a_pause_waits_for_its_end() -> None:
    # as recorded with librdkafka and Kafka 4.3.0: the response comes at once, the next request 1,136 ms later
    first = produced(1138, time=1_000 * MS, latency=2 * MS)
    second = produced(0, time=1_004 * MS, latency=1_139 * MS)
    after = produced(0, time=2_200 * MS, latency=3 * MS)
    (row,) = counted(first, second, after).result()
    assert (row.throttled, row.held, row.paused, row.paused_total) == (1, 0, 1, 1_136 * MS)


def test_pauses_add_up_while_requests_are_pipelined() -> None:
    throttles = Throttles()
    first = produced(1000, time=0, latency=2 * MS)
    second = produced(1000, time=10 * MS, latency=995 * MS)  # answered when the pause of the first ends
    third = produced(0, time=20 * MS, latency=1_990 * MS)
    assert throttles.of(first) == Throttle(1000 * MS, False, 0)
    assert throttles.of(second) == Throttle(1000 * MS, False, 992 * MS)
    # 10 + 995 ms, then a pause of 1,000 ms, minus the 20 ms at which it was sent
    assert throttles.of(third) == Throttle(0, False, 1_985 * MS)


def test_a_pause_is_of_one_connection() -> None:
    throttles = Throttles()
    throttles.of(produced(1000, time=0))
    other = produced(0, time=10 * MS, latency=500 * MS, connection=1, client="10.0.0.9:4001")
    assert throttles.of(other).paused == 0


def test_who_was_not_throttled_is_not_listed() -> None:
    assert counted(produced(0), unanswered(0, 9), exchange(3, 0, response={"brokers": []})).result() == []


def test_the_longest_in_total_comes_first() -> None:
    rows = counted(produced(10, client_id="a"), produced(20, client_id="b")).result()
    assert [row.client for row in rows] == ["b", "a"]
