"""The cluster nodes of addresses: a node with several listeners is one broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from captures.analysis.advertised_addresses import is_local
from captures.exchanges import Capture, Exchange
from captures.exchanges.equal_messages import BodyMemo
from captures.meaning.exchange import Body, number, rows, text
from captures.names.names import canonical, split

if TYPE_CHECKING:
    from captures.analysis.incidents.model import Incident

_MOST = 10_000
"""Most addresses that are kept."""


class NodeAddresses:
    """Collects addresses of nodes from messages."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, int], set[int]] = {}
        """Host, a name or an IP address, and port -> IDs."""
        self._learned = BodyMemo(self._learn)

    def add(self, exchange: Exchange) -> None:
        for body in (exchange.request, exchange.response):
            if body is not None:
                self._learned(body)

    def _learn(self, body: Body) -> None:
        for node, row in _addresses_in(body):
            host, port = text(row, "host"), number(row, "port")
            with suppress(ValueError):
                host = canonical(host)
            if node >= 0 and host and ((host, port) in self._nodes or len(self._nodes) < _MOST):
                self._nodes.setdefault((host, port), set()).add(node)

    def merge(self, other: NodeAddresses) -> None:
        """Add the addresses found in other messages."""
        for address, nodes in other._nodes.items():
            self._nodes.setdefault(address, set()).update(nodes)

    def of(self, capture: Capture) -> dict[str, frozenset[int]]:
        """Return the node IDs of each broker address in a capture, as far as known."""
        found: dict[str, frozenset[int]] = {}
        if self._nodes:
            for broker in {capture.endpoints(each)[1] for each in range(len(capture.connections))}:
                nodes = frozenset().union(*(self._nodes.get(each, ()) for each in listed_as(capture, broker)))
                if nodes:
                    found[broker] = nodes
        return found


def listed_as(capture: Capture, broker: str) -> list[tuple[str, int]]:
    """Return the hosts and ports as which messages may list a broker address of a capture."""
    host, port = split(broker)
    names = host, *capture.names.of(broker), *(["localhost"] if is_local(host) else [])
    return [(name, port) for name in names]


def concerns(incident: Incident, node: int, nodes: Mapping[str, frozenset[int]]) -> bool:
    """Return whether an incident of a broker may be one of a node, given the node IDs of addresses."""
    return any(node in nodes.get(broker, (node,)) for broker in incident.brokers)


def _addresses_in(body: Body) -> Iterator[tuple[int, Body]]:
    """Yield the nodes in a message, each with the body that has its host and port."""
    for row in (*rows(body, "brokers"), *rows(body, "node_endpoints")):  # Metadata, DescribeCluster; KRaft
        yield number(row, "node_id", number(row, "broker_id")), row
    for holder, listeners in (
        ("nodes", "listeners"),
        ("live_brokers", "endpoints"),
    ):  # DescribeQuorum; UpdateMetadata
        for row in rows(body, holder):
            yield from ((number(row, "node_id", number(row, "id")), each) for each in rows(row, listeners))
    if body.get("incarnation_id"):  # BrokerRegistration
        yield from ((number(body, "broker_id"), each) for each in rows(body, "listeners"))
    leaders = [
        number(part, "leader_id") for topic in rows(body, "topics") for part in rows(topic, "partitions")
    ]
    if len(leaders) == 1:
        yield from ((leaders[0], each) for each in rows(body, "leader_endpoints"))
