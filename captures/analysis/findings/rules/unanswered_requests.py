"""Requests without a response for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.attempts import ended, ended_by_broker
from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import some_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.exchanges.broker_logs import Lack
from captures.filters.lexer import quoted
from captures.meaning.exchange import number
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.units import MS

_MINUTE = 60_000 * MS
_ANSWERED_WHEN_DONE = frozenset({
    ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.UPDATE_FEATURES, ApiKey.ADD_RAFT_VOTER,
})  # fmt: skip
"""Requests of admin clients that limit how long the broker may take (``timeout_ms``)."""
_LONGEST_BY_DESIGN = {
    **dict.fromkeys((ApiKey.FETCH, ApiKey.SHARE_FETCH, *_ANSWERED_WHEN_DONE), _MINUTE),
    **dict.fromkeys((ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP), 10 * _MINUTE),
}
"""API key -> ns that a request without a decoded body may wait."""


class _Request(NamedTuple):
    number: int
    time: int
    api: str
    client: str
    broker: str
    waits: int
    """Designed wait in ns."""


class _Silence(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    apis: dict[str, None] = {}
    longest: int = 0
    given_up: int = 0


class UnansweredRequests(Rule):
    """Finds requests without a response."""

    name = "unanswered_requests"
    needs = Lack.SILENCE
    effect_of = EffectOf.BROKERS
    title = "Requests without an answer"
    about = (
        "Every request but a Produce with acks=0 gets a response. If one gets none although the connection stays "
        "open, the broker hangs, is paused or does not know the API (0.9 does not respond), or the network lost "
        "it. Java clients give up after request.timeout.ms (30 s) and close the connection. Requests that a "
        "client abandons when it leaves do not count, nor those on connections that the broker closed "
        "(closed_by_broker)."
    )
    severity = Severity.HIGH
    key = Key.BROKER
    apis = None
    thresholds = (
        Threshold(
            "longest",
            5_000,
            Unit.MILLISECONDS,
            "time from the request to the end of the connection or the capture, beyond designed waits",
        ),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._oldest: dict[int, _Request] = {}
        self._answered: dict[int, int] = {}
        """Connection -> number of the latest exchange with an answer."""

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.flagged(Flag.UNANSWERED) | rows.last(rows.answered)

    def add(self, exchange: Exchange) -> None:
        connection, known = exchange.connection, self._oldest.get(exchange.connection)
        if exchange.response_size:
            # responses come in order: one missing before others is missing only in the capture
            self._answered[connection] = max(exchange.number, self._answered.get(connection, 0))
            if known is not None and known.number < exchange.number:
                del self._oldest[connection]
        elif (
            Flag.UNANSWERED in exchange.flag
            and exchange.number > self._answered.get(connection, 0)
            and (known is None or exchange.number < known.number)  # later ones wait for it
        ):
            self._oldest[connection] = _Request(
                exchange.number,
                exchange.time,
                exchange.api,
                client_name(exchange),
                exchange.broker,
                _designed(exchange),
            )

    def findings(self) -> Iterator[Finding]:
        if self.blind():
            return
        capture, limit = self.context.capture, self.limit("longest") * MS
        found: dict[tuple[str, str], _Silence] = {}
        by_kproxy = capture.notes.ended_connections
        for connection, request in (self._in_flight() | self._oldest).items():
            if connection in by_kproxy:
                continue
            over = ended(capture, connection)
            waited = (int(capture.observed_until(connection)) if over is None else over) - request.time
            if waited - request.waits < limit or ended_by_broker(capture, connection) is not None:
                continue
            silence = found.setdefault((request.client, request.broker), _Silence())
            silence.apis[request.api] = None
            silence.seen.note(request.number, request.time)
            silence.longest = max(silence.longest, waited)
            silence.given_up += over is not None
        for (client, broker), silence in found.items():
            yield self._finding(client, broker, silence)

    def blind(self) -> str:
        packets = self.context.capture.connections.streams.packets.reshape(-1, 2)
        if self._answered or not len(packets) or np.any(packets.min(axis=1) > 0):
            return ""
        return "only packets of one direction were captured"

    def _in_flight(self) -> dict[int, _Request]:
        """Return the oldest request of each connection that may still be answered, in a growing capture."""
        capture, table = self.context.capture, self.context.capture.table
        rows = np.setdiff1d(np.arange(len(table)), list(capture.notes.intervened()))
        found: dict[int, _Request] = {}
        for index in table.in_order(rows[~table.is_complete(rows)]).tolist():
            row = table.row(index)
            connection, key = row["connection"], row["api_key"]
            if connection in found or key < 0:
                continue
            client, broker = capture.endpoints(connection)
            name = table.client_ids[row["client_id"]] if row["client_id"] >= 0 else None
            found[connection] = _Request(
                number=0,  # numbered once it is complete
                time=row["request_first"],
                api=api_name(key),
                client=name or client.rpartition(":")[0],
                broker=broker,
                waits=_LONGEST_BY_DESIGN.get(key, 0),
            )
        return found

    def _finding(self, client: str, broker: str, silence: _Silence) -> Finding:
        shown, several = self.context.capture.names.shown(broker), silence.seen.count > 1
        which = f"{silence.seen.count:,} requests" if several else "A request"
        over = (
            "until the client closed the connection"
            if silence.given_up
            else "and the connection is still open"
        )
        return self.finding(
            f"client {client}, broker {shown}",
            f"{which} of {client} to {shown} ({some_of(silence.apis)}) got no answer for"
            f" {'up to ' if several else ''}{span(silence.longest)}, {over}.",
            "Check whether the broker was up and busy at that time (its log, garbage collection, idle ratio of "
            "request handlers), whether it knows the API, and whether packets got through (finding tcp_trouble).",
            silence.seen,
            filter_text=f"unanswered and {of_client(client)} and broker == {quoted(broker)}",
        )


def _designed(exchange: Exchange) -> int:
    """Return how long a response may take by design, in ns."""
    request = exchange.request_body
    if exchange.api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
        return max(number(request, "max_wait_ms", 0), 0) * MS
    if exchange.api_key == ApiKey.JOIN_GROUP:
        longest = max(number(request, "rebalance_timeout_ms", 0), number(request, "session_timeout_ms", 0))
        return longest * MS
    if exchange.api_key in _ANSWERED_WHEN_DONE:
        return max(number(request, "timeout_ms", 0), 0) * MS
    # a follower waits as long as its leader takes; the request has no limit for that
    return _MINUTE if exchange.api_key == ApiKey.SYNC_GROUP else 0
