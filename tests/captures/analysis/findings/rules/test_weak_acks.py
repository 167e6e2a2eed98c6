"""Producers that do not wait for replicas."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.findings.common import NO_PRODUCE
from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.batches import WeakAcks
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import made as rule_of
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import batch, made, of_recording, produce


def metadata(*replicas: int, key: int = 3) -> Exchange:
    partitions = [{"partition_index": 0, "replica_nodes": replicas}]
    return made(key, 0, {}, {"topics": [{"name": "orders", "error_code": 0, "partitions": partitions}]})


INSYNC = [{"name": "min.insync.replicas", "value": "2"}]
TOPIC: dict[str, Any] = {"resource_type": 2, "resource_name": "orders", "configs": INSYNC}


def test_producers_of_a_cluster() -> None:
    """In this recording, t3 has three replicas; a transactional producer also writes to it, with acks=all."""
    found = of_recording("35_k282_cluster", WeakAcks)
    assert {each.subject for each in found} == {
        f"client {name}, topic t3, acks=1" for name in ("raw", "java-snappy", "java-none")
    }
    assert {each.severity for each in found} == {Severity.LOW}


def test_acks_1_with_several_replicas() -> None:
    for told in (metadata(1, 2, 3), metadata(1, 2, 3, key=75)):
        (found,) = of_exchanges(
            WeakAcks, produce(batch(2), acks=1, number=1), told, produce(batch(2), number=3)
        )
        assert (found.subject, found.evidence) == ("client app, topic orders, acks=1", (1,))
        assert "has 3 replicas: if the leader fails, acknowledged" in found.sentence
        assert found.severity is Severity.LOW


@pytest.mark.parametrize(
    "told",
    [
        made(19, 5, {"topics": [{"name": "orders", "configs": INSYNC}]}, {}),
        made(19, 5, {}, {"topics": [{"name": "orders", "configs": INSYNC}]}),
        made(32, 4, {}, {"results": [TOPIC]}),
        made(33, 2, {"resources": [TOPIC]}, {}),
        made(44, 1, {"resources": [TOPIC]}, {}),
    ],
    ids=lambda told: told.api,
)
def test_it_is_graver_where_replicas_in_sync_are_promised(told: Exchange) -> None:
    (found,) = of_exchanges(WeakAcks, produce(batch(2), acks=0), metadata(1, 2), told)
    assert found.severity is Severity.MEDIUM
    assert "2 replicas and min.insync.replicas=2: records that do not arrive are lost" in found.sentence


def test_one_replica_is_as_safe_with_acks_1() -> None:
    assert of_exchanges(WeakAcks, produce(batch(2), acks=1), metadata(1)) == []
    assert of_recording("20_k430_java_acks0", WeakAcks) == []


def test_what_it_cannot_judge() -> None:
    unknown = rule_of(WeakAcks, exchanges=[produce(batch(2), acks=1)])
    assert unknown.blind().endswith("how many replicas they have: orders")
    assert rule_of(WeakAcks, exchanges=[produce(batch(2), acks=1), metadata(1)]).blind() == ""
    assert rule_of(WeakAcks, exchanges=[metadata(1)]).blind() == NO_PRODUCE
