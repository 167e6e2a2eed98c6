"""Why a member fell silent until its session ended: its process died, was paused, or could not be reached.

When a process dies, its kernel closes or resets its connections at once. When it is paused, its kernel goes on
acknowledging what comes, and nothing is sent. When the host or the network is gone, what was sent to it is sent again
and again, and nothing comes back. Acknowledgments are in packets without payload, of which nothing is kept while a
capture is read: where closed connections do not explain a silence, the headers of the packets of the member's
connections are read once more. A capture that cannot be read twice tells by what is known of its connections at its
end, and one that a proxy made by what the kernel told the proxy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from captures.analysis.groups.model import TimeoutCause
from captures.exchanges import Capture
from captures.packets import ACK, FIN, RST, SYN, CaptureError
from captures.packets.between import Ends, Headers, headers_between
from captures.packets.table import Bools, Int64s

_SECOND = 1_000_000_000
_MARGIN = _SECOND
"""ns around a silence in which packets are looked at: what is sent again was sent a first time before."""
_DELAYED_ACK = 200_000_000
"""ns; until then an acknowledgment may be of what came while the process was alive (RFC 1122 4.2.3.2 allows 500 ms,
kernels take 40 to 200)."""
_SENT_AGAIN = 10_000_000
"""ns; what comes again sooner is the same packet, captured in two places: retransmission takes 200 ms, tail loss probes
(RFC 8985) two round trips."""
_SEQUENCE = 1 << 32
_HALF = 1 << 31


@dataclass(frozen=True, slots=True)
class Silence:
    """The silence of a member that was expelled.

    :ivar client: client ID, or address without one
    :ivar host: its address without port
    :ivar connections: ids of the connections it was heard on as a member
    :ivar since: ns since the epoch, of its last sign of life
    :ivar until: when its session ended
    """

    client: str
    host: str
    connections: tuple[int, ...]
    since: int
    until: int


@dataclass(slots=True)
class _Case:
    """A silence that is looked into.

    :ivar open: connections of the member's process that were open and on which it fell silent
    :ivar last: when the process sent its last request
    :ivar resumed: whether it sent another request on one of them after its session had ended
    """

    silence: Silence
    open: list[int] = field(default_factory=list)
    last: int = 0
    resumed: bool = False


class Silences:
    """Tells why members were silent; what it found out once it remembers.

    :param capture: whose connections and packets are looked at; without it, nothing can be told
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._known: dict[Silence, TimeoutCause] = {}

    def causes(self, silences: Sequence[Silence]) -> list[TimeoutCause]:
        """Return the cause of each; asked for all at once, the capture is gone through again once at most."""
        if self._capture is None:
            return [TimeoutCause.UNKNOWN for _ in silences]
        fresh = [silence for silence in dict.fromkeys(silences) if silence not in self._known]
        found: dict[Silence, TimeoutCause] = {}
        if fresh:
            connections = _Connections(self._capture)
            found = {each: TimeoutCause.PROCESS_DIED for each in fresh if connections.died(each)}
            found |= _looked_into(
                self._capture, [connections.case(each) for each in fresh if each not in found]
            )
            # what is not known while the capture grows may be later: the process may go on where it stopped
            growing = _growing(self._capture)
            self._known |= {
                each: why for each, why in found.items() if not growing or why is not TimeoutCause.UNKNOWN
            }
        return [self._known.get(silence) or found[silence] for silence in silences]


