"""Observations of a member's process while the member was silent, for :mod:`.session_ends` to judge.

When a process dies, its kernel closes or resets its connections at once. When it is paused, its kernel continues to
acknowledge data, and sends none. When the host or the network is gone, the other side retransmits, and gets nothing
back. Acknowledgments are in packets without payload, which a reading does not keep: if connections do not explain a
silence, the headers of the packets of the member's connections are read again. For a capture that cannot be read twice,
the final state of its connections decides, and for a proxy's capture, what the kernel reported to the proxy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import attrgetter

import msgspec
import numpy as np

from captures.analysis.attempts import ending
from captures.analysis.groups.activity import ConnectionActivity
from captures.analysis.groups.farewells import CapturedAddresses, Farewells, NamedCoordinators
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import Cause, GroupMember, GroupTimeline, Rebalance
from captures.analysis.groups.namesakes import Namesakes
from captures.analysis.groups.session_ends import (
    Closing,
    SilenceFacts,
    UnacknowledgedData,
    by_connections,
    decide,
)
from captures.analysis.groups.vocabulary import Certainty, Kind, SessionEnd, TimeoutCause, Trigger
from captures.analysis.groups.words import elsewhere_in_words, timeout_in_words
from captures.analysis.unacknowledged import ahead, sent_in_vain, suspended
from captures.exchanges import Capture
from captures.meaning.assignments import STREAMS_ASSIGNOR
from captures.packets import ACK, FIN, RST, SYN, CaptureError
from captures.packets.header_scan import Ends, Headers, headers_between
from dissectors.units import SECOND

_MARGIN = SECOND
"""ns around a silence in which packets are examined: retransmitted data was first sent before."""
_BACK = 600 * SECOND
"""ns after its session in which a member's host is expected on its connections: brokers close those that are idle for
longer (connections.max.idle.ms)."""
_DELAYED_ACK = 200_000_000
"""ns; until then an acknowledgment may be for data that arrived while the process was alive (RFC 1122 4.2.3.2 allows
500 ms, kernels take 40 to 200)."""
_MOST_CONNECTIONS = 200
"""Most connections of a process that are examined for one silence: it has one or two with each broker."""
_MOST_OF_SEVERAL = 20
"""The limit if several members share client ID and host: most connections may belong to other processes."""


class Silence(msgspec.Struct, frozen=True):
    """The silence of an expelled member.

    :ivar client: client ID, or address without one
    :ivar host: its address without port
    :ivar connections: IDs of the connections on which it sent requests as a member
    :ivar since: ns since the epoch, of its last sign of life
    :ivar until: when its session ended
    :ivar group: ID of its group
    :ivar alone: whether no other member had the same client ID and host then, so that their requests are its process's
    :ivar quiet: why it sends no LeaveGroup when it is closed, such as ``a static member``; empty if it should send one
    """

    client: str
    host: str
    connections: tuple[int, ...]
    since: int
    until: int
    group: str = ""
    alone: bool = False
    quiet: str = ""


class _Case(msgspec.Struct):
    """A silence under examination.

    :ivar seen: observations from connections and requests
    :ivar open: connections of the member's process that stayed open and on which it fell silent
    :ivar closed: connections that the client closed, and the broker not within a second
    :ivar asked: time of the member's last request, which a slow broker may answer long after
    :ivar last: time of the last request of the process
    """

    silence: Silence
    seen: SilenceFacts
    open: list[int] = []
    closed: list[int] = []
    asked: int = 0
    last: int = 0


class Silences:
    """Finds out why sessions ended, and remembers the results.

    :param capture: its connections and packets are examined; without it, nothing is known
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self.farewells = Farewells()
        self.named = NamedCoordinators()
        self._known: dict[Silence, SessionEnd] = {}

    def ends(self, silences: Sequence[Silence]) -> list[SessionEnd]:
        """Return why each session ended; if called once for all, the capture is read again at most once."""
        if self._capture is None:
            return [SessionEnd(TimeoutCause.UNKNOWN, Certainty.POSSIBLE) for _ in silences]
        fresh = [silence for silence in dict.fromkeys(silences) if silence not in self._known]
        found: dict[Silence, SessionEnd] = {}
        if fresh:
            activity = ConnectionActivity(self._capture)
            connections = _Connections(self._capture, activity, self.farewells, self.named)
            cases = [connections.case(each) for each in fresh]
            settled = {
                case.silence: end
                for case in cases
                if not case.closed and (end := by_connections(case.seen)) is not None
            }
            unsettled = [case for case in cases if case.silence not in settled]
            found = settled | _looked_into(self._capture, activity, unsettled)
            # packets of a growing capture are examined once it has ended, and processes may resume until then
            self._known |= settled if self._capture.source.growing else found
        return [self._known.get(silence) or found[silence] for silence in silences]


