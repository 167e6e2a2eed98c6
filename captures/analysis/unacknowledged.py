"""Data that was retransmitted and not acknowledged: the network, or the host of the other side, was gone.

The kernel of a paused process still acknowledges data.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from captures.arrays import Bools, Int64s
from captures.packets import ACK
from captures.packets.header_scan import Headers
from dissectors.units import SECOND

_SENT_AGAIN = 10_000_000
"""ns; data repeated sooner is the same packet, captured in two places: retransmission takes 200 ms, tail loss probes
(RFC 8985) two round trips."""
_SEQUENCE = 1 << 32
_HALF = 1 << 31


def sent_in_vain(sent: Headers, answered: Headers, since: int) -> int | None:
    """Return the time after `since` from which data was retransmitted without an acknowledgment; None if there is none.

    If only one direction is lost, packets of the other side still arrive: it retransmits its own data, and sends no
    acknowledgments without data, because it receives nothing.
    """
    data = sent.length > 0
    if not data.any():
        return None
    origin = int(sent.seq[data][0])
    ends = ahead(sent.seq[data] + sent.length[data], origin)
    times = sent.time[data]
    furthest = np.maximum.accumulate(ends)
    resent: Bools = np.zeros(len(ends), np.bool_)
    resent[1:] = ends[1:] <= furthest[:-1]
    resent &= times > since
    if not resent.any():
        return None
    first = int(times[np.flatnonzero(ends >= ends[resent][-1])[0]])
    if int(times[resent][-1]) - first < _SENT_AGAIN:
        return None
    later = max(first, since)
    reached = ahead(answered.ack, origin) >= int(ends[resent][-1])
    acknowledges = (answered.flags & ACK != 0) & (reached | (answered.length == 0))
    return None if np.any(acknowledges & (answered.time > later)) else later


def ahead(sequence: Int64s, origin: int) -> Int64s:
    """Return the distance of sequence numbers from `origin`, modulo 2^32, as signed numbers."""
    distance: Int64s = (sequence - origin + _HALF) % _SEQUENCE - _HALF
    return distance


def cut_off(sent: Headers, answered: Headers) -> Iterator[tuple[int, int]]:
    """Yield the times, of a second or more, in which data was retransmitted and nothing was acknowledged.

    Each ends with the next acknowledgment. In ns since the epoch.
    """
    if not len(sent) or not len(answered):
        return
    furthest = np.maximum.accumulate(ahead(answered.ack, int(answered.ack[0])))
    acknowledges = (answered.length == 0) | (np.diff(furthest, prepend=-1) > 0)
    times = np.append(sent.time[0], answered.time[acknowledges & (answered.flags & ACK != 0)])
    for begin, end in pairwise(times.tolist()):
        if end - begin >= SECOND:
            first = sent_in_vain(sent.within(begin, end - 1), Headers.none(), begin)
            if first is not None and end - first >= SECOND:
                yield first, end
