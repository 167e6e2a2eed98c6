"""Brokers taken down by a rule, as experienced by clients and as shown in the recording."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.attempts import ended_by_brokers
from kproxy.proxy.recorder import RecordingOptions
from tests.kproxy.fake_broker import METADATA, FakeBroker
from tests.kproxy.proxy.planes import Client, RunningPlane, run, running
from tests.kproxy.proxy.recordings import read
from tests.waiting import until

NODE = 2
ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def port_of(proxy: RunningPlane) -> int:
    """Wait for the broker to be known; return its port for clients."""
    await until(lambda: proxy.cluster.brokers.get("broker", NODE) is not None)
    place = proxy.cluster.brokers.get("broker", NODE)
    assert place is not None
    return place.listens


async def is_answered(port: int) -> bool:
    async with await Client.connect(("127.0.0.1", port)) as client:
        await client.ask(METADATA, 12, ALL_TOPICS)
    return True


async def ends(client: Client) -> str:
    """Return how a connection ends."""
    try:
        return "closed" if await client.reader.read(1) == b"" else "said something"
    except ConnectionResetError:
        return "reset"


def test_refused_until_it_comes_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(NODE, "127.0.0.1", broker.port)]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                port, rules = await port_of(proxy), proxy.plane.inspection.rules
                async with await Client.connect(("127.0.0.1", port)) as client:
                    await client.ask(METADATA, 12, ALL_TOPICS)
                    rules.add(f"broker {NODE} down, name=away")
                    assert await ends(client) == "closed"
                with pytest.raises(ConnectionRefusedError):
                    await Client.connect(("127.0.0.1", port))
                async with await Client.connect(
                    proxy.address
                ) as client:  # the same broker, at the shared port
                    client.send(b"\0")
                    assert await ends(client) == "reset"
                assert rules.to_json()[0]["hits"] == 2
                rules.remove("away")
                assert await is_answered(port)
                assert await is_answered(proxy.address[1])

    run(test)


def test_reset(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(NODE, "127.0.0.1", broker.port)]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                port = await port_of(proxy)
                async with await Client.connect(("127.0.0.1", port)) as client:
                    await client.ask(METADATA, 12, ALL_TOPICS)
                    proxy.plane.inspection.rules.add(f"broker {NODE} down reset")
                    assert await ends(client) == "reset"
                async with await Client.connect(("127.0.0.1", port)) as client:
                    assert await ends(client) == "reset"

    run(test)


def test_silent(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(NODE, "127.0.0.1", broker.port)]
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                port, rules = await port_of(proxy), proxy.plane.inspection.rules
                async with await Client.connect(("127.0.0.1", port)) as before:
                    await before.ask(METADATA, 12, ALL_TOPICS)
                    number = rules.add(f"broker {NODE} down silent")
                    asked = len(broker.of(METADATA))
                    async with await Client.connect(("127.0.0.1", port)) as after:
                        answers = [
                            asyncio.create_task(each.ask(METADATA, 12, ALL_TOPICS))
                            for each in (before, after)
                        ]
                        await until(lambda: rules.to_json()[0]["hits"] == 2)
                        await until(lambda: all(each.requests.received for each in proxy.plane.sessions))
                        assert len(broker.of(METADATA)) == asked
                        rules.remove(number)
                        for answer in answers:
                            with pytest.raises((ConnectionError, EOFError)):
                                await answer
                assert await is_answered(port)

    run(test)


@pytest.mark.slow
def test_it_is_no_outage_of_the_broker_in_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"

    async def test() -> None:
        async with FakeBroker() as broker:
            broker.advertised = [(NODE, "127.0.0.1", broker.port)]
            recorded = RecordingOptions(path=str(path))
            async with running(tmp_path, ("127.0.0.1", broker.port), recorded=recorded) as proxy:
                port, rules = await port_of(proxy), proxy.plane.inspection.rules
                clients = [await Client.connect(("127.0.0.1", port)) for _ in range(4)]
                for client in clients:
                    await client.ask(METADATA, 12, ALL_TOPICS)
                rules.add(f"broker {NODE} down")
                assert [await ends(client) for client in clients] == ["closed"] * 4
                for client in clients:
                    client.writer.close()

    run(test)
    capture = read(path)
    ended = capture.notes.ended_connections
    assert [capture.connections[each].closed.split()[0] for each in sorted(ended)] == ["closed"] * 4
    assert not list(ended_by_brokers(capture))  # the source for broker outages


@pytest.mark.slow
def test_rules_of_a_file_are_taken_up_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("# slow\napi == Fetch => delay 5ms, name=slow\n\n")

    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), rules_file=str(file)) as proxy:
                rules, told = proxy.plane.inspection.rules, proxy.told
                rules.add("api == Metadata => delay 1ms")
                file.write_text(
                    "api == Fetch => delay 5ms, name=slow\nbroker 7 down\napi = Fetch => delay 1s\n"
                )
                await until(lambda: "line 3" in "".join(each["text"] for each in told.of("warning")))
                assert [each["number"] for each in rules.to_json()] == [1, 2]
                file.write_text("broker 7 down silent, for=1m\napi == Fetch => delay 5ms, name=slow\n")
                await until(lambda: len(rules.to_json()) == 3)
                found = {each["rule"]: each["number"] for each in rules.to_json()}
                assert found["api == Fetch => delay 5ms, name=slow"] == 1
                assert found["api == Metadata => delay 1ms"] == 2

    run(test)
