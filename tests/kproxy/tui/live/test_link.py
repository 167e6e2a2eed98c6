"""The link to a data plane in the event loop of the test: real holds, rules and forwarding, with a fake broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dissectors.units import SECOND
from kproxy.proxy.run_folder import RunFolder
from kproxy.tui.live.link import Link, LinkError
from kproxy.tui.live.state import LiveState
from tests.kproxy.fake_broker import FakeBroker
from tests.kproxy.frames import request_frame
from tests.kproxy.proxy.fake_plane import FakePlane, serving
from tests.kproxy.proxy.planes import Client, run, running
from tests.kproxy.proxy.talk import HEARTBEAT, heartbeat, heartbeat_body
from tests.kproxy.tui.live.proxied import linked
from tests.waiting import PATIENCE, until


def test_what_is_held_is_known_at_once_and_let_go(tmp_path: Path) -> None:
    async def test() -> None:
        seen: list[LiveState] = []
        async with linked(tmp_path, changed=seen.append) as (proxy, link):
            assert await link.set_hold("api == Heartbeat") == "request"
            assert link.state.hold_filters == {"request": "api == Heartbeat"}
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(7), heartbeat(8), heartbeat(9))
                await until(lambda: [held.waiting_behind for held in link.state.held] == [2, 1, 0])
                held = link.state.held[0]
                assert (held.side, held.api, held.version, held.correlation_id) == (
                    "request",
                    "Heartbeat",
                    4,
                    7,
                )
                assert held.client.startswith("127.0.0.1:")
                assert 0.5 < (held.until - held.since) / (PATIENCE * SECOND) <= 0.8
                await link.release(held.number)
                await client.frame()
                assert [each.correlation_id for each in link.state.held] == [8, 9]
                await link.call("kill", number=link.state.held[0].number)
                assert await client.ended() == b""
            await until(lambda: not link.state.held)
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(7), heartbeat(8))
                await until(lambda: len(link.state.held) == 2)
                assert await link.release_all() == 2
                await client.frame()
                await client.frame()
        assert [state.version for state in seen] == list(range(1, len(seen) + 1))

    run(test)


def test_a_held_message_goes_on_edited(tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(tmp_path) as (proxy, link):
            await link.set_hold("api == Heartbeat")
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(7))
                await until(lambda: bool(link.state.held))
                with pytest.raises(LinkError, match="size field"):
                    await link.edit(link.state.held[0].number, b"xy")
                edited = request_frame(HEARTBEAT, 4, heartbeat_body() | {"generation_id": 9}, 7)
                assert await link.edit(link.state.held[0].number, edited) == 1
                await client.frame()

    run(test)


def test_rules_come_and_go(tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(tmp_path) as (proxy, link):
            assert await link.add_rule("api == Heartbeat => delay 1ms, count=5") == 1
            (rule,) = link.state.rules
            assert (rule.text, rule.hits, rule.left_count) == ("api == Heartbeat => delay 1ms, count=5", 0, 5)
            link.watch(True)
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat())
                await client.frame()
            await until(lambda: link.state.rules[0].hits == 1)
            with pytest.raises(LinkError, match="did you mean drop"):
                await link.add_rule("api == Fetch => dorp")
            with pytest.raises(LinkError, match="concerns every request"):
                await link.add_rule("=> drop")
            await link.add_rule("=> drop", force=True)
            await link.call("remove_rule", number=1)
            await link.call("remove_rule", number=2)
            assert link.state.rules == ()

    run(test)


def test_connections_forwarding_and_events(tmp_path: Path) -> None:
    async def test() -> None:
        told: list[dict[str, Any]] = []
        async with linked(tmp_path, on_event=told.append) as (proxy, link):
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat())
                await client.frame()
                (connection,) = await link.connections()
                assert (connection.client_id, connection.in_flight) == ("app", 0)
            await link.call("keep")
            await link.call("forwarding", on=False)
            assert not link.state.forwarding
            await link.call("forwarding", on=True)
            assert link.state.forwarding
            await until(lambda: [event["event"] for event in told] == ["keep", "forwarding", "forwarding"])
            await until(lambda: bool(link.state.listeners))
            assert link.state.listeners[0] == f"127.0.0.1:{proxy.address[1]}"

    run(test)


def test_who_only_looks_may_change_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(tmp_path, control=False) as (_, link):
            assert not link.state.controls
            with pytest.raises(LinkError, match="may only look"):
                await link.call("forwarding", on=False)
            assert await link.connections() == ()

    run(test)


def test_what_is_held_goes_on_when_the_link_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, (broker.host, broker.port)) as proxy:
            link = Link(proxy.plane._run.control_socket)
            await asyncio.to_thread(link.start)
            await link.set_hold("api == Heartbeat")
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat())
                await until(lambda: bool(link.state.held))
                await asyncio.to_thread(link.close)
                await client.frame()
            with pytest.raises(LinkError):
                await link.call("keep")

    run(test)


def test_a_proxy_that_is_gone_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(tmp_path) as (_, link):
            await link.call("drain", seconds=0)
            await until(lambda: bool(link.state.gone))
            assert "it has ended" in link.state.gone
            with pytest.raises(LinkError, match="it has ended"):
                await link.call("keep")

    run(test)


def test_where_there_is_no_proxy_it_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        link = Link(RunFolder.create(0, base=tmp_path).control_socket)
        link.start()
        await until(lambda: bool(link.state.gone))
        assert "No such file" in link.state.gone
        with pytest.raises(LinkError, match="No such file"):
            await link.call("keep")
        link.close()

    run(test)


def test_many_held_messages_are_looked_at_less_often(tmp_path: Path) -> None:
    async def test() -> None:
        async with linked(tmp_path) as (proxy, link):
            await link.set_hold("api == Heartbeat")
            async with await Client.connect(proxy.address) as client:
                client.send(*map(heartbeat, range(1, 302)))
                await until(lambda: len(link.state.held) == 301)
                assert link._period("holds") == 1.0
                assert await link.release_all() == 301
                for _ in range(301):
                    await client.frame()
            assert link._period("holds") == 2.0

    run(test)


def test_an_answer_that_makes_no_sense_ends_the_link_in_words(tmp_path: Path) -> None:
    plane = FakePlane(tmp_path / "control.sock", {})
    with serving(plane):
        link = Link(plane.path)
        link.start()

        async def test() -> None:
            await until(lambda: bool(link.state.gone))

        run(test)
        assert "there is no command 'status'" in link.state.gone
        link.close()
