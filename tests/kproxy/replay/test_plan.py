"""The requests that are sent, their times, and the reasons for leaving others out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dissectors.apis import keys_by_name, version_limits
from kproxy.replay.cluster import LiveCluster
from kproxy.replay.permission import allowed_keys
from kproxy.replay.plan import Plan, Planner, named_topics, recorded_nodes
from tests.dissectors.conversation import streams
from tests.kproxy.replay.recording import Connection, Recording

KEYS = keys_by_name()
METADATA, FETCH, HEARTBEAT, PRODUCE = 3, 1, 12, 0
HEARTBEAT_BODY = {"group_id": "g", "generation_id": 1, "member_id": "m"}
BROKERS = {"brokers": [{"node_id": 2, "host": "10.0.0.2", "port": 9092}], "topics": []}


def live(*nodes: int, versions: dict[int, tuple[int, int]] | None = None) -> LiveCluster:
    made = LiveCluster(version_limits() if versions is None else versions)
    brokers = [{"node_id": node, "host": f"b{node}", "port": 9092} for node in nodes or (1, 2)]
    partitions = [{"partition_index": 0, "leader_id": 1, "leader_epoch": 0}]
    made.observe(METADATA, {}, {"brokers": brokers, "topics": [{"name": "orders", "partitions": partitions}]})
    return made


def planned(folder: Path, recording: Recording, *allow: str, cluster: LiveCluster | None = None) -> Plan:
    reader = recording.reader(folder)
    nodes = recorded_nodes(reader)
    times = reader.capture.table.column("response_last").tolist()
    planner = Planner(cluster or live(), allowed_keys(allow), reader.knowledge, nodes, times)
    for index, exchange in enumerate(reader):
        planner.add(index, exchange)
    return planner.plan


def heartbeat(connection: Connection, at: int, answer: int | None = None) -> None:
    connection.ask(at, HEARTBEAT, 3, HEARTBEAT_BODY)
    if answer is not None:
        connection.answer(answer, {"error_code": 0})


def left_out(plan: Plan) -> dict[str, dict[str, int]]:
    return {row.api: dict(row.left_out) for row in plan.rows.values() if row.left_out}


def test_what_reads_is_sent_and_what_writes_is_not(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    client.exchange(10, METADATA, 9, {"topics": []}, BROKERS)
    heartbeat(client, 20, 21)
    plan = planned(tmp_path, recording)
    assert [(step.number, step.api_key, step.sent_version) for step in plan.steps] == [(1, METADATA, 9)]
    assert left_out(plan) == {"Heartbeat": {"writes: needs --allow": 1}}
    plan = planned(tmp_path, recording, "Heartbeat")
    assert (len(plan.steps), plan.left_out, plan.duration) == (2, 0, 10_000_000)
    assert plan.rows[0, "Heartbeat"].targets == {"coordinator of g": 1}


def test_a_broker_is_told_by_its_node_id(tmp_path: Path) -> None:
    recording = Recording()
    recording.connection().exchange(10, METADATA, 9, {"topics": []}, BROKERS)
    other = recording.connection(broker=("10.0.0.3", 9092))
    other.exchange(20, METADATA, 9, {"topics": []}, BROKERS)
    plan = planned(tmp_path, recording)
    assert [step.node for step in plan.steps] == [2, -1]
    targets = [dict(row.targets) for row in plan.rows.values()]
    assert targets == [{"2 (b2:9092)": 1}, {"1 (b1:9092)": 1}]


def test_requests_come_after_what_was_answered_before(tmp_path: Path) -> None:
    """Steps 1 and 2 were both in flight when step 0 was answered; step 3 came after both responses."""
    recording = Recording()
    client = recording.connection()
    for at in (10, 20):
        client.ask(at, HEARTBEAT, 3, HEARTBEAT_BODY)
    client.answer(25, {"error_code": 0})
    client.ask(30, HEARTBEAT, 3, HEARTBEAT_BODY)
    client.answer(35, {"error_code": 0})
    client.answer(36, {"error_code": 0})
    heartbeat(client, 40, 41)
    plan = planned(tmp_path, recording, "Heartbeat")
    assert [step.after for step in plan.steps] == [(), (), (0,), (2,)]


def test_connections_of_one_client_wait_for_each_other(tmp_path: Path) -> None:
    recording = Recording()
    first, second = recording.connection("app"), recording.connection("app")
    other, elsewhere = recording.connection("other"), recording.connection("app", host="10.0.0.9")
    heartbeat(first, 10, 15)
    for connection in (second, other, elsewhere):
        heartbeat(connection, 20, 25)
    heartbeat(second, 30, 35)
    plan = planned(tmp_path, recording, "Heartbeat")
    waits = {step.number: step.after for step in plan.steps}
    assert waits[1] == ()
    assert sorted(waits[number] for number in (2, 3, 4)) == [(), (), (0,)]
    # the second on that connection depends only on its predecessor, which came after the other connection
    own = next(place for place, step in enumerate(plan.steps) if step.after == (0,))
    assert waits[5] == (own,)


def test_what_was_not_answered_is_not_waited_for(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    heartbeat(client, 10)
    heartbeat(client, 20)
    plan = planned(tmp_path, recording, "Heartbeat")
    assert [step.after for step in plan.steps] == [(), ()]
    assert all(step.answered for step in plan.steps)


def test_produce_without_acknowledgement_has_no_answer(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    body: dict[str, Any] = {"acks": 0, "timeout_ms": 1, "topic_data": []}
    client.ask(10, PRODUCE, 7, body, answered=False)
    (step,) = planned(tmp_path, recording, "Produce").steps
    assert not step.answered


def test_versions_that_are_not_offered(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    heartbeat(client, 10, 11)
    client.ask(20, HEARTBEAT, 3, HEARTBEAT_BODY | {"group_instance_id": "pod"})
    client.answer(21, {})
    plan = planned(tmp_path, recording, "Heartbeat", cluster=live(versions={HEARTBEAT: (0, 2)}))
    assert [step.sent_version for step in plan.steps] == [2]
    assert left_out(plan) == {"Heartbeat": {"the broker offers version 2, which has no group_instance_id": 1}}
    assert plan.rows[0, "Heartbeat"].versions == {(3, 2): 1}


def test_fetch_sessions_from_before_the_capture(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    fetch = {"max_wait_ms": 1, "min_bytes": 1, "session_id": 7, "session_epoch": 5, "topics": []}
    client.exchange(10, FETCH, 11, fetch, {"session_id": 7})
    partition = {"partition": 0, "fetch_offset": 4, "partition_max_bytes": 1}
    topics = [{"topic": "orders", "partitions": [partition]}]
    client.exchange(20, FETCH, 11, fetch | {"session_epoch": 6, "topics": topics}, {"session_id": 7})
    client.exchange(30, FETCH, 11, fetch | {"session_epoch": 7}, {"session_id": 7})
    plan = planned(tmp_path, recording)
    assert left_out(plan) == {"Fetch": {"its fetch session began before the capture": 1}}
    # the last names no partition, but is sent to their leader as well
    assert [step.route.key for step in plan.steps] == [("orders", 0)] * 2


def test_secrets_and_what_cannot_be_read(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    client.exchange(10, KEYS["saslhandshake"], 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
    client.exchange(20, KEYS["saslauthenticate"], 1, {"auth_bytes": b"\0a\0b"}, {})
    client._send(streams.request(3, b"\0\0\0", key=HEARTBEAT, version=3), 30, from_client=True)
    plan = planned(tmp_path, recording, "Heartbeat")
    assert plan.steps == []
    assert left_out(plan) == {
        "SaslHandshake": {"holds secrets; kproxy authenticates itself": 1},
        "SaslAuthenticate": {"holds secrets; kproxy authenticates itself": 1},
        "Heartbeat": {"not decoded to its end": 1},
    }


@pytest.mark.parametrize("introduced", [True, False])
def test_producers_that_nothing_introduces(tmp_path: Path, introduced: bool) -> None:
    from dissectors.records import Record
    from dissectors.records.build import build_batch

    recording = Recording()
    client = recording.connection()
    init = {"transactional_id": None, "transaction_timeout_ms": 1}
    client.exchange(10, KEYS["initproducerid"], 2, init, {"producer_id": 5, "producer_epoch": 0})
    records = build_batch([Record(0, 1, None, b"v")], producer_id=5, producer_epoch=0, base_sequence=0)
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    client.exchange(20, PRODUCE, 7, {"acks": -1, "timeout_ms": 1, "topic_data": topics}, {})
    allow = ("Produce", "InitProducerId") if introduced else ("Produce",)
    plan = planned(tmp_path, recording, *allow)
    assert plan.producers == (set() if introduced else {(5, 0)})


def test_transactions_that_began_before_the_capture(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    end = {"transactional_id": "t", "producer_id": 5, "producer_epoch": 1, "committed": True}
    client.exchange(10, KEYS["endtxn"], 5, end, {"producer_id": 5, "producer_epoch": 2})
    init = {"transactional_id": "t", "transaction_timeout_ms": 1}
    client.exchange(20, KEYS["initproducerid"], 2, init, {"producer_id": 6, "producer_epoch": 0})
    known = end | {"producer_id": 6, "producer_epoch": 0}
    client.exchange(30, KEYS["endtxn"], 5, known, {"producer_id": 6, "producer_epoch": 1})
    client.exchange(40, KEYS["endtxn"], 5, known | {"producer_epoch": 1}, {})
    plan = planned(tmp_path, recording, "EndTxn", "InitProducerId")
    assert [step.number for step in plan.steps] == [2, 3, 4]
    assert left_out(plan) == {"EndTxn": {"its producer ID was given before the capture": 1}}


def test_topics_that_a_cluster_is_asked_about(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    client.exchange(10, METADATA, 9, {"topics": [{"name": "orders"}]}, BROKERS)
    topics = [{"name": "written", "partition_data": [{"index": 0, "records": None}]}]
    client.exchange(20, PRODUCE, 7, {"acks": -1, "timeout_ms": 1, "topic_data": topics}, {})
    reader = recording.reader(tmp_path)
    assert named_topics(reader, frozenset(), reader.knowledge) == {"orders"}
    assert named_topics(reader, allowed_keys(["Produce"]), reader.knowledge) == {"orders", "written"}
