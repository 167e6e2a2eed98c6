"""Moves of the controller, found in messages between brokers, controllers and clients.

A controller is elected for an epoch: a message with both is true in any order. Metadata and DescribeCluster name a node
without its epoch, and only with ZooKeeper is it the controller: in a KRaft cluster it is any live broker
(``KRaftMetadataCache.getRandomAliveBroker``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Consequence, Incident, IncidentKind
from captures.analysis.incidents.nodes import NodeAddresses, concerns
from captures.analysis.incidents.of_brokers import NEEDED as OF_BROKERS
from captures.analysis.incidents.of_brokers import Registrations
from captures.exchanges import Exchange
from captures.exchanges.equal_messages import BodyMemo
from captures.meaning.exchange import Body, number, rows
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND

_OF_QUORUMS = frozenset({
    ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM,
})  # fmt: skip
_OF_ZOOKEEPER = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})
_OF_CLIENTS = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER})
NEEDED = _OF_QUORUMS | _OF_ZOOKEEPER | _OF_CLIENTS | OF_BROKERS | {ApiKey.API_VERSIONS}
"""APIs whose exchanges show who the controller is, or what brokers told it; others need not be added."""
_MOST = 1000
"""Most epochs, and most controllers named to clients, that are kept."""
_ELECTED = 30 * SECOND
"""ns after the start of an outage within which another controller is elected because of it: a session with ZooKeeper
lasts 18 s by default, an election in KRaft a few."""
_LOOKED_AT = 100
"""Latest outages before a move that are examined."""
_BEGIN = attrgetter("begin")


class _ControllerReport(NamedTuple):
    """A message that names a node as the controller."""

    time: int
    node: int
    number: int


class Controllers:
    """Collects the controllers that messages name; exchanges in any order, each once.

    :ivar nodes: addresses of nodes, from the same messages
    :ivar registrations: lives of brokers
    """

    def __init__(self) -> None:
        self.nodes = NodeAddresses()
        self.registrations = Registrations()
        self._epochs: dict[int, _ControllerReport] = {}
        self._votes: dict[int, int] = {}
        """Epoch -> time of the first vote for it."""
        self._by_broker: dict[str, int] = {}
        self._to_clients: list[tuple[_ControllerReport, str]] = []
        """Who the controller is as each broker said, with the broker: each time that it named another node."""
        self._zookeeper: bool | None = None
        self._of_zookeeper = BodyMemo(_offers_leader_and_isr)

    def add(self, exchange: Exchange) -> None:
        key, request, response = exchange.api_key, exchange.request_body, exchange.response_body
        self.nodes.add(exchange)
        if key in _OF_ZOOKEEPER and not response.get("error_code"):
            self._elected(request, "controller_id", "controller_epoch", exchange.time, exchange)
        elif key in _OF_QUORUMS:
            for part in _partitions(request):
                self._elected(part, "leader_id", "leader_epoch", exchange.time, exchange)
                if key == ApiKey.VOTE and not part.get("pre_vote") and len(self._votes) < _MOST:
                    epoch = number(part, "replica_epoch")
                    self._votes[epoch] = min(exchange.time, self._votes.get(epoch, exchange.time))
            for part in _partitions(response):
                self._elected(part, "leader_id", "leader_epoch", exchange.end, exchange)
        elif key == ApiKey.API_VERSIONS and exchange.response and response and not response.get("error_code"):
            self._zookeeper = bool(self._zookeeper) or self._of_zookeeper(exchange.response)
        elif key in OF_BROKERS:
            self.registrations.add(exchange)
        elif key in _OF_CLIENTS and self._zookeeper is not False:
            self._named(number(response, "controller_id"), exchange)

    def _elected(self, body: Body, node: str, epoch: str, time: int, exchange: Exchange) -> None:
        report, of = _ControllerReport(time, number(body, node), exchange.number), number(body, epoch)
        if report.node >= 0 and of >= 0 and (of in self._epochs or len(self._epochs) < _MOST):
            self._epochs[of] = min(report, self._epochs.get(of, report))

    def _named(self, node: int, exchange: Exchange) -> None:
        if node >= 0 and self._by_broker.get(exchange.broker) != node and len(self._to_clients) < _MOST:
            self._by_broker[exchange.broker] = node
            self._to_clients.append((_ControllerReport(exchange.end, node, exchange.number), exchange.broker))

    def merge(self, other: Controllers) -> None:
        """Add the observations of other exchanges."""
        self.nodes.merge(other.nodes)
        self.registrations.merge(other.registrations)
        for epoch, report in other._epochs.items():
            self._epochs[epoch] = min(report, self._epochs.get(epoch, report))
        for epoch, time in other._votes.items():
            self._votes[epoch] = min(time, self._votes.get(epoch, time))
        self._to_clients += other._to_clients
        if other._zookeeper is not None:
            self._zookeeper = bool(self._zookeeper) or other._zookeeper

    def incidents(
        self, outages: Sequence[Incident], nodes: Mapping[str, frozenset[int]]
    ) -> Iterator[Incident]:
        """Yield the moves; those caused by an incident of the former controller are added to that incident instead.

        :param outages: outages and pauses of brokers, in the order of time
        :param nodes: node IDs of broker addresses, as far as known
        """
        for before, after, epochs in self._moves():
            votes = (time for epoch, time in self._votes.items() if epoch in epochs)
            begin = min((time for time in votes if before.time < time), default=after.time)
            text = f"The controller moved from node {before.node} to node {after.node}"
            if begin < after.time:
                text += f", {span(after.time - begin)} after the first vote"
            recent = range(*(bisect_left(outages, time, key=_BEGIN) for time in (begin - _ELECTED, begin)))
            away = (outages[index] for index in recent[: -_LOOKED_AT - 1 : -1])
            root = next((each for each in away if concerns(each, before.node, nodes)), None)
            if root is not None:
                effect = Consequence("controller_move", "controller", after.time, f"{text}.", (after.number,))
                root.moves.append(effect)
                continue
            yield Incident(
                kind=IncidentKind.CONTROLLER_MOVE,
                begin=min(begin, after.time),
                end=after.time,
                who=(f"node {before.node}", f"node {after.node}"),
                sentence=f"{text}.",
                certainty=Certainty.OBSERVED,
                evidence=(after.number,),
            )

    def _named_in_turn(self) -> Iterator[_ControllerReport]:
        """Yield the nodes named to clients, in order; a broker unaware of a move repeats the former node."""
        by_broker: dict[str, int] = {}
        latest = -1
        for time, broker in sorted(self._to_clients):
            if by_broker.get(broker) != time.node:
                by_broker[broker] = time.node
                if time.node != latest:
                    latest = time.node
                    yield time

    def _moves(self) -> Iterator[tuple[_ControllerReport, _ControllerReport, range]]:
        """Yield the former and the new controller, and the epochs since, the last of which is the new one's."""
        reports = sorted(self._epochs.items())
        if not reports and self._zookeeper:
            reports = list(enumerate(self._named_in_turn()))
        for (former, before), (epoch, after) in pairwise(reports):
            if before.node != after.node:
                yield before, after, range(former + 1, epoch + 1)


def _offers_leader_and_isr(response: Body) -> bool:
    """Return whether an ApiVersions response is from a broker with ZooKeeper."""
    return any(number(row, "api_key") == ApiKey.LEADER_AND_ISR for row in rows(response, "api_keys"))


def _partitions(body: Body) -> Iterator[Body]:
    for topic in rows(body, "topics"):
        yield from rows(topic, "partitions")
