"""Connections that the broker ended: which request came before, and what was likely the reason.

A broker that cannot answer closes the connection without a word: it does not know the version, the request is too
large, the client has not authenticated, or a Produce with ``acks=0`` failed (SocketServer.scala, KafkaApis.scala). It
also closes connections that were idle for ``connections.max.idle.ms``, and all of them when it stops. Which of these
it was is not on the wire: it is told from the request that stayed unanswered, and from what other connections show.

A broker handles the requests of a connection one by one, so that the first without an answer is the one to look at.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from captures.analysis.attempts import Outcome, attempts, ended_by_brokers
from captures.analysis.client_identity import ConnectionKey, Introductions, client_name, connection_key
from captures.analysis.offered_versions import OfferedVersions, refuses_old, too_old
from captures.exchanges import Capture, Exchange, Flag
from dissectors.api_keys import CONNECTING, ApiKey
from dissectors.units import SECOND

LARGEST_REQUEST = 100 * 1024 * 1024
"""Bytes; ``socket.request.max.bytes`` unless configured otherwise."""
SOON = SECOND
"""ns between a request and the end of the connection that it caused; brokers close at once."""

GONE = 30 * SECOND
"""ns after the end of a connection in which a broker that takes no new ones is taken to have stopped."""

_SEVERAL = 2


class Reason(Enum):
    """Why a broker ended a connection, as far as can be told."""

    SASL_FAILED = "authentication failed"
    NOT_AUTHENTICATED = "the client did not authenticate"
    UNSUPPORTED_VERSION = "the broker does not know the version"
    TOO_LARGE = "the request was too large"
    ACKS_0 = "a Produce with acks=0 failed"
    STOPPED = "the broker stopped"
    UNANSWERED = "a request stayed unanswered"
    IDLE = "nothing was going on"
    ANSWERED = "all was answered"


class LastRequest(NamedTuple):
    """A request.

    :ivar number: of the exchange
    :ivar time: ns since the epoch
    :ivar size: bytes
    :ivar cut: not all of it was sent, or captured
    """

    number: int
    time: int
    api: str
    api_key: int | None
    version: int | None
    size: int
    cut: bool


@dataclass(frozen=True, slots=True)
class BrokerDisconnect:
    """A connection that the broker ended.

    :ivar time: when, ns since the epoch
    :ivar reason: why, most likely
    :ivar request: that stayed unanswered first; else the last one; None if there was none
    :ivar quiet: ns since the last sign of life before
    :ivar principal: whom the client said it is; None if it did not say
    :ivar mechanism: of SASL; None if there was none
    :ivar refusal: name of the error that refused it; None if there was none
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


@dataclass(slots=True)
class _Tail:
    """What came last on a connection, and what it was before."""

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
    """Answered ones that need authentication, where the listener wants it."""
    sasl: bool = False


class Closings:
    """Follows the requests of connections, and reports those that brokers ended.

    :param capture: whose exchanges are added
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._introductions = Introductions()
        self._offered = OfferedVersions()
        self._tails: dict[int, _Tail] = {}

    def add(self, exchange: Exchange) -> None:
        """Look at one exchange."""
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
            # answers come in order: one that is missing before others is missing in the capture only
            first = tail.pending is None or asked.number < tail.pending.number
            if first and asked.number > tail.answered:
                tail.pending = asked
        elif exchange.response_size:
            tail.requests += not introducing
            tail.answered = max(tail.answered, asked.number)
            if tail.pending is not None and tail.pending.number < asked.number:
                tail.pending = None

    def result(self) -> list[BrokerDisconnect]:
        """Return the connections that brokers ended, in the order of time; those without a request are left out."""
        return sorted(self._closings(), key=lambda closing: (closing.time, closing.connection))

    def _closings(self) -> Iterator[BrokerDisconnect]:
        capture = self._capture
        # who only tries SASL does not show that the listener wants it
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
            circumstances = _Circumstances(
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
        """Return when brokers ended connections on which all was answered that could be, in order of time."""
        found: dict[str, list[int]] = {}
        for connection, time in over:
            tail = self._tails.get(connection)
            if tail is not None and not tail.no_answer_due and tail.pending is None:
                found.setdefault(self._capture.endpoints(connection)[1], []).append(time)
        for moments in found.values():
            moments.sort()
        return found


def _around(time: int, moments: list[int]) -> int:
    """Return how many of some moments in order are within :data:`SOON` of a time."""
    return bisect_right(moments, time + SOON) - bisect_left(moments, time - SOON)


def _soon_after(time: int, moments: list[int]) -> bool:
    """Tell whether one of some moments in order is within :data:`GONE` after a time."""
    place = bisect_left(moments, time)
    return place < len(moments) and moments[place] - time <= GONE


class _Circumstances(NamedTuple):
    """What else counts.

    :ivar with_others: the broker ended other connections at that time, too, for nothing that was asked on them
    """

    time: int
    offered: OfferedVersions
    sasl_failed: bool
    wants_sasl: bool
    stopped: bool
    with_others: bool


def _reason(tail: _Tail, seen: _Circumstances) -> Reason:
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
        return Reason.TOO_LARGE  # the broker did not want to see the end of it
    if request is not None:
        soon = seen.time - request.time <= SOON
        first = not (tail.sasl or tail.requests) and request.api_key not in CONNECTING
        if seen.wants_sasl and first and soon:
            return Reason.NOT_AUTHENTICATED
        return Reason.UNANSWERED
    if tail.no_answer_due and seen.time - tail.last.time <= SOON and not seen.with_others:
        return Reason.ACKS_0  # else it is a stop or a restart, in which connections end together
    return Reason.IDLE if seen.time - tail.busy_until >= SOON else Reason.ANSWERED


def _unknown_to(request: LastRequest, broker: str, offered: OfferedVersions) -> bool:
    """Tell whether a broker does not know a version; ApiVersions itself is answered by all that know any of its own."""
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
