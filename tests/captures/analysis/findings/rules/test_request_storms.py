"""The same request over and over, and too many requests of one kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rule import Rule
from captures.analysis.findings.rules.connections import ConnectionChurn
from captures.analysis.findings.rules.members import GroupFull, InconsistentProtocols
from captures.analysis.findings.rules.metadata import MetadataStorms
from captures.analysis.findings.rules.responses import RequestStorms
from captures.analysis.findings.rules.versions import DownConversion
from captures.exchanges import Exchange
from captures.packets import ACK, FIN
from tests.captures.analysis.findings.cluster_kit import (
    MS,
    SECOND,
    Conversation,
    capture_of,
    of_capture,
    of_exchanges,
    of_recording,
    spoken,
)
from tests.dissectors.conversation import streams

FETCH, METADATA, HEARTBEAT, JOIN = 1, 3, 12, 11


def repeated(
    count: int, a_second: int, key: int, version: int, request: Any, response: Any, **fields: Any
) -> list[Exchange]:
    """Repeat an exchange `count` times at a rate per second."""
    return [
        spoken(
            key,
            version,
            request,
            response,
            number=number + 1,
            time=SECOND + number * SECOND // a_second,
            **fields,
        )
        for number in range(count)
    ]


def fetched(code: int = 0, records: bytes = b"") -> dict[str, Any]:
    partition = {"partition_index": 0, "error_code": code, "records": records}
    return {"error_code": 0, "responses": [{"topic": "orders", "partitions": [partition]}]}


def test_librdkafka_and_an_invalid_topic_name() -> None:
    # recorded: INVALID_TOPIC_EXCEPTION, retried without a pause
    (found,) = of_recording("25_k430_ck_invalid_topic_name", RequestStorms)
    assert (found.severity, found.count) == (Severity.HIGH, 292)
    assert "Metadata requests about bad name! without effect (INVALID_TOPIC_EXCEPTION)" in found.sentence
    assert not of_recording("25_k430_ck_invalid_topic_name", RequestStorms, rate=300)


def test_a_burst_is_no_storm() -> None:
    # recorded: 39 FindCoordinator requests of Java's admin client within 36 ms, during creation of __transaction_state
    (found,) = of_recording("24_k430_java_admin_sasl", RequestStorms)
    assert (found.subject, found.severity, found.count) == (
        "client adm-java, FindCoordinator",
        Severity.LOW,
        39,
    )


@pytest.mark.slow
def test_fetching_from_a_deleted_topic() -> None:
    # as recorded with the Java consumer: up to 4,000 per second
    (found,) = of_exchanges(
        RequestStorms, *repeated(8_000, 4_000, FETCH, 17, {"max_wait_ms": 500}, fetched(3))
    )
    assert (found.severity, found.count) == (Severity.HIGH, 8_000)
    assert "up to 4,000 within a second, for 2 s in all" in found.sentence
    assert "about orders" in found.sentence


@pytest.mark.slow
def test_the_java_admin_client_and_a_topic_that_it_may_not_describe() -> None:
    denied = {"topics": [{"name": "secret", "error_code": 29, "partitions": []}]}
    (found,) = of_exchanges(
        RequestStorms, *repeated(900, 300, METADATA, 12, {"topics": [{"name": "secret"}]}, denied)
    )
    assert found.severity == Severity.HIGH
    assert "Metadata requests about secret without effect (TOPIC_AUTHORIZATION_FAILED)" in found.sentence
    assert found.advice.startswith("Grant the missing permission")


def test_records_with_headers_that_kafka_0_11_cannot_convert() -> None:
    # every Fetch v0 to v3 is answered with -1; clients retry at once
    failed = repeated(500, 1_000, FETCH, 3, {"max_wait_ms": 500}, fetched(-1))
    (found,) = of_exchanges(RequestStorms, *failed)
    assert (found.severity, "0.11" in found.advice) == (Severity.HIGH, True)
    (why,) = of_exchanges(DownConversion, *failed)
    assert (why.severity, why.count) == (Severity.HIGH, 500)


@pytest.mark.parametrize(("code", "rule"), [(23, InconsistentProtocols), (81, GroupFull)])
def test_a_group_that_takes_nobody_in(code: int, rule: type[Rule]) -> None:
    # Java stops after it, librdkafka retries every 2 s: no storm, but still a finding of its own
    request = {
        "group_id": "g",
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range"}],
    }
    refused = [
        spoken(
            JOIN,
            5,
            request,
            {"error_code": code, "member_id": ""},
            number=at + 1,
            time=SECOND + 2 * at * SECOND,
        )
        for at in range(30)
    ]
    assert not of_exchanges(RequestStorms, *refused)
    (found,) = of_exchanges(rule, *refused)
    assert found.severity == Severity.HIGH


@pytest.mark.slow
def test_empty_answers_at_once() -> None:
    # as recorded when a follower had died and the ISR had not shrunk yet
    request = {"max_wait_ms": 500, "min_bytes": 1, "session_epoch": 7}
    (found,) = of_exchanges(
        RequestStorms, *repeated(4_000, 4_000, FETCH, 12, request, fetched(), latency=MS // 5)
    )
    assert (found.subject, found.severity) == ("client app, Fetch, empty", Severity.MEDIUM)


@pytest.mark.parametrize(
    ("request_", "response", "fields"),
    [
        ({"max_wait_ms": 500, "session_epoch": 7}, fetched(records=b"x"), {"latency": MS}),
        ({"max_wait_ms": 500, "session_epoch": 7}, fetched(), {"latency": 20 * MS}),
        ({"max_wait_ms": 500, "session_epoch": 7}, fetched(), {"wait": MS, "latency": MS}),
        ({"max_wait_ms": 0, "session_epoch": 7}, fetched(), {"latency": MS}),  # told not to wait
        ({"max_wait_ms": 500, "session_epoch": 0}, fetched(), {"latency": MS}),
        ({"max_wait_ms": 500, "session_epoch": 7}, fetched() | {"throttle_time_ms": 9}, {"latency": MS}),
    ],
)
def test_fetches_that_had_a_reason_are_no_storm(request_: Any, response: Any, fields: Any) -> None:
    assert not of_exchanges(RequestStorms, *repeated(200, 200, FETCH, 12, request_, response, **fields))


def test_errors_of_some_partitions_are_no_storm() -> None:
    answer = fetched(6)
    answer["responses"].append({"topic": "logs", "partitions": [{"partition_index": 0, "records": b"x"}]})
    assert not of_exchanges(RequestStorms, *repeated(400, 400, FETCH, 12, {"max_wait_ms": 500}, answer))


def test_a_pause_is_enough() -> None:
    # kafka-clients and librdkafka after INCONSISTENT_GROUP_PROTOCOL: every 2 s
    assert not of_recording("21_k430_java_inconsistent", RequestStorms)
    assert not of_exchanges(
        RequestStorms, *repeated(100, 10, METADATA, 12, {}, {"topics": [{"error_code": 3}]})
    )


def test_many_members_that_share_a_client_id_are_no_storm() -> None:
    told = [
        spoken(
            HEARTBEAT,
            4,
            {"group_id": "g"},
            {"error_code": 27},
            connection=each,
            number=each,
            time=SECOND + each,
        )
        for each in range(200)
    ]
    assert not of_exchanges(RequestStorms, *told)


def test_metadata_asked_for_all_the_time() -> None:
    asked = repeated(200, 20, METADATA, 12, {"topics": None}, {"topics": []})
    (found,) = of_exchanges(MetadataStorms, *asked)
    assert "app requested metadata 200 times" in found.sentence
    assert "200 requests asked for all topics" in found.sentence
    assert not of_exchanges(MetadataStorms, *asked, limits={"metadata_storms.rate": 21})
    assert not of_exchanges(MetadataStorms, *repeated(40, 1, METADATA, 12, {"topics": []}, {"topics": []}))
    # failures are another kind of storm
    failing = repeated(200, 20, METADATA, 12, {}, {"topics": [{"error_code": 3}]})
    assert not of_exchanges(MetadataStorms, *failing)


def test_many_processes_that_start_are_no_storm() -> None:
    asked = [
        spoken(METADATA, 12, {"topics": []}, {"topics": []}, client=f"10.0.1.{each % 250}:4000", number=each)
        for each in range(1, 1_000)
    ]
    assert not of_exchanges(MetadataStorms, *asked)


def test_many_processes_of_one_host_and_name_that_start_are_no_storm() -> None:
    asked = [
        spoken(
            METADATA,
            12,
            {"topics": []},
            {"topics": []},
            connection=each // 2,
            number=each,
            time=SECOND + each * MS,
        )
        for each in range(1, 1_000)
    ]
    assert not of_exchanges(MetadataStorms, *asked)


def test_asking_for_no_topics_is_not_asking_for_all() -> None:
    (old,) = of_exchanges(MetadataStorms, *repeated(200, 20, METADATA, 0, {"topics": []}, {"topics": []}))
    assert "all topics" in old.sentence
    (new,) = of_exchanges(MetadataStorms, *repeated(200, 20, METADATA, 1, {"topics": []}, {"topics": []}))
    assert "all topics" not in new.sentence


ASKED = streams.request(1, b"\0\0\0\0", key=3, version=1, client_id="app")  # Metadata v1 without topics
ANSWERED = streams.response(1, b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0")  # no brokers, controller 1, no topics


def short(number: int, at_ms: int, life_ms: int) -> Conversation:
    """A connection with one request."""
    made = Conversation(client=("10.0.0.1", 40_000 + number))
    made.now += at_ms * MS
    made.handshake()
    made.send(0, ASKED)
    made.send(0, ANSWERED, ack=len(ASKED), from_client=False)
    made.now += life_ms * MS
    made.put(True, len(ASKED), len(ANSWERED), FIN | ACK)
    made.put(False, len(ANSWERED), len(ASKED) + 1, FIN | ACK)
    return made


@pytest.mark.parametrize(
    ("count", "every_ms", "life_ms", "found"),
    [
        (70, 100, 10, True),
        (70, 1_000, 10, True),
        (70, 1_100, 10, False),
        (50, 100, 10, False),
        (70, 100, 20_000, False),
    ],
)
def test_a_connection_for_each_piece_of_work(
    tmp_path: Path, count: int, every_ms: int, life_ms: int, found: bool
) -> None:
    conversations = [short(number, number * every_ms, life_ms) for number in range(count)]
    records = sorted(
        (record for each in conversations for record in each.records), key=lambda record: record.time
    )
    findings = of_capture(capture_of(tmp_path, records), ConnectionChurn)
    assert bool(findings) == found
    if found:
        assert findings[0].subject == "client 10.0.0.1, broker 10.0.0.2:9092"
        assert f"10.0.0.1 (app) opened {count} connections" in findings[0].sentence


def test_connections_that_are_refused_are_no_churn() -> None:
    # 78 connections in 4 s, none of which got past SASL
    assert not of_recording("07_noida_scram256_fail", ConnectionChurn)
