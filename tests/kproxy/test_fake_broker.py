"""The fake broker answers like Kafka, according to kafka-python, an independent client."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from dissectors.apis import api, version_limits
from dissectors.frames import decode_response
from tests.dissectors.conversation import streams
from tests.kproxy.fake_broker import (
    API_VERSIONS,
    CLOSE,
    METADATA,
    FakeBroker,
    ReceivedRequest,
    cluster,
    response_frame,
)

_SIZE = struct.Struct(">i")


async def ask(broker: FakeBroker, *frames: bytes) -> list[bytes]:
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    try:
        writer.write(b"".join(frames))
        found = []
        for _ in frames:
            size = await reader.readexactly(4)
            found.append(await reader.readexactly(_SIZE.unpack(size)[0]))
        return found
    finally:
        writer.close()
        await writer.wait_closed()


def metadata(correlation_id: int) -> bytes:
    return streams.request(correlation_id, b"\xff\xff\xff\xff", key=METADATA, version=1, client_id="test")


def test_pipelined_requests_are_answered_in_order() -> None:
    async def run() -> None:
        async with FakeBroker(node_id=7) as broker:
            broker.topic("orders", partitions=3)
            answers = await ask(broker, metadata(5), metadata(3), metadata(9))
            bodies = [decode_response(each, METADATA, 1) for each in answers]
            assert [body.header["correlation_id"] for body in bodies] == [5, 3, 9]
            assert not any(body.problems for body in bodies)
            told = bodies[0].value
            assert told is not None
            assert [(each["node_id"], each["port"]) for each in told["brokers"]] == [(7, broker.port)]
            assert [len(topic["partitions"]) for topic in told["topics"]] == [3]
            assert [(each.key, each.client_id) for each in broker.received] == [(METADATA, "test")] * 3

    asyncio.run(run())


def test_a_version_that_is_not_known() -> None:
    async def run() -> None:
        async with FakeBroker() as broker:
            (answer,) = await ask(
                broker, streams.request(1, b"", key=API_VERSIONS, version=99, client_id="t")
            )
            body = decode_response(answer, API_VERSIONS, 99)
            assert body.value is not None
            assert (body.version, body.value["error_code"]) == (0, 35)
            with pytest.raises(asyncio.IncompleteReadError):
                await ask(broker, streams.request(1, b"", key=METADATA, version=99, client_id="t"))

    asyncio.run(run())


def test_scripted_answers_may_wait_and_close() -> None:
    async def run() -> None:
        released = asyncio.Event()

        async def waits(body: dict[str, Any], version: int) -> object:
            await released.wait()
            return CLOSE

        async with FakeBroker(answers={METADATA: waits}) as broker:
            asked = asyncio.ensure_future(ask(broker, metadata(1)))
            done, _ = await asyncio.wait([asked], timeout=0.05)
            assert not done
            released.set()
            with pytest.raises(asyncio.IncompleteReadError):
                await asked

    asyncio.run(run())


def test_a_broker_that_stops_leaves_no_connection() -> None:
    async def run() -> None:
        broker = await FakeBroker().start()
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        writer.write(metadata(1))
        (size,) = _SIZE.unpack(await reader.readexactly(4))
        await broker.stop()
        assert len(await reader.read()) == size
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(broker.host, broker.port)

    asyncio.run(run())


def test_kafka_python_takes_it_for_a_cluster() -> None:
    kafka = pytest.importorskip("kafka")

    def talk(port: int) -> None:
        consumer = kafka.KafkaConsumer(bootstrap_servers=f"127.0.0.1:{port}")
        try:
            assert consumer.topics() == {"orders"}
            assert consumer.partitions_for_topic("orders") == {0, 1}
            partitions = [kafka.TopicPartition("orders", index) for index in (0, 1)]
            assert consumer.end_offsets(partitions) == dict.fromkeys(partitions, 42)
        finally:
            consumer.close()

    async def run() -> None:
        brokers = await cluster(FakeBroker(node_id=1), FakeBroker(node_id=4))
        brokers[0].topic("orders", partitions=2, end=42)
        try:
            await asyncio.to_thread(talk, brokers[0].port)
            assert all(broker.connections for broker in brokers)  # each leads one of the partitions
        finally:
            for broker in brokers:
                await broker.stop()

    asyncio.run(run())


def test_what_it_says_by_itself_has_no_error() -> None:
    """The built-in responses can be built and decoded to the end for every API and version."""

    async def run() -> None:
        broker = FakeBroker()
        broker.topic("orders")
        for key, (lowest, highest) in version_limits().items():
            known = api(key)
            assert known is not None
            for version in range(lowest, highest + 1):
                body = known.request[version].parse(known.request[version].build({}))
                request = ReceivedRequest(1, key, version, 7, "test", b"", body)
                answer = await broker._answer(request)
                if answer is None:
                    continue  # Produce with acks=0
                decoded = decode_response(response_frame(request, answer)[4:], key, version)
                assert not decoded.problems
                assert decoded.value is not None
                assert decoded.value.get("error_code", 0) == 0, (key, version)

    asyncio.run(run())
