"""Reassembly, against conversations with known bytes."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from captures.packets import ACK, FIN, GRACE, RST, SYN, GapCause, TcpAssembler
from dissectors.budget import limit
from tests.captures.packets import kit
from tests.captures.packets.kit import (
    BROKER,
    BROKER6,
    CLIENT,
    CLIENT6,
    MS,
    T0,
    CaptureContent,
    Conversation,
    Record,
    packet,
    pcap,
    read_bytes,
)

DATA = random.Random(5).randbytes(4000)


def run(folder: Path, talk: Conversation, block_size: int = 1 << 22) -> CaptureContent:
    return read_bytes(folder, pcap(list(talk.records), nano=True), block_size)


def test_a_whole_connection(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, b"request")
    talk.send(0, b"response", ack=7, from_client=False)
    talk.acknowledge(8, from_client=True, position=7)
    talk.put(True, 7, 8, FIN | ACK)
    talk.put(False, 8, 8, FIN | ACK)
    talk.acknowledge(9, from_client=True, position=8)
    got = run(tmp_path, talk)
    assert (got.stream(0), got.stream(1)) == (b"request", b"response")
    assert got.gaps() == []
    (connection,) = [got.assembler.connections[0]]
    assert [got.reader.addresses.text(end) for end in (connection.a, connection.b)] == [
        "10.0.0.1:40000",
        "10.0.0.2:9092",
    ]
    assert connection.client_known
    assert (connection.handshake, connection.first_time, connection.last_time) == (MS, T0 + MS, T0 + 9 * MS)
    assert connection.closed == "closed by a"
    a, b = connection.directions
    assert (a.syn_seen, a.packets, a.end, a.fin_time) == (True, 6, 7, T0 + 7 * MS)
    assert (b.syn_seen, b.packets, b.end, b.fin_time) == (True, 3, 8, T0 + 8 * MS)
    assert got.segments[0].connections == range(1)
    with pytest.raises(IndexError):
        got.assembler.connections[1]


def test_half_close_lets_the_other_side_go_on(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, b"last words", fin=True)
    for position in range(0, 900, 100):
        talk.send(position, DATA[position : position + 100], ack=11, from_client=False)
    got = run(tmp_path, talk)
    assert (got.stream(0), got.stream(1)) == (b"last words", DATA[:900])
    assert int(got.assembler.connections.streams.fin_position[0]) == 10


def test_ipv6(tmp_path: Path) -> None:
    talk = Conversation(CLIENT6, BROKER6)
    talk.handshake()
    talk.send(0, b"request")
    got = run(tmp_path, talk)
    assert got.stream(0) == b"request"
    assert got.reader.addresses.text(int(got.assembler.connections.b[0])) == "[2001:db8::2]:9092"


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], bytes]:
    """An initial sequence number, and pieces (start, end) in order of capture that together cover all data."""
    isn = draw(st.sampled_from([0, 1000, 2**32 - 1, 2**32 - 300, 2**31 - 200]))
    size = draw(st.integers(1, 900))
    edges = [0, *sorted(draw(st.sets(st.integers(1, size), max_size=12))), size]
    pieces = [(low, high) for low, high in pairwise(edges) if low < high]
    more = draw(st.lists(st.tuples(st.integers(0, size), st.integers(0, size)), max_size=8))
    pieces = draw(
        st.permutations([*pieces, *((min(pair), max(pair)) for pair in more if pair[0] != pair[1])])
    )
    return isn, pieces, DATA[:size]


@pytest.mark.slow
@given(deliveries(), st.booleans())
@settings(deadline=None)
def test_any_order_of_any_segments_gives_the_stream(
    tmp_path_factory: pytest.TempPathFactory, plan: tuple[int, list[tuple[int, int]], bytes], small: bool
) -> None:
    isn, pieces, data = plan
    talk = Conversation(client_isn=isn)
    talk.handshake()
    for low, high in pieces:
        talk.send(low, data[low:high])
        talk.send(talk.now % 50, b"x" * 10, from_client=False)  # the other direction does not disturb
    got = run(tmp_path_factory.getbasetemp(), talk, 400 if small else 1 << 22)
    assert got.stream(0) == data
    streams = got.assembler.connections.streams
    assert int(streams.retransmitted[0]) == sum(high - low for low, high in pieces) - len(data)
    assert (int(streams.conflicting[0]), int(streams.lost[0]), int(streams.outside[0])) == (0, 0, 0)
    assert kit.read_stream(got.index, 0, 0, len(data)) == data
    assert [gap for gap in got.gaps() if gap[0] == 0] == []


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=30),
    st.booleans(),
    st.randoms(),
)
@settings(deadline=None)
def test_gaps_are_where_bytes_were_lost(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[int, bool]], acked: bool, chance: random.Random
) -> None:
    """Segments of given sizes, some not captured, some swapped with their neighbour."""
    talk = Conversation(client_isn=2**32 - 100)
    talk.handshake()
    position, truth, sent = 0, [], []
    for size, lost in plan:
        if lost:
            truth.append([position, size])
        else:
            sent.append((position, size))
        position += size
    for first in range(0, len(sent) - 1, 3):
        if chance.random() < 0.5:
            sent[first], sent[first + 1] = sent[first + 1], sent[first]
    for at, size in sent:
        talk.send(at, DATA[at : at + size])
    if acked:
        talk.acknowledge(position)
    captured_end = max((at + size for at, size in sent), default=0)
    merged: list[list[int]] = []
    for at, size in truth:
        if at >= captured_end and not acked:
            continue  # nothing shows that these bytes existed
        if merged and sum(merged[-1]) == at:
            merged[-1][1] += size
        else:
            merged.append([at, size])
    if (
        acked
        and merged
        and merged[-1][1] == 1
        and sum(merged[-1]) == position
        and merged[-1][0] == captured_end
    ):
        merged.pop()  # one byte behind the last: taken for a FIN that was not captured
    got = run(tmp_path_factory.getbasetemp(), talk, 400)
    assert [[at, missing] for stream, at, missing, _ in got.gaps() if stream == 0] == merged
    causes = {cause for *_, cause in got.gaps()}
    assert causes <= {GapCause.NOT_CAPTURED if acked else GapCause.UNKNOWN}
    captured = b"".join(DATA[at : at + size] for at, size in sorted(sent))
    assert got.stream(0) == captured
    for at, size in merged:
        with pytest.raises(kit.MissingBytesError) as caught:
            kit.read_stream(got.index, 0, max(at - 1, 0), at + size)
        assert caught.value.position == at


@pytest.mark.slow
def test_the_outcome_does_not_depend_on_blocks(tmp_path: Path) -> None:
    """Many connections with loss, reordering and repeats, in blocks of any size."""
    chance = random.Random(3)
    talks = [Conversation(("10.0.0.1", 40000 + n), client_isn=chance.randrange(2**32)) for n in range(20)]
    records: list[Record] = []
    for talk in talks:
        talk.handshake()
        pieces = [(low, low + 100) for low in range(0, 3000, 100) if chance.random() > 0.1]
        if chance.random() < 0.5:
            for index in range(0, len(pieces) - 3, 3):
                part = pieces[index : index + 3]
                chance.shuffle(part)
                pieces[index : index + 3] = part
        for low, high in pieces:
            talk.send(low, DATA[low:high])
            if chance.random() < 0.3:
                talk.now += chance.randrange(2) * GRACE
                talk.acknowledge(high)
        records += talk.records
    records.sort(key=lambda record: record.time)
    data = pcap(list(records), nano=True)
    whole = read_bytes(tmp_path, data)
    reference = outcome(whole)
    assert len(reference[1]) > 20
    for block_size in (256, 1000, 5000, 20_000):
        assert outcome(read_bytes(tmp_path, data, block_size)) == reference


def outcome(got: CaptureContent) -> tuple[object, ...]:
    """All rows and counters, in stream order."""
    names = ("stream", "position", "offset", "length", "time", "delivered", "number", "flags")
    rows = sorted(
        row
        for each in got.segments
        for row in zip(*(getattr(each, name).tolist() for name in names), strict=True)
    )
    connections, text = got.assembler.connections, got.reader.addresses.text
    each = [connections[index] for index in range(len(connections))]
    # the numbers of endpoints do depend on blocks
    return rows, sorted(got.gaps()), [(text(one.a), text(one.b), replace(one, a=0, b=0)) for one in each]


def test_sequence_numbers_wrap_in_the_fast_path(tmp_path: Path) -> None:
    talk = Conversation(client_isn=2**32 - 1500)
    talk.handshake()
    for low in range(0, 4000, 400):
        talk.send(low, DATA[low : low + 400])
    got = run(tmp_path, talk, 400)
    assert got.stream(0) == DATA
    assert got.assembler.connections.streams.next_seq[0] == (2**32 - 1500 + 1 + 4000) % 2**32


def test_delivery_time_is_that_of_the_packet_that_filled_the_hole(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    times = [talk.send(low, DATA[low : low + 10]).time for low in (0, 20, 30, 10, 40)]
    got = run(tmp_path, talk)
    (segments, _) = got.segments
    assert segments.time.tolist() == [times[0], times[3], times[1], times[2], times[4]]
    assert segments.delivered.tolist() == [times[0], times[3], times[3], times[3], times[4]]
    assert got.assembler.connections[0].directions[0].reordered == 2


def test_a_hole_that_was_acknowledged_is_given_up_after_the_grace(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, DATA[:10])
    talk.send(20, DATA[20:30])
    talk.acknowledge(30)
    held, now = len(talk.records), talk.now
    talk.now += GRACE
    talk.send(30, DATA[30:40])
    got = run(tmp_path, talk)
    assert got.gaps() == [(0, 10, 10, GapCause.NOT_CAPTURED)]
    assert len(got.segments[0]) == 3
    assert got.segments[0].gaps.segment.tolist() == [1]
    talk.records, talk.now = talk.records[:held], now
    talk.send(10, DATA[10:20])  # captured late, but within the grace
    got = run(tmp_path, talk)
    assert got.gaps() == []
    assert got.stream(0) == DATA[:30]


def test_holes_are_in_the_order_of_their_places_whatever_their_cause(tmp_path: Path) -> None:
    """Only the end of the capture releases them: lost, cut by the snapshot length, lost. Found by fuzzing."""
    talk = Conversation()
    talk.handshake()
    cut = talk.send(20, DATA[20:30])
    cut.wire, cut.frame = len(cut.frame), cut.frame[:-4]
    talk.send(30, DATA[30:56])
    talk.send(100, DATA[100:120])
    got = run(tmp_path, talk)
    assert got.gaps() == [
        (0, 0, 20, GapCause.UNKNOWN),
        (0, 26, 4, GapCause.SNAPLEN),
        (0, 56, 44, GapCause.UNKNOWN),
    ]
    assert got.segments[-1].gaps.segment.tolist() == [0, 1, 2]
    assert got.stream(0) == DATA[20:26] + DATA[30:56] + DATA[100:120]


def test_streams_that_wait_are_handed_out_in_their_order(tmp_path: Path) -> None:
    """The second connection has a hole first; both wait until the end of the capture."""
    first, second = Conversation(), Conversation(client=("10.0.0.1", 40001))
    first.handshake()
    second.now = first.now
    second.handshake()
    second.send(20, DATA[20:30])
    for _ in range(9):  # to the next block
        second.acknowledge(0)
    first.now = second.now
    first.send(50, DATA[50:60])
    records = sorted([*first.records, *second.records], key=lambda record: record.time)
    for block_size in (256, 1 << 22):
        got = read_bytes(tmp_path, pcap(list[Record | bytes](records), nano=True), block_size)
        handed_out = got.segments[-1]
        assert handed_out.stream.tolist() == [0, 2]
        assert handed_out.gaps.segment.tolist() == [0, 1]
        assert (got.stream(0), got.stream(2)) == (DATA[50:60], DATA[20:30])


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    count = limit("waiting_packets") + 10
    records = [
        Record(packet(CLIENT, BROKER, 1001 + 1 + 2 * n, 5001, ACK, b"ab"), T0 + n) for n in range(count)
    ]
    got = read_bytes(tmp_path, pcap([*talk.records, *records], nano=True))
    assert got.gaps() == [(0, 0, 1, GapCause.UNKNOWN)]
    assert len(got.segments[0]) == count  # long before the end of the capture
    assert got.stream(0) == b"ab" * count


def test_first_bytes_win_and_differences_are_counted(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, b"first copy")
    talk.send(20, b"waits here")
    talk.send(0, b"fIrSt copy")  # again, after delivery
    talk.send(18, b"--Waits")  # overlaps what waits
    talk.send(10, b"the hole")
    got = run(tmp_path, talk)
    assert got.stream(0) == b"first copythe hole--waits here"
    streams = got.assembler.connections.streams
    assert (int(streams.conflicting[0]), int(streams.retransmitted[0])) == (3, 15)


def test_keep_alives_are_no_data(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, b"data")
    talk.send(3, b"\0")  # RFC 9293 section 3.8.4: the sequence number before the next
    talk.send(4, b"more")
    got = run(tmp_path, talk)
    assert got.stream(0) == b"datamore"


def test_mid_stream_start(tmp_path: Path) -> None:
    talk = Conversation()
    talk.send(700, b"middle", from_client=False)
    talk.send(650, b"x" * 50, from_client=False)  # from before the capture began
    talk.send(300, b"request")
    talk.send(706, b" end", from_client=False)
    got = run(tmp_path, talk)
    assert (got.stream(0), got.stream(1)) == (b"middle end", b"request")
    connection = got.assembler.connections[0]
    assert not connection.client_known
    assert got.reader.addresses.text(connection.a) == "10.0.0.2:9092"  # the sender of the first packet
    assert not connection.directions[0].syn_seen
    assert connection.directions[0].retransmitted == 50


def test_repeated_syns_are_one_connection(tmp_path: Path) -> None:
    talk = Conversation()
    for _ in range(3):
        talk.put(True, -1, -5001, SYN)
    for _ in range(2):
        talk.put(False, -1, 0, SYN | ACK)
    talk.send(0, b"data")
    talk.put(False, -1, 0, SYN | ACK)
    got = run(tmp_path, talk)
    assert len(got.assembler.connections) == 1
    assert got.stream(0) == b"data"
    assert got.assembler.connections[0].handshake == 3 * MS


@pytest.mark.parametrize("order", ["SYN-ACK only", "SYN-ACK first"])
def test_a_syn_ack_tells_who_the_client_is(tmp_path: Path, order: str) -> None:
    talk = Conversation()
    talk.put(False, -1, 0, SYN | ACK)
    if order == "SYN-ACK first":
        talk.put(True, -1, -5001, SYN)
    talk.send(0, b"answer", from_client=False)
    talk.send(5, b"quest")
    talk.send(0, b"fine ")
    got = run(tmp_path, talk)
    assert len(got.assembler.connections) == 1
    assert got.assembler.connections[0].client_known
    assert (got.stream(0), got.stream(1)) == (b"fine quest", b"answer")


def test_simultaneous_open(tmp_path: Path) -> None:
    talk = Conversation()
    talk.put(True, -1, -5001, SYN)
    talk.put(False, -1, -1001, SYN)
    talk.put(True, -1, 0, SYN | ACK)
    talk.put(False, -1, 0, SYN | ACK)
    talk.send(0, b"one")
    talk.send(0, b"two", from_client=False)
    got = run(tmp_path, talk)
    assert len(got.assembler.connections) == 1
    assert (got.stream(0), got.stream(1)) == (b"one", b"two")


@pytest.mark.parametrize("block_size", [400, 1 << 22])
def test_ports_used_again(tmp_path: Path, block_size: int) -> None:
    talk = Conversation()
    for generation in range(5):
        talk.client_isn = 1000 * generation * 77_777 % 2**32
        talk.broker_isn = 5000 * generation * 77_777 % 2**32
        talk.handshake()
        talk.send(0, bytes([generation]) * 600)
        talk.send(650, b"behind a hole")
        talk.send(0, b"answer", ack=600, from_client=False)
    got = run(tmp_path, talk, block_size)
    connections = got.assembler.connections
    assert [connections[index].generation for index in range(len(connections))] == [0, 1, 2, 3, 4]
    for generation in range(5):
        assert got.stream(2 * generation) == bytes([generation]) * 600 + b"behind a hole"
        assert got.stream(2 * generation + 1) == b"answer"
    assert [gap[:3] for gap in got.gaps()] == [(2 * generation, 600, 50) for generation in range(5)]


def test_ports_used_again_without_a_syn(tmp_path: Path) -> None:
    talk = Conversation()
    talk.send(0, b"old")
    talk.client_isn += 3_000_000_000
    for number in range(5):
        talk.send(4 * number, b"new%d" % number)
    got = run(tmp_path, talk)
    assert got.gaps() == [(0, 3, 0, GapCause.UNKNOWN)]
    assert got.stream(0) == b"oldnew0new1new2new3new4"


def test_stray_packets_far_outside_the_window_are_dropped(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, b"one")
    talk.send(2_000_000_000, b"stray")
    talk.send(3, b"two")
    talk.send(-1_000_000_000, b"stray again")
    talk.send(6, b"three")
    got = run(tmp_path, talk)
    assert got.stream(0) == b"onetwothree"
    assert got.gaps() == []
    assert int(got.assembler.connections.streams.outside[0]) == 16


def test_reset(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, b"one")
    talk.send(6, b"three")
    talk.put(False, 0, 3, RST | ACK)
    talk.now += GRACE
    talk.put(False, 0, 3, RST | ACK)
    got = run(tmp_path, talk)
    assert got.assembler.connections[0].closed == "reset by b"
    assert got.gaps() == [(0, 3, 3, GapCause.UNKNOWN)]
    assert len(got.segments[0]) == 2  # not held back until the end
    assert got.stream(0) == b"onethree"


def test_refused_connection(tmp_path: Path) -> None:
    talk = Conversation()
    talk.put(True, -1, -5001, SYN)
    talk.put(False, -5001, 0, RST | ACK)
    got = run(tmp_path, talk)
    connection = got.assembler.connections[0]
    assert (connection.closed, connection.handshake, connection.client_known) == ("reset by b", -1, True)


@pytest.mark.parametrize("disorder", [False, True])
def test_snapshot_length_cuts_are_gaps(tmp_path: Path, disorder: bool) -> None:
    talk = Conversation()
    talk.handshake()
    lows = [0, 100, 200, 230]
    for low in [100, 0, 200, 230] if disorder else lows:
        talk.send(low, DATA[low : low + (30 if low == 200 else 100)])
    got = read_bytes(tmp_path, pcap(list(talk.records), snaplen=54 + 40))
    truth = [(0, low + 40, 60, GapCause.SNAPLEN) for low in lows if low != 200]
    assert got.gaps() == truth
    assert got.stream(0) == b"".join(DATA[low : low + (30 if low == 200 else 40)] for low in lows)
    streams = got.assembler.connections.streams
    assert (int(streams.cut[0]), int(streams.lost[0]), int(streams.end[0])) == (180, 0, 330)
    assert got.reader.statistics.cut == 3


def test_a_hole_before_the_fin_and_a_missing_end(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, b"data")
    talk.put(True, 14, 0, FIN | ACK)
    talk.acknowledge(15)
    talk.send(0, b"answer", ack=15, from_client=False)
    talk.acknowledge(30, from_client=True, position=15)  # 24 bytes of the broker were not captured
    got = run(tmp_path, talk)
    assert got.gaps() == [(0, 4, 10, GapCause.NOT_CAPTURED), (1, 6, 24, GapCause.NOT_CAPTURED)]
    assert int(got.assembler.connections.streams.fin_position[0]) == 14


def test_fast_open_data_in_the_syn(tmp_path: Path) -> None:
    talk = Conversation()
    talk.put(True, -1, -5001, SYN, b"early")  # RFC 7413
    talk.put(False, -1, 5, SYN | ACK)
    talk.send(5, b" late")
    got = run(tmp_path, talk)
    assert got.stream(0) == b"early late"


def test_zero_windows_are_counted(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.put(False, 0, 0, ACK, window=0)
    talk.put(False, 0, 0, RST, window=0)
    got = run(tmp_path, talk)
    assert got.assembler.connections.streams.zero_windows.tolist() == [0, 1]


def test_nothing_at_all() -> None:
    tail = TcpAssembler().finish()
    assert (len(tail), len(tail.gaps), kit.payload(tail)[0]) == (0, 0, b"")


def test_payload_of_rows_from_earlier_blocks(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    lows = list(range(0, 4000, 10))
    for low in lows[1:] + lows[:1]:
        talk.send(low, DATA[low : low + 10])
    got = run(tmp_path, talk, 400)
    assert len(got.blocks) > 3
    joined, starts = kit.payload(got.segments[-2])
    assert joined == DATA
    assert np.array_equal(starts, lows)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.integers(0, 2**32 - 1) | st.integers(990, 1020),
            st.integers(0, 2**32 - 1) | st.integers(990, 1020),
            st.integers(0, 255),
            st.integers(0, 12),
        ),
        max_size=40,
    )
)
@settings(deadline=None, max_examples=150)
def test_any_packets_at_all_keep_the_invariants(
    tmp_path_factory: pytest.TempPathFactory, packets: list[tuple[bool, int, int, int, int]]
) -> None:
    """Segments and gaps tile every stream for any packets; `Read.stream` checks it."""
    records = []
    for number, (side, seq, ack, flags, size) in enumerate(packets):
        src, dst = (CLIENT, BROKER) if side else (BROKER, CLIENT)
        frame = packet(src, dst, seq, ack, flags, DATA[:size])
        records.append(Record(frame, T0 + number * 20 * MS))
    data = pcap(list(records), nano=True)
    folder = tmp_path_factory.getbasetemp()
    got = read_bytes(folder, data)
    for stream in range(len(got.assembler.connections.streams)):
        got.stream(stream)
    reference = outcome(got)
    small = read_bytes(folder, data, 400)
    assert outcome(small) == reference
