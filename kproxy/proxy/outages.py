"""Brokers taken down by a rule: their listeners, and the connections to them.

If a broker has its own port, "refused" closes that port, as on a host whose broker does not run. On a port that brokers
share (the first one, host names with ``--sni``, transparent mode) the connection is reset instead: it is accepted
before kproxy knows which broker the client wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns
from typing import TYPE_CHECKING

from captures.interventions import Intervention, as_comment
from kproxy.addresses import Address
from kproxy.proxy.rules.outages import ENDS, REFUSED, SILENT

if TYPE_CHECKING:
    from kproxy.proxy.brokers import UpstreamAddress
    from kproxy.proxy.cluster import Cluster
    from kproxy.proxy.rules.engine import OutageRule
    from kproxy.proxy.session import Session


class BrokerOutage:
    """The outage of a broker.

    :ivar sessions: connections to it that fell silent
    """

    def __init__(self, rule: OutageRule) -> None:
        self.rule = rule
        self.node_id = rule.rule.node_id
        self.sessions: list[Session] = []
        self._manner = rule.rule.action.manner

    @property
    def is_refused(self) -> bool:
        """Whether its listener is closed."""
        return self._manner == REFUSED

    @property
    def is_silent(self) -> bool:
        """Whether connections are accepted and never answered."""
        return self._manner == SILENT

    def count_hit(self) -> None:
        """Count an affected connection."""
        self.rule.hits += 1
        self.rule.last_hit = time_ns()

    def end(self, session: Session) -> None:
        """End a connection to the broker, or let it fall silent, and mark it."""
        rule, ending = self.rule.rule.text, ENDS[self._manner]
        if session.recording is not None:
            intervention = Intervention(rule=rule, action=f"connection {ending.value}", ended=ending.value)
            session.recording.note(1, as_comment(intervention), time_ns())
        self.count_hit()
        session.carry_out(ending)
        if self.is_silent:
            self.sessions.append(session)


class Outages:
    """The brokers of a cluster taken down by rules."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._down: dict[int, BrokerOutage] = {}

    def apply(self, rules: Mapping[int, OutageRule]) -> None:
        """Take brokers down, and bring others back.

        :param rules: all rules in force, by node ID
        """
        for node_id, down in list(self._down.items()):
            if rules.get(node_id) is not down.rule:
                del self._down[node_id]
                self._come_back(down)
        for node_id, rule in rules.items():
            if node_id not in self._down:
                self._down[node_id] = BrokerOutage(rule)
                self._go_down(self._down[node_id])

    def of(self, upstream: UpstreamAddress | None) -> BrokerOutage | None:
        """Return the outage of a broker, None if it is up."""
        return (
            self._down.get(upstream.node_id) if upstream is not None and upstream.role == "broker" else None
        )

    def at(self, address: Address) -> BrokerOutage | None:
        """Return the outage of the broker with an address (advertised, dialled or reached), None if there is none."""
        return next((down for down in self._down.values() if address in self._addresses(down.node_id)), None)

    def _addresses(self, node_id: int) -> set[Address]:
        upstream = self._cluster.brokers.get("broker", node_id)
        found = {each.peers.broker for each in self._cluster.sessions if each.peers.node_id == node_id}
        if upstream is not None:
            found |= {(upstream.host, upstream.port), self._cluster.target_of(upstream).address}
        return found

    def _go_down(self, down: BrokerOutage) -> None:
        for listener in self._cluster.listeners:
            if down.is_refused and self.of(listener.upstream) is down:
                listener.shut()
        addresses = self._addresses(down.node_id)
        for session in self._cluster.sessions:
            if session.peers.node_id == down.node_id or session.peers.broker in addresses:
                down.end(session)

    def _come_back(self, down: BrokerOutage) -> None:
        for listener in self._cluster.listeners:
            if listener.upstream is not None and listener.upstream.node_id == down.node_id:
                listener.reopen()
        for session in down.sessions:
            session.close()  # data received meanwhile is lost
