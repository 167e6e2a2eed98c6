"""Brokers at addresses other than advertised: checked at the start, and connected to as configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.contexts import server_context
from kproxy.proxy.tls.security import Security, Tls
from kproxy.text.control import sentence_of
from tests.kproxy.fake_broker import METADATA, FakeBroker
from tests.kproxy.proxy.planes import Client, RunningPlane, run, running
from tests.kproxy.proxy.talk import ALL_TOPICS, heard, heartbeat
from tests.lanes.tools import free_ports
from tests.waiting import until

NOWHERE = "kafka-1.invalid"  # RFC 2606


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


async def behind(proxy: RunningPlane, **options: Any) -> int:
    """Return the number of brokers that a client learns of, can connect to, and gets responses from."""
    async with await Client.connect(proxy.address, **options) as client:
        told = (await client.ask(METADATA, 12, ALL_TOPICS))["brokers"]
    for each in told:
        async with await Client.connect((each["host"], each["port"]), **options) as client:
            client.send(heartbeat(7))
            assert (await client.frame())[4:8] == b"\0\0\0\7"
    return len(told)


def answer(proxy: RunningPlane) -> list[dict[str, Any]]:
    from kproxy.proxy.commands import commands

    told: list[dict[str, Any]] = commands(proxy.plane)["brokers"]({})
    return told


@pytest.mark.parametrize("left", [f"{NOWHERE}:9092", NOWHERE, "broker 1"])
def test_a_broker_is_dialled_where_the_user_says(tmp_path: Path, left: str) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(1, NOWHERE, 9092)]
            here = f"127.0.0.1:{broker.port}"
            async with running(
                tmp_path,
                ("127.0.0.1", broker.port),
                mapped=(f"{left}={here}",),
                allowed_brokers=("10.0.0.0/8",),
            ) as proxy:
                assert await behind(proxy) == 1
                (told,) = answer(proxy)
                assert (told["address"], told["dialled"]) == (f"{NOWHERE}:9092", here)
                assert told["reachable"] is True
                assert not proxy.told.of("unreachable") + proxy.told.of("warning")
                (event,) = proxy.told.of("broker")
                assert f"dialled at {here}" in str(sentence_of(event))
            assert heard(broker)

    run(test)


def test_the_bootstrap_address_is_mapped_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(1, NOWHERE, 9092)]
            mapped = (f"{NOWHERE}:9092=127.0.0.1:{broker.port}",)
            async with running(tmp_path, (NOWHERE, 9092), mapped=mapped) as proxy:
                assert await behind(proxy) == 1

    run(test)


def test_certificates_are_for_the_name_that_is_advertised(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority.open()
        async with FakeBroker(tls=server_context(authority.identity(NOWHERE))) as broker:
            broker.advertised = [(1, NOWHERE, 9092)]
            options: dict[str, Any] = {
                "security": Security(Tls(authority.certificate)),
                "mapped": (f"{NOWHERE}:9092=127.0.0.1:{broker.port}",),
            }
            async with running(tmp_path, (NOWHERE, 9092), **options) as proxy:
                assert await behind(proxy) == 1
                assert answer(proxy)[0]["reachable"] is True

    run(test)


def test_what_cannot_be_reached_is_reported_at_the_start_with_what_to_do(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            (dead,) = free_ports(1)
            broker.advertised = [(1, "127.0.0.1", broker.port), (2, NOWHERE, 9092), (3, "127.0.0.1", dead)]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                await until(lambda: len(proxy.told.of("unreachable")) == 2)
                told = {each["node_id"]: str(sentence_of(each)) for each in proxy.told.of("unreachable")}
                assert "broker 2 cannot be reached from here" in told[2]
                assert f"--map {NOWHERE}:9092=HOST:PORT" in told[2]
                assert "refuses connections" in told[3]
                found = {each["node_id"]: (each["reachable"], each["why"]) for each in answer(proxy)}
                assert found[1] == (True, "")
                assert found[2][0] is found[3][0] is False
                assert "--map" in found[2][1]

    run(test)


def test_a_map_that_leads_nowhere_is_named_as_such(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            (dead,) = free_ports(1)
            mapped = (f"broker 1=127.0.0.1:{dead}",)
            async with running(tmp_path, ("127.0.0.1", broker.port), mapped=mapped) as proxy:
                await until(lambda: bool(proxy.told.of("unreachable")))
                (event,) = proxy.told.of("unreachable")
                assert "that is where --map says it is" in event["why"]

    run(test)


def test_a_clients_connection_tells_whether_a_broker_can_be_reached(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            other = await FakeBroker(node_id=2).start()
            broker.advertised = [(1, "127.0.0.1", broker.port), (2, "127.0.0.1", other.port)]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                assert await behind(proxy) == 2
                await other.stop()
                place = proxy.cluster.brokers.get("broker", 2)
                assert place is not None
                async with await Client.connect(("127.0.0.1", place.listens)) as client:
                    assert await client.ended() == b""
                assert proxy.cluster.reachability.of(place) != ""
                await other.start()
                assert await behind(proxy) == 2
                assert proxy.cluster.reachability.of(place) == ""
            await other.stop()

    run(test)


def test_a_broker_that_is_where_kproxy_listens_leads_to_no_loop(tmp_path: Path) -> None:
    """This happens with a port-forward to a broker that advertises localhost:9092, with kproxy at that port."""

    async def test() -> None:
        async with FakeBroker() as broker:
            (port,) = free_ports(1)
            broker.advertised = [(1, "localhost", port)]
            options: dict[str, Any] = {"listen": ("127.0.0.1", port), "ports": "any"}
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                await until(lambda: bool(proxy.told.of("unreachable")))
                (event,) = proxy.told.of("unreachable")
                assert "kproxy itself listens there" in event["why"]
                assert f"--map localhost:{port}=HOST:PORT" in event["why"]
                accepted = proxy.plane.counts.connections
                place = proxy.cluster.brokers.get("broker", 1)
                assert place is not None
                async with await Client.connect(("127.0.0.1", place.listens)) as client:
                    assert await client.ended() == b""
                assert proxy.plane.counts.connections == accepted + 1

    run(test)


def test_nothing_is_tried_where_nothing_is_forwarded(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, forward=False, stub=True, client_tls=None) as proxy:
                async with await Client.connect(proxy.address) as client:
                    assert await client.ask(METADATA, 12, ALL_TOPICS)
                assert not proxy.told.of("unreachable")
            assert not broker.connections

    run(test)
