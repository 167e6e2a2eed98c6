"""Kafka requests that kproxy itself sends: to learn the brokers of a cluster at start, and for replay.

    connection = await BrokerConnection.connect("broker", 9092, security)
    body = await connection.request(METADATA, connection.version_of(METADATA), {"topics": []})
    answers = [await connection.send_raw(frame) for frame in frames]      # pipelined; each is a Future of a frame
    await connection.close()

A connection first sends ApiVersions, and authenticates. Every failure is an :class:`OwnRequestError` whose message is a
sentence for users. :class:`OwnRequests` is the part that does not depend on who reads the connection: a client's
connection to its broker, too, carries such requests (:mod:`kproxy.proxy.authentication`).
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from dissectors.api_keys import ApiKey
from dissectors.apis import Api, api, api_name
from dissectors.error_codes import ErrorCode, error_name
from dissectors.errors import DecodeError
from dissectors.headers import framed, request_frame, response_header
from kproxy.addresses import Address, address_text
from kproxy.proxy import sasl
from kproxy.proxy.address_map import AddressMap
from kproxy.proxy.dialler import Dialler
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.tls.certificates import certificate_of
from kproxy.proxy.tls.contexts import TlsConfigError, upstream_context
from kproxy.proxy.tls.security import PLAINTEXT, Sasl, Security

CLIENT_ID = "kproxy"

# every broker with ApiVersions answers it, newer ones without a detour by error 35
_FIRST_API_VERSIONS = 3
_REQUEST_START = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")
_MOST = 1 << 30
_TLS_CLOSE_SECONDS = 1.0


class OwnRequestError(Exception):
    """A request of kproxy's own failed; the message says where, why, and what to do."""


class ClusterView(NamedTuple):
    """A cluster as a broker describes it.

    :ivar cluster_id: None before Kafka 0.10.1
    :ivar brokers: node ID, advertised host, advertised port
    :ivar controller_id: -1 if there is none
    """

    cluster_id: str | None
    brokers: list[tuple[int, str, int]]
    controller_id: int = -1


class _PendingRequest(NamedTuple):
    """A request that waits for its response.

    :ivar correlation_id: None for a raw SASL token
    """

    correlation_id: int | None
    answer: asyncio.Future[bytes]


