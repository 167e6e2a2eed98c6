"""Brokers that paused, or that clients could not reach: no answer for a while, and then all answers.

The packets decide: the kernel of a paused broker still acknowledges data.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

import numpy as np

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind, broker_incident
from captures.analysis.slow_answers import AT_ONCE, LEAST, SlowAnswer
from captures.analysis.unacknowledged import cut_off
from captures.exchanges import Capture
from captures.meaning import words
from captures.names.names import split
from captures.packets import CaptureError
from captures.packets.header_scan import Headers, headers_between
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND

_TOGETHER = SECOND
"""ns within which a resuming broker answers everything that waited."""
_ALONE = 3 * SECOND
"""Shortest pause in ns that a single connection shows: disks and followers often delay Produce by less."""
_CUT = "the network between it and its clients was cut"
_WORK = "one of these requests took long, and the others waited for it"
_LONE = "this request took long for another reason"
_WRITES = "a slow disk, or a follower that acks=all waits for, held up these writes"
_SHOWN = 20
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
                found.append(_incident(capture, begin, end, together, cut))
            elif alone and end - begin >= _ALONE and not throttled:
                possible.append((begin, end, together))
            index = until
    for begin, end, together in sorted(possible, key=lambda each: each[0] - each[1]):
        if not any(other.overlaps(begin, end) for other in (*outages, *found)):
            found.append(_incident(capture, begin, end, together, cut))
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


def _incident(
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
        evidence=_evidence(late),
    )


def _evidence(late: Iterable[SlowAnswer]) -> tuple[int, ...]:
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
                evidence=_evidence(each for each in during if each.connection in connections),
                cut=connections,
            )


def _resent(capture: Capture, connection: int) -> bool:
    """Return whether the client retransmitted, because the broker's host had not acknowledged data."""
    turned = capture.client_stream(connection) & 1
    return capture.connections[connection].directions[turned].retransmitted > 0
