"""Consumers that seek backwards or forwards, and the totals of fetches and produces."""

from __future__ import annotations

from typing import Any

from captures.analysis.client_trace.apis import MANNERS
from captures.analysis.client_trace.data import Consumer, Fetches, PositionJump, Produces
from captures.analysis.record_traffic import RecordTraffic
from captures.exchanges import Exchange
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.kit import exchange

NS = 1_000_000_000


def batch(first: int, count: int) -> bytes:
    return build_batch([Record(first + place, 0, b"k", b"v") for place in range(count)])


def fetch(offset: int, records: bytes | None = None, **fields: Any) -> Exchange:
    asked = {
        "replica_id": -1,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": "orders", "partitions": [{"partition": 3, "fetch_offset": offset}]}],
        "forgotten_topics_data": [],
    }
    row = {"partition_index": 3, "error_code": 0, "records": records}
    return exchange(
        1, 11, request=asked, response={"responses": [{"topic": "orders", "partitions": [row]}]}, **fields
    )


def jumps(consumer: Consumer, each: Exchange) -> list[tuple[int, int]]:
    found: list[PositionJump] = list(consumer.jumps(each))
    assert {jump.tp for jump in found} <= {("orders", 3)}
    return [(jump.expected, jump.offset) for jump in found]


def test_a_consumer_that_goes_on_does_not_jump() -> None:
    consumer = Consumer(lambda _: None)
    assert jumps(consumer, fetch(100, batch(100, 5))) == []
    assert jumps(consumer, fetch(105)) == []
    assert jumps(consumer, fetch(105, batch(105, 2))) == []
    assert jumps(consumer, fetch(107)) == []


def test_it_goes_back_and_ahead() -> None:
    consumer = Consumer(lambda _: None)
    jumps(consumer, fetch(100, batch(100, 5)))
    assert jumps(consumer, fetch(101)) == [(105, 101)]
    assert jumps(consumer, fetch(500)) == [(101, 500)]


def test_what_others_read_meanwhile_is_no_jump_ahead() -> None:
    consumer = Consumer(lambda _: None)
    jumps(consumer, fetch(100, batch(100, 5)))
    consumer.joined("app")
    assert jumps(consumer, fetch(300)) == []
    consumer.joined("other")
    assert jumps(consumer, fetch(400)) == [(300, 400)]
    consumer.joined("app")
    assert jumps(consumer, fetch(390)) == [(400, 390)]


def test_processes_that_share_a_client_id_have_positions_of_their_own() -> None:
    consumer = Consumer(lambda _: None)
    jumps(consumer, fetch(100, batch(100, 5)))
    assert jumps(consumer, fetch(7, client="10.0.0.10:4000", connection=1)) == []
    assert jumps(consumer, fetch(105)) == []


def test_fetches_add_up() -> None:
    stretch = Fetches(("fetch",), MANNERS[1], NS, names={"orders": None}.get, replica=False)
    traffic = RecordTraffic(lambda _: None)
    for number, each in enumerate((fetch(100, batch(100, 5)), fetch(105), fetch(105, batch(105, 2)))):
        each.number, each.time = number + 1, NS * (number + 1)
        stretch.take(each, traffic.seen(each), traffic.fetched(each))
    size = len(batch(100, 5)) + len(batch(105, 2))
    assert stretch.sentence() == (
        f"fetches orders-3: 7 records ({size} B) in 3 answers, 1 of them empty, every 1 s; orders-3 100→107"
    )
    assert stretch.line().numbers == [1, 2, 3]


def test_a_topic_id_is_named_as_soon_as_its_name_is_known() -> None:
    names: dict[str, str] = {}
    stretch = Fetches(("fetch",), MANNERS[1], NS, names=names.get, replica=True)
    traffic = RecordTraffic(names.get)
    each = fetch(5, batch(5, 1))
    stretch.take(each, traffic.seen(each), traffic.fetched(each))
    names["orders"] = "payments"
    assert stretch.sentence().startswith("replicates payments-3: 1 record ")
    assert stretch.sentence().endswith("; payments-3 5→6")


def test_a_session_from_before_the_capture() -> None:
    traffic = RecordTraffic(lambda _: None)
    asked = {"replica_id": -1, "session_id": 7, "session_epoch": 9, "topics": [], "forgotten_topics_data": []}
    each = exchange(1, 12, request=asked, response={"session_id": 7, "responses": []})
    stretch = Fetches(("fetch",), MANNERS[1], NS, names=lambda _: None, replica=False)
    stretch.take(each, traffic.seen(each), traffic.fetched(each))
    assert "named before the capture began: nothing new in 1 request" in stretch.sentence()


def test_produces_add_up() -> None:
    stretch = Produces(("produce",), MANNERS[0], NS, names={"orders": None}.get)
    traffic = RecordTraffic(lambda _: None)
    for number, base in enumerate((40, 42)):
        request = {
            "acks": -1,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": batch(0, 2)}]}],
        }
        answer = {"index": 0, "error_code": 0, "base_offset": base}
        response = {"responses": [{"name": "orders", "partition_responses": [answer]}]}
        each = exchange(0, 9, request=request, response=response, number=number + 1)
        stretch.take(each, traffic.produced(each))
    size = 2 * len(batch(0, 2))
    assert stretch.sentence() == (
        f"produces to orders-0: 4 records ({size} B) in 2 requests, acks=all; answered after 2 ms, orders-0 40→44"
    )
