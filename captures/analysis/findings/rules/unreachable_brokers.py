"""Brokers that do not accept connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from captures.analysis.advertised_addresses import APIS, Address
from captures.analysis.attempts import Outcome, attempts
from captures.analysis.findings.common import some_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, Threshold, Unit
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.meaning import words
from captures.names.names import split
from captures.time_format import span
from dissectors.units import MS

_SHOWN = 10


class _Attempts(msgspec.Struct):
    """The results of the attempts to connect to one address."""

    accepted: list[int] = []
    failed: Occurrences = msgspec.field(default_factory=Occurrences)
    refused: int = 0
    clients: dict[str, None] = {}
    connections: list[int] = []


class UnreachableBrokers(Rule):
    """Finds addresses that do not answer, or answer with RST."""

    name = "unreachable_brokers"
    needs = Lack.PACKETS
    effect_of = EffectOf.BROKERS
    title = "Brokers that cannot be reached"
    about = (
        "If a SYN is answered by RST, nothing listens on the port: the broker is down, or the port is wrong. If "
        "it is not answered, the address is wrong, the host is down, or a firewall drops it. Clients retry after "
        "reconnect.backoff.ms, up to reconnect.backoff.max.ms (NetworkClient.java)."
    )
    severity = Severity.HIGH
    key = Key.CAPTURE
    apis = APIS
    thresholds = (
        Threshold(
            "lasting",
            5_000,
            Unit.MILLISECONDS,
            "time from the first attempt to the last without a success after it; a shorter one is medium, such as a "
            "restart",
        ),
    )

    def add(self, exchange: Exchange) -> None:
        self.context.shared.advertised.add(exchange)

    def findings(self) -> Iterator[Finding]:
        found: dict[str, _Attempts] = {}
        if not any(attempts(self.context.capture, (Outcome.REFUSED, Outcome.SILENT))):
            return
        for attempt in attempts(self.context.capture):
            failed = found.setdefault(attempt.broker, _Attempts())
            if attempt.outcome is Outcome.ACCEPTED:
                failed.accepted.append(attempt.time)
                continue
            failed.failed.note(0, attempt.time)
            failed.refused += attempt.outcome is Outcome.REFUSED
            failed.clients[attempt.client.rpartition(":")[0]] = None
            failed.connections.append(attempt.connection)
        advertised = self._addresses(found)
        for broker in self._open_before(found):
            found[broker].accepted.insert(0, 0)
        ports = {broker.rpartition(":")[2] for broker, failed in found.items() if failed.accepted}
        for broker, failed in found.items():
            # advertised addresses that were never reached are found by advertised_listeners
            if failed.failed and (failed.accepted or broker not in advertised):
                yield self._finding(broker, failed, elsewhere=broker.rpartition(":")[2] in ports)

    def blind(self) -> str:
        begun = self.context.capture.connections.syn_time
        return "" if np.any(begun >= 0) else "the capture shows no connection that begins"

    def _open_before(self, found: Iterable[str]) -> set[str]:
        """Return those of `found` with connections when the capture began."""
        capture = self.context.capture
        before = np.flatnonzero(capture.connections.syn_time < 0).tolist()
        return {capture.endpoints(connection)[1] for connection in before} & set(found)

    def _addresses(self, found: Iterable[str]) -> set[str]:
        """Return those of `found`, as ``host:port``, whose address is advertised."""
        ends = {split(broker): [Outcome.SILENT] for broker in found}
        capture = self.context.capture
        return {
            Address(host, address.port).shown
            for address in self.context.shared.advertised.known.sources
            for host in address.hosts(capture, ends)
        }

    def _finding(self, broker: str, attempted: _Attempts, *, elsewhere: bool) -> Finding:
        failed, shown = attempted.failed, self.context.capture.names.shown(broker)
        how = "were refused (RST)" if attempted.refused else "were not answered"
        if 0 < attempted.refused < failed.count:
            how = f"failed, {attempted.refused} of them refused (RST)"
        sentence = (
            f"{words.counted(failed.count, 'attempt')} to connect to {shown} {how},"
            f" from {some_of(attempted.clients)} within {span(failed.last - failed.first)}"
        )
        if failed.count == 1:
            clients = some_of(attempted.clients)
            sentence = f"An attempt to connect to {shown} {how.replace('were', 'was')}, from {clients}"
        before = [time for time in attempted.accepted if time < failed.first]
        after = [time for time in attempted.accepted if time > failed.last]
        lasting = failed.last - failed.first >= self.limit("lasting") * MS
        severity, certainty = self.severity if lasting else Severity.MEDIUM, Certainty.OBSERVED
        if after:
            came_back = (
                "; later ones were accepted" if before else "; it was not up yet, and accepted later ones"
            )
            sentence += came_back
            severity = Severity.MEDIUM if before else Severity.LOW
        elif attempted.accepted:
            sentence += ", and none was accepted after that"
        elif elsewhere:
            severity, certainty = Severity.LOW, Certainty.INFERRED
            sentence += "; the same port was reached under another address"
        else:
            sentence += "; none was ever accepted"
        return self.finding(
            f"broker {shown}",
            f"{sentence}.",
            self._advice(attempted, elsewhere=elsewhere and not attempted.accepted),
            failed,
            severity=severity,
            certainty=certainty,
            connections=attempted.connections[:_SHOWN],
        )

    @staticmethod
    def _advice(failed: _Attempts, *, elsewhere: bool) -> str:
        if elsewhere:
            return (
                "The name of the broker resolves to an address at which it does not listen, mostly ::1 for localhost. "
                "Let it listen there, or use an address in bootstrap.servers and advertised.listeners."
            )
        if failed.refused:
            return (
                "Check that the broker runs and listens at this address and port (listeners), and that "
                "advertised.listeners and bootstrap.servers name the right port."
            )
        return (
            "Check that the clients can reach the address in advertised.listeners or bootstrap.servers: routes, "
            "firewalls, security groups, and whether the host is up."
        )
