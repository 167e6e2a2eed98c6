"""Connections that cannot be made, are made too often, are closed by brokers, or speak other protocols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.advertised_addresses import (
    APIS,
    Address,
    AddressSource,
    Reached,
    is_local,
    reached_addresses,
)
from captures.analysis.attempts import Outcome, attempts, ended
from captures.analysis.broker_disconnects import BrokerDisconnect, Reason
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import one_of, some_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit, times
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools, Int64s
from captures.exchanges import Capture, Exchange
from captures.exchanges.broker_logs import Lack
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.names.names import split
from captures.time_format import span
from dissectors.api_keys import CONNECTING
from dissectors.units import MS, SECOND

# ---------------------------------------------------------------- advertised_listeners

_MOST_REFUSALS = 3
_ADDRESS_FILTER = "api in {Metadata, FindCoordinator, DescribeCluster}"


class AdvertisedListeners(Rule):
    """Finds advertised addresses that clients cannot use."""

    name = "advertised_listeners"
    title = "Advertised addresses that clients cannot reach, or that lead elsewhere"
    about = (
        "A client uses bootstrap.servers only for its first request. From then on it connects to the addresses in"
        " Metadata, FindCoordinator and DescribeCluster responses: the brokers' advertised.listeners (KIP-103). "
        "If these mean nothing where the client runs (localhost, a container name, an internal address), it "
        "reaches the first broker and no other. Behind a proxy or a port mapping, they may lead clients past it."
    )
    severity = Severity.HIGH
    apis = APIS

    def add(self, exchange: Exchange) -> None:
        self.context.shared.advertised.add(exchange)

    def findings(self) -> Iterator[Finding]:
        reached = reached_addresses(self.context.capture)
        for address, source in self.context.shared.advertised.known.sources.items():
            yield from self._only_local(address, source)
            yield from self._not_reached(address, source, reached)
        yield from self._elsewhere(reached)

    def blind(self) -> str:
        known = self.context.shared.advertised.known.sources
        return "" if known else "no message names the addresses of brokers"

    def _only_local(self, address: Address, source: AddressSource) -> Iterator[Finding]:
        """Find an address that means the client's own host, sent to a client on another host than the broker's."""
        if not address.only_local:
            return
        brokers = {split(broker)[0] for broker in source.by}
        remote = {
            host: name for host, name in source.clients.items() if host not in brokers and not is_local(host)
        }
        if not remote:
            return
        names = dict.fromkeys(remote.values())
        yield self.finding(
            f"address {address.shown}",
            f"{_brokers_at(source)} is advertised as {address.shown}, which means the client's own host:"
            f" {some_of(names)} at {some_of(remote)} cannot reach it.",
            "Set the broker's advertised.listeners to a name or an address that clients can reach. If clients are in "
            "several networks, give each network a listener.",
            Occurrences.of(source.exchanges),
            filter_text=f"{_ADDRESS_FILTER} and ({' or '.join(map(of_client, names))})",
        )

    def _not_reached(self, address: Address, source: AddressSource, reached: Reached) -> Iterator[Finding]:
        """Find an address to which all attempts to connect failed."""
        outcomes = self.context.shared.advertised.known.outcomes(self.context.capture, address, reached)
        if not outcomes or Outcome.ACCEPTED in outcomes:
            return
        refused = outcomes.count(Outcome.REFUSED)
        how = "refused" if refused == len(outcomes) else "answered" if not refused else "accepted"
        done = how if how == "refused" else f"not {how}"
        several = len(outcomes) > 1
        tried = (
            f"all {len(outcomes):,} attempts to connect to it were"
            if several
            else "the attempt to connect to it was"
        )
        yield self.finding(
            f"address {address.shown}",
            f"{_brokers_at(source)} is advertised as {address.shown}, and {tried} {done}.",
            "Check that the broker is up and listens there. If it does, clients cannot reach that address: set "
            "advertised.listeners to one that they can reach.",
            Occurrences.of(source.exchanges),
            filter_text=_ADDRESS_FILTER,
            # one or two refusals may come from a starting broker
            severity=Severity.MEDIUM if refused == len(outcomes) < _MOST_REFUSALS else self.severity,
        )

    def _elsewhere(self, reached: Reached) -> Iterator[Finding]:
        """Find that the capture has a connection to none of the advertised addresses."""
        capture, advertised = self.context.capture, self.context.shared.advertised.known.sources
        ports = {port for _, port in reached}
        for address in advertised:
            hosts = address.hosts(capture, reached)
            # a name without a known address may be any host with that port
            if any((host, address.port) in reached for host in hosts) or (
                not hosts and address.port in ports
            ):
                return
        if not advertised:
            return
        by = {broker: None for each in advertised.values() for broker in each.by}
        yield self.finding(
            "advertised addresses",
            f"Clients of {some_of(map(capture.names.shown, by))} are directed to"
            f" {some_of(address.shown for address in advertised)}, and the capture shows no connection to"
            f" {'any of these' if len(advertised) > 1 else 'that'}: they bypass the place of capture, or cannot"
            " reach it.",
            "If clients should stay on the captured path (a proxy, a port mapping, a load balancer), set "
            "advertised.listeners to its addresses, or let the proxy rewrite them. If these connections are "
            "elsewhere, capture there too.",
            Occurrences.of(sorted({each for where in advertised.values() for each in where.exchanges})),
            filter_text=_ADDRESS_FILTER,
            severity=Severity.LOW,
            certainty=Certainty.POSSIBLE,
        )


def _brokers_at(source: AddressSource) -> str:
    known = sorted(broker for broker in source.brokers if broker >= 0)
    return f"Broker {words.ranges(known)}" if known else "A broker"


# ---------------------------------------------------------------- unreachable_brokers

_ATTEMPTS_SHOWN = 10


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
            Unit.MS,
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
            connections=attempted.connections[:_ATTEMPTS_SHOWN],
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


# ---------------------------------------------------------------- connection_churn

_MINUTE = 60 * SECOND


class ConnectionChurn(Rule):
    """Finds hosts that open many short connections to a broker, which are accepted and used."""

    name = "connection_churn"
    effect_of = EffectOf.BROKERS
    title = "Connections opened all the time"
    about = (
        "A client keeps one or two connections to a broker for as long as it runs. A host that opens many short "
        "ones creates a client for each piece of work, or keeps losing its connections. Each connection costs a "
        "TCP handshake, plus TLS and SASL, ApiVersions and Metadata, and counts towards "
        "max.connection.creation.rate (KIP-612)."
    )
    key = Key.BROKER
    apis = None
    thresholds = (
        Threshold(
            "opened", 60, Unit.COUNT, "connections of a client host to a broker opened within a minute"
        ),
        Threshold("life", 10_000, Unit.MS, "half of them lived no longer than this"),
    )

    _clients: dict[int, str] = {}
    """Client ID of each connection on which something was answered; empty if it has none."""

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.first(rows.answered & (rows.api_key >= 0) & ~rows.of_api(CONNECTING))

    def add(self, exchange: Exchange) -> None:
        works = exchange.response_size and exchange.api_key not in CONNECTING and exchange.api_key is not None
        if works and exchange.connection not in self._clients:
            self._clients[exchange.connection] = exchange.client_id or ""

    def findings(self) -> Iterator[Finding]:
        capture = self.context.capture
        begun = capture.connections.syn_time
        found: dict[tuple[str, str], list[int]] = {}
        by_kproxy = capture.notes.ended_connections
        for connection in self._clients.keys() - by_kproxy if by_kproxy else self._clients:
            if connection < len(begun) and begun[connection] >= 0:
                client, broker = capture.endpoints(connection)
                found.setdefault((client.rpartition(":")[0], broker), []).append(connection)
        for (host, broker), lines in found.items():
            opened = np.sort(begun[np.array(lines, np.int64)])
            most = _most_within(opened, _MINUTE)
            if most < self.limit("opened"):
                continue
            life = int(np.median(_lives(self.context, lines)))
            if life <= self.limit("life") * SECOND // 1000:
                yield self._finding(host, broker, lines, most, life)

    def _finding(self, host: str, broker: str, opened: list[int], most: int, life: int) -> Finding:
        names, begun = self.context.capture.names, self.context.capture.connections.syn_time
        clients = some_of({self._clients[each]: None for each in opened if self._clients[each]})
        shown_host, shown = names.shown_host(host), names.shown(broker)
        return self.finding(
            f"client {shown_host}, broker {shown}",
            f"{shown_host}{f' ({clients})' if clients else ''} opened {len(opened):,} connections to {shown}, up to"
            f" {most:,} within a minute; half of them lived no longer than {span(life)}.",
            "Keep one producer or consumer for the life of the process. If connections break, see the findings "
            "closed_by_broker and authentication_failures.",
            Occurrences.of((0, int(begun[each])) for each in opened),
            filter_text=f"client.host == {quoted(host.strip('[]'))} and broker == {quoted(broker)}",
            connections=opened,
        )


def _most_within(times: Int64s, span: int) -> int:
    """Return the greatest number of sorted times within a span."""
    return int((np.arange(len(times)) - np.searchsorted(times, times - span)).max()) + 1 if len(times) else 0


def _lives(context: RuleContext, connections: list[int]) -> Int64s:
    """Return the lifetimes of connections in ns; those of open connections end now."""
    rows = np.array(connections, np.int64)
    all_of_them = context.capture.connections
    latest = context.capture.observed_until(rows)
    gone = all_of_them.closed_before(rows, context.capture.latest + 1)
    ends = np.where(gone, all_of_them.last_time[rows], latest)
    return ends - all_of_them.first_time[rows]


# ---------------------------------------------------------------- closed_by_broker

_CLOSED_SHOWN = 20
"""Most connections that a finding names."""


class _ClosingReason(NamedTuple):
    """The meaning of a reason, and advice."""

    severity: Severity
    certainty: Certainty
    meaning: str
    advice: str


_CLOSING_REASONS = {
    Reason.NOT_AUTHENTICATED: _ClosingReason(
        Severity.HIGH,
        Certainty.POSSIBLE,
        "the client had not authenticated, as the listener may require (SASL)",
        "Check what the listener of that port expects (listener.security.protocol.map), and set the clients' "
        "security.protocol and sasl.mechanism accordingly.",
    ),
    Reason.TOO_LARGE: _ClosingReason(
        Severity.HIGH,
        Certainty.INFERRED,
        "a request was not complete, and may be larger than it accepts (socket.request.max.bytes)",
        "Make requests smaller (max.request.size, batch.size), or raise socket.request.max.bytes of the broker.",
    ),
    Reason.ACKS_0: _ClosingReason(
        Severity.HIGH,
        Certainty.INFERRED,
        "a Produce with acks=0 came before: with acks=0 that is the only sign of an error",
        "Records are lost without notice: produce with acks=all, at least until the error is known (size over "
        "message.max.bytes, no authorization, unknown topic, wrong leader).",
    ),
    Reason.STOPPED: _ClosingReason(
        Severity.MEDIUM,
        Certainty.INFERRED,
        "it accepted no more connections, so it stopped",
        "Check the broker's log for whether it was stopped or killed, or crashed.",
    ),
    Reason.UNANSWERED: _ClosingReason(
        Severity.MEDIUM,
        Certainty.OBSERVED,
        "a request stayed unanswered",
        "Check the broker's log at that time: it logs an exception when it closes a connection (unknown version, "
        "malformed request, shutdown).",
    ),
    Reason.IDLE: _ClosingReason(
        Severity.INFO,
        Certainty.INFERRED,
        "the connection was idle",
        "Nothing to do: brokers close connections that were idle for connections.max.idle.ms, and clients "
        "reconnect. Load balancers in between may do the same.",
    ),
    Reason.ANSWERED: _ClosingReason(
        Severity.INFO,
        Certainty.OBSERVED,
        "all requests were answered",
        "Check the broker's log: a stop of the broker, a limit of connections (max.connections.per.ip) and the "
        "end of a SASL session (connections.max.reauth.ms, KIP-368) all look like this.",
    ),
}
"""Reasons that are found here; authentication_failures and unsupported_versions find the others."""


class _Closures(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    clients: dict[str, None] = {}
    asked: dict[str, None] = {}
    connections: list[int] = []
    shortest: int = 1 << 62
    longest: int = 0
    count: int = 0

    def add(self, closing: BrokerDisconnect) -> None:
        self.count += 1
        self.clients[closing.client] = None
        self.connections.append(closing.connection)
        self.shortest = min(self.shortest, closing.quiet)
        self.longest = max(self.longest, closing.quiet)
        request = closing.request
        if request is None:
            self.seen.note(0, closing.time)
            return
        version = "" if request.version is None else f" v{request.version}"
        self.asked[f"{request.api}{version} of {words.volume(request.size)}"] = None
        # exchanges that the filter does not show are no evidence
        self.seen.note(request.number if self.count <= _CLOSED_SHOWN else 0, closing.time)


class ClosedByBroker(Rule):
    """Finds connections that the broker closed first."""

    name = "closed_by_broker"
    needs = Lack.PACKETS
    effect_of = EffectOf.BROKERS
    title = "Connections that the broker closed, and the request before"
    about = (
        "A broker closes a connection without a response if a request is too large, malformed, or sent before "
        "authentication, and after a Produce with acks=0 that failed (SocketServer.scala, KafkaApis.scala). It "
        "also closes connections that were idle for connections.max.idle.ms, and all of them when it stops. The "
        "reason is inferred from the first request without a response."
    )
    key = Key.BROKER
    apis = None

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.closing

    def add(self, exchange: Exchange) -> None:
        self.context.shared.closings.add(exchange)

    def findings(self) -> Iterator[Finding]:
        found: dict[tuple[str, Reason], _Closures] = {}
        for closing in self.context.shared.closings.known.result():
            if closing.reason in _CLOSING_REASONS:
                found.setdefault((closing.broker, closing.reason), _Closures()).add(closing)
        for (broker, reason), closed in found.items():
            shown, case = self.context.capture.names.shown(broker), _CLOSING_REASONS[reason]
            text = (
                f"{shown} closed {words.counted(closed.count, 'connection')} of {some_of(closed.clients)}:"
                f" {case.meaning}"
            )
            if reason is Reason.IDLE:
                least, most = span(closed.shortest), span(closed.longest)
                text += f" for {least}" + ("" if least == most else f" to {most}")
            elif closed.asked and reason is not Reason.ANSWERED:
                text += f". The request before: {some_of(closed.asked)}"
            connections = closed.connections[:_CLOSED_SHOWN]
            # a single case may have any reason
            once = reason is Reason.NOT_AUTHENTICATED and closed.count == 1
            yield self.finding(
                f"broker {shown}, {reason.value}",
                f"{text}.",
                case.advice,
                closed.seen,
                filter_text=one_of("connection", connections),
                severity=Severity.MEDIUM if once else case.severity,
                certainty=case.certainty,
                connections=connections,
            )


# ---------------------------------------------------------------- tls_on_plaintext


class TlsOnPlaintext(Rule):
    """Finds clients and listeners of which only one uses TLS."""

    name = "tls_on_plaintext"
    needs = Lack.PACKETS
    title = "TLS on a plaintext port, or plaintext on a TLS port"
    about = (
        "A listener without TLS reads a ClientHello as the size of a request of some 369 MB, and closes the "
        "connection (NetworkReceive.java). A listener with TLS answers a Kafka request with an alert, or not at "
        "all. Either way the client only sees that the connection ends, and retries forever."
    )
    severity = Severity.HIGH
    key = Key.CAPTURE

    def findings(self) -> Iterator[Finding]:
        capture = self.context.capture
        found: dict[tuple[str, str, bool], list[int]] = {}
        for connection in sorted(capture.foreign):
            client, broker = capture.shown_endpoints(connection)
            hello = _hello_in_vain(capture, connection)
            if hello or _plain_met_tls(capture, connection):
                key = client.rpartition(":")[0], broker, hello
                found.setdefault(key, []).append(connection)
        for (client, broker, hello), alike in found.items():
            spoke, got, advice, certainty = _TO_PLAINTEXT if hello else _TO_TLS
            yield self.finding(
                f"client {client}, broker {broker}",
                f"{client} spoke {spoke} to {broker} {times(len(alike))}, and got {got} TLS answer.",
                advice,
                _begun(capture, alike),
                # a scanner tries once; a client with this configuration tries again
                severity=self.severity if len(alike) > 1 else Severity.MEDIUM,
                certainty=certainty,
                connections=alike,
            )


_TO_PLAINTEXT = (
    "TLS",
    "no",
    (
        "The listener seems to be plaintext: set security.protocol of the client to PLAINTEXT or SASL_PLAINTEXT, or "
        "use the port of the TLS listener."
    ),
    Certainty.INFERRED,
)
_TO_TLS = (
    "plaintext",
    "a",
    (
        "The listener uses TLS: set security.protocol of the client to SSL or SASL_SSL, or use the port of the "
        "plaintext listener."
    ),
    Certainty.OBSERVED,
)


def _begun(capture: Capture, connections: Iterable[int]) -> Occurrences:
    """Return connections that no exchange shows as occurrences, by their starts."""
    return Occurrences.of((0, int(capture.connections.first_time[each])) for each in connections)


def _hello_in_vain(capture: Capture, connection: int) -> bool:
    """Return whether a client started TLS, and the connection ended without a byte from the broker."""
    if connection not in capture.decryption.tls or ended(capture, connection) is None:
        return False
    streams, broker = capture.connections.streams, capture.client_stream(connection) ^ 1
    return bool(streams.syn_seen[broker]) and int(streams.end[broker]) == 0


def _plain_met_tls(capture: Capture, connection: int) -> bool:
    return connection not in capture.decryption.tls and capture.foreign[connection].startswith("TLS:")


# ---------------------------------------------------------------- other_protocols


class OtherProtocols(Rule):
    """Finds connections with other protocols than Kafka."""

    name = "other_protocols"
    needs = Lack.PACKETS
    title = "Connections that are not Kafka"
    about = (
        "Something sends HTTP, or another protocol, to a broker's port: a health check, monitoring or a scanner. "
        "The broker reads the first four bytes as the size of a request and closes the connection."
    )
    severity = Severity.LOW
    key = Key.CAPTURE

    def findings(self) -> Iterator[Finding]:
        capture = self.context.capture
        found: dict[tuple[str, str, str], list[int]] = {}
        for connection, what in sorted(capture.foreign.items()):
            if what.startswith("TLS"):
                continue
            client, broker = capture.shown_endpoints(connection)
            protocol = what.partition(":")[0]
            found.setdefault((client.rpartition(":")[0], broker, protocol), []).append(connection)
        for (client, broker, protocol), alike in found.items():
            example = words.clipped(capture.foreign[alike[0]], 120)
            yield self.finding(
                f"client {client}, broker {broker}, {protocol}",
                f"{client} sent non-Kafka data to {broker} {times(len(alike))}: {example}.",
                "Identify the sender. Let a health check just open and close a connection, or use the Kafka protocol. "
                "Keep port scanners out.",
                _begun(capture, alike),
                connections=alike,
            )
