"""Client connections that kproxy authenticates at a fake broker (``--authenticate``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dissectors.api_keys import ApiKey
from kproxy.proxy import authentication
from kproxy.proxy.directions import Responses
from kproxy.proxy.session import Session
from kproxy.proxy.tls.security import Sasl, Security
from tests.kproxy.fake_broker import CLOSE, METADATA, FakeBroker, ReceivedRequest
from tests.kproxy.frames import request_frame
from tests.kproxy.proxy.planes import Client, RunningPlane, run, running
from tests.kproxy.proxy.talk import ALL_TOPICS, SASL_HANDSHAKE, heard, heartbeat, produce
from tests.waiting import PATIENCE, until

SASL_AUTHENTICATE = 36
ALICE = Security(sasl=Sasl("PLAIN", "alice", "secret"))
LIFETIME = 400  # ms


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(authentication, "_LEAST_SECONDS", 0.1)


class Authenticator:
    """A broker's answers to SaslAuthenticate.

    :ivar lifetime: lifetime of sessions in ms, 0 without re-authentication
    :ivar gate: event to wait for before each answer
    :ivar count: number of successful authentications
    """

    def __init__(self, lifetime: int = 0, password: bytes = b"secret") -> None:
        self.lifetime = lifetime
        self.password = password
        self.gate = asyncio.Event()
        self.gate.set()
        self.count = 0

    async def __call__(self, body: dict[str, Any], version: int) -> dict[str, Any]:
        await self.gate.wait()
        if body["auth_bytes"] != b"\0alice\0" + self.password:
            return {"error_code": 58, "error_message": "Invalid username or password", "auth_bytes": b""}
        self.count += 1
        return {"auth_bytes": b"", "session_lifetime_ms": self.lifetime}


@asynccontextmanager
async def authenticating(
    path: Path, answer: Any, **settings: Any
) -> AsyncIterator[tuple[FakeBroker, RunningPlane]]:
    """Run a broker that requires authentication behind a data plane."""
    async with (
        FakeBroker(answers={SASL_AUTHENTICATE: answer}) as broker,
        running(path, ("127.0.0.1", broker.port), security=ALICE, authenticate=True, **settings) as proxy,
    ):
        yield broker, proxy


def ids(frames: list[bytes]) -> list[int]:
    return [int.from_bytes(frame[4:8]) for frame in frames]


async def blocked(proxy: RunningPlane) -> None:
    """Wait until the next request of the only client is blocked by re-authentication."""
    await until(lambda: any(session.requests._when_blocked is not None for session in proxy.plane.sessions))


def limit_authentication(proxy: RunningPlane, seconds: float) -> None:
    """Limit the time that the only client's broker may take for the next authentication."""
    (session,) = proxy.plane.sessions
    assert session.authentication is not None
    session.authentication._timeout = seconds


def on(broker: FakeBroker, connection: int) -> list[ReceivedRequest]:
    return [each for each in broker.received if each.connection == connection]


def test_a_connection_is_authenticated_before_its_first_request(tmp_path: Path) -> None:
    async def test() -> None:
        async with authenticating(tmp_path, Authenticator()) as (broker, proxy):
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(7), request_frame(METADATA, 12, ALL_TOPICS, 8))
                assert ids([await client.frame(), await client.frame()]) == [7, 8]
            last = on(broker, broker.connections)
            assert [each.key for each in last] == [18, SASL_HANDSHAKE, SASL_AUTHENTICATE, 12, METADATA]

    run(test)


def test_a_broker_that_refuses_the_credentials(tmp_path: Path) -> None:
    async def test() -> None:
        async with authenticating(tmp_path, Authenticator(password=b"another")) as (broker, proxy):
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1))
                assert await client.ended() == b""
            assert any(
                "failed: Invalid username or password" in each["text"] and "secret" not in each["text"]
                for each in proxy.told.of("warning")
            )
            assert not heard(broker)

    run(test)


def test_a_client_that_authenticates_itself_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with authenticating(tmp_path, Authenticator()) as (broker, proxy):
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1))
                await client.frame()
                answer = await client.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, 2)
                assert answer == {"error_code": 34, "mechanisms": []}
            assert not [each for each in heard(broker) if each.key == SASL_HANDSHAKE]
            assert any("security.protocol=PLAINTEXT" in each["text"] for each in proxy.told.of("warning"))

    run(test)


@pytest.mark.parametrize("cut", [None, "every byte"])
def test_reauthentication_between_pipelined_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str | None
) -> None:
    if cut:
        _cut_at_every_byte(monkeypatch)
    recorded: dict[int, bytes] = {0: b"", 1: b""}
    _record_into(monkeypatch, recorded)

    async def test() -> None:
        answer = Authenticator(LIFETIME)
        async with authenticating(tmp_path, answer) as (broker, proxy):
            async with await Client.connect(proxy.address) as client:
                sent, begun = b"", answer.count
                got: list[bytes] = []
                while answer.count < begun + 4:
                    frames = [heartbeat(number) for number in range(len(got) + 1, len(got) + 6)]
                    joined = b"".join(frames)
                    client.send(joined[:30])
                    await asyncio.sleep(0.003)
                    client.send(joined[30:])
                    sent += joined
                    got += [await client.frame() for _ in frames]
                assert ids(got) == list(range(1, len(got) + 1))
            assert recorded == {0: sent, 1: b"".join(got)}
            keys = [each.key for each in on(broker, broker.connections)]
            assert keys.count(SASL_AUTHENTICATE) == keys.count(SASL_HANDSHAKE)
            for place, key in enumerate(keys):
                assert key != SASL_HANDSHAKE or keys[place + 1] == SASL_AUTHENTICATE

    run(test)


