"""Clients that brokers of Kafka 4 refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from captures.analysis.conditions import of_client
from captures.analysis.findings.common import replica_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Scene
from captures.analysis.introductions import client_name
from captures.analysis.offered_versions import KAFKA_4_LEAST, OfferedVersions, refuses_old, too_old
from captures.exchanges import Exchange
from captures.meaning import words

_BETWEEN_BROKERS = frozenset({"WriteTxnMarkers"})


@dataclass(slots=True)
class _Old:
    """The versions of one client that are too old."""

    seen: Occurrences = field(default_factory=Occurrences)
    versions: dict[str, set[int]] = field(default_factory=dict)
    brokers: dict[str, None] = field(default_factory=dict)


class RefusedByKafka4(Rule):
    """Finds clients that use versions which brokers of Kafka 4.0 do not know any more."""

    name: ClassVar[str] = "refused_by_kafka_4"
    title: ClassVar[str] = "Clients that Kafka 4 refuses"
    about: ClassVar[str] = (
        "Brokers of Kafka 4.0 and later know no version that came before Kafka 2.1 (KIP-896): Produce before 3, Fetch"
        " before 4 and so on. They announce Produce from 0 on for the sake of old librdkafka clients, and close the"
        " connection on what is before 3. Clients that ask for the versions a broker knows may use newer ones there:"
        " what is told here is what they use now."
    )
    severity: ClassVar[Severity] = Severity.LOW
    apis: ClassVar[frozenset[int] | None] = None

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._offered = OfferedVersions()
        self._asking: set[str] = set()
        self._old: dict[str, _Old] = {}

    def add(self, exchange: Exchange) -> None:
        version, client = exchange.version, client_name(exchange)
        if exchange.api == "ApiVersions":
            self._offered.add(exchange)
            self._asking.add(client)
        if version is None or exchange.api in _BETWEEN_BROKERS or not too_old(exchange.api, version):
            return
        if replica_of(exchange) >= 0:  # brokers come up to date with their cluster
            return
        old = self._old.setdefault(client, _Old())
        old.seen.add(exchange)
        old.versions.setdefault(exchange.api, set()).add(version)
        old.brokers[exchange.broker] = None

    def findings(self) -> Iterator[Finding]:
        for client, old in self._old.items():
            refusing = [broker for broker in old.brokers if refuses_old(self._offered, broker)]
            used = words.phrases(
                [f"{api} v{words.plain(sorted(found))}" for api, found in sorted(old.versions.items())]
            )
            said = f"{client} uses versions that brokers of Kafka 4.0 and later do not know: {used}"
            if refusing:
                said += f"; {words.some(map(self.scene.capture.names.shown, refusing))} is such a broker"
            elif client in self._asking:
                said += "; it asks brokers for their versions, so that it may use newer ones there"
            yield self.finding(
                f"client {client}",
                f"{said}.",
                "Bring the client up to date before the brokers are: the Java client from 2.1 on, librdkafka from 1.8.2"
                " on or any client that speaks the protocol of Kafka 2.1; and take out settings that fix an old version"
                " (broker.version.fallback, api_version, config.Version).",
                old.seen,
                filter_text=f"({' or '.join(map(_condition, sorted(old.versions)))}) and {of_client(client)}",
                severity=Severity.HIGH if refusing else self.severity,
            )


def _condition(api: str) -> str:
    return f"api == {api} and version < {KAFKA_4_LEAST[api]}"
