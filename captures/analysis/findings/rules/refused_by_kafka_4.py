"""Clients that Kafka 4 brokers refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import replica_of, some_of, together
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.offered_versions import kafka_4_least, refuses_old, too_old
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name

_BETWEEN_BROKERS = frozenset({"WriteTxnMarkers"})


class _OldVersions(msgspec.Struct):
    """One client's versions that are too old."""

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    versions: dict[str, set[int]] = {}
    brokers: dict[str, None] = {}


class RefusedByKafka4(Rule):
    """Finds clients that use versions which Kafka 4.0 brokers no longer support."""

    name = "refused_by_kafka_4"
    title = "Clients that Kafka 4 refuses"
    about = (
        "Brokers of Kafka 4.0 and later do not know versions from before Kafka 2.1 (KIP-896): Produce before 3, "
        "Fetch before 4 and so on. For old librdkafka clients they announce Produce from 0 on, but close the "
        "connection on versions before 3. The finding shows the versions in use. Clients that ask for the "
        "broker's versions, and are offered nothing newer, are reported as info."
    )
    severity = Severity.LOW
    apis = None

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._offered = context.shared.offered
        self._asking: set[str] = set()
        self._old: dict[str, _OldVersions] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.of_api({ApiKey.API_VERSIONS}) | rows.of_version(
            lambda key, version: too_old(api_name(key), version)
        )

    def add(self, exchange: Exchange) -> None:
        version, client = exchange.version, client_name(exchange)
        if exchange.api == "ApiVersions":
            self._offered.add(exchange)
            self._asking.add(client)
        if version is None or exchange.api in _BETWEEN_BROKERS or not too_old(exchange.api, version):
            return
        if replica_of(exchange) >= 0:  # brokers are updated with their cluster
            return
        old = self._old.setdefault(client, _OldVersions())
        old.seen.add(exchange)
        old.versions.setdefault(exchange.api, set()).add(version)
        old.brokers[exchange.broker] = None

    def findings(self) -> Iterator[Finding]:
        held_down: dict[str, _OldVersions] = {}
        for client, old in self._old.items():
            if self._held_down(client, old):
                held_down[client] = old
            else:
                yield self._finding(client, old)
        if held_down:
            yield self._old_brokers(held_down)

    def _held_down(self, client: str, old: _OldVersions) -> bool:
        """Return whether the brokers support no newer versions, and the client requests their versions."""
        return client in self._asking and all(
            (offered := self._offered.known.of([broker], api)) is not None and offered[1] < kafka_4_least(api)
            for api in old.versions
            for broker in old.brokers
        )

    def _finding(self, client: str, old: _OldVersions) -> Finding:
        refusing = [broker for broker in old.brokers if refuses_old(self._offered.known, broker)]
        text = f"{client} uses versions that brokers of Kafka 4.0 and later do not know: {_used(old)}"
        if refusing:
            text += f"; {some_of(map(self.context.capture.names.shown, refusing))} is such a broker"
        return self.finding(
            f"client {client}",
            f"{text}.",
            "Update the client before the brokers: to the Java client 2.1 or later, librdkafka 1.8.2 or later, or any"
            " client that knows the protocol of Kafka 2.1. Remove settings that pin an old version "
            "(broker.version.fallback, api_version, config.Version).",
            old.seen,
            filter_text=f"{_conditions(old.versions)} and {of_client(client)}",
            severity=Severity.HIGH if refusing else self.severity,
        )

    def _old_brokers(self, held_down: dict[str, _OldVersions]) -> Finding:
        brokers = {broker: None for old in held_down.values() for broker in old.brokers}
        apis = {api for old in held_down.values() for api in old.versions}
        know = "know" if len(brokers) > 1 else "knows"
        use, ask = ("use", "they ask") if len(held_down) > 1 else ("uses", "it asks")
        return self.finding(
            "clients of old brokers",
            f"{some_of(held_down)} {use} versions that brokers of Kafka 4.0 and later do not know, as"
            f" {some_of(map(self.context.capture.names.shown, brokers))} {know} no newer ones"
            f" ({some_of(sorted(apis))}); {ask} brokers for their versions, and may use newer ones elsewhere.",
            "Nothing to do for these clients while the brokers are old. A broker of 2.1 or later would show whether "
            "they can use newer versions.",
            together(old.seen for old in held_down.values()),
            filter_text=_conditions(apis),
            severity=Severity.INFO,
            certainty=Certainty.INFERRED,
        )


def _used(old: _OldVersions) -> str:
    return some_of([f"{api} v{words.plain(sorted(found))}" for api, found in sorted(old.versions.items())])


def _conditions(apis: Iterable[str]) -> str:
    return f"({' or '.join(map(_condition, sorted(apis)))})"


def _condition(api: str) -> str:
    return f"api == {api} and version < {kafka_4_least(api)}"
