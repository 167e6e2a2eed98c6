"""kproxy's own requests to the fake broker; anything that it does not support is scripted."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.headers import RequestHeader, request_header_version
from kproxy.proxy.own_requests import BrokerConnection, ClusterView, OwnRequestError, cluster_of
from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.contexts import server_context
from kproxy.proxy.tls.security import PLAINTEXT, Sasl, Security, Tls
from tests.kproxy.fake_broker import CLOSE, FakeBroker
from tests.waiting import PATIENCE

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, Any]], Any]

LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
PRODUCE, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 0, 17, 18, 36
BROKERS = [(1, "kafka1", 9092), (20, "kafka2", 19092)]


def _frame(key: int, version: int, correlation_id: int, body: dict[str, Any]) -> bytes:
    known = api(key)
    assert known is not None
    header = RequestHeader[request_header_version(known.request, version)].build(
        {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": "test",
        }
    )
    payload = header + known.request[version].build(body)
    return bytes(struct.pack(">i", len(payload)) + payload)


async def _connected(broker: FakeBroker, use: Callable[[BrokerConnection], Awaitable[T]]) -> T:
    async with (
        broker,
        await BrokerConnection.connect("127.0.0.1", broker.port, timeout=PATIENCE) as connection,
    ):
        return await use(connection)


async def _cluster(
    broker: FakeBroker, security: Security = PLAINTEXT, host: str = "127.0.0.1"
) -> ClusterView:
    async with broker:
        return await cluster_of([(host, broker.port)], security, timeout=PATIENCE)


@LOOPS
def test_the_brokers_of_a_cluster(run: Run) -> None:
    broker = FakeBroker(advertised=BROKERS, controller_id=20)
    assert run(_cluster(broker)) == ClusterView("fake-cluster-of-a-test", BROKERS, 20)
    (asked,) = broker.of(ApiKey.METADATA)
    assert asked.body is not None
    assert asked.body["topics"] == []
    assert not asked.body["allow_auto_topic_creation"]
    assert asked.client_id == "kproxy"


@pytest.mark.parametrize(
    "versions", [{18: (0, 0), 3: (0, 0)}, {18: (0, 2), 3: (1, 5)}, {18: (0, 99), 3: (2, 99)}]
)
def test_old_and_future_brokers(versions: dict[int, tuple[int, int]]) -> None:
    view = asyncio.run(_cluster(FakeBroker(advertised=BROKERS, versions=versions)))
    assert view.brokers == BROKERS


def test_no_version_in_common() -> None:
    with pytest.raises(OwnRequestError, match="offers no version of Metadata that kproxy can use"):
        asyncio.run(_cluster(FakeBroker(versions={18: (0, 3), 3: (90, 99)})))
    with pytest.raises(OwnRequestError, match="offers no version of Metadata"):
        asyncio.run(_cluster(FakeBroker(versions={18: (0, 3)})))


@LOOPS
def test_the_first_address_that_answers_decides(run: Run) -> None:
    async def go() -> ClusterView:
        async with FakeBroker() as gone:
            port = gone.port
        async with FakeBroker(advertised=BROKERS) as broker:
            return await cluster_of([("127.0.0.1", port), ("127.0.0.1", broker.port)], timeout=PATIENCE)

    assert run(go()).brokers == BROKERS


def test_every_failure_is_told() -> None:
    with pytest.raises(
        OwnRequestError, match=r"127\.0\.0\.1:1 refuses connections.*; a\.\.b:2 cannot be reached"
    ):
        asyncio.run(cluster_of([("127.0.0.1", 1), ("a..b", 2)], timeout=PATIENCE))


@LOOPS
def test_tls(run: Run, tmp_path: Any) -> None:
    authority = Authority.open(tmp_path / "authority")
    tls = server_context(authority.identity("localhost"))
    trusting = Security(tls=Tls(authorities=authority.certificate))
    assert run(_cluster(FakeBroker(tls=tls, advertised=BROKERS), trusting, "localhost")).brokers == BROKERS
    with pytest.raises(
        OwnRequestError, match=r"not for the name that was asked for, 127\.0\.0\.1, it is for localhost"
    ):
        run(_cluster(FakeBroker(tls=tls), trusting))
    with pytest.raises(OwnRequestError, match="is signed by an unknown authority"):
        run(_cluster(FakeBroker(tls=tls), Security(tls=Tls()), "localhost"))


def test_tls_at_a_plaintext_port() -> None:
    async def go() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            await cluster_of([server.sockets[0].getsockname()], Security(tls=Tls()), timeout=PATIENCE)

    with pytest.raises(OwnRequestError, match="it may be a plaintext port"):
        asyncio.run(go())


def test_options_that_openssl_refuses() -> None:
    with pytest.raises(OwnRequestError, match="NONSENSE"):
        asyncio.run(cluster_of([("127.0.0.1", 1)], Security(tls=Tls(ciphers="NONSENSE"))))


# -- authentication --------------------------------------------------------------------------------------------


def _plain(body: dict[str, Any], version: int) -> dict[str, Any]:
    if body["auth_bytes"] == b"\0alice\0secret":
        return {"auth_bytes": b""}
    return {"error_code": 58, "error_message": "Invalid username or password", "auth_bytes": b""}


class _ScramServer:
    """The server side of RFC 5802, with the password "secret"."""

    def __init__(self) -> None:
        self._first = ""

    def __call__(self, body: dict[str, Any], version: int) -> dict[str, Any]:
        token = body["auth_bytes"].decode()
        if not self._first:
            self._first = token.removeprefix("n,,")
            self._nonce = self._first.partition(",r=")[2] + "server"
            self._challenge = f"r={self._nonce},s={base64.b64encode(b'salt').decode()},i=4096"
            return {"auth_bytes": self._challenge.encode()}
        salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4096)
        message = f"{self._first},{self._challenge},c=biws,r={self._nonce}".encode()
        client_key = hmac.digest(salted, b"Client Key", "sha512")
        signature = hmac.digest(hashlib.sha512(client_key).digest(), message, "sha512")
        proof = base64.b64decode(token.partition(",p=")[2])
        if bytes(one ^ other for one, other in zip(proof, signature, strict=True)) != client_key:
            return {"error_code": 58, "error_message": "invalid credentials", "auth_bytes": b""}
        final = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), message, "sha512")
        return {"auth_bytes": b"v=" + base64.b64encode(final)}


@LOOPS
def test_plain(run: Run) -> None:
    security = Security(sasl=Sasl("PLAIN", "alice", "secret"))
    broker = FakeBroker(answers={SASL_AUTHENTICATE: _plain}, advertised=BROKERS)
    assert run(_cluster(broker, security)).brokers == BROKERS
    wrong = Security(sasl=Sasl("PLAIN", "alice", "hunter2"))
    with pytest.raises(
        OwnRequestError, match=r"authentication at .* failed: Invalid username or password"
    ) as told:
        run(_cluster(FakeBroker(answers={SASL_AUTHENTICATE: _plain}), wrong))
    assert "hunter2" not in str(told.value)


def test_scram() -> None:
    broker = FakeBroker(answers={SASL_AUTHENTICATE: _ScramServer()}, advertised=BROKERS)
    assert (
        asyncio.run(_cluster(broker, Security(sasl=Sasl("SCRAM-SHA-512", "a", "secret")))).brokers == BROKERS
    )
    broker = FakeBroker(answers={SASL_AUTHENTICATE: _ScramServer()})
    with pytest.raises(OwnRequestError, match="failed: invalid credentials"):
        asyncio.run(_cluster(broker, Security(sasl=Sasl("SCRAM-SHA-512", "a", "another"))))


def test_a_mechanism_that_the_broker_does_not_have() -> None:
    answer = {"error_code": 33, "mechanisms": ["GSSAPI", "OAUTHBEARER"]}
    broker = FakeBroker(answers={SASL_HANDSHAKE: lambda body, version: answer})
    with pytest.raises(OwnRequestError, match="does not offer PLAIN, only GSSAPI, OAUTHBEARER"):
        asyncio.run(_cluster(broker, Security(sasl=Sasl("PLAIN", "a", "b"))))


def test_raw_tokens() -> None:
    """Kafka 0.10: after SaslHandshake v0, tokens have no header, and the response to PLAIN is empty."""
    tokens: list[bytes] = []

    async def raw(reader: asyncio.StreamReader) -> bytes:
        return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (
            "0023 00000001 0012 0000 0000",  # size and correlation ID precede it
            "0000 00000003 0003 0000 0001 0011 0000 0000 0012 0000 0000",
            "0000 00000001 0005 504c41494e",
        ):
            request = await raw(reader)
            body = bytes.fromhex(answer)
            writer.write(struct.pack(">i", 4 + len(body)) + request[4:8] + body)
        tokens.append(await raw(reader))
        writer.write(bytes(4))
        request = await raw(reader)
        body = bytes.fromhex("00000001 00000001 0002 6b31 00002384 ffff 00000001 00000000")
        writer.write(struct.pack(">i", 4 + len(body)) + request[4:8] + body)
        await writer.drain()
        writer.close()

    async def go() -> ClusterView:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            security = Security(sasl=Sasl("PLAIN", "alice", "secret"))
            return await cluster_of([server.sockets[0].getsockname()], security, timeout=PATIENCE)

    assert asyncio.run(go()) == ClusterView(None, [(1, "k1", 9092)], 1)
    assert tokens == [b"\0alice\0secret"]


def test_a_broker_that_wants_authentication() -> None:
    broker = FakeBroker(answers={ApiKey.METADATA: lambda body, version: CLOSE})
    with pytest.raises(
        OwnRequestError, match="closed the connection at the first request: it may want authentication"
    ):
        asyncio.run(_cluster(broker))


# -- connections -----------------------------------------------------------------------------------------------


@LOOPS
def test_requests_are_pipelined(run: Run) -> None:
    broker = FakeBroker()

    async def use(connection: BrokerConnection) -> list[bytes]:
        frames = [_frame(ApiKey.METADATA, 1, number, {"topics": []}) for number in range(100, 150)]
        return await asyncio.gather(*[await connection.send_raw(frame) for frame in frames])

    answers = run(_connected(broker, use))
    assert [struct.unpack_from(">i", answer, 4)[0] for answer in answers] == list(range(100, 150))
    assert all(len(answer) == 4 + struct.unpack_from(">i", answer)[0] for answer in answers)


def test_a_produce_without_acks_is_not_answered() -> None:
    broker = FakeBroker()
    broker.topic("t")

    async def use(connection: BrokerConnection) -> bytes:
        produce = {"transactional_id": None, "acks": 0, "timeout_ms": 1, "topic_data": []}
        nothing = await connection.send_raw(_frame(PRODUCE, 7, 5, produce), answered=False)
        assert await nothing == b""
        return await (await connection.send_raw(_frame(ApiKey.METADATA, 1, 6, {"topics": []})))

    assert asyncio.run(_connected(broker, use))[4:8] == b"\0\0\0\6"
    assert len(broker.of(PRODUCE)) == 1


@LOOPS
def test_what_is_not_answered_fails_when_the_broker_leaves(run: Run) -> None:
    broker = FakeBroker(answers={ApiKey.METADATA: lambda body, version: CLOSE})

    async def use(connection: BrokerConnection) -> None:
        first, second = [
            await connection.send_raw(_frame(ApiKey.METADATA, 1, n, {"topics": []})) for n in (1, 2)
        ]
        for each in (first, second):
            with pytest.raises(OwnRequestError, match="closed the connection"):
                await each
        assert connection.ended
        with pytest.raises(OwnRequestError, match="closed the connection"):
            await connection.send_raw(_frame(ApiKey.METADATA, 1, 3, {"topics": []}))

    run(_connected(broker, use))


def test_nobody_has_to_wait_for_answers() -> None:
    async def use(connection: BrokerConnection) -> None:
        await connection.send_raw(_frame(ApiKey.METADATA, 1, 1, {"topics": []}))

    asyncio.run(_connected(FakeBroker(answers={ApiKey.METADATA: lambda body, version: None}), use))


def test_a_request_that_is_not_answered_in_time() -> None:
    async def use(connection: BrokerConnection) -> None:
        await connection.request(ApiKey.METADATA, 1, {"topics": []}, timeout=0.05)

    with pytest.raises(OwnRequestError, match=r"did not answer Metadata within 0\.05 s"):
        asyncio.run(_connected(FakeBroker(answers={ApiKey.METADATA: lambda body, version: None}), use))


def test_a_broker_that_says_nothing() -> None:
    async def go() -> None:
        async with FakeBroker(answers={API_VERSIONS: lambda body, version: None}) as broker:
            await BrokerConnection.connect("127.0.0.1", broker.port, timeout=0.1)

    with pytest.raises(OwnRequestError, match=r"did not answer within 0\.1 s"):
        asyncio.run(go())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\x15\x03\x03\0\x02\x02\x50", "answers with a TLS alert: it is a TLS port"),
        (b"HTTP/1.1 400 Bad Request\r\n", "answers in HTTP: it is not a Kafka broker"),
        (b"\xff\xff\xff\xff", "does not speak Kafka: a frame of -1 bytes"),
        (b"\0\0\0\x06\0\0\0\x63\0\0", "wrong correlation ID"),
        (b"\0\0\0\x06\0\0\0\x01\0\0", "ApiVersions v3 response .* cannot be read"),
        (b"\0\0\0\0", "wrong correlation ID"),
    ],
)
def test_what_is_no_broker(answer: bytes, reason: str) -> None:
    with pytest.raises(OwnRequestError, match=reason):
        asyncio.run(_cluster(FakeBroker(answers={API_VERSIONS: lambda body, version: answer})))


def test_a_metadata_error_is_told() -> None:
    with pytest.raises(OwnRequestError, match="answers Metadata with REBOOTSTRAP_REQUIRED"):
        asyncio.run(
            _cluster(FakeBroker(answers={ApiKey.METADATA: lambda body, version: {"error_code": 129}}))
        )
    with pytest.raises(OwnRequestError, match="knows no brokers yet"):
        asyncio.run(_cluster(FakeBroker(advertised=[])))
