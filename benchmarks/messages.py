"""Messages for benchmarks of decoding: six kinds, from a heartbeat to the metadata of a busy cluster."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from dissectors import apis, wire
from dissectors.message_version import MessageVersion


@dataclass(frozen=True)
class Sample:
    """A message: its layout and its bytes."""

    name: str
    key: int
    kind: str
    layout: MessageVersion
    data: bytes


def _metadata(rng: Random) -> dict[str, Any]:
    def partition(index: int, *, behind: bool) -> dict[str, Any]:
        replicas = tuple(rng.sample(range(1, 7), 3))
        return {
            "error_code": 0,
            "partition_index": index,
            "leader_id": replicas[0],
            "leader_epoch": rng.randrange(50),
            "replica_nodes": replicas,
            # one topic in ten has a partition with a replica that lags: its array has no single byte shape
            "isr_nodes": replicas[:2] if behind else replicas,
            "offline_replicas": (),
        }

    def topic(number: int) -> dict[str, Any]:
        return {
            "error_code": 0,
            "name": f"team-{number % 7}.orders.events-{number}",
            "topic_id": wire.uuid_text(rng.randbytes(16)),
            "is_internal": False,
            "partitions": [partition(index, behind=not number % 10 and index == 4) for index in range(12)],
        }

    brokers = [
        {
            "node_id": node,
            "host": f"broker-{node}.kafka.svc.cluster.local",
            "port": 9092,
            "rack": f"zone-{node % 3}",
        }
        for node in range(1, 7)
    ]
    return {
        "throttle_time_ms": 0,
        "brokers": brokers,
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
        "controller_id": 1,
        "topics": [topic(number) for number in range(49)],
    }


def _fetch(rng: Random) -> dict[str, Any]:
    def partition(index: int) -> dict[str, Any]:
        return {
            "partition_index": index,
            "error_code": 0,
            "high_watermark": rng.randrange(10**9),
            "last_stable_offset": rng.randrange(10**9),
            "log_start_offset": 0,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": rng.randbytes(rng.randrange(400, 625)),
        }

    responses = [
        {"topic": f"orders.events-{number}", "partitions": [partition(index) for index in range(10)]}
        for number in range(5)
    ]
    return {"throttle_time_ms": 0, "error_code": 0, "session_id": 1234567, "responses": responses}


def _produce(rng: Random) -> dict[str, Any]:
    partitions = [{"index": 3, "records": rng.randbytes(198)}]
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30000,
        "topic_data": [{"name": "orders.events-1", "partition_data": partitions}],
    }


def _join_group(rng: Random) -> dict[str, Any]:
    members = [
        {
            "member_id": f"consumer-orders-{number}-{rng.randbytes(16).hex()}",
            "group_instance_id": None,
            "metadata": rng.randbytes(70),
        }
        for number in range(1, 25)
    ]
    return {
        "throttle_time_ms": 0,
        "error_code": 0,
        "generation_id": 17,
        "protocol_type": "consumer",
        "protocol_name": "cooperative-sticky",
        "leader": members[0]["member_id"],
        "member_id": members[0]["member_id"],
        "members": members,
    }


def _api_versions(rng: Random) -> dict[str, Any]:
    keys = [{"api_key": key, "min_version": 0, "max_version": rng.randrange(1, 18)} for key in range(62)]
    return {"error_code": 0, "api_keys": keys, "throttle_time_ms": 0, "finalized_features_epoch": 42}


def _heartbeat(rng: Random) -> dict[str, Any]:
    return {
        "group_id": "orders-service",
        "generation_id": 17,
        "member_id": f"consumer-orders-1-{rng.randbytes(16).hex()}",
        "group_instance_id": None,
    }


_SHAPES = (
    ("Metadata", 12, "response", _metadata),
    ("Fetch", 12, "response", _fetch),
    ("Produce", 9, "request", _produce),
    ("JoinGroup", 7, "response", _join_group),
    ("ApiVersions", 3, "response", _api_versions),
    ("Heartbeat", 4, "request", _heartbeat),
)


def samples() -> list[Sample]:
    """Return the messages; the same bytes on every run."""
    made = []
    for name, version, kind, value in _SHAPES:
        key = apis.keys_by_name()[name.lower()]
        layout: MessageVersion = getattr(apis.api(key), kind)[version]
        made.append(Sample(f"{name} v{version}", key, kind, layout, layout.build(value(Random(name)))))
    return made
