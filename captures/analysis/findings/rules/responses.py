"""Requests that are repeated in vain, unanswered, slow, or throttled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.attempts import ended, ended_by_broker
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
from captures.analysis.findings.rule import Rule, Threshold, Unit
from captures.analysis.throttling import ThrottleRow, Throttles, ThrottleStats
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.exchanges.broker_logs import Lack
from captures.filters.lexer import quoted
from captures.interventions import BrokerLog
from captures.meaning import words
from captures.meaning.exchange import Body, number, replica_of, rows
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.error_codes import ErrorCode
from dissectors.units import MS, SECOND

# ---------------------------------------------------------------- request_storms

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

    _repeated: dict[tuple[str, str, bool], _Repetition] = {}

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
        repeated = self._repeated.setdefault(key, _Repetition())
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
            _repetition_advice(repeated.codes, api),
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
    if replica_of(request) >= 0:
        return False
    return not _brought_records(response)


def _brought_records(response: Body) -> bool:
    return any(
        row.get("records") or row.get("acquired_records")
        for holder in rows(response, "responses")
        for row in rows(holder, "partitions")
    )


def _repetition_advice(codes: set[int], api: str) -> str:
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


# ---------------------------------------------------------------- unanswered_requests

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
            Unit.MS,
            "time from the request to the end of the connection or the capture, beyond designed waits",
        ),
    )

    _oldest: dict[int, _Request] = {}
    _answered: dict[int, int] = {}
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
            shown, several = self.context.capture.names.shown(broker), silence.seen.count > 1
            which = f"{silence.seen.count:,} requests" if several else "A request"
            left = silence.given_up
            until = "until the client closed the connection" if left else "and the connection is still open"
            yield self.finding(
                f"client {client}, broker {shown}",
                f"{which} of {client} to {shown} ({some_of(silence.apis)}) got no answer for"
                f" {'up to ' if several else ''}{span(silence.longest)}, {until}.",
                "Check whether the broker was up and busy at that time (its log, garbage collection, idle ratio of "
                "request handlers), whether it knows the API, and whether packets got through (finding tcp_trouble).",
                silence.seen,
                filter_text=f"unanswered and {of_client(client)} and broker == {quoted(broker)}",
            )

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


# ---------------------------------------------------------------- slow_broker

_ADMIN_APIS = frozenset({
    ApiKey.CONTROLLED_SHUTDOWN, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS,
    ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.UPDATE_FEATURES,
    ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER,
})  # fmt: skip
"""Answered when it is done: ControlledShutdown, CreateTopics, DeleteTopics, DeleteRecords (by all replicas, KIP-107),
CreatePartitions, ElectLeaders, reassignments, UpdateFeatures, AddRaftVoter and RemoveRaftVoter (KIP-853)."""


_NETWORK = "network"
_TIME_PARTS = {
    "request_queue": (
        "waiting for a handler thread",
        "All handler threads were busy: raise num.io.threads, or look for what keeps them busy (local time).",
    ),
    "local": (
        "work of the handler thread",
        "The leader worked for that long: check its disks, page cache, garbage collection and CPU.",
    ),
    "remote": (
        "waiting for others",
        (
            "The broker waited for replicas, the controller or other members: check the followers (findings "
            "slow_followers and isr_changes) and the controller."
        ),
    ),
    "throttle": ("held back by a quota", "Check the quotas of this client and user."),
    "response_queue": (
        "waiting for a network thread",
        "The network threads of the listener were busy: raise num.network.threads.",
    ),
    _NETWORK: (
        "outside the times that the broker measured",
        (
            "Requests waited before the broker had read them, or in the network: check num.network.threads, the load "
            "of the broker's host, and packet loss."
        ),
    ),
}
"""Parts of the time until the response (:attr:`BrokerLog.TIMES` without sending it), in words, and what helps."""


class _Answers(msgspec.Struct):
    """Responses of a broker for one API. Counting suffices to know whether a percentile is above a limit.

    :ivar parts: part of the time -> ns in all, of the slow responses in the broker's request log
    :ivar logged: number of these
    """

    all: int = 0
    longest: int = 0
    slow: Occurrences = msgspec.field(default_factory=Occurrences)
    parts: Counter[str] = msgspec.field(default_factory=Counter)
    logged: int = 0

    def split(self, exchange: Exchange, latency: int) -> None:
        """Add where the time of a slow response went, if the broker's request log has it.

        :param latency: in ns, without the time before the request could be read by design
        """
        logged = exchange.broker_log
        if logged is None:
            return
        self.logged += 1
        spent = {name: getattr(logged, name) for name in BrokerLog.TIMES if name in _TIME_PARTS}
        inside = sum(spent.values())
        spent["remote"] = max(logged.remote - exchange.wait, 0)
        if logged.captured and not exchange.flag & (Flag.REQUEST_LOGGED | Flag.RESPONSE_LOGGED):
            spent[_NETWORK] = max(latency - inside, 0)
        self.parts.update(spent)

    @property
    def longest_part(self) -> str | None:
        """The part that took most of the time; None if no log has it."""
        return self.parts.most_common(1)[0][0] if self.logged else None


class SlowBroker(Rule):
    """Finds brokers with many slow responses, without designed waits."""

    name = "slow_broker"
    effect_of = EffectOf.BROKERS
    title = "Slow responses"
    about = (
        "The time from the end of a request to the start of its response, without the waits that the protocol "
        "intends: long polls and requests queued after them on the same connection, members that wait for each "
        "other, throttling and the pauses after it. The rest is the broker's work, its queues, and the network. "
        "For a Produce with acks=all it includes the followers' time, because that wait is not on the wire. If the "
        "broker's request log was read, too, the finding names the part of the time that was longest. The first "
        "requests after a start are slow in every broker."
    )
    key = Key.BROKER
    apis = None
    thresholds = (
        Threshold("latency", 500, Unit.MS, "longest time for a response, without designed waits"),
        Threshold("share", 5, Unit.PERCENT, "share of a broker's responses of one API that took longer"),
        Threshold("answers", 5, Unit.COUNT, "least number of responses that took longer"),
    )

    _throttles: Throttles = msgspec.field(default_factory=Throttles)
    _answers: dict[tuple[str, str], _Answers] = {}
    _polling: dict[int, int] = {}
    """Connection -> when the latest answer came that was waited for by design."""

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        # designed waits depend on earlier exchanges
        slow = rows.columns.flat("excess") > self.limit("latency") * MS
        return None if rows.ever("slow answers", slow) else rows.nothing

    def add(self, exchange: Exchange) -> None:
        paused = self._throttles.of(exchange).paused
        if exchange.latency is None or exchange.api_key in _ADMIN_APIS or exchange.api_key is None:
            return
        answers = self._answers.setdefault((exchange.broker, exchange.api), _Answers())
        answers.all += 1
        # requests of a connection are handled one by one: those after a long poll wait for its end
        until = self._polling.get(exchange.connection, 0)
        if exchange.wait:
            self._polling[exchange.connection] = max(until, exchange.end)
        queued = max(until - exchange.time, 0)
        excess = exchange.latency - exchange.wait - max(paused, queued)
        if excess > self.limit("latency") * MS:
            answers.slow.add(exchange)
            answers.split(exchange, exchange.latency - max(paused, queued))
            answers.longest = max(answers.longest, excess)

    def findings(self) -> Iterator[Finding]:
        for (broker, api), answers in self._answers.items():
            slow = answers.slow.count
            if slow < self.limit("answers") or 100 * slow <= self.limit("share") * answers.all:
                continue
            shown = self.context.capture.names.shown(broker)
            limit = round(self.limit("latency"))
            part = answers.longest_part
            mostly = ""
            if part is not None:
                average = span(answers.parts[part] // answers.logged)
                mostly = (
                    f" By the broker's request log the largest part of it is {part.replace('_', ' ')} "
                    f"({_TIME_PARTS[part][0]}), {average} on average."
                )
            yield self.finding(
                f"broker {shown}, {api}",
                f"{slow:,} of {answers.all:,} {api} answers of {shown} took longer than {span(limit * MS)}"
                f" ({100 * slow / answers.all:.0f}%), the longest {span(answers.longest)}; designed waits are not "
                f"counted.{mostly}",
                _slowness_advice(api) if part is None else _TIME_PARTS[part][1],
                answers.slow,
                filter_text=f"broker == {quoted(broker)} and api == {api} and excess > {limit}ms",
            )


def _slowness_advice(api: str) -> str:
    own = {
        "Produce": "With acks=all check the followers too (findings slow_followers and isr_changes), and the disks of "
        "the leader and the followers.",
        "Fetch": "Records that are no longer in the page cache are read from disk: look for consumers that read old "
        "records.",
    }.get(api, "")
    return (
        "Check the broker's request metrics for this API (RequestQueueTimeMs, LocalTimeMs, RemoteTimeMs,"
        f" ResponseQueueTimeMs), its garbage collection and its load. {own}"
    ).strip()


# ---------------------------------------------------------------- throttling

_MUTATIONS = frozenset({"CreateTopics", "DeleteTopics", "CreatePartitions"})

_GRACE = 10 * MS
"""ns before the end of a pause in which a response is normal: throttle times are in ms, and timers are coarse."""


class ThrottledClients(Rule):
    """Finds clients whose responses have a throttle time."""

    name = "throttling"
    title = "Clients slowed down by quotas"
    about = (
        "A client exceeded its quota, and the broker makes it wait: producer_byte_rate, consumer_byte_rate or "
        "request_percentage (KIP-13, KIP-124), controller_mutation_rate (KIP-599). Brokers before 2.0 delay the "
        "response. Later brokers respond at once (to a Fetch without records), and then read nothing from the "
        "connection until the time is over (KIP-219), so all requests on it wait."
    )
    apis = None
    thresholds = (
        Threshold("longest", 1_000, Unit.MS, "longest throttle time; below it the severity is low"),
    )

    _stats: ThrottleStats = msgspec.field(default_factory=ThrottleStats)
    _seen: dict[tuple[str, str], Occurrences] = {}
    _until: dict[int, tuple[int, tuple[str, str]]] = {}
    """Connection -> end of the pause that was announced latest, and by which client and API."""
    _ignored: set[tuple[str, str]] = set()
    """Clients and APIs whose pauses the broker did not keep."""
    _kept: set[tuple[str, str]] = set()
    """Those of which a pause was waited for."""

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        # a finding counts all responses of a client
        throttled = rows.columns.flat("throttle_time_ms") > 0
        return None if rows.ever("throttle times", throttled) else rows.nothing

    def add(self, exchange: Exchange) -> None:
        self._stats.add(exchange)
        throttle, end = number(exchange.response_body, "throttle_time_ms", 0) * MS, exchange.end
        if self._until and exchange.response_size:
            until, by = self._until.get(exchange.connection, (0, ("", "")))
            if until:
                (self._ignored if end < until - _GRACE else self._kept).add(by)
        if throttle <= 0:
            return
        key = client_name(exchange), exchange.api
        self._seen.setdefault(key, Occurrences()).add(exchange)
        if (exchange.latency or 0) < throttle:
            self._until[exchange.connection] = end + throttle, key
        else:
            self._kept.add(key)

    def findings(self) -> Iterator[Finding]:
        waited = self._waited_for()
        for row in self._stats.result():
            seen = self._seen.get((row.client, row.api))
            if seen is not None:
                yield self._finding(row, seen, waited=(row.client, row.api) in waited)

    def _waited_for(self) -> set[tuple[str, str]]:
        """Return the clients and APIs with a pause that passed while the connection was open."""
        last = self.context.capture.connections.last_time
        open_still = {
            by
            for connection, (until, by) in self._until.items()
            if connection < len(last) and last[connection] >= until
        }
        return self._kept | open_still

    def _finding(self, row: ThrottleRow, seen: Occurrences, *, waited: bool) -> Finding:
        text = (
            f"{row.throttled:,} of {words.counted(row.responses, row.api + ' response')} throttled {row.client}, "
            f"for up to {span(row.max_ms * MS)}, {span(row.total_ms * MS)} in all"
        )
        if row.paused:
            text += f"; {words.counted(row.paused, 'request')} waited {span(row.paused_total)} for the end of a pause"
        quota = _quota(row.api)
        if (row.client, row.api) in self._ignored:
            return self.finding(
                f"client {row.client}, {row.api}",
                f"{text}, but the broker kept answering within that time.",
                "The broker announces throttle times but does not enforce them: a bug in the broker. Clients that "
                "honour them (as the Java client does, KIP-219) pause all that time for nothing.",
                seen,
                filter_text=f"throttle > 0 and api == {row.api} and {of_client(row.client)}",
                severity=Severity.LOW,
            )
        return self.finding(
            f"client {row.client}, {row.api}",
            f"{text}. The quota at work is {quota}.",
            f"If the client should be that fast, raise {quota} for its user or client ID (kafka-configs --alter"
            " --entity-type users or clients); otherwise send and fetch less, in larger and compressed batches. "
            "request.timeout.ms has to be longer than the longest throttle time.",
            seen,
            filter_text=f"throttle > 0 and api == {row.api} and {of_client(row.client)}",
            severity=self.severity if waited and row.max_ms >= self.limit("longest") else Severity.LOW,
        )


def _quota(api: str) -> str:
    if api in _MUTATIONS:
        return "controller_mutation_rate"
    own = {"Produce": "producer_byte_rate", "Fetch": "consumer_byte_rate"}.get(api)
    return f"{own} (or request_percentage)" if own else "request_percentage"