# ---------------------------------------------------------------- what connections show
class _Connections:
    """Observations of silences from connections and requests."""

    def __init__(
        self,
        capture: Capture,
        activity: ConnectionActivity,
        farewells: Farewells,
        named: NamedCoordinators,
    ) -> None:
        self._capture = capture
        self._activity = activity
        self._farewells = farewells.by_client(self._activity.host)
        self._named = named
        self._addresses = CapturedAddresses(capture, named)

    def case(self, silence: Silence) -> _Case:
        """Gather what connections and requests show of a silence."""
        case = _Case(silence, SilenceFacts(), asked=self._last_request(silence), last=silence.since)
        closings, still_open = self._closings(case)
        went_on, resumed = self._quiet_connections(case)
        sighting = self._named.within(silence.group, silence.since - _MARGIN, silence.until)
        elsewhere = None if sighting is None or sighting.address in self._addresses else sighting
        others, answered_on = self._others(silence, closings)
        case.seen = SilenceFacts(
            coordinator="" if elsewhere is None else elsewhere.address.shown,
            named=0 if elsewhere is None else elsewhere.number,
            closings=tuple(closings),
            still_open=still_open,
            others_closed=others,
            broker_continued=answered_on,
            farewell=self._farewell(silence),
            quiet=silence.quiet,
            resumed_at=went_on,
            resumed=resumed,
        )
        return case

    def _closings(self, case: _Case) -> tuple[list[Closing], int]:
        """Return how connections of a member ended during its silence, and how many were still open at its end."""
        silence = case.silence
        found, still_open = [], 0
        for connection in silence.connections:
            if int(self._capture.connections.first_time[connection]) > silence.since:
                continue
            end = ending(self._capture, connection)
            if end is None or end.time > silence.until:
                still_open += 1
            elif end.time >= case.asked - _MARGIN:
                found.append(Closing(end.time - silence.since, not end.by_broker, end.reset))
                broker_closed = self._activity.closed[self._capture.client_stream(connection) ^ 1]
                if not (end.by_broker or end.reset) and broker_closed - end.time > _MARGIN:
                    case.closed.append(connection)
        found.sort()
        if found and found[0].by_client and silence.alone:
            found = [*self._broker_closings(silence, silence.since + found[0].after), *found]
        return found, still_open

    def _last_request(self, silence: Silence) -> int:
        """Return when a member sent its last request before the silence; its beginning if none was captured."""
        sent = (
            self._activity.requests(connection, silence.client).until(silence.since).sent
            for connection in silence.connections
        )
        return max((int(each.max()) for each in sent if len(each)), default=silence.since)

    def _broker_closings(self, silence: Silence, time: int) -> Iterator[Closing]:
        """Yield the connections of the process that its broker ended up to a second before it closed one at `time`.

        A client that loses one connection to a broker may then close the others itself, as librdkafka does.
        """
        of_process = self._activity.connections_of(silence.client, silence.host)
        for broker in {self._capture.endpoints(connection)[1] for connection in silence.connections}:
            near = self._activity.closed_by(broker).within(time - _MARGIN, time)
            for connection in near[np.isin(near, of_process)].tolist():
                if (end := ending(self._capture, connection)) is not None:
                    yield Closing(end.time - silence.since, by_client=False, reset=end.reset)

    def _others(self, silence: Silence, closings: list[Closing]) -> tuple[int, bool]:
        """Return how many other connections a broker ended with the member's, and whether it answered on others."""
        if not closings or closings[0].by_client:
            return 0, False
        time, capture = silence.since + closings[0].after, self._capture
        brokers = {capture.endpoints(connection)[1] for connection in silence.connections}
        own = np.array(silence.connections, np.int64)
        if silence.alone:
            own = np.append(own, self._activity.connections_of(silence.client, silence.host))
        begun = capture.connections.first_time < time
        ended, answered_on = 0, False
        for broker in brokers:
            near = self._activity.closed_by(broker).within(time - _MARGIN, time + _MARGIN)
            ended += int(np.count_nonzero(begun[near] & ~np.isin(near, own)))
            answers = self._activity.answered_by(broker)
            answered_on |= answers.any_within(time + _MARGIN + 1, silence.until, begun, own)
        return ended, answered_on

    def _farewell(self, silence: Silence) -> int | None:
        """Return the Fetch with which the process closed its session."""
        farewells = self._farewells.get((silence.client, silence.host), [])
        index = bisect_left(farewells, silence.since - _MARGIN, key=attrgetter("time"))
        first_times = self._capture.connections.first_time
        for farewell in islice(farewells, index, None):
            if farewell.time > silence.until:
                break
            if int(first_times[farewell.connection]) <= silence.since:
                return farewell.number
        return None

    def _quiet_connections(self, case: _Case) -> tuple[int | None, bool]:
        """Find the connections of the member's process on which it stopped sending.

        Return the number of a request that shows that the process continued, and whether it later resumed where it had
        stopped.
        """
        silence, activity = case.silence, self._activity
        half = (silence.since + silence.until) // 2
        own = np.array(silence.connections, np.int64)
        of_process = activity.connections_of(silence.client, silence.host)
        connections = np.append(own, of_process[~np.isin(of_process, own)])
        most = _MOST_CONNECTIONS if silence.alone else _MOST_OF_SEVERAL
        begun = self._capture.connections.first_time[connections] <= silence.since
        closed = (
            np.minimum(activity.closed[2 * connections], activity.closed[2 * connections + 1]) < silence.since
        )
        # often only the first requests of a resuming process show the session's end: they are no sign that it lived
        over = max(silence.since, silence.until - _MARGIN)
        went_on = 0
        resumed = False
        for connection in connections[begun & ~closed][:most].tolist():
            requests = activity.requests(connection, silence.client)
            before = requests.until(over)
            if not len(before.sent):
                continue
            if int(before.sent.max()) > half:
                # otherwise another process with the same client ID may have continued
                if silence.alone or connection in silence.connections:
                    went_on = max(went_on, before.last_of_consumer(half) or 0)
                continue
            case.open.append(connection)
            case.last = max(case.last, int(before.sent.max()))
            resumed |= len(before.sent) < len(requests.sent)
        return went_on or None, resumed


