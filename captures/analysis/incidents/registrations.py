"""Lives of brokers as their controller sees them: registrations, heartbeats, and requests to shut down.

Each registration of a broker with the controller gives it a new epoch, which its heartbeats repeat: another epoch is
another process, unless it registered with the same incarnation. A broker that stops in order asks for it first
(ControlledShutdown, or ``want_shut_down`` in heartbeats); one that is killed or crashes does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import msgspec

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind, broker_incident
from captures.analysis.incidents.nodes import concerns
from captures.exchanges import Capture, Exchange
from captures.meaning.exchange import number, text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND

NEEDED = frozenset({ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.CONTROLLED_SHUTDOWN})
_MOST = 10_000
"""Most lives, requests to shut down, and silences that are kept."""
_SOON = 30 * SECOND
"""ns after a broker accepts connections within which it registers, or before."""
_SHUTS_DOWN = 120 * SECOND
"""Longest time in ns from the request to shut down to the end of the connections: leaders move first."""
_SILENT = 5 * SECOND
"""Least silence in ns of a broker that sends heartbeats every 2 s (``broker.heartbeat.interval.ms``), meanwhile the
metadata log grows by two records a second (``metadata.max.idle.interval.ms``)."""
_BEHIND = 2
"""Most records of the metadata log that it had already been sent before its silence."""
_PROMPT = SECOND
"""Longest time in ns in which a controller answers a heartbeat, if it is not itself slow."""


class _BrokerEpoch(msgspec.Struct):
    """An epoch of a broker: the first and last time of messages with it.

    :ivar number: exchange that shows it first
    :ivar incarnation: ID of the process; empty if its registration was not captured
    """

    begin: int
    end: int
    number: int
    incarnation: str = ""

    def extend(self, other: _BrokerEpoch) -> None:
        if other.begin < self.begin:
            self.begin, self.number = other.begin, other.number
        self.end, self.incarnation = max(self.end, other.end), self.incarnation or other.incarnation


class _Beat(NamedTuple):
    """A heartbeat that the controller answered without an error.

    :ivar metadata: latest offset of the metadata log that the broker knew
    """

    time: int
    end: int
    epoch: int
    metadata: int


class Registrations:
    """Collects messages of brokers to their controller: exchanges of one connection in order, each once."""

    def __init__(self) -> None:
        self._lives: dict[tuple[int, int], _BrokerEpoch] = {}
        """Node and epoch -> life."""
        self._shutdowns: dict[tuple[int, int], tuple[int, int]] = {}
        """Node and epoch -> time and number of its first request to shut down."""
        self._latest: dict[tuple[int, int], _Beat] = {}
        """Node and connection -> latest heartbeat."""
        self._silences: list[tuple[int, int, int, int]] = []
        """Start, end, node, and number of the heartbeat after it."""

    def add(self, exchange: Exchange) -> None:
        """Add an exchange of one of :data:`NEEDED`."""
        key, request, response = exchange.api_key, exchange.request_body, exchange.response_body
        node, shown = number(request, "broker_id"), exchange.number
        registers = key == ApiKey.BROKER_REGISTRATION
        epoch = number(response if registers else request, "broker_epoch")
        if node < 0 or epoch < 0 or not response or response.get("error_code"):
            return
        if key != ApiKey.CONTROLLED_SHUTDOWN:
            life = _BrokerEpoch(exchange.time, exchange.time, shown, text(request, "incarnation_id"))
            known = self._lives.get((node, epoch))
            if known is not None:
                known.extend(life)
            elif len(self._lives) < _MOST:
                self._lives[node, epoch] = life
        if (key == ApiKey.CONTROLLED_SHUTDOWN or request.get("want_shut_down")) and len(
            self._shutdowns
        ) < _MOST:
            first = self._shutdowns.get((node, epoch), (exchange.time, shown))
            self._shutdowns[node, epoch] = min(first, (exchange.time, shown))
        if key == ApiKey.BROKER_HEARTBEAT:
            known_to_it = number(request, "current_metadata_offset")
            beat = _Beat(exchange.time, exchange.end, epoch, known_to_it)
            self._beat((node, exchange.connection), beat, shown)

    def _beat(self, broker: tuple[int, int], beat: _Beat, shown: int) -> None:
        last = self._latest.get(broker)
        self._latest[broker] = beat
        if last is None or last.epoch != beat.epoch or last.end - last.time > _PROMPT:
            return
        # one that spoke to another controller meanwhile knows newer metadata
        if (
            beat.time - last.time >= _SILENT
            and beat.metadata - last.metadata <= _BEHIND
            and len(self._silences) < _MOST
        ):
            self._silences.append((last.time, beat.time, broker[0], shown))

    def merge(self, other: Registrations) -> None:
        """Add the observations of other connections."""
        for broker, life in other._lives.items():
            self._lives.setdefault(broker, life).extend(life)
        for broker, first in other._shutdowns.items():
            self._shutdowns[broker] = min(first, self._shutdowns.get(broker, first))
        self._silences += other._silences

    def restarts(
        self, capture: Capture, outages: Sequence[Incident], nodes: Mapping[str, frozenset[int]]
    ) -> Iterator[Incident]:
        """Complete outages by how they began and ended; yield restarts that connections do not show.

        :param outages: outages of brokers
        :param nodes: node IDs of broker addresses, as far as known
        """
        of_nodes: dict[int, list[Incident]] = {}
        for outage in outages:
            for node in frozenset().union(*(nodes.get(broker, ()) for broker in outage.brokers)):
                of_nodes.setdefault(node, []).append(outage)
        lives: dict[int, list[_BrokerEpoch]] = {}
        for (node, _), life in sorted(self._lives.items(), key=lambda each: each[1].begin):
            lives.setdefault(node, []).append(life)
        outage_of = partial(broker_incident, IncidentKind.BROKER_OUTAGE, capture)
        for node, mine in lives.items():
            known = of_nodes.setdefault(node, [])
            for life in mine:
                root = next((each for each in known if _ended_by(each, life)), None)
                if root is not None and life.incarnation:
                    _complete(root, f"its new process registered (#{life.number})", life.number)
            for former, life in pairwise(mine):
                same = former.incarnation and former.incarnation == life.incarnation
                if not same and not any(each.overlaps(former.end, life.begin) for each in known):
                    root = outage_of(
                        former.end, life.begin, _addresses(node, nodes), "was restarted", node=node
                    )
                    away = span(life.begin - former.end)
                    fact = f"its new process contacted the controller after {away} (#{life.number})"
                    _complete(root, fact, life.number)
                    known.append(root)
                    yield root
        for (node, _), (time, shown) in sorted(self._shutdowns.items(), key=lambda each: each[1]):
            known = of_nodes.setdefault(node, [])
            root = next((each for each in known if -SECOND <= each.begin - time <= _SHUTS_DOWN), None)
            if root is None:
                back = next((life.begin for life in lives.get(node, ()) if life.begin > time), None)
                root = outage_of(time, back, _addresses(node, nodes), "was shut down", node=node)
                known.append(root)
                yield root
            if not root.in_order:
                root.in_order = True
                _complete(root, f"it had announced its shutdown to the controller (#{shown})", shown)

    def pauses(
        self, capture: Capture, known: Sequence[Incident], nodes: Mapping[str, frozenset[int]]
    ) -> Iterator[Incident]:
        """Yield the times in which a broker sent no heartbeats and that no known incident explains."""
        for begin, end, node, shown in sorted(self._silences):
            if not any(each.overlaps(begin, end) and concerns(each, node, nodes) for each in known):
                yield broker_incident(
                    IncidentKind.PROCESS_PAUSE,
                    capture,
                    begin,
                    end,
                    _addresses(node, nodes),
                    f"may have paused: it sent the controller no heartbeat for {span(end - begin)}, and read no "
                    "metadata meanwhile",
                    node=node,
                    certainty=Certainty.POSSIBLE,
                    alternatives=("the network between it and the controller was cut",),
                    evidence=(shown,),
                )


def _ended_by(outage: Incident, life: _BrokerEpoch) -> bool:
    return outage.begin <= life.begin and (outage.end is None or life.begin <= outage.end + _SOON)


def _addresses(node: int, nodes: Mapping[str, frozenset[int]]) -> list[str]:
    return sorted(broker for broker, of in nodes.items() if node in of)


def _complete(outage: Incident, fact: str, shown: int) -> None:
    """Add a fact that a message states to an outage."""
    sentence = outage.certain_sentence or outage.sentence
    outage.sentence = outage.certain_sentence = f"{sentence.removesuffix('.')}; {fact}."
    outage.evidence = tuple(dict.fromkeys((*outage.evidence, shown)))
    outage.certainty, outage.alternatives = Certainty.INFERRED, ()
