"""Topics, groups, members, transactions and producers in messages."""

from __future__ import annotations

from typing import Any

import pytest

from captures.meaning import (
    Producer,
    groups_in,
    members_in,
    producers_in,
    topics_in,
    transactional_ids_in,
)
from dissectors import apis
from dissectors.records import Record
from dissectors.records.build import build_batch
from dissectors.sides import Side

ORDERS_ID = "b8tRS7h4TJ2Vt43Dp85v2A"


def names(topic_id: str) -> str | None:
    return {ORDERS_ID: "orders"}.get(topic_id)


def key_of(api: str) -> int:
    return apis.keys_by_name()[api.lower()]


TOPICS: list[tuple[str, int, Side, dict[str, Any], dict[str, list[int]]]] = [
    (
        "Produce",
        13,
        "request",
        {"topic_data": [{"topic_id": ORDERS_ID, "partition_data": [{"index": 3}, {"index": 1}]}]},
        {"orders": [3, 1]},
    ),
    (
        "Fetch",
        12,
        "request",
        {
            "topics": [{"topic": "a", "partitions": [{"partition": 0}]}],
            "forgotten_topics_data": [{"topic": "b", "partitions": (5,)}],
        },
        {"a": [0], "b": [5]},
    ),
    (
        "Fetch",
        18,
        "response",
        {"responses": [{"topic_id": "LRVDUOgqQ3mAiOsYz1lN3w", "partitions": [{"partition_index": 2}]}]},
        {"LRVDUOgqQ3mAiOsYz1lN3w": [2]},
    ),
    ("Metadata", 9, "request", {"topics": [{"name": "a"}, {"name": "b"}]}, {"a": [], "b": []}),
    (
        "Metadata",
        9,
        "response",
        {
            "brokers": [{"node_id": 1, "host": "h"}],
            "topics": [{"name": "a", "partitions": [{"partition_index": 0, "replica_nodes": (7, 8)}]}],
        },
        {"a": [0]},
    ),
    (
        "UpdateMetadata",
        3,
        "request",
        {"ungrouped_partition_states": [{"topic_name": "a", "partition_index": n} for n in (0, 1)]},
        {"a": [0, 1]},
    ),
    ("DeleteTopics", 5, "request", {"topic_names": ["a", "b"]}, {"a": [], "b": []}),
    ("DeleteTopics", 1, "response", {"responses": [{"name": "a", "error_code": 0}]}, {"a": []}),
    ("CreatePartitions", 3, "response", {"results": [{"name": "a", "error_code": 0}]}, {"a": []}),
    ("ConsumerGroupHeartbeat", 1, "request", {"subscribed_topic_names": ["a"]}, {"a": []}),
    (
        "ConsumerGroupHeartbeat",
        1,
        "response",
        {"assignment": {"topic_partitions": [{"topic_id": ORDERS_ID, "partitions": (0, 4)}]}},
        {"orders": [0, 4]},
    ),
    (
        "OffsetFetch",
        8,
        "request",
        {"groups": [{"group_id": "g", "topics": [{"name": "a", "partition_indexes": (1, 2)}]}]},
        {"a": [1, 2]},
    ),
    (
        "IncrementalAlterConfigs",
        1,
        "request",
        {
            "resources": [
                {"resource_type": 2, "resource_name": "a", "configs": [{"name": "retention.ms"}]},
                {"resource_type": 4, "resource_name": "1", "configs": []},
            ]
        },
        {"a": []},
    ),
    (
        "CreateAcls",
        3,
        "request",
        {
            "creations": [
                {"resource_type": 2, "resource_name": "a", "resource_pattern_type": 3},
                {"resource_type": 2, "resource_name": "pre", "resource_pattern_type": 4},
                {"resource_type": 2, "resource_name": "*", "resource_pattern_type": 3},
                {"resource_type": 3, "resource_name": "group", "resource_pattern_type": 3},
            ]
        },
        {"a": []},
    ),
    (
        "StreamsGroupTopologyDescriptionUpdate",
        0,
        "request",
        {
            "topology_description": {
                "subtopologies": [
                    {
                        "nodes": [
                            {"name": "SOURCE-0", "source_topics": ["a"]},
                            {"name": "SINK-1", "sink_topic": "b"},
                        ]
                    }
                ],
                "global_stores": [{"source": {"source_topics": ["c"]}, "processor": {"sink_topic": None}}],
            }
        },
        {"a": [], "b": [], "c": []},
    ),
    ("UpdateFeatures", 1, "request", {"feature_updates": [{"feature": "metadata.version"}]}, {}),
    ("ApiVersions", 3, "response", {"supported_features": [{"name": "metadata.version"}]}, {}),
    ("BrokerRegistration", 0, "request", {"listeners": [{"name": "PLAINTEXT", "host": "h", "port": 1}]}, {}),
]


