"""Brokers that paused: they answered nothing on any connection for a while, and then everything that waited."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

import numpy as np

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind, broker_incident
from captures.analysis.slow_answers import AT_ONCE, LEAST, SlowAnswer
from captures.exchanges import Capture
from captures.meaning import words
from captures.time_format import span
from dissectors.units import SECOND

_TOGETHER = SECOND
"""ns within which a resuming broker answers everything that waited."""
_LEAST = 2
"""Fewest connections with waiting requests: a single one may have been held up by its own work."""
_SHOWN = 20
_END = attrgetter("end")


def broker_pauses(
    capture: Capture, slow: Sequence[SlowAnswer], nodes: Mapping[str, frozenset[int]]
) -> Iterator[Incident]:
    """Yield the times in which brokers paused.

    :param slow: slow answers
    :param nodes: node IDs of broker addresses, as far as known: a broker pauses on all of its listeners
    """
    late: dict[object, list[SlowAnswer]] = {}
    for answer in sorted(slow, key=_END):
        late.setdefault(nodes.get(answer.broker, answer.broker), []).append(answer)
    late = {node: mine for node, mine in late.items() if any(map(_at_once, mine))}
    for mine, times in zip(late.values(), _answered(capture, late, nodes), strict=True):
        place = 0
        while place < len(mine):
            until = bisect_right(mine, mine[place].end + _TOGETHER, key=_END)
            pause = _pause(mine[place:until], times)
            if pause is not None:
                yield _incident(capture, *pause, mine[place:until])
            place = until


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


def _pause(late: Sequence[SlowAnswer], times: list[int]) -> tuple[int, int] | None:
    """Return start and end of the time without any response before the slow answers `late`; None if there is none."""
    if len({each.connection for each in late}) < _LEAST or not any(map(_at_once, late)):
        return None
    # requests near the end of the pause did not wait long, and may be answered first
    low = max(bisect_left(times, late[0].end - _TOGETHER) - 1, 0)
    near = times[low : bisect_right(times, late[0].end + _TOGETHER)]
    begin, end = max(pairwise(near), key=lambda gap: gap[1] - gap[0], default=(0, 0))
    begin = max(begin, min(each.time for each in late))
    return (begin, end) if end - begin >= LEAST else None


def _incident(capture: Capture, begin: int, end: int, late: Sequence[SlowAnswer]) -> Incident:
    connections = list(dict.fromkeys(each.connection for each in late))
    resent = any(_resent(capture, connection) for connection in connections)
    return broker_incident(
        IncidentKind.PROCESS_PAUSE,
        capture,
        begin,
        end,
        list(dict.fromkeys(each.broker for each in late)),
        f"paused for {span(end - begin)}: it answered nothing, and then "
        f"{words.counted(len(late), 'request')} on {words.counted(len(connections), 'connection')} at once",
        certainty=Certainty.POSSIBLE if resent else Certainty.INFERRED,
        alternatives=("the network between it and its clients was cut",) if resent else (),
        cut=tuple(connections) if resent else (),
        evidence=tuple(sorted(each.number for each in late))[:_SHOWN],
    )


def _at_once(answer: SlowAnswer) -> bool:
    return answer.key in AT_ONCE


def _resent(capture: Capture, connection: int) -> bool:
    """Return whether the client retransmitted, because the broker's host had not acknowledged data."""
    turned = capture.client_stream(connection) & 1
    return capture.connections[connection].directions[turned].retransmitted > 0