# ---------------------------------------------------------------- what packets show
def _looked_into(
    capture: Capture, activity: ConnectionActivity, cases: list[_Case]
) -> dict[Silence, SessionEnd]:
    """Return why sessions ended; packets are read again if there is a connection to examine."""
    packets = _packets(capture, cases)
    out = {}
    for case in cases:
        found = {_evidence(capture, case, connection, packets, activity) for connection in case.open}
        case.seen = msgspec.structs.replace(
            case.seen,
            in_vain=max((each for each in found if isinstance(each, UnacknowledgedData)), default=None),
            acknowledged=TimeoutCause.PROCESS_PAUSED in found,
            unanswered=not all(_acknowledged_end(capture, each, packets) for each in case.closed),
        )
        out[case.silence] = decide(case.seen)
    return out


def _packets(capture: Capture, cases: list[_Case]) -> dict[Ends, Headers] | None:
    """Read the packets of all cases again; return None if that is impossible."""
    if capture.source.growing:
        return None
    pairs = {capture.endpoints(connection) for case in cases for connection in (*case.open, *case.closed)}
    if not pairs:
        return {}
    both = [*pairs, *((broker, client) for client, broker in pairs)]
    begin = min(case.asked for case in cases) - _MARGIN
    end = max(case.silence.until for case in cases) + _BACK
    try:
        return headers_between(capture.source, both, begin, end)
    except CaptureError:  # no longer in the spool or the ring of files
        return None


