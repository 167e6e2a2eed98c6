"""The bytes between a client and a broker, in a data plane with a fake broker behind it."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.apis import version_limits
from dissectors.locator import FieldLocator
from dissectors.wire import UNKNOWN_TAGS
from tests.kproxy.fake_broker import (
    API_VERSIONS,
    CLOSE,
    FETCH,
    METADATA,
    PRODUCE,
    FakeBroker,
    response_frame,
)
from tests.kproxy.frames import request_frame
from tests.kproxy.proxy.planes import Client, run, running
from tests.kproxy.proxy.talk import (
    ALL_TOPICS,
    HEARTBEAT,
    SASL_HANDSHAKE,
    asked_through,
    heard,
    heartbeat,
    heartbeat_body,
    produce,
)
from tests.lanes.tools import free_ports
from tests.waiting import PATIENCE, until


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# ---------------------------------------------------------------- forwarded data
def test_addresses_are_those_of_the_proxy_and_everything_else_stays(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(1, "127.0.0.1", broker.port), (7, "elsewhere", 9092)]
            broker.topic("orders", partitions=3)
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(("127.0.0.1", broker.port)) as direct:
                    sent = await direct.ask(METADATA, 12, ALL_TOPICS)
                async with await Client.connect(proxy.address) as client:
                    got = await client.ask(METADATA, 12, ALL_TOPICS)
                places = {place.node_id: place for place in proxy.cluster.brokers}
                assert [(each["node_id"], each["host"], each["port"]) for each in got.pop("brokers")] == [
                    (1, "127.0.0.1", places[1].listens),
                    (7, "127.0.0.1", places[7].listens),
                ]
                del sent["brokers"]
                assert got == sent
                assert places[7].host == "elsewhere"

                # and broker 1 is behind its own port
                async with await Client.connect(("127.0.0.1", places[1].listens)) as client:
                    assert (await client.ask(HEARTBEAT, 0, heartbeat_body()))["error_code"] == 0

    run(test)


def test_pipelined_requests_are_answered_in_their_order_with_acks_0_among_them(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.answers[PRODUCE] = lambda body, _: None if body["acks"] == 0 else {}
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(proxy.address) as client:
                    client.send(
                        produce(1, 0),
                        heartbeat(2),
                        produce(3, 0),
                        produce(4, 1),
                        request_frame(METADATA, 12, ALL_TOPICS, 5),
                        produce(6, 0),
                        heartbeat(7),
                    )
                    answered = [int.from_bytes((await client.frame())[4:8]) for _ in range(4)]
                    assert answered == [2, 4, 5, 7]
                    await until(lambda: len(heard(broker)) == 7)
                    (session,) = proxy.plane.sessions
                    assert not session.in_flight
                    assert session.peers.client_id == "app"

    run(test)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_it_does_not_matter_how_the_bytes_are_cut(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    data = b"".join([produce(1, 0), heartbeat(2), produce(3, 1), heartbeat(4)])

    async def test() -> None:
        async with FakeBroker() as broker:
            broker.answers[PRODUCE] = lambda body, _: None if body["acks"] == 0 else {}
            async with running(tmp_path_factory.mktemp("run"), ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(proxy.address) as client:
                    rest = data
                    for size in sizes:
                        client.send(rest[:size])
                        rest = rest[size:]
                        await asyncio.sleep(0)
                    client.send(rest)
                    answered = [int.from_bytes((await client.frame())[4:8]) for _ in range(3)]
                assert answered == [2, 3, 4]
                assert b"".join(each.frame for each in heard(broker)) == data

    run(test)


@pytest.mark.slow
def test_a_fetch_of_a_hundred_megabytes_streams_through(tmp_path: Path) -> None:
    """This is far more than a side may buffer, so the response cannot have been collected."""
    size = 100 << 20

    async def test() -> None:
        async with FakeBroker() as broker:
            broker.answers[FETCH] = lambda *_: struct.pack(">ii", size - 4, 3) + bytes(size - 8)
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(proxy.address) as client:
                    body = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
                    client.send(request_frame(FETCH, 12, body, 3))
                    await client.reader.readexactly(8)
                    # nobody reads on: the data buffered in the proxy and in the sockets is bounded
                    (session,) = proxy.plane.sessions
                    await until(lambda: session.responses._pauses != 0)
                    received = -1
                    while received != session.responses.received:
                        received = session.responses.received
                        await asyncio.sleep(0.1)
                    assert received < size // 2
                    left = size - 8
                    while left:
                        left -= len(await client.reader.read(1 << 20))

    run(test)


@pytest.mark.parametrize("records", [0, 1 << 20])
def test_no_node_endpoint_of_a_fetch_escapes_however_large_it_is(tmp_path: Path, records: int) -> None:
    """KIP-951: after a leader change, a Fetch v16+ names the new leader; a large response is not collected for that."""

    async def test() -> None:
        async with FakeBroker() as broker, FakeBroker(node_id=2) as other:
            partition = {
                "partition_index": 0,
                "error_code": 6,
                "high_watermark": 0,
                "records": bytes(records),
            }
            answer = {
                "responses": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [partition]}],
                "node_endpoints": [{"node_id": 2, "host": "127.0.0.1", "port": other.port, "rack": None}],
            }
            broker.answers[FETCH] = lambda *_: answer
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(proxy.address) as client:
                    asked = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
                    got = await client.ask(FETCH, 16, asked)
                assert got["responses"][0]["partitions"][0]["records"] == bytes(records)
                if records:
                    assert "node_endpoints" not in got
                else:
                    place = proxy.cluster.brokers.get("broker", 2)
                    assert place is not None
                    assert [each["port"] for each in got["node_endpoints"]] == [place.listens]
                assert not proxy.told.of("escaped")
                assert proxy.plane.counts.rewritten == 1

    run(test)


@pytest.mark.parametrize("records", [0, 1000, 100_000])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("newer", [False, True])
def test_no_node_endpoint_escapes_whatever_ends_behind_it(
    tmp_path: Path, records: int, asks: bool, newer: bool
) -> None:
    """A later tagged field hides the end of the endpoints; the versions that a broker offers reveal this."""

    async def test() -> None:
        versions = {**version_limits(), **({2: (0, 99)} if newer else {})}
        async with FakeBroker(versions=versions) as broker, FakeBroker(node_id=2) as other:
            answer = {
                "responses": [
                    {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"records": bytes(records)}]}
                ],
                "node_endpoints": [{"node_id": 2, "host": "127.0.0.1", "port": other.port, "rack": None}],
            }
            if newer or not asks:
                answer[UNKNOWN_TAGS] = {1: bytes(8)}
            broker.answers[FETCH] = lambda *_: answer
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(proxy.address) as client:
                    if asks:
                        await client.ask(API_VERSIONS, 3, {"client_software_name": "t"})
                    asked = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
                    for _ in range(2):
                        client.send(request_frame(FETCH, 17, asked, 1))
                        assert struct.pack(">i", other.port) not in await client.frame()
                        assert proxy.plane.counts.rewritten > 0
                        proxy.plane.counts.rewritten = 0

    run(test)


def test_a_fetch_that_its_end_shows_to_be_free_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        read: list[int] = []
        find = FieldLocator.find
        async with FakeBroker() as broker:
            body = {
                "responses": [
                    {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"records": bytes(5000)}] * 3}
                ]
            }
            broker.answers[FETCH] = lambda *_: body
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(proxy.address) as client:
                    asked = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
                    await client.ask(FETCH, 17, asked)
                    await client.ask(API_VERSIONS, 3, {"client_software_name": "t"})
                    monkeypatch.setattr(
                        FieldLocator, "find", lambda self, *more: (read.append(1), find(self, *more))[1]
                    )
                    for _ in range(3):
                        got = await client.ask(FETCH, 17, asked)
                        assert len(got["responses"][0]["partitions"]) == 3
        assert not read

    run(test)


def test_raw_sasl_tokens_pass_and_do_not_disturb_the_pairing(tmp_path: Path) -> None:
    """After SaslHandshake v0, tokens have no headers; PLAIN's response is empty (0.10 to 3.9)."""

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for answer in (b"\0\0\0\1" + bytes(6), b"", None):
                size = int.from_bytes(await reader.readexactly(4))
                payload = await reader.readexactly(size)
                frame = answer if answer is not None else payload[4:8] + bytes(6)
                writer.write(struct.pack(">i", len(frame)) + frame)
            await reader.read()
        finally:
            writer.close()

    async def test() -> None:
        server = await asyncio.start_server(broker, "127.0.0.1", 0)
        async with server, running(tmp_path, server.sockets[0].getsockname()) as proxy:
            async with await Client.connect(proxy.address) as client:
                client.send(request_frame(SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"}, 1))
                assert (await client.frame())[4:8] == b"\0\0\0\1"
                client.send(struct.pack(">i", 15) + b"\0alice\0password")
                assert await client.frame() == bytes(4)
                client.send(heartbeat(9))
                assert (await client.frame())[4:8] == struct.pack(">i", 9)
                (session,) = [each for each in proxy.plane.sessions if each.peers.client_id]
                assert not session.in_flight

    run(test)


# ---------------------------------------------------------------- ends of connections
def test_half_a_connection_can_be_closed(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1), heartbeat(2))
                client.writer.write_eof()
                assert (await client.frame())[4:8] == struct.pack(">i", 1)
                assert (await client.frame())[4:8] == struct.pack(">i", 2)
                assert await client.ended() == b""
            await until(lambda: not proxy.plane.sessions)

    run(test)


@pytest.mark.slow
def test_a_reset_is_passed_on_as_a_reset(tmp_path: Path) -> None:
    async def test() -> None:
        resets = asyncio.Event()

        async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await reader.read(100):
                    pass
            except ConnectionResetError:
                resets.set()
            finally:
                writer.close()

        server = await asyncio.start_server(broker, "127.0.0.1", 0)
        async with server, running(tmp_path, server.sockets[0].getsockname()) as proxy:
            client = await Client.connect(proxy.address)
            client.send(heartbeat())
            await until(lambda: any(each.requests.received for each in proxy.plane.sessions))
            raw = client.writer.get_extra_info("socket")
            raw.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER
            client.writer.transport.abort()
            async with asyncio.timeout(PATIENCE):
                await resets.wait()

    run(test)


def test_a_broker_that_is_down_is_told_and_the_client_is_let_go(tmp_path: Path) -> None:
    async def test() -> None:
        broker = await FakeBroker().start()
        await broker.stop()
        async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            async with await Client.connect(proxy.address) as client:
                assert await client.ended() == b""
            (warning,) = proxy.told.of("warning")
            assert f"127.0.0.1:{broker.port} refuses connections" in warning["text"]
            assert proxy.plane.counts.unreachable == 1

    run(test)


def test_tls_on_a_plaintext_port_is_explained(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            async with await Client.connect(proxy.address) as client:
                client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300))
                assert await client.ended() == b""
            (warning,) = proxy.told.of("warning")
            assert "the client speaks TLS, and this port is plaintext" in warning["text"]
            assert not heard(broker)

    run(test)