# ---------------------------------------------------------------- what connections tell
class _Connections:
    """The connections of a capture: when they were closed, and by whom, and what was sent on them."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        streams = capture.connections.streams
        times = np.stack((streams.fin_time, streams.reset_time))
        never = np.iinfo(np.int64).max
        self._closed: Int64s = np.min(np.where(times >= 0, times, never), axis=0)
        """By stream, when its sender sent a FIN or RST; a time that never comes if it did not."""
        self._never = never
        self._sent: dict[str, tuple[Int64s, Int64s]] = {}

    def died(self, silence: Silence) -> bool:
        """Whether the client closed or reset what it was last heard on, before its session ended."""
        ends = []
        for connection in silence.connections:
            if int(self._capture.connections.first_time[connection]) > silence.since:
                continue
            client = self._capture.client_stream(connection)
            mine, theirs = int(self._closed[client]), int(self._closed[client ^ 1])
            if min(mine, theirs) == self._never:
                return False  # open still
            if mine <= theirs:
                ends.append(mine)
        return any(silence.since - _MARGIN <= end <= silence.until for end in ends)

    def case(self, silence: Silence) -> _Case:
        """Find the connections of the member's process on which nothing was sent any more."""
        case = _Case(silence, last=silence.since)
        half = (silence.since + silence.until) // 2
        of, sent = self._requests(silence.client)
        begun = self._capture.connections.first_time <= silence.since
        closed = np.minimum(self._closed[0::2], self._closed[1::2]) < silence.since
        candidates = np.flatnonzero(begun & ~closed)
        for connection in np.intersect1d(candidates, of).tolist():
            if not self._is_of(connection, silence):
                continue
            mine = sent[of == connection]
            before = mine[mine <= silence.until]
            # one that went on is another process with the same client ID
            if not len(before) or int(before.max()) > half:
                continue
            case.open.append(connection)
            case.last = max(case.last, int(before.max()))
            case.resumed |= len(before) < len(mine)
        return case

    def _is_of(self, connection: int, silence: Silence) -> bool:
        if connection in silence.connections:
            return True
        return self._capture.endpoints(connection)[0].rpartition(":")[0] == silence.host

    def _requests(self, client: str) -> tuple[Int64s, Int64s]:
        """Return the requests with a client ID: their connections, and when they were sent.

        What has an address in its place came without a client ID.
        """
        found = self._sent.get(client)
        if found is None:
            table = self._capture.table
            numbers = [number for number, text in enumerate(table.client_ids) if text == client]
            if not numbers:
                numbers = [number for number, text in enumerate(table.client_ids) if not text]
            rows = np.flatnonzero(
                np.isin(table.column("client_id"), numbers) & (table.column("request_size") > 0)
            )
            connections = table.column("connection")[rows].astype(np.int64)
            found = self._sent[client] = connections, table.column("request_last")[rows]
        return found


# ---------------------------------------------------------------- what packets tell
def _growing(capture: Capture) -> bool:
    return capture.source.live and not capture.source.complete


def _looked_into(capture: Capture, cases: list[_Case]) -> dict[Silence, TimeoutCause]:
    """Return the causes of cases, for which packets are read once more if there is a connection to look at."""
    packets = _packets(capture, cases)
    out = {}
    for case in cases:
        found = [_evidence(capture, case, connection, packets) for connection in case.open]
        out[case.silence] = _judged(case, found)
    return out


def _judged(case: _Case, found: Iterable[TimeoutCause]) -> TimeoutCause:
    every = set(found)
    for cause in (TimeoutCause.UNREACHABLE, TimeoutCause.PROCESS_PAUSED):
        if cause in every:
            return cause
    # it went on where it had stopped, and nothing had been lost on the way
    return TimeoutCause.PROCESS_PAUSED if case.resumed else TimeoutCause.UNKNOWN


def _packets(capture: Capture, cases: list[_Case]) -> dict[Ends, Headers] | None:
    """Read the packets of all cases once more; None if that cannot be done."""
    if _growing(capture):
        return None
    pairs = {capture.endpoints(connection) for case in cases for connection in case.open}
    if not pairs:
        return {}
    both = [*pairs, *((broker, client) for client, broker in pairs)]
    begin = min(case.silence.since for case in cases) - _MARGIN
    end = max(case.silence.until for case in cases)
    try:
        return headers_between(capture.source, both, begin, end)
    except CaptureError:  # a spool or a ring of files has not kept it
        return None