def _cut_at_every_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Responses.data_received

    def data_received(self: Responses, data: bytes) -> None:
        for at in range(len(data)):
            whole(self, data[at : at + 1])

    monkeypatch.setattr(Responses, "data_received", data_received)


def _record_into(monkeypatch: pytest.MonkeyPatch, kept: dict[int, bytes]) -> None:
    class Kept:
        def data(self, side: int, data: bytes, now: int, comment: str = "") -> None:
            kept[side] += data

        def end(self, side: int, now: int) -> None: ...

        def reset(self, side: int, now: int) -> None: ...

    record = Session.record
    monkeypatch.setattr(Session, "record", lambda self, _: record(self, Kept()))  # type: ignore[arg-type]


def test_requests_and_the_end_wait_while_the_broker_authenticates(tmp_path: Path) -> None:
    """The address in Metadata is rewritten, too, which proves that the response was paired with its request."""

    async def test() -> None:
        answer = Authenticator(LIFETIME)
        async with authenticating(tmp_path, answer) as (broker, proxy):
            async with await Client.connect(proxy.address) as client:
                await client.ask(12, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
                answer.gate.clear()
                number = broker.connections
                before = len(on(broker, number))
                await blocked(proxy)
                client.send(heartbeat(1))
                await until(lambda: len(on(broker, number)) == before + 2)  # SaslHandshake, SaslAuthenticate
                client.send(request_frame(METADATA, 12, ALL_TOPICS, 2))
                client.writer.write_eof()
                await asyncio.sleep(0.05)
                assert len(on(broker, number)) == before + 2
                answer.gate.set()
                assert ids([await client.frame()]) == [1]
                (told,) = (await client.response(METADATA, 12))["brokers"]
                assert told["port"] != broker.port
                assert await client.ended() == b""
            assert not proxy.told.of("warning")

    run(test)


def test_a_broker_that_does_not_answer_reauthentication_loses_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        answer = Authenticator(LIFETIME)
        async with authenticating(tmp_path, answer) as (_, proxy):
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1))
                await client.frame()
                limit_authentication(proxy, 0.3)
                answer.gate.clear()
                await blocked(proxy)
                client.send(heartbeat(2))
                assert await client.ended() == b""
            assert any("did not answer within 0.3 s" in each["text"] for each in proxy.told.of("warning"))

    run(test)


def test_reauthentication_waits_for_a_response_that_takes_long(tmp_path: Path) -> None:
    async def test() -> None:
        answer, joined = Authenticator(LIFETIME), asyncio.Event()

        async def join(body: dict[str, Any], version: int) -> dict[str, Any]:
            await joined.wait()
            return {}

        async with authenticating(tmp_path, answer) as (broker, proxy):
            broker.answers[ApiKey.HEARTBEAT] = join
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1))
                await blocked(proxy)
                limit_authentication(proxy, 0.2)
                client.send(heartbeat(2))
                await asyncio.sleep(0.3)
                limit_authentication(proxy, PATIENCE)
                count = answer.count
                joined.set()
                assert ids([await client.frame(), await client.frame()]) == [1, 2]
                assert answer.count == count + 1

    run(test)


def test_a_broker_that_closes_instead_of_answering_is_reported_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with authenticating(tmp_path, lambda body, version: CLOSE, connect_timeout=30) as (_, proxy):
            async with await Client.connect(proxy.address) as client:
                client.send(heartbeat(1))
                assert await client.ended() == b""
            assert any("closed the connection" in each["text"] for each in proxy.told.of("warning"))

    run(test)


@pytest.mark.parametrize("cut", [20, None])
def test_an_idle_connection_is_authenticated_with_its_next_request(tmp_path: Path, cut: int | None) -> None:
    """This includes a lifetime that ends while a request is received, with nothing after its last chunk."""

    async def test() -> None:
        answer = Authenticator(LIFETIME)
        async with authenticating(tmp_path, answer) as (_, proxy):
            async with await Client.connect(proxy.address) as client:
                frame = heartbeat(1)
                client.send(frame[:cut])
                await blocked(proxy)
                if cut is not None:
                    client.send(frame[cut:])
                assert ids([await client.frame()]) == [1]
                count = answer.count
                client.send(heartbeat(2))
                assert ids([await client.frame()]) == [2]
                assert answer.count == count + 1

    run(test)


def test_reauthentication_waits_for_a_delayed_request_without_a_response(tmp_path: Path) -> None:
    async def test() -> None:
        answer = Authenticator(LIFETIME)
        async with authenticating(tmp_path, answer) as (broker, proxy):
            proxy.plane.inspection.rules.add("api == Produce => delay 600ms")
            async with await Client.connect(proxy.address) as client:
                client.send(produce(1, acks=0))
                await blocked(proxy)
                client.send(heartbeat(2))
                assert ids([await client.frame()]) == [2]
            keys = [each.key for each in on(broker, broker.connections)]
            assert keys[-4:] == [ApiKey.PRODUCE, SASL_HANDSHAKE, SASL_AUTHENTICATE, ApiKey.HEARTBEAT]

    run(test)
