"""Traffic by topic and partition."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.topic_stats import TopicStats
from captures.exchanges import Exchange
from captures.json_objects import to_json
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from tests.captures.analysis.kit import error, exchange

RECORDS = [Record(offset, 1_000, None, b"value", ()) for offset in range(3)]
ORDERS = "b8tRS7h4TJ2Vt43Dp85v2A"  # any UUID


def batch(codec: Codec = Codec.NONE) -> bytes:
    return build_batch(RECORDS, codec=codec)


def produce(records: Any, partition: int = 0, **fields: Any) -> Exchange:
    topics = [{"name": "orders", "partition_data": [{"index": partition, "records": records}]}]
    return exchange(0, 9, request={"acks": 1, "topic_data": topics}, **fields)


def fetch(records: Any, *, replica: int | None = None, by_id: bool = False, **fields: Any) -> Exchange:
    topic = {"topic_id": ORDERS} if by_id else {"topic": "orders"}
    asked = {
        "topics": [topic | {"partitions": [{"partition": 1, "fetch_offset": 0}]}],
        **({} if replica is None else {"replica_id": replica}),
    }
    answered = [topic | {"partitions": [{"partition_index": 1, "error_code": 0, "records": records}]}]
    return exchange(1, 12, request=asked, response={"responses": answered}, **fields)


def counted(*exchanges: Exchange, names: dict[str, str] | None = None) -> TopicStats:
    stats = TopicStats({}.get if names is None else names.get)
    for each in exchanges:
        stats.add(each)
    return stats


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_produced_records_by_headers(codec: Codec) -> None:
    data = batch(codec)
    (topic,) = counted(produce(data + data), produce(data, partition=2, client_id="other")).result()
    assert topic.topic == "orders"
    assert (topic.total.produced.bytes, topic.total.produced.records, topic.total.produced.batches) == (
        3 * len(data), 9, 3
    )  # fmt: skip
    assert topic.total.produced.clients == {"app": 2 * len(data), "other": len(data)}
    assert [(row.partition, row.produced.records) for row in topic.partitions] == [(0, 6), (2, 3)]


def test_followers_replicate_and_consumers_fetch() -> None:
    data = batch()
    (topic,) = counted(
        fetch(data), fetch(data, replica=2, client_id="broker-2"), fetch(data, replica=-1)
    ).result()
    assert (topic.total.fetched.records, topic.total.replicated.records) == (6, 3)
    assert topic.total.fetched.clients == {"app": 2 * len(data)}
    assert topic.total.replicated.clients == {"broker-2": len(data)}


def test_who_asks_and_gets_nothing_is_a_fetcher_too() -> None:
    (topic,) = counted(fetch(None)).result()
    assert topic.total.fetched.clients == {"app": 0}
    assert topic.total.fetched.bytes == 0


def test_a_name_told_later_serves_and_joins_what_came_by_name() -> None:
    names: dict[str, str] = {}
    stats = counted(fetch(batch(), by_id=True), produce(batch(), partition=1), names=names)
    assert {topic.topic for topic in stats.result()} == {"orders", ORDERS}
    names[ORDERS] = "orders"
    (topic,) = stats.result()
    assert (topic.total.produced.records, topic.total.fetched.records) == (3, 3)
    assert [row.partition for row in topic.partitions] == [1]


def test_the_result_can_be_taken_twice() -> None:
    stats = counted(produce(batch()))
    assert to_json(stats.result()) == to_json(stats.result())


def test_part_of_a_batch_counts_as_bytes() -> None:
    data = batch()
    (topic,) = counted(fetch(data + data[:40])).result()
    assert (topic.total.fetched.bytes, topic.total.fetched.records) == (len(data) + 40, 3)


def test_batches_that_were_made_ready_to_be_shown() -> None:
    shown = [
        {"size": 80, "count": 3, "control": False},
        {"size": 78, "count": 1, "control": True},
        {"size": 90, "count": None, "control": False},
    ]
    flow = counted(produce(shown)).result()[0].total.produced
    assert (flow.bytes, flow.batches, flow.records, flow.markers, flow.uncounted) == (248, 3, 3, 1, 1)


def test_errors_of_partitions_and_of_whole_topics() -> None:
    partition = error(6, "a", None, {"name": "orders", "partition_responses": []}, {"index": 4})
    whole = error(3, "b", None, {"name": "lost", "partitions": []})
    group = error(16, "c", None, {"name": "no topic at all"})
    expected = error(5, "d", None, {"name": "fresh", "partitions": []})
    stats = counted(exchange(errors=[partition, whole, group, expected], expected=[expected]))
    found = {topic.topic: topic for topic in stats.result()}
    assert {name: topic.total.errors for name, topic in found.items()} == {
        "orders": {"NOT_LEADER_OR_FOLLOWER": 1},
        "lost": {"UNKNOWN_TOPIC_OR_PARTITION": 1},
    }
    assert [row.partition for row in found["orders"].partitions] == [4]
    assert found["lost"].partitions == []


def test_bodies_that_were_cut_off_give_what_they_have() -> None:
    cut = exchange(
        0, 9, request={"topic_data": [{"name": "orders", "partition_data": [{"index": 0}, None]}, None]}
    )
    (topic,) = counted(cut, exchange(0, 9, request={})).result()
    assert topic.total.bytes == 0