def _evidence(
    capture: Capture, case: _Case, connection: int, packets: dict[Ends, Headers] | None
) -> TimeoutCause:
    """Return what a connection tells of a silence."""
    samples = _of_samples(capture, case, connection)
    if samples is not None:
        return samples
    if packets is None:
        return _at_the_end(capture, case, connection)
    client, broker = capture.endpoints(connection)
    begin, end = case.silence.since - _MARGIN, case.silence.until
    sent = packets.get((client, broker), Headers.none()).within(begin, end)
    came = packets.get((broker, client), Headers.none()).within(begin, end)
    if _sent_in_vain(came, sent, case.last) or _sent_in_vain(sent, came, case.last):
        return TimeoutCause.UNREACHABLE
    bare = (sent.length == 0) & (sent.flags & (SYN | FIN | RST) == 0) & (sent.flags & ACK != 0)
    if np.any(bare & (sent.time > case.last + _DELAYED_ACK)):
        return TimeoutCause.PROCESS_PAUSED
    return TimeoutCause.UNKNOWN


def _sent_in_vain(sent: Headers, answered: Headers, since: int) -> bool:
    """Whether data was sent again after a moment, and nothing came from the other side from its first sending on."""
    data = sent.length > 0
    if not data.any():
        return False
    origin = int(sent.seq[data][0])
    ends = _ahead(sent.seq[data] + sent.length[data], origin)
    times = sent.time[data]
    furthest = np.maximum.accumulate(ends)
    again: Bools = np.zeros(len(ends), np.bool_)
    again[1:] = ends[1:] <= furthest[:-1]
    again &= times > since
    if not again.any():
        return False
    first = int(times[np.flatnonzero(ends >= ends[again][-1])[0]])
    if int(times[again][-1]) - first < _SENT_AGAIN:
        return False
    return not bool(np.any(answered.time > max(first, since)))


def _ahead(sequence: Int64s, origin: int) -> Int64s:
    """Return how far sequence numbers are ahead of one, as the distance they most likely are."""
    distance: Int64s = (sequence - origin + _HALF) % _SEQUENCE - _HALF
    return distance


def _at_the_end(capture: Capture, case: _Case, connection: int) -> TimeoutCause:
    """Return what is known of a connection without its packets, if it was silent to the end."""
    if case.resumed:
        return TimeoutCause.UNKNOWN
    streams = capture.connections.streams
    client = capture.client_stream(connection)
    acknowledged, reached = int(streams.ack[client]), int(streams.next_seq[client ^ 1])
    if acknowledged < 0 or reached < 0:
        return TimeoutCause.UNKNOWN
    outstanding = int(_ahead(np.array([reached]), acknowledged)[0])
    if outstanding > 0 and streams.retransmitted[client ^ 1] > 0:
        return TimeoutCause.UNREACHABLE
    if outstanding <= 0 and _answered_late(capture, case, connection):
        return TimeoutCause.PROCESS_PAUSED
    return TimeoutCause.UNKNOWN


def _answered_late(capture: Capture, case: _Case, connection: int) -> bool:
    """Whether something came for the client long after its last request: its kernel alone took it."""
    table = capture.table
    rows = (table.column("connection") == connection) & (table.column("response_size") > 0)
    came = table.column("response_last")[rows]
    return bool(np.any((came > case.last + _DELAYED_ACK) & (came <= case.silence.until)))


def _of_samples(capture: Capture, case: _Case, connection: int) -> TimeoutCause | None:
    """Return what a proxy's kernel told of its connection with the client; None if it told nothing."""
    told = [sample for sample in capture.samples.of(connection) if sample.values.side == "client"]
    near = [
        sample
        for sample in told
        if case.silence.since - _MARGIN <= sample.time <= case.silence.until + _MARGIN
    ]
    if not near:
        return TimeoutCause.UNKNOWN if told else None
    first, last = near[0].values, near[-1].values
    if last.unacked and last.retransmits > first.retransmits:
        return TimeoutCause.UNREACHABLE
    if not last.unacked and _answered_late(capture, case, connection):
        return TimeoutCause.PROCESS_PAUSED
    return TimeoutCause.UNKNOWN