class OwnRequests(ABC):
    """Requests to one broker; subclasses send them and receive the responses.

    :param address: ``host:port``, for messages
    :ivar address: as given
    :ivar versions: lowest and highest version that the broker offers, by API key
    :ivar session_lifetime: seconds from an authentication until the broker wants the next one (KIP-368), 0 for never
    """

    def __init__(self, address: str, client_id: str = CLIENT_ID) -> None:
        self.address = address
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.session_lifetime = 0.0
        self._client_id = client_id
        self._correlation_id = 0

    @abstractmethod
    async def _send(self, frame: bytes, *, is_token: bool = False) -> asyncio.Future[bytes]:
        """Send a frame; return a future of the response frame, including the size field.

        :param is_token: whether it is a raw SASL token, which has no correlation ID
        :raises OwnRequestError: if the connection has ended; the future raises it if it ends later
        """

    def version_of(self, key: int, highest: int | None = None) -> int:
        """Return the highest version of an API that the broker offers and kproxy knows.

        :param highest: upper bound
        :raises OwnRequestError: if there is none
        """
        known = _known(key).request.versions
        if not self.versions:
            return known.first
        offered = self.versions.get(key)
        last = known.last if highest is None else min(known.last, highest)
        version = min(last, offered[1]) if offered else -1
        if offered is None or version < max(offered[0], known.first):
            raise OwnRequestError(f"{self.address} offers no version of {api_name(key)} that kproxy can use")
        return version

    async def request(
        self,
        key: int,
        version: int,
        body: Mapping[str, Any],
        *,
        timeout: float | None = 30.0,
    ) -> dict[str, Any]:
        """Send a request and return the body of its response.

        :param body: values by field name; fields with a default may be omitted
        :param timeout: seconds, None for no bound
        :raises OwnRequestError: if the connection fails, or the response cannot be read
        """
        known = _known(key)
        answer = await self._send(self._frame(known, version, body))
        try:
            async with asyncio.timeout(timeout):
                response = await answer
        except TimeoutError:
            raise OwnRequestError(
                f"{self.address} did not answer {known.name} within {timeout:g} s"
            ) from None
        return self._body(known, version, response)

    def next_correlation_id(self) -> int:
        """Return an unused correlation ID, for a frame made elsewhere."""
        self._correlation_id += 1
        return self._correlation_id

    # -- the first requests -------------------------------------------------------------------------------------

    async def introduce(self, security: Security) -> None:
        await self._ask_versions()
        if security.sasl is not None:
            await self.authenticate(security.sasl)

    async def _ask_versions(self) -> None:
        known = _known(ApiKey.API_VERSIONS)
        version = _FIRST_API_VERSIONS
        response = await self._versions_in(known, version)
        if response["error_code"] == ErrorCode.UNSUPPORTED_VERSION:
            offered = [
                each["max_version"] for each in response["api_keys"] if each["api_key"] == ApiKey.API_VERSIONS
            ]
            version = min(version, *offered) if offered else 0
            response = await self._versions_in(known, version)
        if response["error_code"]:
            raise OwnRequestError(
                f"{self.address} answers ApiVersions with {error_name(response['error_code'])}"
            )
        self.versions = {
            each["api_key"]: (each["min_version"], each["max_version"]) for each in response["api_keys"]
        }

    async def _versions_in(self, known: Api, version: int) -> dict[str, Any]:
        body = {"client_software_name": "kproxy", "client_software_version": "1"} if version >= 3 else {}
        frame = await (await self._send(self._frame(known, version, body)))
        # error 35 is in v0 format, whatever was requested (KIP-511); the error code is first in all versions
        unsupported = frame[8:10] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
        return self._body(known, 0 if unsupported else version, frame)

    async def authenticate(self, credentials: Sasl) -> None:
        try:
            mechanism = sasl.mechanism(credentials, await _token(credentials))
            offered = self.versions.get(ApiKey.SASL_HANDSHAKE, (0, 0))
            version = min(offered[1], 1)
            answer = await self.request(
                ApiKey.SASL_HANDSHAKE, version, {"mechanism": credentials.mechanism}, timeout=None
            )
            if answer["error_code"]:
                raise sasl.SaslError(_refused_mechanism(credentials.mechanism, answer))
            token: bytes | None = mechanism.first()
            while token is not None:
                token = mechanism.answer(await self._exchange(token, raw=version == 0))
        except sasl.SaslError as error:
            raise OwnRequestError(f"authentication at {self.address} failed: {error}") from None

    async def _exchange(self, token: bytes, *, raw: bool) -> bytes:
        """Send a SASL token and return the broker's. Tokens are raw after SaslHandshake v0 (Kafka 0.10)."""
        if raw:
            return (await (await self._send(framed(token), is_token=True)))[4:]
        version = self.version_of(ApiKey.SASL_AUTHENTICATE, 2)
        response = await self.request(ApiKey.SASL_AUTHENTICATE, version, {"auth_bytes": token}, timeout=None)
        if response["error_code"]:
            raise sasl.SaslError(response["error_message"] or error_name(response["error_code"]))
        self.session_lifetime = response.get("session_lifetime_ms", 0) / 1000
        return bytes(response["auth_bytes"])

    # -- frames -------------------------------------------------------------------------------------------------

    def _frame(self, known: Api, version: int, body: Mapping[str, Any]) -> bytes:
        header = {"correlation_id": self.next_correlation_id(), "client_id": self._client_id}
        layout = known.request[version]
        return request_frame(layout, header, layout.build(dict(body)))

    def _body(self, known: Api, version: int, frame: bytes) -> dict[str, Any]:
        message = known.response
        try:
            _, start = response_header(message, version).decode(frame, 4)
            return message[version].decode(frame, start)[0]
        except DecodeError as error:
            raise OwnRequestError(
                f"the {known.name} v{version} response of {self.address} cannot be read: {error}"
            ) from None


