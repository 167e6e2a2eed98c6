"""Advertised broker addresses that clients cannot use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from captures.analysis.advertised_addresses import (
    APIS,
    Address,
    AddressSource,
    Reached,
    is_local,
    reached_addresses,
)
from captures.analysis.attempts import Outcome
from captures.analysis.conditions import of_client
from captures.analysis.findings.common import some_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from captures.meaning import words
from captures.names.names import split

_ATTEMPTS = 3
_FILTER = "api in {Metadata, FindCoordinator, DescribeCluster}"


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
        return (
            ""
            if self.context.shared.advertised.known.sources
            else "no message names the addresses of brokers"
        )

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
            f"{_brokers(source)} is advertised as {address.shown}, which means the client's own host:"
            f" {some_of(names)} at {some_of(remote)} cannot reach it.",
            "Set the broker's advertised.listeners to a name or an address that clients can reach. If clients are in "
            "several networks, give each network a listener.",
            _seen(source.exchanges),
            filter_text=f"{_FILTER} and ({' or '.join(map(of_client, names))})",
        )

    def _not_reached(self, address: Address, source: AddressSource, reached: Reached) -> Iterator[Finding]:
        """Find an address to which all attempts to connect failed."""
        outcomes = self.context.shared.advertised.known.outcomes(self.context.capture, address, reached)
        if not outcomes or Outcome.ACCEPTED in outcomes:
            return
        refused = outcomes.count(Outcome.REFUSED)
        how = "refused" if refused == len(outcomes) else "answered" if not refused else "accepted"
        tried = (
            f"all {len(outcomes):,} attempts to connect to it"
            if len(outcomes) > 1
            else "the attempt to connect to it"
        )
        was = f"{'were' if len(outcomes) > 1 else 'was'} {'' if how == 'refused' else 'not '}{how}"
        yield self.finding(
            f"address {address.shown}",
            f"{_brokers(source)} is advertised as {address.shown}, and {tried} {was}.",
            "Check that the broker is up and listens there. If it does, clients cannot reach that address: set "
            "advertised.listeners to one that they can reach.",
            _seen(source.exchanges),
            filter_text=_FILTER,
            # one or two refusals may come from a starting broker
            severity=Severity.MEDIUM if refused == len(outcomes) < _ATTEMPTS else self.severity,
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
            _seen(sorted({each for where in advertised.values() for each in where.exchanges})),
            filter_text=_FILTER,
            severity=Severity.LOW,
            certainty=Certainty.POSSIBLE,
        )


def _brokers(source: AddressSource) -> str:
    known = sorted(broker for broker in source.brokers if broker >= 0)
    return f"Broker {words.ranges(known)}" if known else "A broker"


def _seen(exchanges: Iterable[tuple[int, int]]) -> Occurrences:
    seen = Occurrences()
    for number, time in exchanges:
        seen.note(number, time)
    return seen
