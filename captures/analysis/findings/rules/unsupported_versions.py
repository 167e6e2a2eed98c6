"""Requests with versions that the broker does not support."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.broker_disconnects import BrokerDisconnect, Reason
from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import some_of, unexpected
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.offered_versions import refuses_old, too_old
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.meaning import words
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode


class _VersionRefusals(msgspec.Struct):
    """Requests of one client that a broker refused because of their version."""

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    versions: dict[tuple[str, int | None], None] = {}

    def add(self, api: str, version: int | None) -> None:
        self.versions[api, version] = None


class UnsupportedVersions(Rule):
    """Finds requests that were refused because of their version: with an error, or by closing the connection."""

    name = "unsupported_versions"
    title = "Requests in versions that the broker does not know"
    about = (
        "Clients learn from ApiVersions (KIP-35) which versions a broker knows, and use those. A client that does not "
        "ask, or is configured for another version, gets UNSUPPORTED_VERSION, or its connection is closed without a "
        "response (SocketServer.scala); 0.9 brokers keep the connection open and never respond. It is normal, and not "
        "a finding, that ApiVersions itself gets this error and is retried in a lower version (KIP-511)."
    )
    severity = Severity.HIGH
    key = Key.BROKER
    apis = None

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._closings = context.shared.closings
        self._offered = context.shared.offered
        self._refusals: dict[tuple[str, str], _VersionRefusals] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.closing | rows.failed | rows.of_api({ApiKey.API_VERSIONS})

    def add(self, exchange: Exchange) -> None:
        self._closings.add(exchange)
        self._offered.add(exchange)
        if unexpected(exchange, {ErrorCode.UNSUPPORTED_VERSION}):
            refusals = self._refusals.setdefault((client_name(exchange), exchange.broker), _VersionRefusals())
            refusals.seen.add(exchange)
            refusals.add(exchange.api, exchange.version)

    def findings(self) -> Iterator[Finding]:
        for (client, broker), refusals in self._refusals.items():
            yield self._finding(client, broker, refusals, closed=False)
        closed: dict[tuple[str, str], _VersionRefusals] = {}
        unheard: dict[tuple[str, str], _VersionRefusals] = {}
        for closing in self._closings.known.result():
            request = closing.request
            if (
                closing.reason is not Reason.UNSUPPORTED_VERSION
                or request is None
                or self._of_kafka_4(closing)
            ):
                continue
            found = unheard if request.api_key == ApiKey.API_VERSIONS else closed
            refused = found.setdefault((closing.client, closing.broker), _VersionRefusals())
            refused.seen.note(request.number, request.time)
            refused.add(request.api, request.version)
        for (client, broker), refused in closed.items():
            yield self._finding(client, broker, refused, closed=True)
        for (client, broker), refused in unheard.items():
            yield self._unheard(client, broker, refused)

    def _of_kafka_4(self, closing: BrokerDisconnect) -> bool:
        """Return whether refused_by_kafka_4 finds it."""
        request = closing.request
        old = request is not None and request.version is not None and too_old(request.api, request.version)
        return old and refuses_old(self._offered.known, closing.broker)

    def _finding(self, client: str, broker: str, refused: _VersionRefusals, *, closed: bool) -> Finding:
        shown = self.context.capture.names.shown(broker)
        asked = some_of([self._asked(broker, *each) for each in refused.versions])
        return self.finding(
            f"client {client}, broker {shown}",
            f"{shown} {'closed the connection on' if closed else 'refused'} "
            f"{words.counted(refused.seen.count, 'request')} of {client} because it does not know the version: "
            f"{asked}.",
            "Let the client ask for the broker's versions (api.version.request, no fixed api_version), or update "
            "client or broker: old brokers do not know new versions, and brokers from Kafka 4.0 on know none from "
            "before Kafka 2.1 (KIP-896). A version that is offered but refused needs something that is not enabled, "
            "such as a feature level or group.coordinator.rebalance.protocols.",
            refused.seen,
            filter_text=f"({' or '.join(map(_condition, refused.versions))}) and {of_client(client)}"
            f" and broker == {quoted(broker)}",
            certainty=Certainty.INFERRED if closed else Certainty.OBSERVED,
        )

    def _asked(self, broker: str, api: str, version: int | None) -> str:
        offered = self._offered.known.of([broker], api)
        asked = api if version is None else f"{api} v{version}"
        if offered and version is not None and offered[0] <= version <= offered[1]:
            return f"{asked} (which it offers)"
        if offered:
            return f"{asked} (it offers {offered[0]} to {offered[1]})"
        return f"{asked} (not offered at all)" if self._offered.known.knows(broker) else asked

    def _unheard(self, client: str, broker: str, refused: _VersionRefusals) -> Finding:
        """Return the finding about refused ApiVersions requests: brokers that support any version of it answer all."""
        shown = self.context.capture.names.shown(broker)
        return self.finding(
            f"client {client}, broker {shown}, ApiVersions",
            f"{shown} closed {words.counted(refused.seen.count, 'connection')} of {client} on ApiVersions: brokers "
            f"before 0.10 do not know it, and listeners that expect TLS also close the connection.",
            "Check the broker's version, and whether its listener expects TLS. For brokers before 0.10 configure the "
            "client accordingly (broker.version.fallback, api.version.request=false, api_version).",
            refused.seen,
            filter_text=f"api == ApiVersions and unanswered and {of_client(client)} and broker == {quoted(broker)}",
            severity=Severity.MEDIUM,  # most clients fall back to versions of old brokers
            certainty=Certainty.POSSIBLE,
        )


def _condition(asked: tuple[str, int | None]) -> str:
    api, version = asked
    known = f"api == {api}" if api.isalpha() else f"api.key == {api.rpartition('#')[2]}"
    return known if version is None else f"{known} and version == {version}"
