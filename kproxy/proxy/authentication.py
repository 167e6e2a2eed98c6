"""Authentication of clients' connections at their brokers, by kproxy with its own credentials (``--authenticate``).

kproxy's requests travel on the client's connection to the broker, before the client's first byte. The queue that pairs
the client's requests with responses pairs them too. Their bytes are neither forwarded nor recorded.

If the broker limits the session (KIP-368), the first request towards its end waits until kproxy has authenticated
again, as in Java clients (``Selector.attemptWrite``). An idle connection needs none: the broker closes an expired one
at its next request, unless that is SaslHandshake (``SocketServer.processCompletedReceives``). During authentication a
broker accepts no other request (``SaslServerAuthenticator.java``). So kproxy reads nothing from the client meanwhile,
and starts once all requests in flight are answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kproxy.addresses import address_text
from kproxy.proxy.framing import TrackedRequest
from kproxy.proxy.own_requests import OwnRequestError, OwnRequests
from kproxy.proxy.tls import diagnosis

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kproxy.proxy.session import Session

_SHARE_OF_LIFETIME = 0.85
"""Share of the session's lifetime after which requests wait; Java clients choose 0.85 to 0.95
(``SaslClientAuthenticator.java``)."""
_LEAST_SECONDS = 1.1
"""A broker accepts one re-authentication a second (``KafkaChannel.java``, ``MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS``)."""
_POLL_SECONDS = 0.01


class Authentication(OwnRequests):
    """Authenticates the connection of a session to its broker, for as long as the session lasts."""

    def __init__(self, session: Session) -> None:
        super().__init__(address_text(*session.peers.broker))
        self._session = session
        self._security = session.cluster.settings.security
        self._timeout = session.plane.settings.connect_timeout
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

    def connection_lost(self, error: Exception | None) -> bool:
        """Stop, because the connection has ended; return whether that makes an authentication fail."""
        if self._timer is not None:
            self._timer.cancel()
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_exception(OwnRequestError(diagnosis.broker_ended(error, self.address)))
        return True

    async def _send(self, frame: bytes, *, is_token: bool = False) -> asyncio.Future[bytes]:
        responses = self._session.responses
        if responses.ended or responses.transport.is_closing():
            raise OwnRequestError(diagnosis.broker_ended(None, self.address))
        answer = self._answer = asyncio.get_running_loop().create_future()
        # nothing else is in flight, so that even a raw token, which has no correlation ID, is paired
        self._session.in_flight.expect(
            TrackedRequest(-1, 0, self._correlation_id, None, receive=answer.set_result)
        )
        responses.transport.write(frame)
        return answer

    async def _in_time(self, authentication: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await authentication
        except TimeoutError:
            raise OwnRequestError(f"{self.address} did not answer within {self._timeout:g} s") from None

    # ------------------------------------------------------------ re-authentication
    def _schedule(self) -> None:
        if self.session_lifetime and not self._session.closed:
            seconds = max(self.session_lifetime * _SHARE_OF_LIFETIME, _LEAST_SECONDS)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._session.requests.block, self._repeat)

    def _repeat(self) -> None:
        self._repeating = asyncio.get_running_loop().create_task(self._authenticate_again())

    async def _authenticate_again(self) -> None:
        session = self._session
        while not (session.requests.is_settled or session.closed):  # a JoinGroup may take minutes
            await asyncio.sleep(_POLL_SECONDS)
        if session.swallowing:
            return
        assert self._security.sasl is not None
        try:
            await self._in_time(self.authenticate(self._security.sasl))
        except OwnRequestError as error:
            if not session.closed:
                session.plane.not_authenticated(session.peers, str(error))
                session.abort()
            return
        if not session.closed:
            session.requests.unblock()
            self._schedule()