class BrokerConnection(OwnRequests):
    """A connection to one broker, made by :meth:`connect`.

    Requests may be pipelined: responses are paired with requests by their order.
    """

    def __init__(
        self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        super().__init__(address_text(host, port), client_id)
        self._reader = reader
        self._writer = writer
        self._pending: deque[_PendingRequest] = deque()
        self._broken = ""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        security: Security = PLAINTEXT,
        *,
        timeout: float = 10.0,
        client_id: str = CLIENT_ID,
        context: ssl.SSLContext | None = None,
        at: Address | None = None,
        dialler: Dialler | None = None,
    ) -> BrokerConnection:
        """Connect, ask for versions, authenticate.

        :param timeout: seconds in total
        :param context: from :func:`~kproxy.proxy.tls.contexts.upstream_context`, if already made
        :param at: the broker's address as seen from this machine, if it differs
        :param dialler: remembers which addresses answered before
        :raises OwnRequestError: if any step fails
        """
        if security.tls is not None and context is None:
            try:
                context = upstream_context(security)
            except TlsConfigError as error:
                raise OwnRequestError(str(error)) from None
        at = at or (host, port)
        where = address_text(*at)
        connection: BrokerConnection | None = None
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await _opened(at, context, host, dialler or Dialler())
                connection = cls(*at, reader, writer, client_id)
                await connection.introduce(security)
                return connection
        except TimeoutError:
            doing = "answer" if connection else "accept the connection"
            failure = OwnRequestError(f"{where} did not {doing} within {timeout:g} s")
        except ssl.SSLCertVerificationError as error:
            certificate = await certificate_of(*at, timeout)
            failure = OwnRequestError(diagnosis.broker_handshake(error, where, host, certificate))
        except (OSError, UnicodeError) as error:  # UnicodeError: no possible host name
            text = diagnosis.broker_handshake(error, where, host)
            failure = OwnRequestError(text if context else diagnosis.broker_unreachable(error, where))
        except OwnRequestError as error:
            failure = error
        except BaseException:
            if connection is not None:
                await connection.close()
            raise
        if connection is not None:
            await connection.close()
        raise failure from None

    async def send_raw(self, frame: bytes, *, answered: bool = True) -> asyncio.Future[bytes]:
        """Send an encoded request; wait only while the broker does not read.

        :param frame: including the size field
        :param answered: whether to expect a response; Produce with acks=0 has none
        :returns: a future of the response frame, including the size field; it raises :class:`OwnRequestError` if the
            connection ends before. If no response is expected, it is already done, with ``b""``.
        :raises OwnRequestError: if the connection has ended
        """
        if answered:
            return await self._send(frame)
        await self._write(frame)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        answer.set_result(b"")
        return answer

    async def _send(self, frame: bytes, *, is_token: bool = False) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        correlation_id = None if is_token else _SIZE.unpack_from(frame, 8)[0]
        await self._write(frame, _PendingRequest(correlation_id, answer))
        return answer

    async def _write(self, frame: bytes, *pending: _PendingRequest) -> None:
        if self._broken:
            raise OwnRequestError(self._broken)
        self._pending.extend(pending)
        self._writer.write(frame)
        try:
            await self._writer.drain()
        except OSError as error:
            self._fail(diagnosis.broker_ended(error, self.address))

    @property
    def ended(self) -> bool:
        """Whether either side has ended the connection."""
        return bool(self._broken)

    async def close(self) -> None:
        """Close the connection; unanswered requests fail."""
        self._fail(f"the connection to {self.address} was closed")
        self._reading.cancel()
        await asyncio.wait([self._reading])
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(2 * _TLS_CLOSE_SECONDS):
                await self._writer.wait_closed()

    async def __aenter__(self) -> BrokerConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _read(self) -> None:
        """Read responses and pass each to the request that it answers."""
        try:
            while True:
                start = await self._reader.readexactly(4)
                (size,) = _SIZE.unpack(start)
                foreign = "" if self.versions else diagnosis.broker_answer(start, self.address)
                if foreign or not 0 <= size <= _MOST:
                    raise OwnRequestError(
                        foreign or f"{self.address} does not speak Kafka: a frame of {size} bytes"
                    )
                self._hand_out(start + await self._reader.readexactly(size))
        except OwnRequestError as error:
            self._fail(str(error))
        except (OSError, asyncio.IncompleteReadError) as error:
            self._fail(diagnosis.broker_ended(error, self.address))

    def _hand_out(self, frame: bytes) -> None:
        if not self._pending:
            raise OwnRequestError(f"{self.address} sent a response that no request asked for")
        expected, answer = self._pending.popleft()
        wrong = expected is not None and frame[4:8] != _SIZE.pack(expected)
        if not answer.done():
            if wrong:
                answer.set_exception(OwnRequestError(f"{self.address} answered with a wrong correlation ID"))
            else:
                answer.set_result(frame)
        if wrong:
            raise OwnRequestError(f"{self.address} answered with a wrong correlation ID")

    def _fail(self, reason: str) -> None:
        """Fail all unanswered requests, and all later ones."""
        self._broken = self._broken or reason
        self._writer.close()
        while self._pending:
            answer = self._pending.popleft().answer
            if not answer.done():
                answer.set_exception(OwnRequestError(self._broken))
                answer.exception()  # marks it as retrieved: nothing need await it