def test_passthrough_forwards_what_is_no_kafka(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server, running(tmp_path, server.sockets[0].getsockname(), mode="passthrough") as proxy:
            async with await Client.connect(proxy.address) as client:
                hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256))
                client.send(hello)
                assert await client.reader.readexactly(len(hello)) == hello

    run(test)


def test_connections_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), most_connections=2) as proxy:
                clients = [await Client.connect(proxy.address) for _ in range(2)]
                for client in clients:
                    client.send(heartbeat())
                    await client.frame()
                async with await Client.connect(proxy.address) as third:
                    assert await third.ended() == b""
                assert proxy.plane.counts.refused == 1
                for client in clients:
                    async with client:
                        pass

    run(test)


@pytest.mark.slow
def test_silence_ends_a_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), idle_timeout=0.1) as proxy:
                async with await Client.connect(proxy.address) as client:
                    client.send(heartbeat())
                    await client.ended()
                assert any("no byte was sent for 0.1 s" in each["text"] for each in proxy.told.of("note"))

    run(test)


def test_draining_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    async def test() -> None:
        answering = asyncio.Event()

        async def answer(*_: object) -> dict[str, Any]:
            await answering.wait()
            return {}

        async with FakeBroker() as broker:
            broker.answers[HEARTBEAT] = answer
            async with running(tmp_path, ("127.0.0.1", broker.port), drain=PATIENCE) as proxy:
                async with await Client.connect(proxy.address) as client:
                    client.send(heartbeat(4))
                    await until(lambda: bool(heard(broker)))
                    address = proxy.address
                    proxy.plane.end()
                    await until(lambda: not proxy.plane.listeners[0]._sockets)
                    with pytest.raises(ConnectionRefusedError):
                        await Client.connect(address)
                    answering.set()
                    assert (await client.frame())[4:8] == struct.pack(">i", 4)
                    assert await client.ended() == b""

    run(test)


