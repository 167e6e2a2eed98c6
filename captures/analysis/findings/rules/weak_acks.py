"""Producers that do not wait for the replicas though the topic has some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_PRODUCE, some_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import Body, items, number, rows
from dissectors.api_keys import ApiKey

_TOPIC_RESOURCE = 2
_MIN_INSYNC = "min.insync.replicas"
_ACKS_ALL, _ACKS_0, _ACKS_1 = -1, 0, 1


class _Flow(NamedTuple):
    client: str
    topic: str
    acks: int


class WeakAcks(Rule):
    """Compares the acks of producers with the replicas of topics."""

    name = "weak_acks"
    title = "Writes that do not wait for replicas"
    about = (
        "A producer writes with acks=0 or 1 to a topic with several replicas. With acks=1 the leader responds "
        "before followers have the records: if it fails then, acknowledged records are lost. With acks=0 the "
        "producer never learns of errors. min.insync.replicas applies only to acks=all (Kafka's topic "
        "configuration), so such a producer gets less than the topic promises. Java producers use acks=all by "
        "default since 3.0 (KIP-679), librdkafka always has."
    )
    severity = Severity.LOW
    apis = frozenset({
        ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    })  # fmt: skip

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._flows: dict[_Flow, Occurrences] = {}
        self._replicas: dict[str, int] = {}
        self._insync: dict[str, int] = {}
        self._produces = 0

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        produces = rows.of_api({ApiKey.PRODUCE})
        weak = np.isin(rows.columns.flat("acks"), (_ACKS_0, _ACKS_1))
        found: Bools = ~produces | weak | rows.evidence_of(produces)
        return found

    def add(self, exchange: Exchange) -> None:
        key = exchange.api_key
        if key == ApiKey.PRODUCE:
            self._produced(exchange)
        elif key in (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
            self._placed(exchange.response_body)
        elif key == ApiKey.CREATE_TOPICS:
            for body in (exchange.request_body, exchange.response_body):
                for row in rows(body, "topics"):
                    self._configured(row, "name")
        else:
            described = key == ApiKey.DESCRIBE_CONFIGS
            body = exchange.response_body if described else exchange.request_body
            for row in rows(body, "results" if described else "resources"):
                if row.get("resource_type") == _TOPIC_RESOURCE:
                    self._configured(row, "resource_name")

    def _produced(self, exchange: Exchange) -> None:
        self._produces += 1
        acks = number(exchange.request_body, "acks", _ACKS_ALL)
        if acks not in (_ACKS_0, _ACKS_1):
            return
        for topic in {part.topic for part in self.context.records.produced(exchange)}:
            self._flows.setdefault(_Flow(client_name(exchange), topic, acks), Occurrences()).add(exchange)

    def _placed(self, response: Body) -> None:
        for topic in rows(response, "topics"):
            name = topic.get("name")
            counts = [len(items(row, "replica_nodes")) for row in rows(topic, "partitions")]
            if name and counts:
                self._replicas[name] = max(counts)

    def _configured(self, row: Body, field: str) -> None:
        name = row.get(field)
        for config in rows(row, "configs"):
            value = config.get("value")
            if name and config.get("name") == _MIN_INSYNC and isinstance(value, str) and value.isdecimal():
                self._insync[name] = int(value)

    def findings(self) -> Iterator[Finding]:
        for flow, seen in self._flows.items():
            replicas, insync = self._replicas.get(flow.topic, 0), self._insync.get(flow.topic, 1)
            if replicas < 2:
                continue
            promised = f" and min.insync.replicas={insync}" if insync > 1 else ""
            lost = (
                "if the leader fails, acknowledged records that it has not replicated are lost"
                if flow.acks == _ACKS_1
                else "records that do not arrive are lost, and the producer does not notice"
            )
            yield self.finding(
                f"client {flow.client}, topic {flow.topic}, acks={flow.acks}",
                f"Client {flow.client} wrote {words.counted(seen.count, 'request')} with acks={flow.acks} to "
                f"{flow.topic}, which has {replicas} replicas{promised}: {lost}.",
                "Set acks=all (and enable.idempotence=true) on the producer, with min.insync.replicas=2 on a topic of "
                "three replicas, unless losing these records is acceptable.",
                seen,
                filter_text=f"api == Produce and {of_client(flow.client)} and {of_topic(flow.topic)}"
                f" and acks == {flow.acks}",
                severity=Severity.MEDIUM if insync > 1 else None,
            )

    def blind(self) -> str:
        if not self._produces:
            return NO_PRODUCE
        unknown = {flow.topic for flow in self._flows} - self._replicas.keys()
        if not unknown:
            return ""
        return (
            "producers write with acks=0 or 1 to these topics, but no message says how many replicas they have: "
            f"{some_of(sorted(unknown))}"
        )
