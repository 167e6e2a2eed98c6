"""Causes of members' silence: recordings of stopped processes, and synthetic packets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from captures.analysis.groups import silence as module
from captures.analysis.groups.silence import Silence, Silences
from captures.analysis.groups.vocabulary import Certainty, SessionEnd, TimeoutCause
from captures.exchanges import Capture, open_capture
from captures.interventions import TcpSample
from captures.packets import ACK, FIN, RST, CaptureError
from captures.packets.header_scan import Headers, headers_between
from tests.captures.exchanges.proxied import Recording, request, response
from tests.captures.packets.kit import CLIENT, MS, T0, Conversation, pcap

DATA = Path(__file__).parents[3] / "data"
SECOND = 1_000_000_000
HEARTBEAT = 12
SINCE, UNTIL = T0 + 3 * SECOND, T0 + 9 * SECOND
"""Interval of the silences below: the last heartbeat, and the end of a session of 6 s."""


def beat(number: int) -> bytes:
    body = {"group_id": "orders", "generation_id": 1, "member_id": "app-1"}
    return request(HEARTBEAT, 0, number, body)


def answer(number: int) -> bytes:
    return response(HEARTBEAT, 0, number, {"error_code": 0})


@dataclass
class Member:
    """A member's connection; times are seconds after :data:`T0`."""

    made: Conversation = field(default_factory=Conversation)
    number: int = 0
    sent: int = 0
    came: int = 0

    def __post_init__(self) -> None:
        self.made.now = T0
        self.made.handshake()

    def at(self, seconds: float) -> None:
        self.made.now = T0 + round(seconds * SECOND) - MS

    def beats(self, *seconds: float) -> None:
        """Heartbeats, answered and acknowledged at once."""
        for each in seconds:
            self.asks(each)
            self.answers(each + 0.001)
            self.acknowledges(each + 0.042)

    def asks(self, seconds: float) -> None:
        self.at(seconds)
        self.number += 1
        frame = beat(self.number)
        self.made.send(self.sent, frame, ack=self.came)
        self.sent += len(frame)

    def answers(self, seconds: float) -> None:
        self.at(seconds)
        frame = answer(self.number)
        self.made.send(self.came, frame, ack=self.sent, from_client=False)
        self.came += len(frame)

    def sends_again(self, seconds: float, *, from_client: bool = False) -> None:
        """Retransmit the last frame."""
        self.at(seconds)
        frame = beat(self.number) if from_client else answer(self.number)
        end = self.sent if from_client else self.came
        self.made.send(end - len(frame), frame, ack=0, from_client=from_client)

    def acknowledges(self, seconds: float) -> None:
        self.at(seconds)
        self.made.acknowledge(self.came, from_client=True, position=self.sent)

    def closes(
        self, seconds: float, flags: int = FIN, *, from_client: bool = True, answered: float | None = 0.001
    ) -> None:
        """One side closes, and so does the other after `answered` seconds; it does not if None."""
        self.at(seconds)
        ends = (self.sent, self.came) if from_client else (self.came, self.sent)
        self.made.put(from_client, *ends, flags | ACK)
        if answered is not None and flags == FIN:
            self.at(seconds + answered)
            self.made.put(not from_client, ends[1], ends[0] + 1, FIN | ACK)


def written(folder: Path, *members: Member) -> Capture:
    records = sorted(
        (record for member in members for record in member.made.records), key=lambda each: each.time
    )
    path = folder / "capture.pcap"
    path.write_bytes(pcap(list(records)))
    return read(path)


