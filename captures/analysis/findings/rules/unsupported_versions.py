"""Requests in versions that the broker does not know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from captures.analysis.closings import Closing, Reason
from captures.analysis.conditions import of_client
from captures.analysis.findings.common import some_of, unexpected
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Scene
from captures.analysis.groups.model import Certainty
from captures.analysis.introductions import client_name
from captures.analysis.offered_versions import refuses_old, too_old
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.meaning import words

_UNSUPPORTED_VERSION = 35
_API_VERSIONS = 18


@dataclass(slots=True)
class _Refused:
    """Requests of one client that a broker refused for their version."""

    seen: Occurrences = field(default_factory=Occurrences)
    versions: dict[tuple[str, int | None], None] = field(default_factory=dict)

    def add(self, api: str, version: int | None) -> None:
        """Take in a version."""
        self.versions[api, version] = None


class UnsupportedVersions(Rule):
    """Finds requests that were refused for their version: by an error, or by the end of the connection."""

    name: ClassVar[str] = "unsupported_versions"
    title: ClassVar[str] = "Requests in versions that the broker does not know"
    about: ClassVar[str] = (
        "Clients learn from ApiVersions (KIP-35) which versions a broker knows, and use those. One that does not ask,"
        " or is configured for another version, gets UNSUPPORTED_VERSION or a closed connection without a word"
        " (SocketServer.scala); brokers of 0.9 keep the connection open and never answer. That ApiVersions itself is"
        " answered so, and asked again in a lower version, is normal (KIP-511) and no finding."
    )
    severity: ClassVar[Severity] = Severity.HIGH
    apis: ClassVar[frozenset[int] | None] = None

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._closings = scene.shared.closings
        self._offered = scene.shared.offered
        self._told: dict[tuple[str, str], _Refused] = {}

    def add(self, exchange: Exchange) -> None:
        self._closings.add(exchange)
        self._offered.add(exchange)
        if unexpected(exchange, {_UNSUPPORTED_VERSION}):
            told = self._told.setdefault((client_name(exchange), exchange.broker), _Refused())
            told.seen.add(exchange)
            told.add(exchange.api, exchange.version)

    def findings(self) -> Iterator[Finding]:
        for (client, broker), told in self._told.items():
            yield self._finding(client, broker, told, "answered with UNSUPPORTED_VERSION")
        closed: dict[tuple[str, str], _Refused] = {}
        unheard: dict[tuple[str, str], _Refused] = {}
        for closing in self._closings.known.result():
            request = closing.request
            if (
                closing.reason is not Reason.UNSUPPORTED_VERSION
                or request is None
                or self._of_kafka_4(closing)
            ):
                continue
            found = unheard if request.api_key == _API_VERSIONS else closed
            refused = found.setdefault((closing.client, closing.broker), _Refused())
            refused.seen.note(request.number, request.time)
            refused.add(request.api, request.version)
        for (client, broker), refused in closed.items():
            yield self._finding(client, broker, refused, "not answered: the broker closed the connection")
        for (client, broker), refused in unheard.items():
            yield self._unheard(client, broker, refused)

    def _of_kafka_4(self, closing: Closing) -> bool:
        """Tell whether it is what refused_by_kafka_4 finds."""
        request = closing.request
        old = request is not None and request.version is not None and too_old(request.api, request.version)
        return old and refuses_old(self._offered.known, closing.broker)

    def _finding(self, client: str, broker: str, refused: _Refused, how: str) -> Finding:
        shown = self.scene.capture.names.shown(broker)
        asked = some_of([self._asked(broker, *each) for each in refused.versions])
        return self.finding(
            f"client {client}, broker {shown}",
            f"{words.counted(refused.seen.count, 'request')} of {client} to {shown} in versions that it does not know"
            f" {'were' if refused.seen.count > 1 else 'was'} {how}: {asked}.",
            "Let the client find out what the broker knows (api.version.request, no fixed api_version), or bring client"
            " or broker to a version that fits: old brokers do not know new versions, and brokers from Kafka 4.0 on"
            " none from before Kafka 2.1 (KIP-896). What is offered and refused all the same needs something that is"
            " not enabled, such as a feature level or group.coordinator.rebalance.protocols.",
            refused.seen,
            filter_text=f"({' or '.join(map(_condition, refused.versions))}) and {of_client(client)}"
            f" and broker == {quoted(broker)}",
            certainty=Certainty.OBSERVED if how.startswith("answered") else Certainty.INFERRED,
        )

    def _asked(self, broker: str, api: str, version: int | None) -> str:
        offered = self._offered.known.of([broker], api)
        asked = api if version is None else f"{api} v{version}"
        if offered and version is not None and offered[0] <= version <= offered[1]:
            return f"{asked} (which it offers)"
        if offered:
            return f"{asked} (it offers {offered[0]} to {offered[1]})"
        return f"{asked} (not offered at all)" if self._offered.known.knows(broker) else asked

    def _unheard(self, client: str, broker: str, refused: _Refused) -> Finding:
        """ApiVersions itself is answered by all brokers that know any version of it."""
        shown = self.scene.capture.names.shown(broker)
        return self.finding(
            f"client {client}, broker {shown}, ApiVersions",
            f"{shown} closed {words.counted(refused.seen.count, 'connection')} of {client} on ApiVersions: brokers"
            " before 0.10 do not know it, and listeners that want TLS close too.",
            "See which version the broker is of, and whether its listener wants TLS. For brokers before 0.10 tell the"
            " client so (broker.version.fallback, api.version.request=false, api_version).",
            refused.seen,
            filter_text=f"api == ApiVersions and unanswered and {of_client(client)} and broker == {quoted(broker)}",
            severity=Severity.MEDIUM,  # most clients fall back to what old brokers know
            certainty=Certainty.POSSIBLE,
        )


def _condition(asked: tuple[str, int | None]) -> str:
    api, version = asked
    known = f"api == {api}" if api.isalpha() else f"api.key == {api.rpartition('#')[2]}"
    return known if version is None else f"{known} and version == {version}"
