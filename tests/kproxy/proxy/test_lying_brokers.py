"""Brokers that lie about the cluster: too many nodes, no addresses, forbidden addresses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dissectors import budget
from dissectors.budget import LimitReached
from kproxy.proxy.addresses import rewriter
from tests.kproxy.fake_broker import METADATA, FakeBroker
from tests.kproxy.frames import request_frame, response_frame
from tests.kproxy.proxy.planes import Client, RunningPlane, run, running
from tests.waiting import until

ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def told_brokers(proxy: RunningPlane) -> dict[int, tuple[str, int]]:
    async with await Client.connect(proxy.address) as client:
        got = await client.ask(METADATA, 12, ALL_TOPICS)
    return {each["node_id"]: (each["host"], each["port"]) for each in got["brokers"]}


def notes(proxy: RunningPlane) -> str:
    return "\n".join(event["text"] for kind in ("note", "warning") for event in proxy.told.of(kind))


def test_more_brokers_than_there_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(budget.IN_FORCE, "brokers", 5)

    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(each, "127.0.0.1", broker.port) for each in range(40)]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                told = await told_brokers(proxy)
                assert len(proxy.plane.listeners) == 6
                assert [told[each] for each in range(5, 40)] == [("127.0.0.1", 1)] * 35
                assert notes(proxy).count("limit brokers (5 objects)") == 1

    run(test)


def test_an_answer_with_more_addresses_than_a_cluster_has_ends_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(budget.IN_FORCE, "addresses", 10)

    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                broker.advertised = [(each, "127.0.0.1", broker.port) for each in range(11)]
                async with await Client.connect(proxy.address) as client:
                    with pytest.raises((ConnectionError, EOFError)):
                        await client.ask(METADATA, 12, ALL_TOPICS)
                await until(lambda: "limit addresses (10 objects)" in notes(proxy))
                assert len(proxy.plane.listeners) == 2
                broker.advertised = None
                assert len(await told_brokers(proxy)) == 1

    run(test)


def test_a_count_that_the_bytes_do_not_hold_is_no_question_of_limits() -> None:
    """The frame has another version, or is invalid; this is determined without reading any element."""
    rewrite = rewriter(METADATA, 12)
    assert rewrite is not None
    frame = response_frame(METADATA, 12, {"brokers": [{"node_id": 1, "host": "a", "port": 1}] * 20_000})
    with pytest.raises(LimitReached, match="array of 20,000"):
        rewrite(frame, lambda broker: ("p", 1))


def test_the_first_request_of_all_is_held_to_the_same_checks(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [
                (-5, "127.0.0.1", broker.port),
                (1, "127.0.0.1", broker.port),
                (2, "", broker.port),
                (3, "127.0.0.1", 0),
                (4, "127.0.0.1", 70_000),
                (5, "a\x1b]0;pwned\x07\nkproxy: all is well", 9092),
            ]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                assert [place.node_id for place in proxy.cluster.brokers] == [1]
                assert len(proxy.plane.listeners) == 2
                said = notes(proxy)
                assert "\x1b" not in said
                assert r"'a\x1b]0;pwned\x07\nkproxy: all is well' is not a host name" in said
                told = await told_brokers(proxy)
                assert told[-5] == told[4] == told[5] == ("127.0.0.1", 1)
                assert told[2] == ("", broker.port)
                assert told[3] == ("127.0.0.1", 0)

    run(test)


def test_brokers_elsewhere_than_allowed_get_no_connections(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [
                (1, "127.0.0.1", broker.port),
                (2, "169.254.169.254", 80),
                (3, "127.0.0.2", 22),
            ]
            options = {"allowed_brokers": ("10.0.0.0/8",)}
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                assert [place.node_id for place in proxy.cluster.brokers] == [1]  # given by the user
                assert (
                    "broker 2 gets no connections: 169.254.169.254 is not allowed (--allow-brokers)"
                    in notes(proxy)
                )
                told = await told_brokers(proxy)
                assert told[2] == told[3] == ("127.0.0.1", 1)

    run(test)


def test_a_name_that_leads_elsewhere_than_allowed_is_not_connected_to(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(1, "localhost", broker.port)]
            options = {"allowed_brokers": ("10.0.0.0/8",)}
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                address = (await told_brokers(proxy))[1]
                async with await Client.connect(address) as client:
                    assert await client.ended() == b""
                await until(lambda: "which is not allowed (--allow-brokers)" in notes(proxy))
                connections = broker.connections
            options = {"allowed_brokers": ("127.0.0.0/8", "::1")}
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                address = (await told_brokers(proxy))[1]
                async with await Client.connect(address) as client:
                    assert len((await client.ask(METADATA, 12, ALL_TOPICS))["brokers"]) == 1
                assert broker.connections > connections

    run(test)


def test_a_broker_at_an_odd_place_is_noted_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(each, f"169.254.169.{each}", 80) for each in range(1, 9)]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                await told_brokers(proxy)
                assert notes(proxy).count("a link-local address") == 1
            broker.advertised = None
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                await told_brokers(proxy)
                assert "--allow-brokers" not in notes(proxy)  # an ordinary broker on this host

    run(test)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers in HTTP: it is not a Kafka broker"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "answers with a TLS alert: it is a TLS port"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "answers as an SSH server: it is not a Kafka broker"),
    ],
)
def test_another_protocol_behind_the_proxy_is_named_and_ends_the_connection(
    tmp_path: Path, answer: bytes, sentence: str
) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1):
            writer.write(answer)
        await reader.read()
        writer.close()

    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                await broker.stop()
                async with await asyncio.start_server(answers, "127.0.0.1", broker.port):
                    async with await Client.connect(proxy.address) as client:
                        client.send(request_frame(METADATA, 12, ALL_TOPICS))
                        assert await client.ended() == b""
                where = f"127.0.0.1:{broker.port}"
                assert f"{where} {sentence}" in notes(proxy)

    run(test)