def read(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def silence(*connections: int, since: int = SINCE, until: int = UNTIL) -> Silence:
    return Silence("app", CLIENT[0], connections or (0,), since, until)


def cause(capture: Capture, *connections: int) -> TimeoutCause:
    return end(capture, *connections).cause


def end(capture: Capture, *connections: int) -> SessionEnd:
    (found,) = Silences(capture).ends([silence(*connections)])
    return found


def causes(silences: Silences, asked: list[Silence]) -> list[TimeoutCause]:
    return [found.cause for found in silences.ends(asked)]


@pytest.mark.parametrize("flags", [FIN, RST])
def test_a_process_that_dies_closes_its_connections(tmp_path: Path, flags: int) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.closes(3.7, flags)
    assert cause(written(tmp_path, member)) is TimeoutCause.PROCESS_DIED


@pytest.mark.parametrize("answered", [None, 12.0])
def test_a_process_that_ends_after_its_network_is_perhaps_not_what_died_first(
    tmp_path: Path, answered: float | None
) -> None:
    """As recorded at a host whose network is cut before its process is killed: its FIN is answered late or never."""
    member = Member()
    member.beats(1, 2, 3)
    member.closes(3.2, answered=answered)
    found = end(written(tmp_path, member))
    assert (found.cause, found.certainty) == (TimeoutCause.PROCESS_DIED, Certainty.POSSIBLE)
    assert found.alternatives == ("its host or the network had gone down before",)
    assert found.evidence[-1] == (
        "the broker's host did not acknowledge the end of its connection within a second"
    )


def test_a_connection_that_is_closed_after_the_timeout_does_not_explain_it(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.closes(12)
    assert cause(written(tmp_path, member)) is TimeoutCause.UNKNOWN


def test_a_broker_that_closes_first_is_what_went(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.closes(4, from_client=False)
    member.closes(4.1)
    assert cause(written(tmp_path, member)) is TimeoutCause.BROKER_GONE


def test_a_client_that_loses_one_connection_closes_the_others_itself(tmp_path: Path) -> None:
    """As with librdkafka: its coordinator connection ends just after the broker closed another one."""
    coordinator, fetching = Member(), Member(Conversation(client=(CLIENT[0], 40001)))
    coordinator.beats(1, 2, 3)
    fetching.beats(1.1, 2.1, 3.1)
    fetching.closes(3.7, from_client=False)
    coordinator.closes(3.7003)
    capture = written(tmp_path, coordinator, fetching)
    (alone,) = Silences(capture).ends([replace(silence(0), alone=True)])
    assert alone.cause is TimeoutCause.BROKER_GONE
    assert alone.evidence == ("the broker closed its connection first, 700 ms after its last sign of life",)
    # if another process has the same client ID, the broker may have closed the connection of that process
    assert cause(capture, 0) is TimeoutCause.PROCESS_DIED


def test_a_broker_that_answers_others_is_not_gone(tmp_path: Path) -> None:
    member, other = Member(), Member(Conversation(client=("10.0.0.9", 40001)))
    member.beats(1, 2, 3)
    member.closes(4, from_client=False)
    member.closes(4.1)
    other.beats(*range(1, 12))
    assert cause(written(tmp_path, member, other)) is TimeoutCause.UNKNOWN


def test_a_process_that_goes_on_with_other_requests_lives(tmp_path: Path) -> None:
    """Its coordinator connection is closed; requests continue on another connection of the same process."""
    coordinator, fetching = Member(), Member(Conversation(client=(CLIENT[0], 40001)))
    coordinator.beats(1, 2, 3)
    coordinator.closes(3.5)
    fetching.beats(*range(1, 12))
    capture = written(tmp_path, coordinator, fetching)
    (alone,) = Silences(capture).ends([replace(silence(0), alone=True)])
    assert alone.cause is TimeoutCause.PROCESS_LIVED
    # if another process has the same client ID, it may be that one
    assert cause(capture, 0) is TimeoutCause.PROCESS_DIED


@pytest.mark.parametrize("quiet", ["a static member", "Kafka Streams"])
def test_who_never_leaves_may_have_been_shut_down(tmp_path: Path, quiet: str) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.closes(3.7)
    (found,) = Silences(written(tmp_path, member)).ends([replace(silence(), quiet=quiet)])
    assert (found.cause, found.certainty) == (TimeoutCause.PROCESS_DIED, Certainty.POSSIBLE)
    assert found.alternatives == (f"it was shut down cleanly: {quiet} sends no LeaveGroup",)


def test_a_former_connection_does_not_explain_it(tmp_path: Path) -> None:
    """The member has moved to another connection, which is still open."""
    former, present = Member(), Member(Conversation(client=(CLIENT[0], 40001)))
    former.beats(1, 2)
    former.closes(2.5)
    present.beats(2.4, 3)
    assert cause(written(tmp_path, former, present), 0, 1) is TimeoutCause.UNKNOWN


def test_a_paused_process_acknowledges_what_comes(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.answers(3.5)
    member.acknowledges(3.541)
    member.closes(12)
    assert cause(written(tmp_path, member)) is TimeoutCause.PROCESS_PAUSED


def test_the_other_connections_of_the_process_count(tmp_path: Path) -> None:
    """The coordinator sends nothing to a silent member; the response to its last Fetch comes on another connection."""
    coordinator, fetching = Member(), Member(Conversation(client=(CLIENT[0], 40001)))
    coordinator.beats(1, 2, 3)
    fetching.beats(1.1, 2.9)
    fetching.answers(3.4)
    fetching.acknowledges(3.441)
    assert cause(written(tmp_path, coordinator, fetching)) is TimeoutCause.PROCESS_PAUSED


def test_another_process_with_the_same_client_id_proves_nothing(tmp_path: Path) -> None:
    silent, lively = Member(), Member(Conversation(client=(CLIENT[0], 40001)))
    silent.beats(1, 2, 3)
    lively.beats(*range(1, 12))
    lively.answers(11.5)
    lively.acknowledges(11.541)
    assert cause(written(tmp_path, silent, lively)) is TimeoutCause.UNKNOWN


def test_the_last_acknowledgment_of_a_live_process_proves_nothing(tmp_path: Path) -> None:
    """The kernel acknowledges a heartbeat response some 40 ms later; after that the network may be down."""
    member = Member()
    member.beats(1, 2, 3)
    assert cause(written(tmp_path, member)) is TimeoutCause.UNKNOWN


def test_a_process_that_goes_on_where_it_stopped_was_perhaps_paused(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3, 15, 16)
    found = end(written(tmp_path, member))
    # nothing arrived that its host could have acknowledged: the network may have been cut
    assert (found.cause, found.certainty) == (TimeoutCause.PROCESS_PAUSED, Certainty.POSSIBLE)
    assert "network" in found.alternatives[0]
    assert not any("acknowledged what came" in each for each in found.evidence)


def test_what_is_sent_to_an_unreachable_host_is_sent_again_and_never_acknowledged(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.answers(3.2)
    for delay in (0.2, 0.6, 1.4, 3.0):
        member.sends_again(3.2 + delay)
    assert cause(written(tmp_path, member)) is TimeoutCause.UNREACHABLE


def test_a_host_that_comes_back_after_the_timeout_was_unreachable(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.answers(3.2)
    member.sends_again(3.4)
    member.sends_again(3.8)
    member.acknowledges(14)
    member.beats(15, 16)
    assert cause(written(tmp_path, member)) is TimeoutCause.UNREACHABLE


def test_beside_the_client_an_unreachable_broker_looks_the_same(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2)
    member.asks(3)
    for delay in (0.2, 0.6, 1.4, 3.0):
        member.sends_again(3 + delay, from_client=True)
    assert cause(written(tmp_path, member)) is TimeoutCause.UNREACHABLE


@pytest.mark.parametrize("to_client", [True, False])
def test_one_direction_that_is_lost_is_told_from_a_pause(tmp_path: Path, to_client: bool) -> None:
    """One side's data arrives and is acknowledged; the acknowledgments and data of the other side are lost."""
    member = Member()
    member.beats(1, 2)
    if to_client:
        member.asks(3)
        member.answers(3.01)
    else:
        member.answers(2.99)
        member.asks(3)
    for delay in (0.2, 0.6, 1.4, 3.0):
        for from_client in (True, False):
            member.sends_again(3 + delay, from_client=from_client)
            if from_client is to_client:
                member.made.acknowledge(
                    member.sent if to_client else member.came,
                    from_client=not to_client,
                    position=(member.came if to_client else member.sent),
                )
    member.beats(15, 16)
    found = end(written(tmp_path, member))
    assert found.cause is TimeoutCause.UNREACHABLE
    assert ("to it" if to_client else "from it") in found.evidence[0]
    assert "one direction was lost" in found.evidence[0]


def test_what_was_lost_once_and_acknowledged_then_is_no_outage(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.answers(3.3)
    member.sends_again(3.5)
    member.acknowledges(3.541)
    assert cause(written(tmp_path, member)) is TimeoutCause.PROCESS_PAUSED


def test_packets_that_were_captured_twice_are_not_sent_again(tmp_path: Path) -> None:
    """As in captures of all interfaces, or of both ends together."""
    member = Member()
    member.beats(1, 2, 3)
    member.answers(3.3)
    member.sends_again(3.302)
    assert cause(written(tmp_path, member)) is TimeoutCause.UNKNOWN


def test_several_silences_cost_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.answers(3.5)
    member.acknowledges(3.541)
    capture = written(tmp_path, member)
    passes: list[int] = []

    def counted(source: object, ends: object, begin: int, end: int) -> dict[tuple[str, str], Headers]:
        passes.append(begin)
        return headers_between(source, ends, begin, end)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "headers_between", counted)
    silences = Silences(capture)
    asked = [silence(until=UNTIL), silence(until=UNTIL + SECOND)]
    assert causes(silences, asked) == [TimeoutCause.PROCESS_PAUSED] * 2
    assert causes(silences, asked) == [TimeoutCause.PROCESS_PAUSED] * 2
    assert len(passes) == 1


def test_a_death_costs_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member()
    member.beats(1, 2, 3)
    member.closes(3.5)
    capture = written(tmp_path, member)
    monkeypatch.setattr(module, "headers_between", None)
    assert cause(capture) is TimeoutCause.PROCESS_DIED


class TestWithoutASecondPass:
    """Captures of pipes and rings: the final state of connections must suffice."""

    @pytest.fixture(autouse=True)
    def once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def gone(*_: object) -> None:
            raise CaptureError("-", 0, "gone")

        monkeypatch.setattr(module, "headers_between", gone)

    def test_paused(self, tmp_path: Path) -> None:
        member = Member()
        member.beats(1, 2)
        member.asks(3)
        member.answers(3.5)
        member.acknowledges(3.541)
        assert cause(written(tmp_path, member)) is TimeoutCause.PROCESS_PAUSED

    def test_unreachable(self, tmp_path: Path) -> None:
        member = Member()
        member.beats(1, 2, 3)
        member.answers(3.2)
        member.sends_again(3.4)
        assert cause(written(tmp_path, member)) is TimeoutCause.UNREACHABLE

    def test_unknown(self, tmp_path: Path) -> None:
        member = Member()
        member.beats(1, 2, 3)
        assert cause(written(tmp_path, member)) is TimeoutCause.UNKNOWN


def test_what_is_not_known_while_the_capture_grows_may_be_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member()
    member.beats(1, 2, 3)
    capture = written(tmp_path, member)
    monkeypatch.setattr(module, "headers_between", None)
    monkeypatch.setattr(type(capture.source), "live", property(lambda _: True))
    monkeypatch.setattr(type(capture.source), "complete", property(lambda _: False))
    silences = Silences(capture)
    assert causes(silences, [silence()]) == [TimeoutCause.UNKNOWN]
    capture.connections.streams.fin_time[0] = SINCE + SECOND
    assert causes(silences, [silence()]) == [TimeoutCause.PROCESS_DIED]


class TestProxied:
    """A proxy's capture has no network packets: its kernel told the proxy the state of the connection."""

    @staticmethod
    def recorded(folder: Path, *samples: tuple[float, TcpSample]) -> Capture:
        recording = Recording()
        for second in (1, 2, 3):
            recording.made.now = T0 + second * SECOND
            recording.data(0, beat(second))
            if second < 3:
                recording.data(1, answer(second))
        recording.made.now = T0 + round(3.6 * SECOND)
        recording.data(1, answer(3))
        for seconds, sample in samples:
            recording.made.now = T0 + round(seconds * SECOND)
            recording.note(1, sample)
        return read(recording.write(folder / "proxied.pcapng"))

    def test_acknowledged_is_paused(self, tmp_path: Path) -> None:
        samples = [(second, TcpSample(side="client", state="established")) for second in (3.5, 5.0, 7.0)]
        assert cause(self.recorded(tmp_path, *samples)) is TimeoutCause.PROCESS_PAUSED

    def test_sent_again_and_not_acknowledged_is_unreachable(self, tmp_path: Path) -> None:
        samples = [
            (3.5, TcpSample(side="client", state="established")),
            (5.0, TcpSample(side="client", unacked=1, retransmits=2, state="established")),
            (7.0, TcpSample(side="client", unacked=1, retransmits=4, state="established")),
        ]
        assert cause(self.recorded(tmp_path, *samples)) is TimeoutCause.UNREACHABLE

    def test_samples_of_another_time_tell_nothing(self, tmp_path: Path) -> None:
        samples = [(20.0, TcpSample(side="client", state="established"))]
        assert cause(self.recorded(tmp_path, *samples)) is TimeoutCause.UNKNOWN


def test_without_a_capture_nothing_is_known() -> None:
    assert causes(Silences(None), [silence(), silence()]) == [TimeoutCause.UNKNOWN] * 2


def test_a_client_without_an_id_is_found_by_its_address(tmp_path: Path) -> None:
    member = Member()
    member.beats(1, 2, 3, 15)
    nameless = Silence(CLIENT[0], CLIENT[0], (0,), SINCE, UNTIL)
    capture = written(tmp_path, member)
    capture.table.client_ids[:] = [None] * len(capture.table.client_ids)
    assert causes(Silences(capture), [nameless]) == [TimeoutCause.PROCESS_PAUSED]


# ---------------------------------------------------------------- recordings
STOPPED, FENCED = 1_795_253_710_969_000_000, 1_795_253_716_969_000_000
"""truth/26_k430_broker_sigstop.json: broker 12 was stopped with SIGSTOP; its session with the controller is 6 s."""


@pytest.mark.parametrize(
    ("client", "connections", "expected"),
    [
        ("12", (0,), TimeoutCause.PROCESS_PAUSED),
        ("raft-client-12", (3,), TimeoutCause.PROCESS_PAUSED),
        # the others were alive, so nothing needs an explanation
        ("13", (6,), TimeoutCause.UNKNOWN),
        ("raft-client-13", (5,), TimeoutCause.PROCESS_LIVED),
    ],
)
def test_a_stopped_broker(client: str, connections: tuple[int, ...], expected: TimeoutCause) -> None:
    capture = read(DATA / "findings" / "26_k430_broker_sigstop_controller.pcap.zst")
    asked = Silence(client, "127.0.0.1", connections, STOPPED, FENCED)
    assert causes(Silences(capture), [asked]) == [expected]


def test_a_stopped_consumer() -> None:
    """truth/21_k430_java_sigstop.json: m2 was stopped for 12 s; the coordinator removed it after 6."""
    capture = read(DATA / "groups" / "21_k430_java_sigstop.pcap.zst")
    since, until = 1_795_254_707_813_000_000, 1_795_254_713_804_000_000
    asked = Silence("m2", "127.0.0.1", (8,), since, until)
    assert causes(Silences(capture), [asked]) == [TimeoutCause.PROCESS_PAUSED]
