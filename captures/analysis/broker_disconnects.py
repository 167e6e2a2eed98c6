"""Connections that brokers ended: the request before, and the likely reason.

A broker that cannot answer closes the connection silently: it does not know the version, the request is too large, the
client has not authenticated, or a Produce with ``acks=0`` failed (SocketServer.scala, KafkaApis.scala). It also closes
connections that were idle for ``connections.max.idle.ms``, and all of them when it stops. The reason is not on the
wire: it is inferred from the unanswered request, and from other connections.

A broker handles the requests of a connection one by one, so the first unanswered one is the relevant one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from captures.analysis.attempts import Outcome, attempts, ended_by_brokers
from captures.analysis.client_identity import ConnectionKey, Introductions, client_name, connection_key
from captures.analysis.offered_versions import OfferedVersions, refuses_old, too_old
from captures.exchanges import Capture, Exchange, Flag
from dissectors.api_keys import CONNECTING, ApiKey
from dissectors.units import SECOND

LARGEST_REQUEST = 100 * 1024 * 1024
"""Bytes; the default of ``socket.request.max.bytes``."""
SOON = SECOND
"""Most ns between a request and the end of the connection that it caused; brokers close at once."""

GONE = 30 * SECOND
"""A broker that rejects new connections within so many ns after closing one counts as stopped."""

_SEVERAL = 2


class Reason(Enum):
    """Why a broker ended a connection, as far as can be inferred."""

    SASL_FAILED = "authentication failed"
    NOT_AUTHENTICATED = "the client did not authenticate"
    UNSUPPORTED_VERSION = "the broker does not know the version"
    TOO_LARGE = "the request was too large"
    ACKS_0 = "a Produce with acks=0 failed"
    STOPPED = "the broker stopped"
    UNANSWERED = "a request stayed unanswered"
    IDLE = "the connection was idle"
    ANSWERED = "all was answered"


class LastRequest(NamedTuple):
    """A request.

    :ivar number: number of the exchange
    :ivar time: ns since the epoch
    :ivar size: bytes
    :ivar cut: whether it was not sent or captured completely
    """

    number: int
    time: int
    api: str
    api_key: int | None
    version: int | None
    size: int
    cut: bool


class BrokerDisconnect(msgspec.Struct, frozen=True):
    """A connection that the broker ended.

    :ivar time: when, ns since the epoch
    :ivar reason: most likely reason
    :ivar request: the first unanswered request; otherwise the last one; None if there was none
    :ivar quiet: ns since the last activity before
    :ivar principal: principal stated by the client; None if it stated none
    :ivar mechanism: SASL mechanism; None if there was none
    :ivar refusal: name of the error that refused the client; None if there was none
    """

    connection: int
    client: str
    broker: str
    time: int
    reason: Reason
    request: LastRequest | None
    quiet: int
    principal: str | None
    mechanism: str | None
    refusal: str | None


class _Tail(msgspec.Struct):
    """The end of a connection, and its earlier state."""

    key: ConnectionKey
    client: str
    broker: str
    last: LastRequest
    busy_until: int
    no_answer_due: bool = False
    pending: LastRequest | None = None
    answered: int = 0
    """Number of the latest exchange with an answer."""
    requests: int = 0
    """Answered requests that require authentication, if the listener does."""
    sasl: bool = False


class BrokerDisconnects:
    """Follows the requests of connections, and reports connections that brokers ended.

    :param capture: capture of the added exchanges
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._introductions = Introductions()
        self._offered = OfferedVersions()
        self._tails: dict[int, _Tail] = {}

    def add(self, exchange: Exchange) -> None:
        """Process one exchange."""
        if Flag.ORPHAN in exchange.flag:
            return
        self._introductions.add(exchange)
        if exchange.api_key == ApiKey.API_VERSIONS:
            self._offered.add(exchange)
        asked = LastRequest(
            exchange.number,
            exchange.time,
            exchange.api,
            exchange.api_key,
            exchange.version,
            exchange.request_size,
            Flag.REQUEST_DAMAGED in exchange.flag,
        )
        tail = self._tails.get(exchange.connection)
        if tail is None:
            tail = _Tail(
                connection_key(exchange), client_name(exchange), exchange.broker, asked, exchange.time
            )
            self._tails[exchange.connection] = tail
        if exchange.client_id:
            tail.client = exchange.client_id
        if exchange.number >= tail.last.number:
            tail.last, tail.no_answer_due = asked, Flag.NO_RESPONSE_EXPECTED in exchange.flag
        tail.busy_until = max(tail.busy_until, exchange.end)
        introducing = exchange.api_key in CONNECTING or Flag.SASL_TOKEN in exchange.flag
        tail.sasl = tail.sasl or (introducing and exchange.api_key != ApiKey.API_VERSIONS)
        if Flag.UNANSWERED in exchange.flag:
            # answers arrive in order: one that is missing before others is missing only in the capture
            first = tail.pending is None or asked.number < tail.pending.number
            if first and asked.number > tail.answered:
                tail.pending = asked
        elif exchange.response_size:
            tail.requests += not introducing
            tail.answered = max(tail.answered, asked.number)
            if tail.pending is not None and tail.pending.number < asked.number:
                tail.pending = None

    def result(self) -> list[BrokerDisconnect]:
        """Return the connections that brokers ended, ordered by time; those without a request are left out."""
        return sorted(self._closings(), key=lambda closing: (closing.time, closing.connection))

    def _closings(self) -> Iterator[BrokerDisconnect]:
        capture = self._capture
        # a client that only tries SASL does not show that the listener requires it
        secured = {
            tail.broker
            for tail in self._tails.values()
            if tail.sasl and tail.requests and not self._introductions.of(tail.key).refusal
        }
        worked = {tail.broker for tail in self._tails.values() if tail.requests and not tail.sasl}
        in_vain: dict[str, list[int]] = {}
        for attempt in attempts(capture, (Outcome.REFUSED, Outcome.SILENT)):
            in_vain.setdefault(attempt.broker, []).append(attempt.time)
        for moments in in_vain.values():
            moments.sort()
        over = list(ended_by_brokers(capture))
        orderly = self._orderly(over)
        for connection, time in over:
            tail = self._tails.get(connection)
            if tail is None or connection in capture.foreign:
                continue
            broker, known = capture.endpoints(connection)[1], self._introductions.of(tail.key)
            circumstances = _OtherEvidence(
                time=time,
                offered=self._offered,
                sasl_failed=tail.sasl and known.authenticated is not True and not tail.requests,
                wants_sasl=broker in secured or broker not in worked,
                stopped=_soon_after(time, in_vain.get(broker, [])),
                with_others=_around(time, orderly.get(broker, [])) >= _SEVERAL,
            )
            yield BrokerDisconnect(
                connection=connection,
                client=tail.client,
                broker=broker,
                time=time,
                reason=_reason(tail, circumstances),
                request=tail.pending or tail.last,
                quiet=time - tail.busy_until,
                principal=known.principal,
                mechanism=known.mechanism,
                refusal=known.refusal,
            )

    def _orderly(self, over: list[tuple[int, int]]) -> dict[str, list[int]]:
        """Return when brokers ended connections without a pending request, ordered by time."""
        found: dict[str, list[int]] = {}
        for connection, time in over:
            tail = self._tails.get(connection)
            if tail is not None and not tail.no_answer_due and tail.pending is None:
                found.setdefault(self._capture.endpoints(connection)[1], []).append(time)
        for moments in found.values():
            moments.sort()
        return found


