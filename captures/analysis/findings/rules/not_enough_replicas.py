"""Produce requests that fail because too few replicas are in sync."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    error_names,
    on_topics,
    some_of,
    topic_of,
    unexpected,
    whole_ids,
    with_errors,
)
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext, times
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning.exchange import number, rows
from captures.meaning.topic_partitions import inside, topic
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode

_BEFORE = 19
_CODES = frozenset({_BEFORE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


class _TopicRefusals(msgspec.Struct):
    """Refused requests for one topic.

    :ivar accepted: when records were next accepted, ns since the epoch; 0 if they were not
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    codes: set[int] = set()
    clients: dict[str, None] = {}
    accepted: int = 0


class NotEnoughReplicas(Rule):
    """Finds topics that cannot be written to with ``acks=all``."""

    name = "not_enough_replicas"
    effect_of = EffectOf.BROKERS
    title = "Too few replicas in sync to write"
    about = (
        "With acks=all a leader accepts records only while at least min.insync.replicas replicas are in sync "
        "(Partition.appendRecordsToLeader). After NOT_ENOUGH_REPLICAS nothing was written. After "
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND the batch was written, but too few replicas had it in time: the "
        "producer sends it again, and without idempotence its records are duplicated."
    )
    severity = Severity.HIGH
    apis = frozenset({ApiKey.PRODUCE})

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._refused: dict[str, _TopicRefusals] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.all_if_met(_CODES)

    def add(self, exchange: Exchange) -> None:
        found = unexpected(exchange, _CODES)
        for name in {topic_of(error, self.context.names) for error in found}:
            refused = self._refused.setdefault(name, _TopicRefusals())
            refused.seen.add(exchange)
            refused.codes.update(error.code for error in found)
            refused.clients[client_name(exchange)] = None
        if self._refused and not found:
            self._accept(exchange)

    def _accept(self, exchange: Exchange) -> None:
        for holder in rows(exchange.response_body, "responses"):
            refused = self._refused.get(topic(holder, whole_ids(self.context.names)))
            if (
                refused is not None
                and exchange.time > refused.seen.last
                and any(number(row, "error_code") == 0 for row in inside(holder) if isinstance(row, dict))
            ):
                refused.accepted = exchange.time

    def findings(self) -> Iterator[Finding]:
        for name, refused in self._refused.items():
            seen = refused.seen
            went_on = refused.accepted > seen.last
            ending = (
                f"; after {span(refused.accepted - seen.first)} records were accepted again"
                if went_on
                else "; none was accepted after that"
            )
            doubled = (
                " Batches refused after they were written are sent again: without idempotence their records are "
                "duplicated."
                if ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND in refused.codes
                else ""
            )
            yield self.finding(
                f"topic {name}",
                f"Produce to {name} was refused {times(seen.count)} because too few replicas are in sync"
                f" ({error_names(refused.codes)}), from {some_of(refused.clients)}{ending}.{doubled}",
                "Bring back the brokers whose replicas are out of sync (finding isr_changes, kafka-topics --describe "
                "--under-min-isr-partitions). The topic's min.insync.replicas must not be greater than its replication "
                "factor; to survive the loss of a broker, it has to be less.",
                seen,
                filter_text=f"{with_errors(refused.codes)}{on_topics([name])}",
                severity=Severity.MEDIUM if went_on else self.severity,
            )
