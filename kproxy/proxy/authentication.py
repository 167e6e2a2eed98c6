"""Authentication of clients' connections at their brokers, by kproxy with its own credentials (``--authenticate``).

kproxy's requests travel on the client's connection to the broker: before the client's first byte, and again before the
session at the broker expires (KIP-368). They are paired with responses by the queue that pairs the client's. Their
bytes are neither forwarded nor recorded.

During authentication a broker accepts no other request (``SaslServerAuthenticator.java``). So kproxy reads nothing from
the client meanwhile, and starts once all requests in flight are answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from captures.interventions import Intervention, as_comment
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.error_codes import ErrorCode
from dissectors.headers import response_frame
from kproxy.addresses import Address, address_text
from kproxy.proxy.framing import TrackedRequest
from kproxy.proxy.own_requests import OwnRequestError, OwnRequests
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.verdicts import Ending, Verdict

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kproxy.proxy.session import Session
    from kproxy.proxy.tls.security import Security

_SHARE_OF_LIFETIME = 0.85
"""After which share authentication is repeated; Java clients use 0.85 to 0.95 (``SaslClientAuthenticator.java``)."""
_LEAST_SECONDS = 1.1
"""A broker accepts one authentication a second (``KafkaChannel.java``, ``MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS``)."""
_POLL_SECONDS = 0.01


class Authentication(OwnRequests):
    """Authenticates the connection of a session to its broker, for as long as the session lasts.

    :param broker: its address, for messages
    :param timeout: seconds that one authentication may take
    """

    def __init__(self, session: Session, security: Security, broker: Address, timeout: float) -> None:
        super().__init__(address_text(*broker))
        self._session = session
        self._security = security
        self._timeout = timeout
        self._answer: asyncio.Future[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._repeating: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Authenticate before anything is read from the client.

        :raises OwnRequestError: if the broker refuses or does not answer in time; the connection is reset then
        """
        try:
            await self._in_time(self.introduce(self._security))
        except BaseException:
            self._session.abort()
            raise
        self._schedule()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop, because the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(OwnRequestError(diagnosis.broker_ended(error, self.address)))

    async def _send(self, frame: bytes, *, is_token: bool = False) -> asyncio.Future[bytes]:
        transport = self._session.responses.transport
        if self._session.closed or transport.is_closing():
            raise OwnRequestError(diagnosis.broker_ended(None, self.address))
        answer = self._answer = asyncio.get_running_loop().create_future()
        # nothing else is in flight, so that even a raw token, which has no correlation ID, is paired
        self._session.in_flight.expect(
            TrackedRequest(-1, 0, self._correlation_id, None, receive=answer.set_result)
        )
        transport.write(frame)
        return answer

    async def _in_time(self, authentication: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await authentication
        except TimeoutError:
            raise OwnRequestError(f"{self.address} did not answer within {self._timeout:g} s") from None

    # ------------------------------------------------------------ re-authentication
    def _schedule(self) -> None:
        if self.session_lifetime:
            seconds = max(self.session_lifetime * _SHARE_OF_LIFETIME, _LEAST_SECONDS)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._session.requests.block, self._repeat)

    def _repeat(self) -> None:
        self._repeating = asyncio.get_running_loop().create_task(self._authenticate_again())

    async def _authenticate_again(self) -> None:
        session = self._session
        while session.in_flight and not session.closed:  # a JoinGroup may take minutes
            await asyncio.sleep(_POLL_SECONDS)
        if session.closed or session.swallowing:
            return
        assert self._security.sasl is not None
        try:
            await self._in_time(self.authenticate(self._security.sasl))
        except OwnRequestError as error:
            if not session.closed:
                session.plane.not_authenticated(session.peers, str(error))
                session.abort()
            return
        session.requests.unblock()
        self._schedule()


def refused_handshake(version: int, correlation_id: int) -> Verdict:
    """Return what to do with a client's SaslHandshake: a broker that expects none gives the same answer.

    Source: ``KafkaApis.handleSaslHandshakeRequest``.
    """
    comments = [as_comment(Intervention(not_forwarded=True))]
    known = api(ApiKey.SASL_HANDSHAKE)
    if known is None or version not in known.response.versions:
        return Verdict(data=b"", ending=Ending.CLOSE, comments=comments)
    layout = known.response[version]
    body = {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}
    answer = response_frame(layout, correlation_id, layout.build(body))
    return Verdict(data=b"", answer=answer, comments=comments)
