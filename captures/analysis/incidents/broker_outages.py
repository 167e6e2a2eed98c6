"""Outages of brokers, found in TCP alone: connections that all end at once, failed attempts to connect."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.attempts import Attempt, Outcome, attempts, ended, ended_by_brokers
from captures.analysis.broker_disconnects import GONE, SOON
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind, broker_incident
from captures.analysis.incidents.periods import Period, Periods
from captures.exchanges import Capture
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_LEAST = 2
"""Fewest connections that end together, if no failed attempt shows that the broker was down."""
_AT_ONCE = SECOND // 10
"""ns within which they end: a broker that stops closes all its sockets in a loop, which takes milliseconds."""
_SHOWN = 20
_CUT = "the network between it and its clients was cut"
_CLOSED = "it closed them for another reason, and no client connected meanwhile"
_TIME = attrgetter("time")


class _Broker(msgspec.Struct):
    """The TCP observations of one broker.

    :ivar over: connections that it ended first, with the time, in the order of time
    :ivar spans: lifetimes of its connections; that of an open one ends at a time that never comes
    :ivar failed: failed attempts to connect to it, in the order of time
    :ivar accepted: times of accepted attempts, in order
    """

    over: list[tuple[int, int]] = []
    spans: list[Period[int]] = []
    failed: list[Attempt] = []
    accepted: list[int] = []


class _Outage(NamedTuple):
    """A time in which a broker accepted no connections.

    :ivar end: None if it was not seen again
    :ivar brokers: its addresses
    :ivar gone: connections that it ended
    :ivar vain: failed attempts to connect to it
    """

    begin: int
    end: int | None
    brokers: tuple[str, ...]
    gone: list[int]
    vain: list[Attempt]

    def joined(self, other: _Outage) -> _Outage:
        """Return both as one: the outages of two listeners of a broker."""
        ends = [each.end for each in (self, other) if each.end is not None]
        return _Outage(
            min(self.begin, other.begin),
            max(ends) if len(ends) == len((self, other)) else None,
            (*self.brokers, *other.brokers),
            [*self.gone, *other.gone],
            [*self.vain, *other.vain],
        )


def broker_outages(capture: Capture, nodes: Mapping[str, frozenset[int]]) -> list[Incident]:
    """Return the outages of the brokers in a capture, in the order of time.

    :param nodes: node IDs of broker addresses, as far as known: listeners of a node are merged
    """
    found: list[_Outage] = []
    latest: dict[frozenset[int], int] = {}
    seen = (each for name, broker in _brokers(capture).items() for each in _outages(capture, name, broker))
    for outage in sorted(seen, key=itemgetter(0)):
        node = nodes.get(outage.brokers[0])
        index = None if node is None else latest.get(node)
        if index is not None and outage.begin - found[index].begin <= SOON:
            found[index] = found[index].joined(outage)
        else:
            if node is not None:
                latest[node] = len(found)
            found.append(outage)
    return [_incident_of(capture, each) for each in found]


def _brokers(capture: Capture) -> dict[str, _Broker]:
    found: dict[str, _Broker] = {}
    over = sorted(ended_by_brokers(capture), key=lambda each: each[1])
    if not over and not any(attempts(capture, (Outcome.REFUSED, Outcome.SILENT))):
        return {}
    for connection, time in over:
        if connection not in capture.foreign:
            found.setdefault(capture.endpoints(connection)[1], _Broker()).over.append((time, connection))
    for attempt in attempts(capture):
        broker = found.setdefault(attempt.broker, _Broker())
        if attempt.outcome is Outcome.ACCEPTED:
            broker.accepted.append(attempt.time)
        else:
            broker.failed.append(attempt)
    never = np.iinfo(np.int64).max
    in_vain = {attempt.connection for broker in found.values() for attempt in broker.failed}
    for connection, begin in enumerate(capture.connections.first_time.tolist()):
        known = found.get(capture.endpoints(connection)[1])
        if known is not None and connection not in in_vain:
            end = ended(capture, connection)
            known.spans.append(Period(begin, never if end is None else end, connection))
    for broker in found.values():
        broker.over = [each for each in broker.over if each[1] not in in_vain]
        broker.accepted.sort()
        broker.failed.sort(key=_TIME)
    return found


def _outages(capture: Capture, name: str, broker: _Broker) -> Iterator[_Outage]:
    over_until = 0
    open_connections = Periods(broker.spans)
    for index, (time, _) in enumerate(broker.over):
        if time <= over_until:
            continue
        if open_connections.first(time - 1, time + SOON + 1) is not None:
            continue  # other connections stay open
        gone = slice(index, bisect_right(broker.over, time + SOON, key=itemgetter(0)))
        # a connection accepted sooner was still in the queue of the socket that is being closed
        back = _first(broker.accepted, time + SOON)
        vain = slice(
            bisect_left(broker.failed, time, key=_TIME),
            len(broker.failed) if back is None else bisect_left(broker.failed, back, key=_TIME),
        )
        refused_soon = vain.start < vain.stop and broker.failed[vain.start].time - time <= GONE
        if not refused_soon and (back is None or not _closed_at_once(capture, broker.over[gone])):
            continue
        over_until = capture.latest if back is None else back
        ended_together = [connection for _, connection in broker.over[gone]]
        yield _Outage(time, back, (name,), ended_together, broker.failed[vain])
    # failed attempts before anything else: the capture begins in an outage
    until = broker.over[0][0] if broker.over else capture.latest + 1
    early = broker.failed[: bisect_left(broker.failed, until, key=_TIME)]
    if early and broker.accepted and open_connections.latest(early[0].time - 1) is None:
        yield _Outage(early[0].time, _first(broker.accepted, early[-1].time), (name,), [], early)


def _closed_at_once(capture: Capture, over: list[tuple[int, int]]) -> bool:
    """Return whether a broker closed several connections together, as if it stopped.

    It closes one that has just begun because of a failed authentication or an unknown version.
    """
    if len(over) < _LEAST or over[-1][0] - over[0][0] > _AT_ONCE:
        return False
    # a TLS client announces its end by an alert, and then the broker closes the connection first
    began, tls = capture.connections.first_time, capture.decryption.tls
    return all(connection not in tls and time - began[connection] >= SOON for time, connection in over)


def _first(times: list[int], since: int) -> int | None:
    index = bisect_left(times, since)
    return times[index] if index < len(times) else None


def _incident_of(capture: Capture, outage: _Outage) -> Incident:
    begin, back, brokers, gone, vain = outage
    effects = []
    if gone:
        which = {1: "its connection", 2: "both its connections at once"}
        effects.append(f"closed {which.get(len(gone), f'all its {len(gone):,} connections at once')}")
    refused = sum(attempt.outcome is Outcome.REFUSED for attempt in vain)
    if refused:
        effects.append(f"refused {words.counted(refused, 'attempt')} to connect")
    if len(vain) > refused:
        effects.append(f"did not answer {words.counted(len(vain) - refused, 'attempt')} to connect")
    possible = not vain or (not refused and not gone)
    doubted, certain, state = (
        ("may have gone", "went", "down and was not seen again")
        if back is None
        else ("may have been", "was", f"down for {span(back - begin)}")
    )
    if effects:
        state += f": it {' and '.join(effects)}"
    return broker_incident(
        IncidentKind.BROKER_OUTAGE,
        capture,
        begin,
        back,
        brokers,
        f"{doubted if possible else certain} {state}",
        certainly=f"{certain} {state}",
        certainty=Certainty.POSSIBLE if possible else Certainty.INFERRED,
        alternatives=(_CUT if vain else _CLOSED,) if possible else (),
        connections=tuple([*gone, *(attempt.connection for attempt in vain)][:_SHOWN]),
    )