def _acknowledged_end(capture: Capture, connection: int, packets: dict[Ends, Headers] | None) -> bool:
    """Return whether the broker's host acknowledged the client's FIN within a second; without packets, at all.

    The kernel of a broker that is slow to close its side acknowledges it at once.
    """
    streams, stream = capture.connections.streams, capture.client_stream(connection)
    client, broker = capture.endpoints(connection)
    time, reached, latest = streams.fin_time[stream], streams.next_seq[stream], streams.ack[stream ^ 1]
    if reached < 0:
        return True
    if packets is None:
        return bool(latest < 0 or ahead(latest, reached) > 0)
    answers = packets.get((broker, client), Headers.none()).within(time, time + _MARGIN)
    return bool(np.any((answers.flags & ACK != 0) & (ahead(answers.ack, reached) > 0)))


def _evidence(
    capture: Capture,
    case: _Case,
    connection: int,
    packets: dict[Ends, Headers] | None,
    activity: ConnectionActivity,
) -> TimeoutCause | UnacknowledgedData:
    """Return what a connection shows of a silence."""
    answered = activity.answered(connection)
    # long after the last request: only the kernel of the process received it
    answered_late = bool(np.any((answered > case.last + _DELAYED_ACK) & (answered <= case.silence.until)))
    samples = _of_samples(capture, case, connection, answered_late=answered_late)
    if samples is not None:
        return samples
    if packets is None:
        return _at_the_end(capture, case, connection, answered_late=answered_late)
    client, broker = capture.endpoints(connection)
    begin, end = case.silence.since - _MARGIN, case.silence.until
    all_sent = packets.get((client, broker), Headers.none())
    sent = all_sent.within(begin, end)
    came = packets.get((broker, client), Headers.none()).within(begin, end)
    for by_client, data, answers in ((False, came, sent), (True, sent, came)):
        first = sent_in_vain(data, answers, case.last)
        if first is not None:
            arrived = bool(np.any(answers.time > first))
            clock = None if by_client or arrived else suspended(capture.source, all_sent, first)
            queued = clock == 0 and activity.requests(connection, case.silence.client).queued(first)
            return UnacknowledgedData(by_client, arrived, clock is not None, clock or 0, queued)
    bare = (sent.length == 0) & (sent.flags & (SYN | FIN | RST) == 0) & (sent.flags & ACK != 0)
    if np.any(bare & (sent.time > case.last + _DELAYED_ACK)):
        return TimeoutCause.PROCESS_PAUSED
    return TimeoutCause.UNKNOWN


def _at_the_end(
    capture: Capture, case: _Case, connection: int, *, answered_late: bool
) -> TimeoutCause | UnacknowledgedData:
    """Return what the final state of a connection shows, without its packets, if it was silent to the end."""
    if case.seen.resumed:
        return TimeoutCause.UNKNOWN
    streams = capture.connections.streams
    client = capture.client_stream(connection)
    acknowledged, reached = int(streams.ack[client]), int(streams.next_seq[client ^ 1])
    if acknowledged < 0 or reached < 0:
        return TimeoutCause.UNKNOWN
    outstanding = int(ahead(np.array([reached]), acknowledged)[0])
    if outstanding > 0 and streams.retransmitted[client ^ 1] > 0:
        return UnacknowledgedData()
    if outstanding <= 0 and answered_late:
        return TimeoutCause.PROCESS_PAUSED
    return TimeoutCause.UNKNOWN


def _of_samples(
    capture: Capture, case: _Case, connection: int, *, answered_late: bool
) -> TimeoutCause | UnacknowledgedData | None:
    """Return what a proxy's kernel reported of its connection with the client; None if nothing."""
    samples = [sample for sample in capture.samples.of(connection) if sample.values.side == "client"]
    near = [
        sample
        for sample in samples
        if case.silence.since - _MARGIN <= sample.time <= case.silence.until + _MARGIN
    ]
    if not near:
        return TimeoutCause.UNKNOWN if samples else None
    first, last = near[0].values, near[-1].values
    if last.unacked and last.retransmits > first.retransmits:
        return UnacknowledgedData()
    if not last.unacked and answered_late:
        return TimeoutCause.PROCESS_PAUSED
    return TimeoutCause.UNKNOWN


