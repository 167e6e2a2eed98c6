"""Frames with a decision, in a data plane with a fake broker behind it."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

import pytest

from captures.interventions import Intervention, comment_content
from kproxy.proxy.half import Half
from kproxy.proxy.verdicts import UNCHANGED, Ending, Frame, Hold, Verdict
from tests.kproxy.fake_broker import (
    FETCH,
    METADATA,
    FakeBroker,
)
from tests.kproxy.frames import request_frame
from tests.kproxy.proxy.planes import Client, run, running
from tests.kproxy.proxy.talk import (
    ALL_TOPICS,
    HEARTBEAT,
    asked_through,
    heard,
    heartbeat,
)
from tests.waiting import until


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class ScriptedInspector:
    """An inspector with scripted decisions."""

    def __init__(self, *keys: int, side: str = "request", verdict: Verdict = UNCHANGED) -> None:
        self.active = True
        self.keys = keys
        self.side = side
        self.verdict = verdict
        self.frames: list[Frame] = []

    def wants(self, side: str, api_key: int, version: int, peers: object) -> bool:
        return api_key in self.keys and side in (self.side, "request")

    def decide(self, frame: Frame) -> Verdict:
        self.frames.append(frame)
        return self.verdict if frame.side == self.side else UNCHANGED


def test_an_answer_of_kproxys_own_comes_in_its_turn(tmp_path: Path) -> None:
    async def test() -> None:
        own = struct.pack(">iiih", 10, 2, 0, 14)
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            await asyncio.sleep(0)
            broker.received.clear()
            inspector = proxy.plane.inspector = ScriptedInspector(HEARTBEAT, verdict=Verdict(answer=own))
            frames = (
                request_frame(METADATA, 12, ALL_TOPICS, 1),
                heartbeat(2),
                request_frame(METADATA, 12, ALL_TOPICS, 3),
            )
            got = await asked_through(proxy, *frames, count=3)
            assert [int.from_bytes(each[4:8]) for each in got] == [1, 2, 3]
            assert got[1] == own
            assert [each.key for each in heard(broker)] == [METADATA, METADATA]
            assert inspector.frames[0].data == frames[1]

    run(test)


def test_a_changed_request_reaches_the_broker_changed(tmp_path: Path) -> None:
    async def test() -> None:
        other = heartbeat(2).replace(b"app", b"apt")
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            proxy.plane.inspector = ScriptedInspector(HEARTBEAT, verdict=Verdict(data=other))
            await asked_through(proxy, heartbeat(2))
            assert heard(broker)[-1].frame == other

    run(test)


def test_what_comes_behind_a_delayed_frame_waits_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            proxy.plane.inspector = ScriptedInspector(HEARTBEAT, verdict=Verdict(delay=100_000_000))
            begin = asyncio.get_running_loop().time()
            got = await asked_through(
                proxy, heartbeat(1), request_frame(METADATA, 12, ALL_TOPICS, 2), count=2
            )
            assert [int.from_bytes(each[4:8]) for each in got] == [1, 2]
            assert asyncio.get_running_loop().time() - begin >= 0.1

    run(test)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Intervention]:
    """The interventions reported for recorded frames."""
    told: list[Intervention] = []

    def note(_: Half, data: bytes, now: int, comment: str = "") -> None:
        told.extend(done for line in comment.split("\n") if (done := comment_content(line)) is not None)

    monkeypatch.setattr(Half, "_record", note)
    return told


def test_how_long_frames_waited_is_recorded(tmp_path: Path, recorded: list[Intervention]) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            proxy.plane.inspector = ScriptedInspector(HEARTBEAT, verdict=Verdict(delay=100_000_000))
            await asked_through(proxy, heartbeat(1), request_frame(METADATA, 12, ALL_TOPICS, 2), count=2)

    run(test)
    first, behind = [each for each in recorded if each.delayed_ns]
    assert min(first.delayed_ns, behind.delayed_ns) > 90_000_000
    assert first.intervenes


def test_a_frame_that_is_held_as_its_connection_ends_is_recorded(
    tmp_path: Path, recorded: list[Intervention]
) -> None:
    async def test() -> None:
        async with (
            FakeBroker() as broker,
            running(tmp_path, ("127.0.0.1", broker.port), hold="api == Metadata") as proxy,
        ):
            async with await Client.connect(proxy.address) as client:
                client.send(request_frame(METADATA, 12, ALL_TOPICS, 1))
                await until(lambda: bool(proxy.plane.inspection.holds.to_json()["held"]))
                raw = client.writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST, not FIN
                client.writer.transport.abort()
            await until(lambda: not proxy.plane.sessions)

    run(test)
    (told,) = recorded
    assert (told.released_by, told.not_forwarded, told.held_ns > 0) == ("gone", True, True)


def test_a_held_frame_waits_until_it_is_released(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            inspector = ScriptedInspector(HEARTBEAT)
            proxy.plane.inspector = inspector
            async with await Client.connect(proxy.address) as client:
                hold = Hold(1, Frame(None, "request", b"", 0, 0, 0, 0), 0)  # type: ignore[arg-type]
                inspector.verdict = Verdict(hold=hold)
                client.send(heartbeat(1))
                await until(lambda: bool(inspector.frames))
                inspector.verdict = UNCHANGED
                client.send(
                    request_frame(METADATA, 12, ALL_TOPICS, 2), request_frame(METADATA, 12, ALL_TOPICS, 3)
                )
                await until(lambda: hold.waiting_behind() == 2)
                broker.received.clear()
                hold.release(Verdict(data=heartbeat(1).replace(b"app", b"apt")))
                got = [int.from_bytes((await client.frame())[4:8]) for _ in range(3)]
                assert got == [1, 2, 3]
                assert [each.client_id for each in heard(broker)] == ["apt", "app", "app"]
            await until(lambda: not proxy.plane.sessions)
            assert not hold.gone

    run(test)


def test_a_hold_knows_that_its_connection_has_gone(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            hold = Hold(1, Frame(None, "request", b"", 0, 0, 0, 0), 0)  # type: ignore[arg-type]
            proxy.plane.inspector = ScriptedInspector(HEARTBEAT, verdict=Verdict(hold=hold))
            client = await Client.connect(proxy.address)
            client.send(heartbeat(1))
            await until(lambda: bool(proxy.plane.inspector.frames))
            client.writer.transport.abort()
            broker.drop_connections()
            await until(lambda: hold.gone)

    run(test)


@pytest.mark.parametrize("ending", [Ending.CLOSE, Ending.RESET])
def test_a_verdict_can_end_the_connection(tmp_path: Path, ending: Ending) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            broker.received.clear()
            proxy.plane.inspector = ScriptedInspector(HEARTBEAT, verdict=Verdict(data=b"", ending=ending))
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1))
                assert await client.ended() == b""
            assert not broker.of(HEARTBEAT)
            await until(lambda: not proxy.plane.sessions)

    run(test)


def test_a_black_hole_swallows_everything_and_stays_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            proxy.plane.inspector = ScriptedInspector(
                HEARTBEAT, verdict=Verdict(data=b"", ending=Ending.SWALLOW)
            )
            async with await Client.connect(proxy.address) as client:
                client.send(request_frame(METADATA, 12, ALL_TOPICS, 1))
                await client.frame()
                client.send(heartbeat(2), request_frame(METADATA, 12, ALL_TOPICS, 3))
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.15):
                        await client.reader.read(1)
            assert not broker.of(HEARTBEAT)

    run(test)


@pytest.mark.slow
def test_a_throttled_response_takes_its_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            broker.answers[FETCH] = lambda *_: struct.pack(">ii", 10_000, 1) + bytes(9_996)
            proxy.plane.inspector = ScriptedInspector(FETCH, side="response", verdict=Verdict(rate=50_000))
            body = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
            begin = asyncio.get_running_loop().time()
            (got,) = await asked_through(proxy, request_frame(FETCH, 12, body))
            assert len(got) == 10_004
            assert asyncio.get_running_loop().time() - begin >= 0.15

    run(test)


def test_a_response_is_shown_with_its_request_and_with_the_addresses_that_the_client_gets(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with FakeBroker() as broker, running(tmp_path, ("127.0.0.1", broker.port)) as proxy:
            inspector = proxy.plane.inspector = ScriptedInspector(METADATA, side="response")
            asked = request_frame(METADATA, 12, ALL_TOPICS, 1)
            (got,) = await asked_through(proxy, asked)
            shown = inspector.frames[-1]
            assert shown.side == "response"
            assert shown.data == got
            assert shown.request is not None
            assert shown.request.data == asked

    run(test)
