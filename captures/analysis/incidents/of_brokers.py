"""Incidents of brokers: outages, pauses, restarts, as TCP, slow answers and messages to controllers show them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.attempts import Attempt, Outcome, attempts, ended, ended_by_brokers
from captures.analysis.broker_disconnects import GONE, SOON
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind, broker_incident
from captures.analysis.incidents.nodes import concerns
from captures.analysis.incidents.periods import Period, Periods
from captures.analysis.slow_answers import AT_ONCE, LEAST, SlowAnswer
from captures.analysis.unacknowledged import cut_off
from captures.exchanges import Capture, Exchange
from captures.meaning import words
from captures.meaning.exchange import number, text
from captures.names.names import split
from captures.packets import CaptureError
from captures.packets.header_scan import Headers, headers_between
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND

# ---------------------------------------------------------------- broker outages

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
    return [_outage_incident(capture, each) for each in found]


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
        back = _first_since(broker.accepted, time + SOON)
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
        yield _Outage(early[0].time, _first_since(broker.accepted, early[-1].time), (name,), [], early)


def _closed_at_once(capture: Capture, over: list[tuple[int, int]]) -> bool:
    """Return whether a broker closed several connections together, as if it stopped.

    It closes one that has just begun because of a failed authentication or an unknown version.
    """
    if len(over) < _LEAST or over[-1][0] - over[0][0] > _AT_ONCE:
        return False
    # a TLS client announces its end by an alert, and then the broker closes the connection first
    began, tls = capture.connections.first_time, capture.decryption.tls
    return all(connection not in tls and time - began[connection] >= SOON for time, connection in over)


def _first_since(times: list[int], since: int) -> int | None:
    index = bisect_left(times, since)
    return times[index] if index < len(times) else None


def _outage_incident(capture: Capture, outage: _Outage) -> Incident:
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


# ---------------------------------------------------------------- broker pauses

# The packets decide: the kernel of a paused broker still acknowledges data.

_TOGETHER = SECOND
"""ns within which a resuming broker answers everything that waited."""
_ALONE = 3 * SECOND
"""Shortest pause in ns that a single connection shows: disks and followers often delay Produce by less."""
_WORK = "one of these requests took long, and the others waited for it"
_LONE = "this request took long for another reason"
_WRITES = "a slow disk, or a follower that acks=all waits for, held up these writes"
_END = attrgetter("end")
_Span = tuple[int, int]
"""Start and end in ns since the epoch."""


def broker_pauses(
    capture: Capture,
    slow: Sequence[SlowAnswer],
    outages: Sequence[Incident],
    nodes: Mapping[str, frozenset[int]],
) -> Iterator[Incident]:
    """Yield the times in which clients could not reach brokers, and in which brokers paused or may have paused.

    Requests on a single connection may have waited for something else, such as a follower, so they show a pause only if
    no other incident of a broker explains it. Of several such brokers, the one that was silent longest may have paused,
    and the others may have waited for it.

    :param slow: slow answers
    :param outages: outages of brokers
    :param nodes: node IDs of broker addresses, as far as known: a broker pauses on all of its listeners
    """
    cut = _cut_off(capture, slow)
    yield from _network_outages(capture, cut, slow)
    late: dict[object, list[SlowAnswer]] = {}
    for answer in sorted(slow, key=_END):
        if not any(_during(cut, answer, _ALONE)):
            late.setdefault(nodes.get(answer.broker, answer.broker), []).append(answer)
    found: list[Incident] = []
    possible: list[tuple[int, int, list[SlowAnswer]]] = []
    for mine, times in zip(late.values(), _answered(capture, late, nodes), strict=True):
        index = 0
        while index < len(mine):
            until = bisect_right(mine, mine[index].end + _TOGETHER, key=_END)
            together = mine[index:until]
            begin, end = _silence(together, times)
            alone = len({each.connection for each in together}) == 1
            throttled = any(each.throttled for each in together)
            if not alone and end - begin >= LEAST and any(each.key in AT_ONCE for each in together):
                found.append(_pause(capture, begin, end, together, cut))
            elif alone and end - begin >= _ALONE and not throttled:
                possible.append((begin, end, together))
            index = until
    for begin, end, together in sorted(possible, key=lambda each: each[0] - each[1]):
        if not any(other.overlaps(begin, end) for other in (*outages, *found)):
            found.append(_pause(capture, begin, end, together, cut))
    yield from found


def _answered(
    capture: Capture, wanted: Iterable[object], nodes: Mapping[str, frozenset[int]]
) -> Iterator[list[int]]:
    """Yield the times of all responses of each broker in `wanted`, given by its node IDs, or else its address."""
    codes = {node: code for code, node in enumerate(wanted)}
    if not codes:
        return
    brokers = (capture.endpoints(connection)[1] for connection in range(len(capture.connections)))
    of_connections = np.array([codes.get(nodes.get(broker, broker), -1) for broker in brokers], np.int64)
    of_rows = of_connections[capture.table.column("connection")]
    times = capture.table.column("response_last")
    rows = np.flatnonzero((of_rows >= 0) & (times >= 0))
    rows = rows[np.lexsort((times[rows], of_rows[rows]))]
    for some in np.split(times[rows], np.searchsorted(of_rows[rows], np.arange(1, len(codes)))):
        yield some.tolist()


def _silence(late: Sequence[SlowAnswer], times: list[int]) -> tuple[int, int]:
    """Return start and end of the longest time without any response before the slow answers `late`."""
    # requests near the end of the pause did not wait long, and may be answered first
    low = max(bisect_left(times, late[0].end - _TOGETHER) - 1, 0)
    near = times[low : bisect_right(times, late[0].end + _TOGETHER)]
    begin, end = max(pairwise(near), key=lambda gap: gap[1] - gap[0], default=(0, 0))
    return max(begin, min(each.time for each in late)), end


def _pause(
    capture: Capture, begin: int, end: int, late: Sequence[SlowAnswer], cut: Mapping[int, list[_Span]]
) -> Incident:
    connections = tuple(dict.fromkeys(each.connection for each in late))
    resent = any(
        any(_during(cut, each)) if each.connection in cut else _resent(capture, each.connection)
        for each in late
    )
    alternatives = []
    if len(connections) == 1:
        others = _WORK if len(late) > 1 else _LONE
        alternatives.append(_WRITES if any(each.key == ApiKey.PRODUCE for each in late) else others)
    if resent:
        alternatives.append(_CUT)
    paused = "paused" if len(connections) > 1 else "may have paused"
    requests = words.counted(len(late), "request")
    how = (
        f"it answered nothing, and then {requests} on {words.counted(len(connections), 'connection')} at once"
        if len(late) > 1
        else f"it answered nothing, and a single {late[0].api} was waiting"
    )
    return broker_incident(
        IncidentKind.PROCESS_PAUSE,
        capture,
        begin,
        end,
        list(dict.fromkeys(each.broker for each in late)),
        f"{paused} for {span(end - begin)}: {how}",
        certainty=Certainty.POSSIBLE if alternatives else Certainty.INFERRED,
        alternatives=tuple(alternatives),
        cut=connections if resent else (),
        evidence=_evidence_of(late),
    )


def _evidence_of(late: Iterable[SlowAnswer]) -> tuple[int, ...]:
    return tuple(sorted(each.number for each in late))[:_SHOWN]


def _cut_off(capture: Capture, slow: Sequence[SlowAnswer]) -> dict[int, list[_Span]]:
    """Return when connections were cut off, for all that were examined; none if packets cannot be read again."""
    long = {each.connection for each in slow if each.excess >= _ALONE}
    pairs = {each: capture.endpoints(each) for each in long if _resent(capture, each)}
    if not pairs or capture.source.growing:
        return {}
    both = [ends for client, broker in pairs.values() for ends in ((client, broker), (broker, client))]
    times = [(each.time, each.end) for each in slow if each.connection in pairs]
    begin, end = min(begin for begin, _ in times), max(end for _, end in times)
    try:
        packets = headers_between(capture.source, both, begin - SECOND, end)
    except CaptureError:
        return {}
    none = Headers.none()
    return {
        each: list(cut_off(packets.get((client, broker), none), packets.get((broker, client), none)))
        for each, (client, broker) in pairs.items()
    }


def _during(cut: Mapping[int, list[_Span]], answer: SlowAnswer, least: int = 0) -> Iterator[_Span]:
    """Yield the times, of `least` ns or more, in which the connection of a slow answer was cut off meanwhile."""
    for begin, end in cut.get(answer.connection, ()):
        if begin < answer.end and answer.time < end and end - begin >= least:
            yield begin, end


def _network_outages(
    capture: Capture, cut: Mapping[int, list[_Span]], slow: Sequence[SlowAnswer]
) -> Iterator[Incident]:
    """Yield the times in which a client's host and a broker were cut off, from those of their connections `cut`."""
    runs: dict[tuple[str, str], list[list[tuple[int, int, int]]]] = {}
    times = {(*time, each.connection) for each in slow for time in _during(cut, each, _ALONE)}
    for begin, end, connection in sorted(times):
        client, broker = capture.endpoints(connection)
        known = runs.setdefault((split(client)[0], broker), [])
        if not known or begin > max(end for _, end, _ in known[-1]):
            known.append([])
        known[-1].append((begin, end, connection))
    for (host, broker), known in runs.items():
        shown = capture.names.shown(broker)
        for together in known:
            begin, end = together[0][0], max(end for _, end, _ in together)
            connections = tuple(dict.fromkeys(connection for *_, connection in together))
            during = (each for each in slow if each.time < end and begin < each.end)
            yield Incident(
                kind=IncidentKind.NETWORK_OUTAGE,
                begin=begin,
                end=end,
                who=(shown, host),
                sentence=f"{host} and broker {shown} were cut off from each other for {span(end - begin)}: data was "
                "retransmitted again and again, and nothing was acknowledged.",
                evidence=_evidence_of(each for each in during if each.connection in connections),
                cut=connections,
            )


def _resent(capture: Capture, connection: int) -> bool:
    """Return whether the client retransmitted, because the broker's host had not acknowledged data."""
    turned = capture.client_stream(connection) & 1
    return capture.connections[connection].directions[turned].retransmitted > 0


# ---------------------------------------------------------------- registrations

# Each registration of a broker with the controller gives it a new epoch, which its heartbeats repeat: another epoch is
# another process, unless it registered with the same incarnation. A broker that stops in order asks for it first
# (ControlledShutdown, or ``want_shut_down`` in heartbeats); one that is killed or crashes does not.

NEEDED = frozenset({ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.CONTROLLED_SHUTDOWN})
_MOST_KEPT = 10_000
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
            elif len(self._lives) < _MOST_KEPT:
                self._lives[node, epoch] = life
        if (key == ApiKey.CONTROLLED_SHUTDOWN or request.get("want_shut_down")) and len(
            self._shutdowns
        ) < _MOST_KEPT:
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
            and len(self._silences) < _MOST_KEPT
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