async def _opened(
    at: Address, context: ssl.SSLContext | None, named: str, dialler: Dialler
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    dialled = await dialler.dial(at)
    try:
        if context is None:
            return await asyncio.open_connection(sock=dialled)
        return await asyncio.open_connection(
            sock=dialled, ssl=context, server_hostname=named, ssl_shutdown_timeout=_TLS_CLOSE_SECONDS
        )
    except BaseException:
        dialled.close()
        raise


def _known(key: int) -> Api:
    known = api(key)
    if known is None:
        raise OwnRequestError(f"kproxy does not know the API with key {key}")
    return known


async def _token(credentials: Sasl) -> str:
    """Return a token from an authorization server, if one is named.

    :raises SaslError: if there is none to be had
    """
    if credentials.token_endpoint is None:
        return ""
    from kproxy.proxy.token_endpoint import TOKENS  # the HTTP client is not needed otherwise

    return await TOKENS.get(credentials.token_endpoint)


def _refused_mechanism(mechanism: str, answer: Mapping[str, Any]) -> str:
    offered = ", ".join(answer["mechanisms"])
    if not offered:
        return f"this listener takes no SASL ({error_name(answer['error_code'])})"
    return f"it does not offer {mechanism}, only {offered}: set sasl.mechanism"


async def cluster_of(
    bootstrap: Iterable[tuple[str, int]],
    security: Security = PLAINTEXT,
    timeout: float = 10.0,
    mapped: AddressMap | None = None,
    dialler: Dialler | None = None,
) -> ClusterView:
    """Ask for the brokers of a cluster; the first address that answers decides.

    :param bootstrap: host and port of brokers, tried in turn
    :param timeout: seconds for each
    :param mapped: addresses as seen from this machine
    :param dialler: remembers which addresses answered before
    :raises OwnRequestError: if none answers; the message gives the reason for each
    """
    failures = []
    for host, port in bootstrap:
        try:
            at = None if mapped is None else mapped.lookup(host, port)
            async with await BrokerConnection.connect(
                host, port, security, timeout=timeout, at=at, dialler=dialler
            ) as connection:
                return await _cluster(connection, security, timeout)
        except OwnRequestError as error:
            failures.append(str(error))
    raise OwnRequestError("; ".join(failures))


async def _cluster(connection: BrokerConnection, security: Security, timeout: float) -> ClusterView:
    version = connection.version_of(ApiKey.METADATA)
    try:
        body = await connection.request(
            ApiKey.METADATA, version, {"topics": [], "allow_auto_topic_creation": False}, timeout=timeout
        )
    except OwnRequestError as error:
        if security.sasl is None and connection.ended:
            raise OwnRequestError(
                f"{error} at the first request: it may want authentication, give kproxy credentials of its own with "
                "security.protocol, sasl.mechanism and sasl.jaas.config in --command-config"
            ) from None
        raise
    if body.get("error_code"):
        raise OwnRequestError(f"{connection.address} answers Metadata with {error_name(body['error_code'])}")
    brokers = [(each["node_id"], each["host"], each["port"]) for each in body["brokers"]]
    if not brokers:
        raise OwnRequestError(f"{connection.address} knows no brokers yet: it may be starting")
    return ClusterView(body.get("cluster_id"), brokers, body.get("controller_id", -1))
