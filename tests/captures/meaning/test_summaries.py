"""Summaries of realistic bodies, API by API: the lines of ``kproxy read``.

Bodies are in the decoder's form (numbers in arrays as tuples), with the fields that matter.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from captures.meaning import request_summary, response_summary
from captures.meaning.summaries import SUMMARIES
from captures.meaning.words import size
from dissectors import apis
from dissectors.headers import RequestHeader
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch

pytestmark = pytest.mark.quick

ORDERS_ID = "b8tRS7h4TJ2Vt43Dp85v2A"
UNKNOWN_ID = "LRVDUOgqQ3mAiOsYz1lN3w"
MEMBER = "audit-7-2f9c1a3e-77d1-4c6e-9b3e-0123456789ab"
MS = 1_000_000


def names(topic_id: str) -> str | None:
    return {ORDERS_ID: "orders"}.get(topic_id)


def batch(count: int, first: int = 0, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(first + n, 1_700_000_000_000, None, b"x" * 50, ()) for n in range(count)]
    return bytes(build_batch(records, codec=codec))


def produce(*partitions: tuple[int, bytes], **fields: Any) -> dict[str, Any]:
    rows = [{"index": index, "records": records} for index, records in partitions]
    return {"acks": -1, "topic_data": [{"topic_id": ORDERS_ID, "partition_data": rows}], **fields}


def fetched(*partitions: tuple[int, bytes | None], **fields: Any) -> dict[str, Any]:
    rows = [
        {"partition_index": index, "error_code": 0, "high_watermark": 120, "records": records}
        for index, records in partitions
    ]
    return {"error_code": 0, "responses": [{"topic_id": ORDERS_ID, "partitions": rows}], **fields}


def fetch(*partitions: int, **fields: Any) -> dict[str, Any]:
    rows = [{"partition": index, "fetch_offset": 5} for index in partitions]
    topics = [{"topic_id": ORDERS_ID, "partitions": rows}] if rows else []
    return {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "session_id": 0,
        "session_epoch": -1,
        "topics": topics,
        **fields,
    }


LZ4 = batch(35, codec=Codec.LZ4)
PLAIN = batch(12)

REQUESTS: list[tuple[str, int, dict[str, Any], str]] = [
    ("Produce", 13, produce((3, PLAIN)), f"orders-3  12 records {len(PLAIN)} B"),
    ("Produce", 13, produce((3, LZ4)), f"orders-3  35 records {len(LZ4)} B lz4"),
    (
        "Produce",
        13,
        produce((0, PLAIN), (1, PLAIN), (2, LZ4), acks=0, transactional_id="pay-1"),
        f"orders 0-2  acks=0  59 records {size(2 * len(PLAIN) + len(LZ4))} none+lz4  in pay-1",
    ),
    ("Produce", 13, produce((0, None)), "orders-0"),  # type: ignore[arg-type]  # null records are on the wire too
    ("Fetch", 18, fetch(0, 1, 2), "orders 0-2  wait 500ms"),
    ("Fetch", 18, fetch(5, isolation_level=1), "orders-5  wait 500ms  read_committed"),
    ("Fetch", 18, fetch(session_id=77, session_epoch=4), "as before  wait 500ms"),
    ("Fetch", 18, fetch(session_id=77, session_epoch=-1), "end of session  wait 500ms"),
    (
        "Fetch",
        18,
        fetch(
            session_id=7, session_epoch=4, forgotten_topics_data=[{"topic_id": ORDERS_ID, "partitions": (5,)}]
        ),
        "without orders-5  wait 500ms",
    ),
    ("Fetch", 18, fetch(0, replica_state={"replica_id": 2}), "replica 2  orders-0  wait 500ms"),
    (
        "Fetch",
        12,
        {"topics": [{"topic": "logs", "partitions": [{"partition": 1}]}], "max_wait_ms": 0},
        "logs-1  no wait",
    ),
    (
        "ListOffsets",
        7,
        {
            "topics": [{"name": "a", "partitions": [{"partition_index": 0, "timestamp": -2}]}],
            "isolation_level": 0,
        },
        "a-0  earliest",
    ),
    (
        "ListOffsets",
        7,
        {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "timestamp": 1_700_000_000_000}]}]},
        "a-0  at 2023-11-14 22:13:20",
    ),
    ("Metadata", 13, {"topics": [{"name": "orders"}, {"name": "payments"}]}, "orders payments"),
    ("Metadata", 13, {"topics": [{"name": None, "topic_id": ORDERS_ID}]}, "orders"),
    ("Metadata", 13, {"topics": [{"name": None, "topic_id": UNKNOWN_ID}]}, "LRVDUO…"),
    ("Metadata", 13, {"topics": None}, "all topics"),
    ("Metadata", 13, {"topics": []}, "brokers only"),
    ("Metadata", 0, {"topics": []}, "all topics"),  # QUIRKS 11: version 0 has no null
    ("Metadata", 1, {"topics": [{"name": n} for n in "abcdef"]}, "a b c d +2"),
    (
        "OffsetCommit",
        9,
        {
            "group_id": "audit",
            "topics": [
                {
                    "name": "orders",
                    "partitions": [{"partition_index": p, "committed_offset": 120} for p in range(3, 8)],
                }
            ],
        },
        "audit  orders-3@120 +4",
    ),
    (
        "OffsetFetch",
        7,
        {"group_id": "audit", "topics": None, "require_stable": True},
        "audit  all partitions  stable",
    ),
    (
        "OffsetFetch",
        10,
        {
            "groups": [
                {"group_id": "audit", "topics": [{"topic_id": ORDERS_ID, "partition_indexes": (0, 1, 2, 5)}]}
            ]
        },
        "audit  orders 0-2,5",
    ),
    ("FindCoordinator", 2, {"key": "audit", "key_type": 0}, "group audit"),
    (
        "FindCoordinator",
        4,
        {"key_type": 1, "coordinator_keys": ["pay-1", "pay-2"]},
        "transaction pay-1 pay-2",
    ),
    (
        "JoinGroup",
        9,
        {"group_id": "audit", "member_id": "", "protocol_type": "consumer", "protocols": [{"name": "range"}]},
        "audit  range",
    ),
    (
        "JoinGroup",
        9,
        {
            "group_id": "audit",
            "member_id": MEMBER,
            "group_instance_id": "a-1",
            "protocol_type": "consumer",
            "protocols": [{"name": "range"}, {"name": "cooperative-sticky"}],
            "reason": "need to revoke partitions and re-join",
        },
        "audit  range,cooperative-sticky  m-2f9c  static a-1  (need to revoke partitions and re-join)",
    ),
    (
        "JoinGroup",
        5,
        {"group_id": "c", "member_id": "", "protocol_type": "connect", "protocols": [{"name": "sessioned"}]},
        "c  connect  sessioned",
    ),
    ("Heartbeat", 4, {"group_id": "audit", "generation_id": 41, "member_id": MEMBER}, "audit gen 41 m-2f9c"),
    ("LeaveGroup", 1, {"group_id": "audit", "member_id": MEMBER}, "audit  m-2f9c"),
    (
        "LeaveGroup",
        5,
        {"group_id": "audit", "members": [{"member_id": MEMBER, "reason": "the consumer is being closed"}]},
        "audit  m-2f9c  (the consumer is being closed)",
    ),
    (
        "SyncGroup",
        5,
        {
            "group_id": "audit",
            "generation_id": 42,
            "member_id": MEMBER,
            "assignments": [{"member_id": "x"}] * 3,
        },
        "audit gen 42 m-2f9c  3 assignments",
    ),
    ("DescribeGroups", 5, {"groups": ["audit", "billing"]}, "audit billing"),
    ("ListGroups", 4, {"states_filter": ["Stable"]}, "Stable"),
    ("ListGroups", 0, {}, ""),
    ("SaslHandshake", 1, {"mechanism": "SCRAM-SHA-256"}, "SCRAM-SHA-256"),
    (
        "ApiVersions",
        4,
        {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.0"},
        "java 4.3.0",
    ),
    ("ApiVersions", 3, {"client_software_name": "sarama", "client_software_version": "1.43"}, "sarama 1.43"),
    (
        "CreateTopics",
        7,
        {
            "topics": [
                {
                    "name": "orders",
                    "num_partitions": 6,
                    "replication_factor": 3,
                    "configs": [{"name": "retention.ms"}],
                }
            ]
        },
        "orders (6 partitions, 3 replicas, 1 setting)",
    ),
    (
        "CreateTopics",
        7,
        {
            "topics": [
                {
                    "name": "orders",
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": [{"partition_index": 0, "broker_ids": (1, 2)}],
                }
            ],
            "validate_only": True,
        },
        "orders (1 partition, 2 replicas)  validate only",
    ),
    ("DeleteTopics", 5, {"topic_names": ["orders", "logs"]}, "orders logs"),
    ("DeleteTopics", 6, {"topics": [{"name": None, "topic_id": ORDERS_ID}]}, "orders"),
    (
        "DeleteRecords",
        2,
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 3, "offset": 120}]}]},
        "before orders-3@120",
    ),
    ("InitProducerId", 6, {"transactional_id": None}, "idempotent only"),
    ("InitProducerId", 6, {"transactional_id": "pay-1", "producer_id": -1}, "pay-1"),
    (
        "InitProducerId",
        6,
        {"transactional_id": "pay-1", "producer_id": 4000, "producer_epoch": 3},
        "pay-1  again producer 4000 epoch 3",
    ),
    (
        "OffsetForLeaderEpoch",
        4,
        {"replica_id": 2, "topics": [{"topic": "a", "partitions": [{"partition": 1, "leader_epoch": 5}]}]},
        "replica 2  a-1  end of epoch 5",
    ),
    (
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": "pay-1",
            "v3_and_below_topics": [{"name": "orders", "partitions": (0, 1, 2)}],
        },
        "pay-1  orders 0-2",
    ),
    (
        "AddPartitionsToTxn",
        5,
        {
            "transactions": [
                {
                    "transactional_id": "pay-1",
                    "verify_only": True,
                    "topics": [{"name": "orders", "partitions": (3,)}],
                }
            ]
        },
        "pay-1  orders-3  verify only",
    ),
    (
        "AddOffsetsToTxn",
        4,
        {"transactional_id": "pay-1", "group_id": "audit"},
        "pay-1  offsets of group audit",
    ),
    ("EndTxn", 5, {"transactional_id": "pay-1", "committed": True}, "pay-1  commit"),
    ("EndTxn", 5, {"transactional_id": "pay-1", "committed": False}, "pay-1  abort"),
    (
        "WriteTxnMarkers",
        1,
        {
            "markers": [
                {
                    "producer_id": 4000,
                    "producer_epoch": 1,
                    "transaction_result": True,
                    "topics": [{"name": "orders", "partition_indexes": (0, 1)}],
                }
            ]
        },
        "commit  producer 4000 epoch 1  orders 0-1",
    ),
    (
        "TxnOffsetCommit",
        5,
        {
            "transactional_id": "pay-1",
            "group_id": "audit",
            "topics": [{"name": "orders", "partitions": [{"partition_index": 3, "committed_offset": 120}]}],
        },
        "pay-1  audit  orders-3@120",
    ),
    (
        "DescribeAcls",
        3,
        {
            "resource_type_filter": 2,
            "resource_name_filter": "orders",
            "pattern_type_filter": 3,
            "principal_filter": "User:alice",
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
        "User:alice topic orders",
    ),
    (
        "CreateAcls",
        3,
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "ord",
                    "resource_pattern_type": 4,
                    "principal": "User:alice",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
        "allow User:alice read topic ord (prefixed)",
    ),
    (
        "DescribeConfigs",
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": "orders", "configuration_keys": ["retention.ms"]},
                {"resource_type": 4, "resource_name": "1", "configuration_keys": None},
            ]
        },
        "topic orders, broker 1  retention.ms",
    ),
    (
        "IncrementalAlterConfigs",
        1,
        {
            "resources": [
                {
                    "resource_type": 4,
                    "resource_name": "",
                    "configs": [
                        {"name": "ssl.keystore.password", "config_operation": 0, "value": "hunter2"},
                        {"name": "compression.type", "config_operation": 0, "value": "zstd"},
                        {"name": "log.retention.ms", "config_operation": 1, "value": None},
                    ],
                }
            ]
        },
        "broker default  set ssl.keystore.password compression.type=zstd, delete log.retention.ms",
    ),
    (
        "AlterReplicaLogDirs",
        2,
        {"dirs": [{"path": "/data2", "topics": [{"name": "orders", "partitions": (0, 1)}]}]},
        "orders 0-1 to /data2",
    ),
    ("DescribeLogDirs", 4, {"topics": None}, "all topics"),
    ("SaslAuthenticate", 2, {"auth_bytes": b"\x00alice\x00hunter2"}, "PLAIN alice"),
    ("SaslAuthenticate", 2, {"auth_bytes": b"n,,n=alice,r=fyko"}, "SCRAM alice"),
    ("SaslAuthenticate", 2, {"auth_bytes": b"c=biws,r=fyko,p=dHzb"}, "SCRAM proof"),
    ("SaslAuthenticate", 2, {"auth_bytes": b"n,a=bob,\x01auth=Bearer hunter2\x01\x01"}, "OAUTHBEARER bob"),
    ("SaslAuthenticate", 2, {"auth_bytes": None}, "token"),
    ("CreatePartitions", 3, {"topics": [{"name": "orders", "count": 12}]}, "orders to 12"),
    ("ElectLeaders", 2, {"election_type": 1, "topic_partitions": None}, "unclean  all partitions"),
    (
        "AlterPartitionReassignments",
        1,
        {
            "topics": [
                {
                    "name": "orders",
                    "partitions": [
                        {"partition_index": 0, "replicas": (3, 1, 2)},
                        {"partition_index": 1, "replicas": None},
                    ],
                }
            ]
        },
        "orders-0 to 3,1,2, orders-1 cancel",
    ),
    (
        "AlterClientQuotas",
        1,
        {
            "entries": [
                {
                    "entity": [
                        {"entity_type": "user", "entity_name": "bob"},
                        {"entity_type": "client-id", "entity_name": None},
                    ],
                    "ops": [
                        {"key": "producer_byte_rate", "value": 1048576.0},
                        {"key": "request_percentage", "remove": True},
                    ],
                }
            ]
        },
        "user=bob client-id=<default>  producer_byte_rate=1048576 remove request_percentage",
    ),
    (
        "AlterUserScramCredentials",
        0,
        {
            "deletions": [{"name": "bob", "mechanism": 2}],
            "upsertions": [
                {"name": "alice", "mechanism": 1, "salt": b"hunter2", "salted_password": b"hunter2"}
            ],
        },
        "set alice SCRAM-SHA-256, delete bob SCRAM-SHA-512",
    ),
    (
        "Vote",
        2,
        {
            "topics": [
                {
                    "topic_name": "__cluster_metadata",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "replica_epoch": 5,
                            "replica_id": 3,
                            "last_offset_epoch": 4,
                            "last_offset": 120,
                            "pre_vote": True,
                        }
                    ],
                }
            ]
        },
        "pre-vote for 3 in epoch 5  log ends at 120 of epoch 4",
    ),
    (
        "EndQuorumEpoch",
        0,
        {
            "topics": [
                {
                    "topic_name": "__cluster_metadata",
                    "partitions": [{"leader_id": 3, "leader_epoch": 5, "preferred_successors": (2, 1)}],
                }
            ]
        },
        "leader 3, epoch 5 resigns, prefers 2,1",
    ),
    (
        "AlterPartition",
        3,
        {
            "broker_id": 1,
            "topics": [
                {
                    "topic_id": ORDERS_ID,
                    "partitions": [
                        {"partition_index": 3, "new_isr_with_epochs": [{"broker_id": 1}, {"broker_id": 2}]}
                    ],
                }
            ],
        },
        "broker 1  orders-3 isr 1,2",
    ),
    (
        "UpdateFeatures",
        1,
        {"feature_updates": [{"feature": "metadata.version", "max_version_level": 25, "upgrade_type": 1}]},
        "metadata.version to 25 (4.0-IV3)",
    ),
    (
        "BrokerHeartbeat",
        1,
        {"broker_id": 1, "current_metadata_offset": 120, "want_shut_down": True},
        "broker 1  metadata at 120  wants to shut down",
    ),
    (
        "ConsumerGroupHeartbeat",
        1,
        {
            "group_id": "audit",
            "member_id": MEMBER,
            "member_epoch": 0,
            "subscribed_topic_names": ["orders", "logs"],
        },
        "audit join m-2f9c  orders logs",
    ),
    (
        "ConsumerGroupHeartbeat",
        1,
        {
            "group_id": "audit",
            "member_id": "1uVVxrAYT4CKZv7iGo9u5g",
            "member_epoch": 5,
            "topic_partitions": [{"topic_id": ORDERS_ID, "partitions": (0, 1, 2)}],
        },
        "audit epoch 5 m-1uVV  owns orders 0-2",
    ),
    ("ConsumerGroupHeartbeat", 1, {"group_id": "a", "member_id": "", "member_epoch": -1}, "a leave"),
    (
        "ConsumerGroupHeartbeat",
        1,
        {"group_id": "a", "member_epoch": -2, "instance_id": "i-1"},
        "a leave for a while  static i-1",
    ),
    ("GetTelemetrySubscriptions", 0, {"client_instance_id": "A" * 22}, "new client"),
    (
        "ShareFetch",
        2,
        {
            "group_id": "sg",
            "member_id": "1uVVxrAYT4CKZv7iGo9u5g",
            "share_session_epoch": 4,
            "max_wait_ms": 500,
            "topics": [
                {
                    "topic_id": ORDERS_ID,
                    "partitions": [
                        {
                            "partition_index": 1,
                            "acknowledgement_batches": [
                                {"first_offset": 0, "last_offset": 34, "acknowledge_types": (1,)},
                                {"first_offset": 40, "last_offset": 42, "acknowledge_types": (2, 1, 2)},
                            ],
                        }
                    ],
                }
            ],
        },
        "sg m-1uVV  orders-1  accept 36, release 2  wait 500ms",
    ),
    (
        "StreamsGroupHeartbeat",
        1,
        {
            "group_id": "st",
            "member_id": "1uVVxrAYT4CKZv7iGo9u5g",
            "member_epoch": 3,
            "active_tasks": [{"subtopology_id": "0", "partitions": (0, 1, 2)}],
            "standby_tasks": [{"subtopology_id": "1", "partitions": (4,)}],
        },
        "st epoch 3 m-1uVV  owns active 0_0-2, standby 1_4",
    ),
    (
        "UpdateMetadata",
        8,
        {
            "controller_id": 1,
            "controller_epoch": 7,
            "topic_states": [
                {"topic_name": "orders", "partition_states": [{"partition_index": p} for p in (0, 1)]}
            ],
            "live_brokers": [{"id": 1}, {"id": 2}],
        },
        "controller 1 epoch 7  orders 0-1  2 brokers",
    ),
    ("ControlledShutdown", 3, {"broker_id": 2}, "broker 2"),
]


@pytest.mark.parametrize(("api", "version", "body", "said"), REQUESTS)
def test_request(api: str, version: int, body: dict[str, Any], said: str) -> None:
    assert request_summary(apis.keys_by_name()[api.lower()], version, body, names) == said


def assigned(*partitions: int) -> bytes:
    """A ConsumerProtocolAssignment v0 of "orders" (ConsumerProtocolAssignment.json), version prefix included."""
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + numbers + b"\xff\xff\xff\xff"


RESPONSES: list[tuple[str, int, dict[str, Any], dict[str, Any], int, str]] = [
    (
        "Produce",
        13,
        {},
        {"responses": [{"topic_id": ORDERS_ID, "partition_responses": [{"index": 3, "base_offset": 120}]}]},
        4,
        "at offset 120",
    ),
    (
        "Produce",
        9,
        {},
        {
            "responses": [
                {"name": "orders", "partition_responses": [{"index": p, "base_offset": 7} for p in range(3)]}
            ]
        },
        4,
        "orders-0@7 +2",
    ),
    (
        "Produce",
        13,
        {},
        {
            "responses": [
                {
                    "topic_id": ORDERS_ID,
                    "partition_responses": [
                        {"index": 3, "error_code": 6, "base_offset": -1, "current_leader": {"leader_id": 2}},
                        {"index": 4, "error_code": 0, "base_offset": 9},
                    ],
                }
            ]
        },
        4,
        "orders-3 NOT_LEADER_OR_FOLLOWER, leader is broker 2",
    ),
    ("Fetch", 18, fetch(1), fetched((1, LZ4)), 3, f"35 records {len(LZ4)} B lz4 orders-1"),
    ("Fetch", 18, fetch(0, 1, 2), fetched((0, None), (1, b""), (2, None)), 500, "empty (waited 500)"),
    ("Fetch", 18, fetch(0), fetched(), 1, "empty"),
    ("Fetch", 18, fetch(0), fetched((0, LZ4[:70])), 1, "part of a batch 70 B orders-0"),
    ("Fetch", 18, fetch(0), fetched((0, None), throttle_time_ms=120), 1, "empty, throttled 120ms"),
    ("Fetch", 18, fetch(0), {"error_code": 70, "responses": []}, 1, "FETCH_SESSION_ID_NOT_FOUND"),
    (
        "Fetch",
        18,
        fetch(0),
        {
            "responses": [
                {
                    "topic_id": ORDERS_ID,
                    "partitions": [
                        {"partition_index": 0, "error_code": 6},
                        {"partition_index": 1, "error_code": 6},
                        {"partition_index": 2, "error_code": 3},
                        {"partition_index": 3, "error_code": 0, "records": PLAIN},
                    ],
                }
            ]
        },
        1,
        f"orders 0-1 NOT_LEADER_OR_FOLLOWER, orders-2 UNKNOWN_TOPIC_OR_PARTITION, 12 records {len(PLAIN)} B orders-3",
    ),
    (
        "Metadata",
        13,
        {"topics": [{"name": "orders"}]},
        {
            "brokers": [{"node_id": 1}, {"node_id": 2}, {"node_id": 3}],
            "topics": [{"name": "orders", "partitions": [{}] * 9}],
        },
        1,
        "3 brokers, 9 partitions",
    ),
    (
        "Metadata",
        9,
        {"topics": [{"name": "orders"}]},
        {"brokers": [{"node_id": 1}], "topics": [{"name": "orders", "error_code": 5, "partitions": []}]},
        1,
        "orders LEADER_NOT_AVAILABLE, 1 broker, 0 partitions",
    ),
    (
        "OffsetCommit",
        9,
        {},
        {"topics": [{"name": "a", "partitions": [{"partition_index": 0, "error_code": 0}]}]},
        1,
        "ok",
    ),
    (
        "OffsetFetch",
        7,
        {},
        {
            "topics": [
                {
                    "name": "a",
                    "partitions": [
                        {"partition_index": p, "committed_offset": o} for p, o in ((0, 5), (1, -1))
                    ],
                }
            ]
        },
        1,
        "a-0@5, 1 without",
    ),
    (
        "FindCoordinator",
        2,
        {},
        {"error_code": 0, "node_id": 3, "host": "b3", "port": 9092},
        1,
        "broker 3 b3:9092",
    ),
    (
        "FindCoordinator",
        4,
        {},
        {"coordinators": [{"key": "audit", "node_id": -1, "error_code": 15, "error_message": ""}]},
        1,
        "audit COORDINATOR_NOT_AVAILABLE",
    ),
    (
        "JoinGroup",
        9,
        {"protocols": [{"name": "range"}]},
        {
            "generation_id": 42,
            "leader": MEMBER,
            "member_id": MEMBER,
            "members": [{"member_id": MEMBER}, {"member_id": "a"}, {"member_id": "b"}],
        },
        3004,
        "gen 42, leader, 3 members",
    ),
    (
        "JoinGroup",
        9,
        {},
        {"generation_id": 42, "leader": "x", "member_id": MEMBER, "members": []},
        3004,
        "gen 42, member",
    ),
    (
        "JoinGroup",
        9,
        {"member_id": ""},
        {"error_code": 79, "member_id": MEMBER, "generation_id": -1},
        1,
        "MEMBER_ID_REQUIRED, join again as m-2f9c",
    ),
    ("Heartbeat", 4, {}, {"error_code": 27}, 1, "REBALANCE_IN_PROGRESS"),
    ("SyncGroup", 3, {}, {"error_code": 0, "assignment": assigned(0, 1, 2)}, 1, "orders 0-2"),
    ("SyncGroup", 3, {}, {"error_code": 0, "assignment": b""}, 1, "nothing assigned"),
    ("SyncGroup", 5, {}, {"protocol_type": "connect", "assignment": b"x" * 99}, 1, "connect 99 B"),
    (
        "DescribeGroups",
        5,
        {},
        {"groups": [{"group_id": "a", "group_state": "Stable", "members": [{"member_id": "m"}]}]},
        1,
        "Stable, 1 member",
    ),
    ("ApiVersions", 4, {}, {"api_keys": [{"api_key": k} for k in range(62)]}, 1, "62 APIs"),
    (
        "ApiVersions",
        5,
        {},
        {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]},
        1,
        "UNSUPPORTED_VERSION, 0-4 offered",
    ),
    (
        "SaslHandshake",
        1,
        {},
        {"error_code": 33, "mechanisms": ["PLAIN"]},
        1,
        "UNSUPPORTED_SASL_MECHANISM, offered: PLAIN",
    ),
    (
        "SaslAuthenticate",
        2,
        {},
        {"auth_bytes": b"r=x,s=aGk=,i=4096", "session_lifetime_ms": 0},
        1,
        "challenge, 4096 iterations",
    ),
    (
        "SaslAuthenticate",
        2,
        {},
        {"auth_bytes": b"", "session_lifetime_ms": 3_600_000},
        1,
        "ok, again within 1h",
    ),
    (
        # a broker that aborts SCRAM after its first step without an error, seen with an emulator
        "SaslAuthenticate",
        1,
        {"auth_bytes": b"n,,n=alice,r=fyko"},
        {"error_code": 0, "error_message": "", "auth_bytes": b""},
        1,
        "empty answer",
    ),
    (
        "SaslAuthenticate",
        2,
        {},
        {"error_code": 58, "error_message": "Authentication failed: Invalid username or password"},
        1,
        "SASL_AUTHENTICATION_FAILED: Authentication failed: Invalid username or password",
    ),
    (
        "CreateTopics",
        7,
        {},
        {"topics": [{"name": "orders", "error_code": 36, "error_message": "Topic 'orders' already exists."}]},
        1,
        "orders TOPIC_ALREADY_EXISTS: Topic 'orders' already exists.",
    ),
    (
        "CreateTopics",
        7,
        {"validate_only": True},
        {"topics": [{"name": "orders", "error_code": 0}]},
        1,
        "valid",
    ),
    ("CreateAcls", 3, {}, {"results": [{"error_code": 54}, {"error_code": 54}]}, 1, "2× SECURITY_DISABLED"),
    ("InitProducerId", 6, {}, {"producer_id": 4000, "producer_epoch": 0}, 1, "producer 4000 epoch 0"),
    ("EndTxn", 5, {}, {"producer_id": 4000, "producer_epoch": 6}, 1, "ok, now producer 4000 epoch 6"),
    ("EndTxn", 3, {}, {"error_code": 0}, 1, "ok"),
    (
        "AllocateProducerIds",
        0,
        {},
        {"producer_id_start": 4000, "producer_id_len": 1000},
        1,
        "producers 4000-4999",
    ),
    (
        "Vote",
        2,
        {},
        {
            "topics": [
                {"partitions": [{"vote_granted": False, "leader_id": 2, "leader_epoch": 5, "error_code": 0}]}
            ]
        },
        1,
        "refused, leader 2, epoch 5",
    ),
    (
        "ConsumerGroupHeartbeat",
        1,
        {},
        {
            "member_epoch": 6,
            "assignment": {"topic_partitions": [{"topic_id": ORDERS_ID, "partitions": (0, 1)}]},
        },
        1,
        "epoch 6, assigned orders 0-1",
    ),
    (
        "ConsumerGroupHeartbeat",
        1,
        {},
        {"member_epoch": 6, "assignment": {"topic_partitions": []}},
        1,
        "epoch 6, assigned nothing",
    ),
    ("ConsumerGroupHeartbeat", 1, {}, {"member_epoch": -1, "assignment": None}, 1, "left"),
    (
        "ShareFetch",
        2,
        {},
        {
            "responses": [
                {
                    "topic_id": ORDERS_ID,
                    "partitions": [
                        {
                            "partition_index": 1,
                            "records": PLAIN,
                            "acquired_records": [{"first_offset": 0, "last_offset": 11}],
                        }
                    ],
                }
            ]
        },
        1,
        f"12 records {len(PLAIN)} B orders-1, 12 acquired",
    ),
    (
        "ControlledShutdown",
        3,
        {},
        {
            "remaining_partitions": [
                {"topic_name": "a", "partition_index": 1},
                {"topic_name": "a", "partition_index": 2},
            ]
        },
        1,
        "still leads a 1-2",
    ),
    (
        "StreamsGroupHeartbeat",
        1,
        {},
        {"member_epoch": 1, "active_tasks": [], "status": [{"status_code": 5, "status_detail": "x"}]},
        1,
        "epoch 1, no tasks, ASSIGNMENT_DELAYED",
    ),
]


@pytest.mark.parametrize(("api", "version", "request_body", "response", "ms", "said"), RESPONSES)
def test_response(
    api: str, version: int, request_body: dict[str, Any], response: dict[str, Any], ms: int, said: str
) -> None:
    key = apis.keys_by_name()[api.lower()]
    assert response_summary(key, version, request_body, response, names, ms * MS) == said


def test_every_api_has_words() -> None:
    assert sorted(SUMMARIES) == list(range(len(apis.NAMES)))


def test_unknown_api_and_missing_bodies_say_nothing() -> None:
    assert request_summary(999, 0, {"a": 1}, names) == ""
    assert request_summary(3, 9, None, names) == ""
    assert response_summary(3, 9, None, None, names) == ""


def test_a_response_without_its_request_tells_itself() -> None:
    assert response_summary(1, 18, None, fetched((1, PLAIN)), names) == f"12 records {len(PLAIN)} B orders-1"


def envelope(inner: bytes) -> dict[str, Any]:
    # 127.0.0.1, as BrokerToControllerRequestManager sends InetAddress.getAddress
    return {"request_data": inner, "client_host_address": b"\x7f\x00\x00\x01"}


def enveloped(key: int, version: int, body: dict[str, Any], header: int) -> bytes:
    head = {"request_api_key": key, "request_api_version": version, "correlation_id": 1, "client_id": "c"}
    known = apis.api(key)
    assert known is not None
    return RequestHeader[header].build(head) + known.request[version].build(body)


def test_envelope_tells_the_request_inside() -> None:
    inner = enveloped(20, 5, {"topic_names": ["orders"], "timeout_ms": 1}, 2)
    assert request_summary(58, 0, envelope(inner), names) == "DeleteTopics v5  orders  for 127.0.0.1"
    known = apis.api(20)
    assert known is not None
    answer = known.response[5].build({"responses": [{"name": "orders", "error_code": 29}]})
    response = {"error_code": 0, "response_data": b"\x00\x00\x00\x01\x00" + answer}  # correlation ID, no tags
    said = "orders TOPIC_AUTHORIZATION_FAILED"
    assert response_summary(58, 0, envelope(inner), response, names) == said


def test_an_envelope_in_an_envelope_is_not_opened() -> None:
    inner = enveloped(58, 0, {"request_data": b"", "client_host_address": b""}, 2)
    assert request_summary(58, 0, envelope(inner), names) == "Envelope v0  for 127.0.0.1"
    assert response_summary(58, 0, envelope(inner), {"response_data": b"\x00" * 9}, names) == "ok"


@pytest.mark.parametrize(("api", "version", "body", "said"), REQUESTS)
def test_no_secret_is_told(api: str, version: int, body: dict[str, Any], said: str) -> None:
    """Every secret in this file is spelled hunter2."""
    assert "hunter2" not in request_summary(apis.keys_by_name()[api.lower()], version, body, names)


def test_names_from_the_wire_cannot_write_to_the_terminal() -> None:
    """A topic name on the wire is any UTF-8: line ends, escape sequences, 32 KB."""
    said = request_summary(3, 9, {"topics": [{"name": "a\x1b[2Jb\nc"}]}, names)
    assert said == "a�[2Jb�c"
    assert len(request_summary(3, 9, {"topics": [{"name": "x" * 30_000}]}, names)) == 400
