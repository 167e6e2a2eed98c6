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
from captures.packets.source import Source
from dissectors.units import SECOND

_SENT_AGAIN = 10_000_000
"""ns; data repeated sooner is the same packet, captured in two places: retransmission takes 200 ms, tail loss probes
(RFC 8985) two round trips."""
_STAMPED = 50
"""Most packets on either side of a silence whose timestamps are read."""
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
    return (sequence - origin + _HALF) % _SEQUENCE - _HALF


def suspended(source: Source, sent: Headers, begin: int) -> int | None:
    """Return for how many ns after `begin` a host was suspended, 0 if its TCP clock went on; None if that is unknown.

    The clock behind TCP timestamps (RFC 7323) stands still while a host is suspended, as CLOCK_MONOTONIC does on Linux,
    and continues while only its network is cut. Its rate is taken from the packets before or after the silence. Nothing
    is known if the clock wraps around in the time between, or is another one then, as behind NAT.

    :param sent: what the host sent on one connection
    """
    first = int(np.searchsorted(sent.time, begin, "right"))
    before = list(_timestamps(source, sent, range(max(first - _STAMPED, 0), first)))
    after = list(_timestamps(source, sent, range(first, min(first + _STAMPED, len(sent)))))
    runs = [run for run in (before, after) if run and run[-1][0] - run[0][0] >= SECOND // 2]
    ticks = sum(_ticks(*each) for run in runs for each in pairwise(run))
    if not before or not after or ticks <= 0:
        return None
    tick = sum(run[-1][0] - run[0][0] for run in runs) / ticks
    elapsed = after[0][0] - before[-1][0]
    passed = (after[0][1] - before[-1][1]) % _SEQUENCE * tick
    if elapsed >= _SEQUENCE * tick or passed > 1.5 * elapsed:
        return None
    behind = int(elapsed - passed)
    return behind if behind > (after[0][0] - begin) // 2 else 0


def _timestamps(source: Source, sent: Headers, rows: range) -> Iterator[tuple[int, int]]:
    """Yield the capture time and the TSval of packets, without those that have other options than timestamps."""
    for row in rows:
        header = source.read(int(sent.offset[row]) - 20, 20)
        if header[:1] == b"\x80" and header[8:12] == b"\x01\x01\x08\x0a":
            yield int(sent.time[row]), int.from_bytes(header[12:16])


def _ticks(earlier: tuple[int, int], later: tuple[int, int]) -> int:
    return (later[1] - earlier[1] + _HALF) % _SEQUENCE - _HALF


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