@pytest.mark.slow
def test_draining_waits_for_a_client_that_takes_its_time(tmp_path: Path) -> None:
    size = 30 << 20

    async def test() -> None:
        async with FakeBroker() as broker:
            broker.answers[FETCH] = lambda *_: struct.pack(">ii", size - 4, 3) + bytes(size - 8)
            async with running(tmp_path, ("127.0.0.1", broker.port), drain=PATIENCE) as proxy:
                async with await Client.connect(proxy.address) as client:
                    asked = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
                    client.send(request_frame(FETCH, 12, asked, 3))
                    received = len(await client.reader.read(1 << 16))
                    proxy.plane.end()
                    while received < size:
                        received += len(await client.reader.read(1 << 20))
                        await asyncio.sleep(0.005)
                    assert await client.ended() == b""
                assert not any("in flight" in each["text"] for each in proxy.told.of("note"))

    run(test)


# ---------------------------------------------------------------- brokers and versions
def test_api_versions_offers_no_version_whose_addresses_could_not_be_rewritten(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            offered = [{"api_key": key, "min_version": 0, "max_version": 99} for key in (1, 3, 12, 10_000)]
            broker.answers[API_VERSIONS] = lambda *_: {"error_code": 0, "api_keys": offered}
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                async with await Client.connect(proxy.address) as client:
                    got = await client.ask(API_VERSIONS, 0, {})
                    assert [each["max_version"] for each in got["api_keys"]] == [18, 13, 99, 99]

    run(test)


def test_a_response_that_cannot_be_read_goes_on_and_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            port = broker.port
            async with running(tmp_path, ("127.0.0.1", port)) as proxy:
                address = struct.pack(">h", 9) + b"127.0.0.1" + struct.pack(">i", port)
                leak = struct.pack(">i", 7) + b"\xff" * 3 + address
                broker.answers[METADATA] = lambda *_: struct.pack(">i", len(leak)) + leak
                (got,) = await asked_through(proxy, request_frame(METADATA, 0, {"topics": []}, 7))
                assert got[4:] == leak
                assert any("was not rewritten" in each["text"] for each in proxy.told.of("warning"))
                (escaped,) = proxy.told.of("escaped")
                assert escaped["address"] == f"127.0.0.1:{port}"
                assert proxy.plane.counts.escaped == 1

    run(test)


def test_ports_are_the_same_after_a_restart_before_anybody_asks(tmp_path: Path) -> None:
    """Clients that were connected return to the port of their broker, not to the first port."""

    async def test() -> None:
        (port,) = free_ports(1)
        async with FakeBroker() as broker:
            at = ("127.0.0.1", broker.port)
            broker.advertised = [(7, *at), (1, *at)]
            chosen = {"listen": ("127.0.0.1", port), "ports": "any"}
            async with running(tmp_path, at, **chosen) as proxy:
                first = {place.node_id: place.listens for place in proxy.cluster.brokers}
            broker.answers[METADATA] = lambda *_: CLOSE
            async with running(tmp_path, at, **chosen) as proxy:
                assert {place.node_id: place.listens for place in proxy.cluster.brokers} == first
                async with await Client.connect(("127.0.0.1", first[7])) as client:
                    await client.ask(HEARTBEAT, 0, heartbeat_body())

    run(test)


def test_a_broker_that_moves_keeps_its_port(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, FakeBroker() as moved:
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                (place,) = proxy.cluster.brokers
                listens = place.listens
                broker.advertised = [(1, "127.0.0.1", moved.port)]
                await asked_through(proxy, request_frame(METADATA, 12, ALL_TOPICS))
                async with await Client.connect(("127.0.0.1", listens)) as client:
                    await client.ask(HEARTBEAT, 0, heartbeat_body())
                assert len(moved.of(HEARTBEAT)) == 1
                assert proxy.told.of("broker")[-1]["before"] == f"127.0.0.1:{broker.port}"

    run(test)


# ---------------------------------------------------------------- without forwarding
@pytest.mark.slow
def test_without_forwarding_what_clients_send_is_taken_and_they_are_let_go(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), forward=False) as proxy:
                async with await Client.connect(proxy.address) as client:
                    client.send(heartbeat(1))
                    assert await client.ended() == b""
            assert not heard(broker)

    run(test)


def test_a_stub_answers_what_a_client_asks_first(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, forward=False, stub=True) as proxy:
            async with await Client.connect(proxy.address) as client:
                assert (await client.ask(API_VERSIONS, 3, {}))["error_code"] == 0
                got = await client.ask(METADATA, 12, ALL_TOPICS)
                assert [(each["host"], each["port"]) for each in got["brokers"]] == [proxy.address]

    run(test)


def test_forwarding_can_be_switched_off_and_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1))
                await client.frame()
                proxy.plane.set_forwarding(False)
                client.send(heartbeat(2))
                (session,) = proxy.plane.sessions
                await until(lambda: session.requests.received == 2 * len(heartbeat(1)))
                async with await Client.connect(proxy.address) as refused:
                    assert await refused.ended() == b""
                proxy.plane.set_forwarding(True)
                assert await client.ended() == b""
            assert [each.correlation_id for each in broker.of(HEARTBEAT)] == [1]
            assert (await asked_through(proxy, heartbeat(3)))[0] == response_frame(
                broker.of(HEARTBEAT)[-1], {}
            )

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["rewrite", "passthrough"])
def test_whatever_is_said_others_are_still_served(tmp_path: Path, mode: str) -> None:
    """Random bytes, and messages with random bytes in them, from both sides; kproxy itself does not fail."""
    rng = Random(7)
    whole = [heartbeat(1), produce(2, 1), produce(3, 0), request_frame(METADATA, 12, ALL_TOPICS, 4)]

    def noise() -> bytes:
        if rng.random() < 0.3:
            return rng.randbytes(rng.randrange(200))
        data = bytearray(b"".join(rng.choices(whole, k=rng.randrange(1, 5))))
        for _ in range(rng.randrange(6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                answer = noise()
                # with an expected correlation ID the rest is parsed
                writer.write(struct.pack(">i", len(answer) + 4) + data[8:12].ljust(4, b"\0") + answer)
                writer.write(rng.choice([b"", noise()]))
        writer.close()

    async def test() -> None:
        server = await asyncio.start_server(broker, "127.0.0.1", 0)
        at = server.sockets[0].getsockname()[:2]
        async with server, running(tmp_path, at, mode=mode, first_timeout=0) as proxy:
            wrong: list[object] = []
            proxy.plane.loop.set_exception_handler(lambda _, context: wrong.append(context))
            for _ in range(150):
                async with await Client.connect(proxy.address) as client:
                    with suppress(ConnectionError):
                        client.send(noise())
                        client.send(noise())
                        with suppress(TimeoutError):
                            async with asyncio.timeout(0.01):
                                await client.reader.read(1 << 16)
            assert not wrong
            await until(lambda: not proxy.plane.sessions)

    run(test)


@pytest.mark.parametrize(
    ("before", "is_told"),
    [((), True), ((heartbeat(2),), False)],
    ids=["as a port with SASL does", "after another answer"],
)
def test_a_broker_that_ends_a_connection_at_the_first_metadata_may_want_authentication(
    tmp_path: Path, before: tuple[bytes, ...], *, is_told: bool
) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            async with await Client.connect(proxy.address) as client:
                await client.ask(API_VERSIONS, 3, {})
                for frame in before:
                    client.send(frame)
                    await client.frame()
                broker.answers[METADATA] = lambda *_: CLOSE
                client.send(request_frame(METADATA, 12, ALL_TOPICS, 9))
                assert await client.ended() == b""
            warned = " ".join(event["text"] for event in proxy.told.of("warning"))
            assert ("it may want authentication" in warned) is is_told
            assert not is_told or "security.protocol=SASL_PLAINTEXT" in warned

    run(test)
