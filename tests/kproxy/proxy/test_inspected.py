"""Frames collected for rules: their total size is limited, and frames beyond the limit pass."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from dissectors import budget
from dissectors.budget import Budget, LimitReached
from kproxy.proxy.verdicts import Charge
from tests.kproxy.fake_broker import METADATA, PRODUCE, FakeBroker
from tests.kproxy.frames import request_frame
from tests.kproxy.proxy.planes import Client, RunningPlane, run, running
from tests.waiting import until

ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}
MOST = 100_000


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setitem(budget.IN_FORCE, "inspected_bytes", MOST)


def begun(size: int, there: int) -> bytes:
    """Return the beginning of a Produce request that announces more bytes than follow."""
    frame = request_frame(PRODUCE, 9, {"acks": 1, "timeout_ms": 1, "topic_data": []}, 1)
    return struct.pack(">i", size) + frame[4:] + bytes(there - len(frame))


def told(proxy: RunningPlane) -> list[str]:
    return [event["text"] for event in proxy.told.of("warning") if "uninspected" in event["text"]]


def test_what_no_room_is_left_for_passes_uninspected(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            options = {"faults": ("api == Produce and topic == orders => drop",)}
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                plane = proxy.plane
                async with await Client.connect(proxy.address) as one:
                    one.send(begun(1_000_000, 60_000))
                    await until(lambda: plane.inspected.left("inspected_bytes") <= MOST - 60_000)
                    async with await Client.connect(proxy.address) as two:
                        two.send(begun(1_000_000, 60_000))
                        await until(lambda: plane.counts.uninspected == 1)
                        (session,) = [each for each in plane.sessions if each.requests._collected is None]
                        assert session.requests._left > 900_000  # the frame passes
                        (sentence,) = told(proxy)
                        assert "limit inspected_bytes (100,000 bytes)" in sentence
                        two.send(bytes(1_000_004 - 60_000))
                        await until(lambda: [len(each.frame) for each in broker.of(PRODUCE)] == [1_000_004])
                    await until(lambda: len(plane.sessions) == 1)
                await until(lambda: plane.inspected.left("inspected_bytes") == MOST)

    run(test)


def test_what_was_looked_at_is_given_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            options = {"faults": ("response: api == Metadata and topic == nowhere => drop",)}
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                async with await Client.connect(proxy.address) as client:
                    for number in range(20):
                        await client.ask(METADATA, 12, ALL_TOPICS, number)
                    assert proxy.plane.inspected.left("inspected_bytes") == MOST
                assert proxy.plane.counts.uninspected == 0

    run(test)


def test_a_held_frame_takes_its_share_until_it_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            options = {"hold": "api == Metadata"}
            async with running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy:
                async with await Client.connect(proxy.address) as client:
                    asked = asyncio.create_task(client.ask(METADATA, 12, ALL_TOPICS))
                    await until(lambda: proxy.plane.inspected.left("inspected_bytes") < MOST)
                    await until(lambda: proxy.plane.inspection.holds.release_all() > 0)
                    await asked
                    await until(lambda: proxy.plane.inspected.left("inspected_bytes") == MOST)

    run(test)


def test_a_response_that_must_be_read_ends_the_connection_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
                broker.advertised = [(each, "127.0.0.1", broker.port) for each in range(5_000)]
                proxy.plane.inspected.spend("inspected_bytes", MOST - 100)
                async with await Client.connect(proxy.address) as client:
                    with pytest.raises((ConnectionError, EOFError)):
                        await client.ask(METADATA, 12, ALL_TOPICS)

    run(test)


def test_a_charge_is_given_back_with_what_it_is_for() -> None:
    budget_of_all = Budget("inspected_bytes")
    charge = Charge(budget_of_all, "inspected_bytes")
    charge.add(MOST, "a frame")
    with pytest.raises(LimitReached):
        charge.add(1, "another")
    assert budget_of_all.left("inspected_bytes") == 0
    del charge
    assert budget_of_all.left("inspected_bytes") == MOST
