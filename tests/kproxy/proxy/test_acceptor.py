"""Accepted connections: TLS on either side, and its failures."""

from __future__ import annotations

import asyncio
import signal
import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.recorder import RecordingOptions
from kproxy.proxy.settings import ClientTls
from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.contexts import server_context
from kproxy.proxy.tls.security import Security, Tls
from tests.kproxy.fake_broker import FETCH, METADATA, FakeBroker
from tests.kproxy.frames import request_frame
from tests.kproxy.proxy.planes import Client, run, running
from tests.waiting import until

ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}
HEARTBEAT = 12
FETCHED: dict[str, Any] = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def authority(_own_folders: None) -> Authority:
    """kproxy's own authority, which also signs the broker's certificate here."""
    return Authority.open()


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate)


def broker_tls(authority: Authority) -> ssl.SSLContext:
    return server_context(authority.identity("127.0.0.1", "localhost"))


def test_tls_on_both_sides(tmp_path: Path, authority: Authority) -> None:
    async def test() -> None:
        async with FakeBroker(tls=broker_tls(authority)) as broker:
            options = {"security": Security(Tls(authority.certificate)), "client_tls": ClientTls()}
            keylog = tmp_path / "keys.log"
            async with running(tmp_path, ("127.0.0.1", broker.port), keylog=str(keylog), **options) as proxy:
                async with await Client.connect(proxy.address, ssl=trusting(authority)) as client:
                    got = await client.ask(METADATA, 12, ALL_TOPICS)
                    (place,) = proxy.cluster.brokers
                    assert [each["port"] for each in got["brokers"]] == [place.listens]
            assert "CLIENT" in keylog.read_text()
            assert keylog.stat().st_mode & 0o777 == 0o600

    run(test)


@pytest.mark.parametrize("side", ["client", "broker"])
def test_plain_on_one_side_tls_on_the_other(tmp_path: Path, authority: Authority, side: str) -> None:
    async def test() -> None:
        async with FakeBroker(tls=broker_tls(authority) if side == "broker" else None) as broker:
            options: dict[str, Any] = (
                {"client_tls": ClientTls()}
                if side == "client"
                else {"security": Security(Tls(authority.certificate))}
            )
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                context = trusting(authority) if side == "client" else None
                async with await Client.connect(proxy.address, ssl=context) as client:
                    assert len((await client.ask(METADATA, 12, ALL_TOPICS))["brokers"]) == 1

    run(test)


def test_brokers_behind_one_port_are_told_apart_by_name(tmp_path: Path, authority: Authority) -> None:
    async def test() -> None:
        async with FakeBroker() as one, FakeBroker(node_id=2) as two:
            one.advertised = two.advertised = [(1, "127.0.0.1", one.port), (2, "127.0.0.1", two.port)]
            options = {"client_tls": ClientTls(), "sni": "b{node_id}.kafka.test"}
            async with running(tmp_path, ("127.0.0.1", one.port), **options) as proxy:
                context = trusting(authority)
                async with await Client.connect(
                    proxy.address, ssl=context, server_hostname="kafka.test"
                ) as client:
                    got = await client.ask(METADATA, 12, ALL_TOPICS)
                    port = proxy.address[1]
                    assert [(each["host"], each["port"]) for each in got["brokers"]] == [
                        ("b1.kafka.test", port),
                        ("b2.kafka.test", port),
                    ]
                async with await Client.connect(
                    proxy.address, ssl=context, server_hostname="b2.kafka.test"
                ) as client:
                    await client.ask(HEARTBEAT, 0, {"group_id": "g", "generation_id": 1, "member_id": "m"})
                assert len(two.of(HEARTBEAT)) == 1
                assert not one.of(HEARTBEAT)
                with pytest.raises((ConnectionError, ssl.SSLError)):
                    await Client.connect(proxy.address, ssl=context, server_hostname="b3.kafka.test")
                assert any("there is no broker 3" in each["text"] for each in proxy.told.of("warning"))

    run(test)


def test_plaintext_on_a_tls_port_is_explained(tmp_path: Path, authority: Authority) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), client_tls=ClientTls()) as proxy:
                async with await Client.connect(proxy.address) as client:
                    client.send(request_frame(METADATA, 12, ALL_TOPICS))
                    assert await client.ended() == b""
                (warning,) = proxy.told.of("warning")
                assert "plaintext Kafka (Metadata v12, client ID app)" in warning["text"]

    run(test)


def test_a_client_that_does_not_trust_the_authority_is_explained(
    tmp_path: Path, authority: Authority
) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), client_tls=ClientTls()) as proxy:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await Client.connect(proxy.address, ssl=ssl.create_default_context())
                await until(lambda: bool(proxy.told.of("warning")))
                # whether it sends an alert depends on its TLS library
                assert "refuse" in proxy.told.of("warning")[0]["text"]
                await until(lambda: not proxy.plane.sessions)

    run(test)


