"""Clients slowed down by quotas."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.analysis.throttling import ThrottleRow, ThrottleStats
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number
from captures.time_format import span
from dissectors.units import MS

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
        Threshold("longest", 1_000, Unit.MILLISECONDS, "longest throttle time; below it the severity is low"),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._stats = ThrottleStats()
        self._seen: dict[tuple[str, str], Occurrences] = {}
        self._until: dict[int, tuple[int, tuple[str, str]]] = {}
        """Connection -> end of the pause that was announced latest, and by which client and API."""
        self._ignored: set[tuple[str, str]] = set()
        """Clients and APIs whose pauses the broker did not keep."""
        self._kept: set[tuple[str, str]] = set()
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