class _Timeout(msgspec.Struct, frozen=True):
    """A session that ended.

    :ivar index: index of the cause in the rebalance
    :ivar member: None if the timeline does not have it
    :ivar label: the member's label
    :ivar namesakes: members of the group that may be the same process
    """

    timeline: GroupTimeline
    rebalance: Rebalance
    index: int
    cause: Cause
    member: GroupMember | None
    label: str
    namesakes: Namesakes

    @property
    def silence(self) -> int:
        return self.cause.silence or 0

    @property
    def quiet(self) -> str:
        """Why the member sends no LeaveGroup when it is closed; empty if it should send one."""
        if self.cause.instance is not None:
            return "a static member"
        streams = self.timeline.kind is Kind.CLASSIC and self.timeline.protocol == STREAMS_ASSIGNOR
        return "Kafka Streams" if streams else ""

    @property
    def back(self) -> int | None:
        """When its process came back as a member after its session had ended; None if that was not seen.

        A static member is identified by its instance ID, another one by its client ID and host.
        """
        member = self.member
        if member is None:
            return None
        if member.instance is not None:
            return min((each.begin for each in member.spans if each.begin > self.cause.time), default=None)
        return_time = self.namesakes.after(member, self.cause.time)
        return None if return_time is None else return_time.first


def explain_timeouts(timelines: Sequence[GroupTimeline], silences: Silences) -> None:
    """Fill ``session_end`` of every session timeout, and add it to the sentence of the cause.

    A member whose coordinator is not in the capture was not seen to be silent: its end is unknown.
    """
    found = [timeout for timeline in timelines for timeout in _timeouts(timeline)]
    for timeout, end in zip(found, silences.ends([_silence(each) for each in found]), strict=True):
        if end.cause is TimeoutCause.PROCESS_PAUSED and _returned(timeout):
            end = SessionEnd(TimeoutCause.UNKNOWN, Certainty.POSSIBLE)
        _set_sentence(timeout, end)


def _set_sentence(timeout: _Timeout, end: SessionEnd) -> None:
    cause, rebalance = timeout.cause, timeout.rebalance
    session = timeout.member.session_timeout if timeout.member is not None else None
    if end.cause is TimeoutCause.ELSEWHERE:
        rebalance.causes[timeout.index] = replace(
            cause,
            trigger=Trigger.UNKNOWN,
            certainty=Certainty.POSSIBLE,
            session_end=end,
            sentence=elsewhere_in_words(timeout.label, timeout.silence, end),
        )
        rebalance.alternatives = list(dict.fromkeys([*rebalance.alternatives, *_NOT_SEEN]))
        return
    bare = timeout_in_words(timeout.label, timeout.silence, session)
    away = None if timeout.back is None else timeout.back - (cause.time - timeout.silence)
    full = timeout_in_words(timeout.label, timeout.silence, session, end, away, timeout.quiet)
    # further facts follow in the sentence, and stay
    sentence = cause.sentence.replace(bare, full, 1)
    rebalance.causes[timeout.index] = replace(cause, session_end=end, sentence=sentence)


_NOT_SEEN = ("it left", "its session ended", "it did not join in time", "it came back to this coordinator")
"""Possible ends of a member whose coordinator is not in the capture."""


def _timeouts(timeline: GroupTimeline) -> Iterator[_Timeout]:
    found = [
        (rebalance, index, cause)
        for rebalance in timeline.rebalances
        for index, cause in enumerate(rebalance.causes)
        if cause.trigger is Trigger.SESSION_TIMEOUT and cause.silence is not None
    ]
    if found:
        members, labels = timeline.by_id(), Labels(timeline)
        namesakes = Namesakes(timeline.members)
        for rebalance, index, cause in found:
            label, member = labels.of(cause.member, cause.client), members.get(cause.member)
            yield _Timeout(timeline, rebalance, index, cause, member, label, namesakes)


def _returned(timeout: _Timeout) -> bool:
    """Return whether the client joined as another member before its session ended: it was not paused all the time."""
    cause, member = timeout.cause, timeout.member
    if member is None:
        return False
    return_time = timeout.namesakes.after(member, cause.time - timeout.silence)
    return return_time is not None and return_time.first < cause.time


def _silence(timeout: _Timeout) -> Silence:
    cause, member = timeout.cause, timeout.member
    since = cause.time - timeout.silence
    return Silence(
        client=cause.client,
        host=member.host if member is not None else "",
        connections=tuple(member.connections) if member is not None else (),
        since=since,
        until=cause.time,
        group=timeout.timeline.group,
        alone=member is not None and not timeout.namesakes.beside(member, since),
        quiet=timeout.quiet,
    )
