"""Sending a plan to fake brokers."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from captures.faults import Faults
from dissectors.apis import keys_by_name
from dissectors.frames import Body
from kproxy.proxy.own_requests import OwnRequestError
from kproxy.proxy.tls.security import PLAINTEXT
from kproxy.replay.cluster_queries import live_cluster
from kproxy.replay.pace import Pace
from kproxy.replay.permission import allowed_keys
from kproxy.replay.plan import Planner, named_topics, recorded_nodes
from kproxy.replay.results import Outcome
from kproxy.replay.run import Replay
from tests.kproxy.fake_broker import CLOSE, FakeBroker, cluster, response_frame
from tests.kproxy.replay.recording import Recording

pytestmark = pytest.mark.quick

KEYS = keys_by_name()
PRODUCE, FETCH, LIST_OFFSETS, METADATA, JOIN_GROUP, HEARTBEAT, INIT_PRODUCER_ID = 0, 1, 2, 3, 11, 12, 22
BROKERS = {
    "brokers": [{"node_id": 1, "host": "10.0.0.2", "port": 9092}],
    "topics": [],
    "cluster_id": "recorded",
}
FAST = Pace(None, 10.0)


async def replayed(
    folder: Path,
    recording: Recording,
    broker: FakeBroker,
    *allow: str,
    pace: Pace = FAST,
    faults: Faults | None = None,
) -> list[Outcome]:
    reader, allowed = recording.reader(folder), allowed_keys(allow)
    topics = named_topics(reader, allowed, reader.knowledge)
    live = await live_cluster([(broker.host, broker.port)], PLAINTEXT, topics, 10.0)
    times = reader.capture.table.column("response_last").tolist()
    planner = Planner(live, allowed, reader.knowledge, recorded_nodes(reader), times)
    for index, exchange in enumerate(reader):
        planner.add(index, exchange)
    outcomes: list[Outcome] = []

    def tell(outcome: Outcome, recorded: Body | None, new: Body | None) -> None:
        outcomes.append(outcome)

    before = len(broker.received)
    faults = reader.capture.faults if faults is None else faults
    await Replay(reader, planner.plan, live, PLAINTEXT, pace, tell, faults).run()
    del broker.received[:before]
    assert len(outcomes) == len(planner.plan.steps)
    return outcomes


def by_number(outcomes: list[Outcome]) -> list[Outcome]:
    return sorted(outcomes, key=lambda outcome: outcome.number)


def test_the_same_cluster_says_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with FakeBroker(cluster_id="recorded") as broker:
            broker.topic("orders", partitions=2)
            recording = Recording()
            client = recording.connection("größe")
            request = {"topics": [{"name": "orders"}], "allow_auto_topic_creation": True}
            told = broker.metadata({"topics": [{"name": "orders"}]}, 9)
            client.exchange(10, METADATA, 9, request, told)
            (outcome,) = await replayed(tmp_path, recording, broker)
            assert outcome.same
            assert outcome.comparable
            assert (outcome.version, outcome.sent_version) == (9, 9)
            assert outcome.latency is not None
            (sent,) = [each for each in broker.received if each.client_id == "größe"]
            assert sent.body is not None
            assert sent.body["allow_auto_topic_creation"] is False

    asyncio.run(run())


def test_members_and_generations_go_with_the_live_group(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    join: dict[str, Any] = {"group_id": "g", "session_timeout_ms": 1, "protocol_type": "consumer"}
    client.exchange(10, JOIN_GROUP, 5, join, {"error_code": 79, "member_id": "recorded"})
    member = {"member_id": "recorded", "generation_id": 1}
    client.exchange(20, JOIN_GROUP, 5, join | {"member_id": "recorded"}, member)
    client.exchange(30, HEARTBEAT, 3, {"group_id": "g", **member}, {})

    def joined(body: dict[str, Any], version: int) -> dict[str, Any]:
        return {"error_code": 0 if body["member_id"] else 79, "member_id": "live", "generation_id": 8}

    async def run() -> None:
        async with FakeBroker(answers={JOIN_GROUP: joined}) as broker:
            outcomes = by_number(await replayed(tmp_path, recording, broker, "JoinGroup", "Heartbeat"))
            assert [outcome.failure for outcome in outcomes] == [""] * 3
            assert all(outcome.same for outcome in outcomes)
            assert "generation_id" in outcomes[1].expected
            assert [each.body["member_id"] for each in broker.of(JOIN_GROUP) if each.body] == ["", "live"]
            (beat,) = broker.of(HEARTBEAT)
            assert beat.body is not None
            assert (beat.body["member_id"], beat.body["generation_id"]) == ("live", 8)

    asyncio.run(run())


def test_pipelining_is_as_recorded(tmp_path: Path) -> None:
    """Two requests were in flight at once; the third came after both responses."""
    recording = Recording()
    client = recording.connection()
    for at in (10, 20):
        client.ask(at, METADATA, 9, {"topics": []})
    for at in (30, 40):
        client.answer(at, BROKERS)
    client.exchange(50, METADATA, 9, {"topics": []}, BROKERS)

    async def run() -> None:
        async with FakeBroker() as broker:
            both, seen = asyncio.Event(), 0

            async def metadata(body: dict[str, Any], version: int) -> dict[str, Any]:
                nonlocal seen
                seen += 1
                if seen == 2:
                    await both.wait()  # answered late: the third has to wait for it
                return broker.metadata(body, version)

            running = asyncio.ensure_future(replayed(tmp_path, recording, broker))
            await asyncio.sleep(0)
            broker.answers[METADATA] = metadata
            seen = -1  # kproxy's own request comes first
            while seen < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert seen == 2
            both.set()
            await running
            assert seen == 3

    asyncio.run(run())


def spread(*times: int) -> Recording:
    """Return a recording with a request at each time in ms, each from a different client."""
    recording = Recording()
    for at in times:
        recording.connection(f"client-{at}").exchange(at, METADATA, 9, {"topics": []}, BROKERS)
    return recording


@pytest.mark.sample(1)
@pytest.mark.parametrize(("speed", "least"), [(1.0, 0.4), (4.0, 0.1)])
def test_no_request_comes_before_its_time(tmp_path: Path, speed: float, least: float) -> None:
    async def run() -> None:
        async with FakeBroker() as broker:
            begin = monotonic()
            await replayed(tmp_path, spread(0, 200, 400), broker, pace=Pace(speed, 3.0))
            assert monotonic() - begin >= least

    asyncio.run(run())


@pytest.mark.parametrize("speed", [1000.0, None])
def test_a_long_recording_in_short(tmp_path: Path, speed: float | None) -> None:
    async def run() -> None:
        async with FakeBroker() as broker:
            begin = monotonic()
            outcomes = await replayed(tmp_path, spread(0, 50_000, 100_000), broker, pace=Pace(speed, 3.0))
            assert monotonic() - begin < 50
            assert not any(outcome.failure for outcome in outcomes)

    asyncio.run(run())


def test_requests_go_to_leaders_and_coordinators(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    partition = {"partition_index": 1, "timestamp": -1}
    topics = [{"name": "orders", "partitions": [partition]}]
    client.exchange(10, LIST_OFFSETS, 7, {"replica_id": -1, "topics": topics}, {})
    client.exchange(20, HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {})

    async def run() -> None:
        one, two, three = await cluster(FakeBroker(1), FakeBroker(2), FakeBroker(3))
        try:
            one.topic("orders", partitions=2)
            for broker in (one, two, three):
                broker.coordinator = 3
            outcomes = await replayed(tmp_path, recording, one, "Heartbeat")
            assert [outcome.failure for outcome in outcomes] == ["", ""]
            assert [len(broker.of(LIST_OFFSETS)) for broker in (one, two, three)] == [0, 1, 0]
            assert [len(broker.of(HEARTBEAT)) for broker in (one, two, three)] == [0, 0, 1]
        finally:
            for broker in (one, two, three):
                await broker.stop()

    asyncio.run(run())


@pytest.mark.slow
def test_a_coordinator_that_is_not_ready_is_asked_again(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    client.exchange(10, HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {})
    answers = iter([14, 16, 0])

    async def run() -> None:
        told = {HEARTBEAT: lambda body, version: {"error_code": next(answers)}}
        async with FakeBroker(answers=told) as broker:
            (outcome,) = await replayed(tmp_path, recording, broker, "Heartbeat")
            assert outcome.same
            assert len(broker.of(HEARTBEAT)) == 3

    asyncio.run(run())


def test_differences_and_errors(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    client.exchange(10, HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {})

    async def run() -> None:
        async with FakeBroker(answers={HEARTBEAT: lambda body, version: {"error_code": 25}}) as broker:
            (outcome,) = await replayed(tmp_path, recording, broker, "Heartbeat")
            assert [(each.path, each.recorded, each.new) for each in outcome.differences] == [
                ("error_code", 0, 25)
            ]
            assert (outcome.recorded_errors, outcome.errors) == ((), (25,))
            assert not outcome.same

    asyncio.run(run())


@pytest.mark.slow
def test_a_broker_that_closes_and_one_that_says_nothing(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    for at in (10, 20):
        client.exchange(at, HEARTBEAT, 3, {"group_id": "g", "generation_id": at, "member_id": "m"}, {})
    client.exchange(30, METADATA, 9, {"topics": []}, BROKERS)

    def beat(body: dict[str, Any], version: int) -> object:
        return CLOSE if body["generation_id"] == 10 else None

    async def run() -> None:
        async with FakeBroker(answers={HEARTBEAT: beat}) as broker:
            outcomes = by_number(
                await replayed(tmp_path, recording, broker, "Heartbeat", pace=Pace(None, 1.0))
            )
            assert "closed" in outcomes[0].failure
            assert outcomes[1].failure == "not answered in time"
            assert outcomes[2].failure == ""  # on a new connection

    asyncio.run(run())


@pytest.mark.parametrize(
    ("place", "planted"),
    [("kproxy.replay.run.encoded", "sending"), ("kproxy.replay.run.compared", "comparing")],
)
def test_a_fault_in_one_exchange_is_told_and_others_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, planted: str
) -> None:
    recording = Recording()
    client = recording.connection()
    for at in (10, 20, 30):
        client.exchange(at, HEARTBEAT, 3, {"group_id": "g", "generation_id": at, "member_id": "m"}, {})
    module, _, name = place.rpartition(".")
    calls, whole = itertools.count(), getattr(importlib.import_module(module), name)

    def breaks(*args: Any) -> Any:
        if next(calls) == 1:
            raise KeyError(planted)
        return whole(*args)

    monkeypatch.setattr(place, breaks)
    faults = Faults()

    async def run() -> None:
        async with FakeBroker(answers={HEARTBEAT: lambda body, version: {}}) as broker:
            outcomes = by_number(await replayed(tmp_path, recording, broker, "Heartbeat", faults=faults))
            assert [bool(outcome.failure) for outcome in outcomes] == [False, True, False]
            assert outcomes[1].failure.startswith(f"an internal error in kproxy: KeyError: '{planted}'")

    asyncio.run(run())
    assert [(fault.number, fault.doing) for fault in faults.first] == [(2, "sending it again")]


def test_what_had_no_answer_either(tmp_path: Path) -> None:
    recording = Recording()
    recording.connection().ask(10, HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m"})

    async def run() -> None:
        async with FakeBroker(answers={HEARTBEAT: lambda body, version: None}) as broker:
            (outcome,) = await replayed(tmp_path, recording, broker, "Heartbeat", pace=Pace(None, 0.1))
            assert (outcome.failure, outcome.comparable, outcome.latency) == ("", False, None)

    asyncio.run(run())


def test_a_producer_that_nothing_introduces_gets_an_id(tmp_path: Path) -> None:
    from dissectors.records import Record, record_set
    from dissectors.records.build import build_batch

    recording = Recording()
    client = recording.connection()
    records = build_batch([Record(0, 1, None, b"v")], producer_id=5, producer_epoch=0, base_sequence=40)
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    told = {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 40}]}]}
    client.exchange(10, PRODUCE, 7, {"acks": -1, "timeout_ms": 1, "topic_data": topics}, told)

    async def run() -> None:
        given = {INIT_PRODUCER_ID: lambda body, version: {"producer_id": 900, "producer_epoch": 0}}
        async with FakeBroker(answers=given) as broker:
            broker.topic("orders", end=3)
            (outcome,) = await replayed(tmp_path, recording, broker, "Produce")
            assert [each.path for each in outcome.differences] == [
                "responses[orders].partition_responses[0].base_offset"
            ]
            (sent,) = broker.of(PRODUCE)
            assert sent.body is not None
            (batch,) = record_set(sent.body["topic_data"][0]["partition_data"][0]["records"]).batches
            assert (batch.producer_id, batch.base_sequence, batch.crc_valid) == (900, 40, True)

    asyncio.run(run())


def test_acks_0_is_sent_and_not_waited_for(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    client.ask(10, PRODUCE, 7, {"acks": 0, "timeout_ms": 1, "topic_data": []}, answered=False)
    client.exchange(20, METADATA, 9, {"topics": []}, BROKERS)

    async def run() -> None:
        async with FakeBroker() as broker:
            outcomes = by_number(await replayed(tmp_path, recording, broker, "Produce"))
            assert (outcomes[0].failure, outcomes[0].comparable, outcomes[0].latency) == ("", False, None)
            assert outcomes[1].comparable
            assert len(broker.of(PRODUCE)) == 1

    asyncio.run(run())


def test_a_response_that_cannot_be_read(tmp_path: Path) -> None:
    recording = Recording()
    client = recording.connection()
    client.exchange(10, HEARTBEAT, 3, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {})

    async def run() -> None:
        async with FakeBroker() as broker:

            def damaged(body: dict[str, Any], version: int) -> bytes:
                frame = response_frame(broker.of(HEARTBEAT)[-1], {})
                return (len(frame) - 4 + 3).to_bytes(4, "big") + frame[4:] + b"\1\2\3"

            broker.answers[HEARTBEAT] = damaged
            (outcome,) = await replayed(tmp_path, recording, broker, "Heartbeat")
            assert outcome.failure == "the answer cannot be read: 3 bytes after the end of the message"

    asyncio.run(run())


def test_a_cluster_that_is_not_there() -> None:
    async def run() -> None:
        broker = await FakeBroker().start()
        port = broker.port
        await broker.stop()
        with pytest.raises(OwnRequestError, match=str(port)):
            await live_cluster([("127.0.0.1", port)], PLAINTEXT, [], 5.0)

    asyncio.run(run())


def test_the_second_address_is_tried() -> None:
    async def run() -> None:
        gone = await FakeBroker().start()
        await gone.stop()
        async with FakeBroker(5) as broker:
            addresses = [(gone.host, gone.port), (broker.host, broker.port)]
            live = await live_cluster(addresses, PLAINTEXT, [], 5.0)
            assert set(live.nodes) == {5}

    asyncio.run(run())


def test_looking_at_a_cluster_creates_no_topics() -> None:
    async def run() -> None:
        for highest in (13, 3, 1, 0):
            async with FakeBroker(versions={18: (0, 3), METADATA: (0, highest)}) as broker:
                broker.topic("orders")
                live = await live_cluster([(broker.host, broker.port)], PLAINTEXT, {"orders", "gone"}, 5.0)
                assert live.leader("orders", 0) is not None
                (asked,) = broker.of(METADATA)
                assert asked.body is not None
                if highest >= 4:
                    assert asked.body["allow_auto_topic_creation"] is False
                else:
                    assert not asked.body["topics"]

    asyncio.run(run())
