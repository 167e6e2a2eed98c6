"""The live cluster, and the destinations of requests."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors.apis import NAMES, keys_by_name
from kproxy.replay.cluster import Leader, LiveCluster, Node, Route

KEYS = keys_by_name()
ORDERS_ID = "AAAAAAAAAAAAAAAAAAAABQ"


def cluster(*nodes: int, leaders: dict[int, int] | None = None) -> LiveCluster:
    made = LiveCluster({})
    partitions = [
        {"partition_index": index, "leader_id": leader, "leader_epoch": 3, "error_code": 0}
        for index, leader in (leaders or {}).items()
    ]
    made.observe(
        KEYS["metadata"],
        {},
        {
            "brokers": [{"node_id": node, "host": f"b{node}", "port": 9092} for node in nodes],
            "controller_id": nodes[-1],
            "cluster_id": "live",
            "topics": [{"name": "orders", "topic_id": ORDERS_ID, "error_code": 0, "partitions": partitions}],
        },
    )
    return made


def route(live: LiveCluster, name: str, version: int, body: dict[str, Any]) -> Route:
    return live.route(KEYS[name.lower()], version, body)


def test_every_name_is_an_api() -> None:
    from kproxy.replay import cluster as module

    routed = (
        module._TO_LEADER
        | module._TO_GROUP_COORDINATOR
        | module._TO_TRANSACTION_COORDINATOR
        | module._TO_CONTROLLER
    )
    assert routed <= set(NAMES)


def test_versions_are_those_of_all_brokers() -> None:
    live = LiveCluster({0: (0, 9), 1: (4, 18), 3: (0, 2), 9: (1, 1)})
    live.narrow({0: (3, 13), 1: (0, 11), 3: (5, 9)})
    assert live.versions == {0: (3, 9), 1: (4, 11)}


def test_recorded_brokers_have_counterparts() -> None:
    live = cluster(1, 2, 5)
    assert live.counterpart(2) == Node(2, "b2", 9092)
    assert [live.counterpart(each).node_id for each in (3, 4)] == [1, 2]
    assert [live.counterpart(each).node_id for each in (-1, -2, -3, -4)] == [1, 2, 5, 1]


def test_partitions_go_to_the_leader_of_most_of_them() -> None:
    live = cluster(1, 2, leaders={0: 1, 1: 2, 2: 2})
    partitions = [{"partition": index} for index in (0, 1, 2)]
    found = route(live, "Fetch", 12, {"topics": [{"topic": "orders", "partitions": partitions}]})
    assert found == Route("leader", ("orders", 1), 1)
    assert live.target(found, 1) == Node(2, "b2", 9092)
    by_id = route(live, "Fetch", 13, {"topics": [{"topic_id": ORDERS_ID, "partitions": partitions[:1]}]})
    assert live.target(by_id, 2) == Node(1, "b1", 9092)


def test_unknown_partitions_go_where_they_went() -> None:
    live = cluster(1, 2)
    found = route(
        live, "ListOffsets", 7, {"topics": [{"name": "gone", "partitions": [{"partition_index": 0}]}]}
    )
    assert found == Route("broker")
    assert live.target(found, 2) == Node(2, "b2", 9092)


def test_leaders_move() -> None:
    live = cluster(1, 2, leaders={0: 1})
    found = route(live, "Fetch", 12, {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]})
    live.observe(
        KEYS["metadata"],
        {},
        {
            "topics": [
                {"name": "orders", "partitions": [{"partition_index": 0, "leader_id": 2, "leader_epoch": 4}]}
            ]
        },
    )
    assert live.target(found, 1) == Node(2, "b2", 9092)
    assert live.leader("orders", 0) == Leader(2, 4)


@pytest.mark.parametrize(
    ("name", "version", "body", "key"),
    [
        ("OffsetCommit", 8, {"group_id": "g"}, (0, "g")),
        ("OffsetFetch", 8, {"groups": [{"group_id": "g"}]}, (0, "g")),
        ("DescribeGroups", 5, {"groups": ["g", "h"]}, (0, "g")),
        ("TxnOffsetCommit", 3, {"group_id": "g", "transactional_id": "t"}, (0, "g")),
        ("EndTxn", 3, {"transactional_id": "t"}, (1, "t")),
        ("InitProducerId", 4, {"transactional_id": "t"}, (1, "t")),
    ],
)
def test_groups_and_transactions_go_to_their_coordinators(
    name: str, version: int, body: dict[str, Any], key: tuple[int, str]
) -> None:
    live = cluster(1, 2)
    found = route(live, name, version, body)
    assert found == Route("coordinator", key)
    assert live.target(found, 1) is None
    told = {"key": key[1], "node_id": 2, "host": "b2", "port": 9092, "error_code": 0}
    live.observe(KEYS["findcoordinator"], {"key_type": key[0]}, {"coordinators": [told]})
    assert live.target(found, 1) == Node(2, "b2", 9092)
    live.forget_coordinator(*key)
    assert live.target(found, 1) is None


def test_coordinators_of_the_old_shape_and_errors() -> None:
    live = cluster(1, 2)
    request = {"key": "g", "key_type": 0}
    live.observe(KEYS["findcoordinator"], request, {"error_code": 15, "node_id": -1, "host": "", "port": -1})
    assert live.coordinator(0, "g") is None
    live.observe(
        KEYS["findcoordinator"], request, {"error_code": 0, "node_id": 2, "host": "b2", "port": 9092}
    )
    assert live.coordinator(0, "g") == Node(2, "b2", 9092)


def test_a_producer_without_transactions_asks_any_broker() -> None:
    assert route(cluster(1), "InitProducerId", 4, {"transactional_id": None}) == Route("broker")


def test_the_controller() -> None:
    live = cluster(1, 2)
    assert live.target(route(live, "CreateTopics", 5, {"topics": []}), 1) == Node(2, "b2", 9092)


def test_topics_with_errors_teach_nothing() -> None:
    live = cluster(1)
    row = {"name": "gone", "topic_id": "AAAAAAAAAAAAAAAAAAAABg", "error_code": 3, "partitions": []}
    live.observe(KEYS["metadata"], {}, {"brokers": [], "topics": [row]})
    assert live.topic_id("gone") is None
    assert live.topic_id("orders") == ORDERS_ID
    assert live.topic_name(ORDERS_ID) == "orders"
