"""What clients did after an error: request metadata, retry, reconnect, leave, or nothing.

After a response with an error, the next exchanges of the same client are examined. Related ones count: the same API
with a topic or group of the error, and requests by which clients recover (Metadata, FindCoordinator, JoinGroup ...).
Continuous traffic, such as polls of other partitions, does not count. It ends with the next attempt at the same
request, or after :data:`SPAN`.

Only added exchanges are seen: for a selection, the result covers the selection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from captures.analysis.attempts import ending
from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import greatest_before
from captures.analysis.percentiles import Percentiles, Times
from captures.analysis.topic_stats import place_of
from captures.arrays import Bools, distinct_values
from captures.exchanges import Capture, Exchange, Flag
from captures.meaning import ResponseError, groups_in, topics_in
from dissectors.api_keys import ApiKey
from dissectors.error_codes import error_name

SPAN = 60_000_000_000
"""ns; later exchanges have another cause."""
MOST_STEPS = 4
AGAIN = "again"

_MOST_WAITING = 64
"""Most errors of one client that are followed at a time; the oldest are given up."""
_RECOVERING: dict[int, str] = {
    ApiKey.LIST_OFFSETS: "ListOffsets",
    ApiKey.METADATA: "Metadata",
    ApiKey.FIND_COORDINATOR: "FindCoordinator",
    ApiKey.JOIN_GROUP: "JoinGroup",
    ApiKey.LEAVE_GROUP: "LeaveGroup",
    ApiKey.SASL_HANDSHAKE: "",  # part of reconnecting, which ApiVersions shows
    ApiKey.API_VERSIONS: "new connection",
    ApiKey.INIT_PRODUCER_ID: "InitProducerId",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "OffsetForLeaderEpoch",
    ApiKey.END_TXN: "EndTxn",
}
"""API key -> name of the step."""
NOTHING = "nothing seen"
LEFT = "closed the connection"
WAS_LEFT = "the broker closed the connection"


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """One way in which clients continued after an error of an API.

    :ivar steps: what they did, in order; the last may be a retry of the same request, with its outcome
    :ivar count: how often
    :ivar first: number of the first exchange with the error before these steps
    :ivar delay: ns from the error to the first step; None if there was none
    """

    api: str
    code: int
    steps: tuple[str, ...]
    count: int
    first: int
    delay: Percentiles | None


@dataclass(slots=True)
class _Case:
    """An error whose aftermath is awaited."""

    api: str
    key: int | None
    code: int
    number: int
    connection: int
    end: int
    topics: frozenset[str]
    groups: frozenset[str]
    steps: list[str] = field(default_factory=list)
    delay: int | None = None

    def add(self, step: str, time: int) -> None:
        if step and (not self.steps or self.steps[-1] != step):
            self.steps.append(step)
            if self.delay is None:
                self.delay = time - self.end


@dataclass(slots=True)
class _Sums:
    first: int
    count: int = 0
    delays: Times = field(default_factory=Times)


_Key = tuple[str, int, tuple[str, ...]]


class ErrorRecovery:
    """Follows what clients do after errors that do not belong to a normal conversation.

    :param capture: knows which side closed connections; without it, neither did
    """

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._waiting: dict[tuple[str, str], list[_Case]] = {}
        self._sums: dict[_Key, _Sums] = {}

    def add(self, exchange: Exchange) -> None:
        """Process one exchange."""
        client = client_name(exchange), exchange.client.rpartition(":")[0]
        waiting = self._waiting.get(client)
        if waiting:
            self._follow(waiting, exchange)
            if not waiting:
                del self._waiting[client]
        if exchange.failed:
            waiting = self._waiting.setdefault(client, [])
            waiting += _cases(exchange)
            for case in waiting[:-_MOST_WAITING]:
                self._count(self._sums, case)
            del waiting[:-_MOST_WAITING]

    def result(self) -> list[RecoveryRow]:
        """Return the steps after each error, the most frequent first; awaited ones with the steps so far."""
        sums = {
            key: _Sums(known.first, known.count, _copied(known.delays)) for key, known in self._sums.items()
        }
        for waiting in self._waiting.values():
            for case in waiting:
                self._count(sums, case)
        rows = [
            RecoveryRow(api, code, steps, known.count, known.first, known.delays.percentiles())
            for (api, code, steps), known in sums.items()
        ]
        return sorted(rows, key=lambda row: (-row.count, row.first))

    def _follow(self, waiting: list[_Case], exchange: Exchange) -> None:
        topics, groups = _about(exchange)
        for case in list(waiting):
            if exchange.time < case.end:
                continue
            if exchange.time - case.end > SPAN or _step(case, exchange, topics, groups):
                waiting.remove(case)
                self._count(self._sums, case)

    def _count(self, sums: dict[_Key, _Sums], case: _Case) -> None:
        steps = tuple(case.steps) or (self._ending(case),)
        key = case.api, case.code, steps
        known = sums.get(key)
        if known is None:
            known = sums[key] = _Sums(case.number)
        known.first = min(known.first, case.number)
        known.count += 1
        if case.delay is not None:
            known.delays.add(case.delay)

    def _ending(self, case: _Case) -> str:
        """Return how the connection of an error ended soon after, if nothing else was done."""
        if self._capture is None:
            return NOTHING
        end = ending(self._capture, case.connection)
        if end is None or end.time - case.end > SPAN:
            return NOTHING
        return WAS_LEFT if end.by_broker else LEFT


def may_follow_error(rows: DecisionColumns) -> Bools:
    """Return a mask of the exchanges that :class:`ErrorRecovery` may count as steps after errors.

    They are of APIs that recover, or that failed, and of a client with an error in the :data:`SPAN` before.

    :param rows: columns with errors, in the order of the numbers
    """
    failed, times = rows.failed, rows.columns.flat("time")
    since = greatest_before(rows.clients[0], np.where(failed, rows.ends, 0))
    steps = rows.of_api([*_RECOVERING, *distinct_values(rows.api_key[failed]).tolist()])
    return steps & (times - since <= SPAN)


def _cases(exchange: Exchange) -> list[_Case]:
    by_code: dict[int, list[ResponseError]] = {}
    for error in exchange.unexpected_errors:
        by_code.setdefault(error.code, []).append(error)
    topics, groups = _about(exchange)
    end = exchange.end
    return [
        _Case(
            api=exchange.api,
            key=exchange.api_key,
            code=code,
            number=exchange.number,
            connection=exchange.connection,
            end=end,
            topics=_failed_topics(errors) or topics,
            groups=groups,
        )
        for code, errors in by_code.items()
    ]


def _failed_topics(errors: Iterable[ResponseError]) -> frozenset[str]:
    return frozenset(topic for error in errors if (topic := place_of(error.holders)[0]) is not None)


def _about(exchange: Exchange) -> tuple[frozenset[str], frozenset[str]]:
    """Return the topics (by name or ID) and groups that a request names."""
    key, request = exchange.api_key, exchange.request
    if key is None or request is None or request.version is None:
        return frozenset(), frozenset()
    topics = topics_in(key, request.version, request.value, lambda _: None)
    return frozenset(topics), frozenset(groups_in(key, request.version, request.value))


def _step(case: _Case, exchange: Exchange, topics: frozenset[str], groups: frozenset[str]) -> bool:
    """Add the step of an exchange after an error; return whether it is the last one."""
    elsewhere = bool(case.groups and groups and not case.groups & groups)
    if exchange.api_key == case.key:
        if elsewhere or (case.topics and topics and not case.topics & topics):
            return False
        case.add(f"{case.api} {AGAIN}: {_outcome(exchange, case.code)}", exchange.time)
        return True
    step = "" if elsewhere else _RECOVERING.get(-1 if exchange.api_key is None else exchange.api_key, "")
    if exchange.api_key != ApiKey.API_VERSIONS or exchange.connection != case.connection:
        case.add(step, exchange.time)
    return len(case.steps) >= MOST_STEPS


def _outcome(exchange: Exchange, code: int) -> str:
    codes = [error.code for error in exchange.unexpected_errors]
    if Flag.UNANSWERED in exchange.flag:
        return "no answer"
    if Flag.NOT_RECORDED in exchange.flag:
        return "answer not recorded"
    if not codes:
        return "ok"
    return "same error" if code in codes else error_name(codes[0])


def _copied(times: Times) -> Times:
    out = Times()
    out.include(times)
    return out