def test_a_broker_whose_certificate_is_not_trusted_is_explained(tmp_path: Path, authority: Authority) -> None:
    async def test() -> None:
        async with FakeBroker(tls=broker_tls(authority)) as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), security=Security(Tls())) as proxy:
                async with await Client.connect(proxy.address) as client:
                    client.send(request_frame(METADATA, 12, ALL_TOPICS))
                    assert await client.ended() == b""
                told = " ".join(each["text"] for each in proxy.told.of("warning"))
                assert "ssl.truststore.location" in told

    run(test)


def test_mutual_tls_needs_a_certificate(tmp_path: Path, authority: Authority) -> None:
    async def test() -> None:
        required = ClientTls(client_auth="required", client_authorities=authority.certificate)
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), client_tls=required) as proxy:
                async with await Client.connect(proxy.address, ssl=trusting(authority)) as client:
                    client.send(request_frame(METADATA, 12, ALL_TOPICS))
                    with suppress(ssl.SSLError):  # with TLS 1.3 it is notified after its handshake
                        await client.ended()
                await until(lambda: bool(proxy.told.of("warning")))
                assert "the client showed no certificate" in proxy.told.of("warning")[0]["text"]

    run(test)


def test_a_client_that_says_nothing_in_tls_is_let_go(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kproxy.proxy.acceptor._HANDSHAKE_SECONDS", 0.05)

    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), client_tls=ClientTls()) as proxy:
                async with await Client.connect(proxy.address) as client:
                    client.send(b"\x16")
                    assert await client.ended() == b""
                assert "did not finish the TLS handshake in time" in proxy.told.of("warning")[0]["text"]

    run(test)


@pytest.mark.slow
def test_what_is_said_is_recorded_decrypted_with_the_real_endpoints(
    tmp_path: Path, authority: Authority
) -> None:
    from captures.exchanges import ExchangeReader, open_capture

    path = tmp_path / "said.pcapng"

    async def test() -> tuple[str, int]:
        async with FakeBroker(tls=broker_tls(authority)) as broker:
            options = {"security": Security(Tls(authority.certificate)), "client_tls": ClientTls()}
            recorded = RecordingOptions(path=str(path))
            async with running(tmp_path, ("127.0.0.1", broker.port), recorded=recorded, **options) as proxy:
                async with await Client.connect(proxy.address, ssl=trusting(authority)) as client:
                    await client.ask(METADATA, 12, ALL_TOPICS)
                    name = client.writer.get_extra_info("sockname")
                    await asyncio.sleep(0.05)
            return f"{name[0]}:{name[1]}", broker.port

    found: list[tuple[str, int]] = []

    async def keep() -> None:
        found.append(await test())

    run(keep)
    ((client, port),) = found
    capture = open_capture(str(path))
    capture.read()
    (exchange,) = ExchangeReader(capture)
    assert (exchange.api, exchange.client, exchange.broker) == ("Metadata", client, f"127.0.0.1:{port}")
    assert exchange.response is not None
    assert exchange.response.value is not None
    (sent,) = exchange.response.value["brokers"]
    assert sent["port"] == port
    (done,) = exchange.interventions.response
    assert {(change.path, change.sent) for change in done.changed} >= {("brokers[0].port", port)}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
@pytest.mark.parametrize("lossless", [True, False])
def test_a_queue_that_is_full_makes_forwarding_wait_or_leaves_connections_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lossless: bool
) -> None:
    """Twenty times the size of the queue, with a recorder that is suspended meanwhile."""
    from captures.exchanges import open_capture

    size, path = 20 << 20, tmp_path / "said.pcapng"

    async def test() -> None:
        async with FakeBroker() as broker:
            broker.answers[FETCH] = lambda *_: struct.pack(">ii", size - 4, 3) + bytes(size - 8)
            recorded = RecordingOptions(path=str(path), queue=1 << 20, lossless=lossless)
            async with running(tmp_path, ("127.0.0.1", broker.port), recorded=recorded) as proxy:
                recorder = proxy.plane.recordings._process
                assert recorder is not None
                async with await Client.connect(proxy.address) as client:
                    recorder.send_signal(signal.SIGSTOP)
                    client.send(request_frame(FETCH, 12, FETCHED, 3))
                    left, received = size, 0
                    if lossless:
                        await until(lambda: proxy.plane.recordings.congested)
                        await asyncio.sleep(0.2)
                        (session,) = proxy.plane.sessions
                        assert session.responses.received < size
                        recorder.send_signal(signal.SIGCONT)
                    while received < left:
                        received += len(await client.reader.read(1 << 20))
                    recorder.send_signal(signal.SIGCONT)
                    dropped = proxy.plane.recordings.status()["dropped_bytes"]
                    assert (dropped == 0) is lossless
                    if not lossless:
                        await until(lambda: bool(proxy.told.of("dropped")))

    run(test)
    capture = open_capture(str(path))
    capture.read()
    (position,) = capture.table.column("response_size").tolist() or [0]
    captured = capture.frame(0, "response", 0, position)
    assert captured is not None
    assert captured.complete is lossless