def _around(time: int, moments: list[int]) -> int:
    """Return how many of the sorted times are within :data:`SOON` of `time`."""
    return bisect_right(moments, time + SOON) - bisect_left(moments, time - SOON)


def _soon_after(time: int, moments: list[int]) -> bool:
    """Return whether one of the sorted times is within :data:`GONE` after `time`."""
    index = bisect_left(moments, time)
    return index < len(moments) and moments[index] - time <= GONE


class _OtherEvidence(NamedTuple):
    """Other evidence.

    :ivar with_others: whether the broker ended other connections at that time, too, without pending requests
    """

    time: int
    offered: OfferedVersions
    sasl_failed: bool
    wants_sasl: bool
    stopped: bool
    with_others: bool


def _reason(tail: _Tail, seen: _OtherEvidence) -> Reason:
    request = tail.pending
    if seen.sasl_failed:
        return Reason.SASL_FAILED
    if request is not None and _unknown_to(request, tail.broker, seen.offered):
        return Reason.UNSUPPORTED_VERSION
    if request is not None and request.size > LARGEST_REQUEST:
        return Reason.TOO_LARGE
    if seen.stopped:
        return Reason.STOPPED
    if request is not None and request.cut:
        return Reason.TOO_LARGE  # the broker closed before its end
    if request is not None:
        soon = seen.time - request.time <= SOON
        first = not (tail.sasl or tail.requests) and request.api_key not in CONNECTING
        if seen.wants_sasl and first and soon:
            return Reason.NOT_AUTHENTICATED
        return Reason.UNANSWERED
    if tail.no_answer_due and seen.time - tail.last.time <= SOON and not seen.with_others:
        return Reason.ACKS_0  # otherwise a stop or restart, in which connections end together
    return Reason.IDLE if seen.time - tail.busy_until >= SOON else Reason.ANSWERED


def _unknown_to(request: LastRequest, broker: str, offered: OfferedVersions) -> bool:
    """Return whether a broker does not know a version; brokers that know ApiVersions answer any version of it."""
    if request.api_key == ApiKey.API_VERSIONS:
        return not offered.knows(broker)
    if request.version is None or request.api_key is None:
        return False
    known = offered.of([broker], request.api)
    if known is None:
        return offered.knows(broker)
    if not known[0] <= request.version <= known[1]:
        return True
    return too_old(request.api, request.version) and refuses_old(offered, broker)
