"""One request repeated without success and without a pause."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    UNNAMED,
    error_names,
    some_of,
    topic_of,
    unexpected,
    with_errors,
)
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.meaning import words
from captures.meaning.exchange import Body, inner, number, rows
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS, SECOND

_POLLS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_AT_ONCE = 5 * MS
_EMPTY_AT_ONCE = "not waited and latency < 5ms and not records > 0 and not throttle > 0"
_MANY = 100
"""Failed requests from which it is more than a burst, such as requests in flight when a leader moved."""
_PAUSE = SECOND
"""ns without such a request that end a storm."""


class _Repetition(msgspec.Struct):
    """A request that was repeated without success.

    :ivar fastest: most requests within a second on one connection; many clients may share an ID
    :ivar lasted: ns for which they came without a pause
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    codes: set[int] = set()
    topics: dict[str, None] = {}
    fastest: int = 0
    lasted: int = 0
    _counts: dict[int, tuple[int, int]] = {}
    """Connection -> second, and number of requests in it."""

    def add(self, exchange: Exchange) -> None:
        if self.seen and exchange.time - self.seen.last <= _PAUSE:
            self.lasted += max(exchange.time - self.seen.last, 0)
        self.seen.add(exchange)
        second = exchange.time // SECOND
        before, count = self._counts.get(exchange.connection, (second, 0))
        count = count + 1 if before == second else 1
        self._counts[exchange.connection] = second, count
        self.fastest = max(self.fastest, count)


class RequestStorms(Rule):
    """Finds clients that repeat a request that fails, or finds nothing, as fast as they get responses."""

    name = "request_storms"
    effect_of = EffectOf.BROKERS
    title = "Requests repeated without a pause"
    about = (
        "A client sends a request, gets an error or nothing, and asks again at once. Each can keep a broker core "
        "busy. Known cases: the Java consumer that fetches from a deleted topic; librdkafka that requests "
        "metadata for an invalid topic name; Java's admin client that asks for a topic it may not describe; "
        "consumers that get empty responses at once, from a leader whose follower has just died, or from a broker"
        " that ignores fetch.max.wait.ms; and a 0.11 broker that cannot down-convert records with headers."
    )
    severity = Severity.HIGH
    key = Key.CLIENT
    apis = None
    thresholds = (
        Threshold(
            "rate", 30, Unit.A_SECOND, "requests of one API without effect within one second on a connection"
        ),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._repeated: dict[tuple[str, str, bool], _Repetition] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        at_once = rows.answered & (rows.latency < _AT_ONCE) & (rows.columns.flat("wait") == 0)
        found: Bools = rows.failed | (rows.of_api(_POLLS) & at_once)
        return found

    def add(self, exchange: Exchange) -> None:
        found = unexpected(exchange)
        if not found and not _is_empty_response(exchange):
            return
        if found and exchange.api_key in _POLLS and _brought_records(exchange.response_body):
            return  # other partitions succeeded
        key = client_name(exchange), exchange.api, bool(found)
        repeated = self._repeated.get(key)
        if repeated is None:
            repeated = self._repeated[key] = _Repetition()
        repeated.add(exchange)
        for error in found:
            repeated.codes.add(error.code)
            topic = topic_of(error, self.context.names)
            if topic != UNNAMED:
                repeated.topics[topic] = None

    def findings(self) -> Iterator[Finding]:
        for (client, api, failed), repeated in self._repeated.items():
            if repeated.fastest >= self.limit("rate"):
                yield self._finding(client, api, repeated, failed=failed)

    def _finding(self, client: str, api: str, repeated: _Repetition, *, failed: bool) -> Finding:
        seen = repeated.seen
        what = error_names(repeated.codes) if failed else "empty answers at once"
        about = f" about {some_of(repeated.topics)}" if repeated.topics else ""
        condition = with_errors(repeated.codes) if failed else _EMPTY_AT_ONCE
        return self.finding(
            f"client {client}, {api}{'' if failed else ', empty'}",
            f"{client} sent {words.counted(seen.count, api + ' request')}{about} without effect ({what}), up to"
            f" {repeated.fastest:,} within a second, for {span(repeated.lasted)} in all.",
            _advice(repeated.codes, api),
            seen,
            filter_text=f"api == {api} and {condition} and {of_client(client)}" if api.isalpha() else "",
            severity=self._severity(repeated, failed=failed),
        )

    def _severity(self, repeated: _Repetition, *, failed: bool) -> Severity:
        if repeated.seen.count < _MANY and repeated.lasted < SECOND:
            return Severity.LOW
        # a permanent error means a stuck client; empty polls, and short bursts, only cost
        return self.severity if failed and repeated.seen.count >= _MANY else Severity.MEDIUM


def _is_empty_response(exchange: Exchange) -> bool:
    """Return whether a poll that could wait was answered at once without records and without a reason."""
    if exchange.api_key not in _POLLS or exchange.wait or Flag.UNANSWERED in exchange.flag:
        return False
    request, response = exchange.request_body, exchange.response_body
    waits = number(request, "max_wait_ms", 0)
    if waits < 10 or not response or (exchange.latency or 0) >= min(_AT_ONCE, waits * MS):
        return False
    if number(response, "throttle_time_ms", 0) or number(response, "error_code", 0):
        return False
    # the last request of a session closes it, and the first one gets what is already there (KIP-227)
    if number(request, "session_epoch", 1) in (-1, 0) or number(request, "share_session_epoch", 1) in (-1, 0):
        return False
    if number(inner(request, "replica_state"), "replica_id", number(request, "replica_id")) >= 0:
        return False
    return not _brought_records(response)


def _brought_records(response: Body) -> bool:
    return any(
        row.get("records") or row.get("acquired_records")
        for holder in rows(response, "responses")
        for row in rows(holder, "partitions")
    )


def _advice(codes: set[int], api: str) -> str:
    if codes & {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }:
        return (
            "Correct the name of the topic in the client's configuration, remove it there, or create the topic; then "
            "restart the client. Newer clients pause between attempts (retry.backoff.ms)."
        )
    if codes & {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }:
        return "Grant the missing permission, or stop the client: it will not give up by itself."
    if api in ("Fetch", "ShareFetch") and not codes:
        return (
            "Find out why the broker does not wait for fetch.min.bytes or fetch.max.wait.ms: a dead follower that is "
            "still in the ISR (replica.lag.time.max.ms), or a broker that does not implement it."
        )
    if codes & {ErrorCode.UNKNOWN_SERVER_ERROR}:
        return (
            "Check the broker's log for what failed. With 0.11 and old consumers it is the conversion of records with"
            " headers: update the client or the broker."
        )
    return (
        "Find out what the error means, and set retry.backoff.ms and retry.backoff.max.ms of the client "
        "(KIP-580)."
    )
