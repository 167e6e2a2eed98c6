"""The context of a group: partition counts, and ends of connections."""

from __future__ import annotations

from typing import Any

from captures.analysis.groups.context import GroupContext, PartitionCounts
from captures.exchanges import open_capture
from tests.captures.analysis import kit
from tests.captures.analysis.groups.kit import at
from tests.captures.analysis.groups.talk import Talk
from tests.captures.analysis.groups.truth import FOLDER, read


def counts(talk: Talk) -> PartitionCounts:
    out = PartitionCounts({"topic-id": "orders"}.get)
    for exchange in talk.said:
        out.add(exchange)
    return out


def seen(found: PartitionCounts, topic: str = "orders") -> list[tuple[int | None, int, str]]:
    return [(each.before, each.partitions, each.client) for each in found.changes(topic)]


def test_only_changes_are_kept_of_each_client() -> None:
    talk = Talk()
    for client, count in (("m1", 2), ("m1", 2), ("m2", 2), ("m1", 4), ("m1", 4), ("m1", 0)):
        talk.metadata(client, len(talk.said), {"orders": count, "logs": 1})
    found = counts(talk)
    assert seen(found) == [(None, 2, "m1"), (None, 2, "m2"), (2, 4, "m1"), (4, 0, "m1")]
    assert [found.at("orders", at(time)) for time in (-1, 2.5, 3.5, 9)] == [None, 2, 4, 0]
    assert found.at("payments", at(9)) is None


def admin(key: int, version: int, request: dict[str, Any], response: dict[str, Any]) -> PartitionCounts:
    out = PartitionCounts({"topic-id": "orders"}.get)
    out.add(kit.exchange(key, version, request=request, response=response))
    return out


def test_admin_requests_tell_it_too() -> None:
    created = admin(
        19,
        5,
        {"topics": [{"name": "orders", "num_partitions": -1}, {"name": "logs", "num_partitions": 2}]},
        {
            "topics": [
                {"name": "orders", "error_code": 0, "num_partitions": 3},
                {"name": "logs", "error_code": 36, "num_partitions": -1},
            ]
        },
    )
    assert (seen(created), seen(created, "logs")) == ([(None, 3, "app")], [])
    old = admin(
        19,
        1,
        {"topics": [{"name": "orders", "num_partitions": -1, "assignments": [{"partition_index": 0}]}]},
        {"topics": [{"name": "orders", "error_code": 0}]},
    )
    assert seen(old) == [(None, 1, "app")]
    grown = admin(
        37,
        1,
        {"topics": [{"name": "orders", "count": 6}, {"name": "logs", "count": 6}], "validate_only": False},
        {"results": [{"name": "orders", "error_code": 0}, {"name": "logs", "error_code": 37}]},
    )
    assert (seen(grown), seen(grown, "logs")) == ([(None, 6, "app")], [])
    deleted = admin(20, 6, {}, {"responses": [{"topic_id": "topic-id", "name": None, "error_code": 0}]})
    assert seen(deleted) == [(None, 0, "app")]


def test_what_was_only_checked_did_not_happen() -> None:
    request = {"topics": [{"name": "orders", "count": 6}], "validate_only": True}
    assert seen(admin(37, 1, request, {"results": [{"name": "orders", "error_code": 0}]})) == []


def test_topics_that_may_not_be_seen_are_not_gone() -> None:
    response = {"topics": [{"name": "orders", "error_code": 29, "partitions": []}]}
    assert seen(admin(3, 12, {"topics": None}, response)) == []


def test_bodies_without_anything_tell_nothing() -> None:
    for key in (3, 19, 20, 37, 75):
        assert seen(admin(key, 1, {}, {})) == []
        assert seen(admin(key, 1, {"topics": [None]}, {"topics": [None, {}], "results": [None]})) == []


def test_connections_end_by_whom_and_how() -> None:
    """m3 was killed: its kernel closed its connections (``21_k430_java_eager_range``)."""
    name = "21_k430_java_eager_range"
    capture = open_capture(str(FOLDER / f"{name}.pcap.zst"))
    capture.read()
    context = GroupContext(0, lambda _: None, PartitionCounts(lambda _: None), capture=capture)
    killed = next(event["t"] for event in read(name).events if event["what"] == "SIGKILL")
    endings = [ending for number in range(len(capture.connections)) if (ending := context.ending(number))]
    then = [ending for ending in endings if abs(ending.time / 1e9 - killed) < 0.1]
    assert then
    assert not any(ending.by_broker for ending in then)
    assert GroupContext(0, lambda _: None, PartitionCounts(lambda _: None)).ending(0) is None