@pytest.mark.parametrize(("api", "version", "side", "body", "found"), TOPICS)
def test_topics(
    api: str, version: int, side: Side, body: dict[str, Any], found: dict[str, list[int]]
) -> None:
    assert topics_in(key_of(api), version, body, names, side) == found


def test_nothing_in_nothing() -> None:
    assert topics_in(3, 9, None, names) == {}
    assert groups_in(12, 4, None) == members_in(12, 4, None) == transactional_ids_in(26, 1, None) == []
    assert producers_in(0, 9, None) == []
    assert topics_in(999, 0, {"topics": [{"name": "a"}]}, names) == {}


@pytest.mark.parametrize(
    ("api", "version", "body", "found"),
    [
        ("Heartbeat", 4, {"group_id": "audit"}, ["audit"]),
        ("OffsetFetch", 8, {"groups": [{"group_id": "a"}, {"group_id": "b"}]}, ["a", "b"]),
        ("DescribeGroups", 5, {"groups": ["a", "b"]}, ["a", "b"]),
        ("DeleteGroups", 2, {"groups_names": ["a"]}, ["a"]),
        ("FindCoordinator", 2, {"key": "a", "key_type": 0}, ["a"]),
        ("FindCoordinator", 0, {"key": "a"}, ["a"]),
        ("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["tx"]}, []),
        (
            "FindCoordinator",
            6,
            {"key_type": 2, "coordinator_keys": ["g:x:b8tRS7h4TJ2Vt43Dp85v2A:0"]},
            ["g:x"],
        ),
        ("AddOffsetsToTxn", 3, {"transactional_id": "tx", "group_id": "a"}, ["a"]),
        ("Metadata", 9, {"topics": [{"name": "a"}]}, []),
    ],
)
def test_groups(api: str, version: int, body: dict[str, Any], found: list[str]) -> None:
    assert groups_in(key_of(api), version, body) == found


def test_members() -> None:
    assert members_in(12, 4, {"member_id": "m"}) == ["m"]
    assert members_in(11, 4, {"member_id": ""}) == []
    assert members_in(13, 4, {"members": [{"member_id": "a"}, {"member_id": "b"}]}) == ["a", "b"]
    assert members_in(
        11, 5, {"member_id": "m", "members": [{"member_id": "m"}, {"member_id": "n"}]}, "response"
    ) == [
        "m",
        "n",
    ]


def test_transactional_ids() -> None:
    assert transactional_ids_in(26, 3, {"transactional_id": "tx"}) == ["tx"]
    assert transactional_ids_in(24, 3, {"v3_and_below_transactional_id": "tx"}) == ["tx"]
    assert transactional_ids_in(24, 4, {"transactions": [{"transactional_id": "a"}]}) == ["a"]
    assert transactional_ids_in(65, 0, {"transactional_ids": ["a", "b"]}) == ["a", "b"]
    assert transactional_ids_in(10, 4, {"key_type": 1, "coordinator_keys": ["tx"]}) == ["tx"]
    assert transactional_ids_in(10, 4, {"key_type": 0, "coordinator_keys": ["g"]}) == []
    assert transactional_ids_in(0, 9, {"transactional_id": None}) == []


def test_producers() -> None:
    assert producers_in(26, 3, {"producer_id": 4000, "producer_epoch": 2}) == [Producer(4000, 2)]
    assert producers_in(24, 3, {"v3_and_below_producer_id": 7, "v3_and_below_producer_epoch": 1}) == [
        Producer(7, 1)
    ]
    assert producers_in(22, 4, {"producer_id": -1, "producer_epoch": -1}) == []
    assert producers_in(66, 2, {"producer_id_filters": (4711, 4712)}) == [
        Producer(4711, -1),
        Producer(4712, -1),
    ]
    ongoing = {
        "producer_id": 1,
        "producer_epoch": 0,
        "ongoing_txn_producer_id": 2,
        "ongoing_txn_producer_epoch": 5,
    }
    assert producers_in(22, 6, ongoing, "response") == [Producer(1, 0), Producer(2, 5)]
    records = bytes(
        build_batch([Record(0, 1, None, b"v", ())], producer_id=4000, producer_epoch=3, base_sequence=0)
    )
    body = {"topic_data": [{"name": "a", "partition_data": [{"index": 0, "records": records}]}]}
    assert producers_in(0, 9, body) == [Producer(4000, 3)]
