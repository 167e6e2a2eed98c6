"""Streams out of order match the simple model, for any losses, repetitions, reorderings and acknowledgments."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.packets import ACK, GRACE, RST, GapCause
from captures.packets.reorder import BEHIND, PATIENCE
from tests.captures.packets.kit import MS, T0, CaptureContent, Conversation, Record, limited, pcap, read_bytes
from tests.captures.packets.model import Model
from tests.captures.packets.test_tcp import outcome

DATA = Random(9).randbytes(1 << 14)
PAUSES = (0, 1000, MS, 20 * MS, GRACE - 1, GRACE, 3 * GRACE, PATIENCE)


def random_stream(rng: Random) -> tuple[list[Record], Model]:
    """A stream with a known beginning and every kind of trouble, mixed with packets of another connection."""
    talk = Conversation(client_isn=rng.choice((1000, 2**32 - 300)))
    talk.handshake()
    other = Conversation(client=("10.0.0.9", 50_000))
    model, at, position, acked = Model(), 0, 0, 0
    trouble = rng.choice((0.1, 0.3, 0.6))
    pauses = PAUSES[: rng.choice((2, 4, len(PAUSES)))]
    late: list[tuple[int, int]] = []

    def put(start: int, size: int) -> None:
        talk.send(start, DATA[start : start + size])
        model.data(start, size, len(talk.records), talk.now, talk.now)

    def next_packet() -> None:
        talk.now += rng.choice(pauses)
        model.tick(talk.now + MS)

    for _ in range(rng.randrange(5, 60)):
        next_packet()
        kind = rng.random()
        if kind > trouble or not position:
            size = rng.randrange(1, 20)
            put(position, size)
            position += size
        elif kind < trouble * 0.35:  # lost, or late
            size = rng.randrange(1, 40)
            late.append((position, size))
            position += size
            other.now = talk.now
            talk.records.append(other.send(at, b"x"))
            talk.now, at = other.now, at + 1
        elif kind < trouble * 0.6 and late:
            start, size = late.pop(rng.randrange(len(late)))
            cut = rng.randrange(size + 1)
            part, rest = sorted([(start, cut), (start + cut, size - cut)], key=lambda _: rng.random())
            late += [each for each in (rest,) if each[1]]
            if part[1]:
                put(*part)
        elif kind < trouble * 0.65:  # everything from some position on is repeated
            start = rng.choice([start for start, _ in late] or [rng.randrange(position)])
            while start < position:
                size = rng.randrange(1, 30)
                put(start, size)
                start += size
                next_packet()
            position = start
        elif kind < trouble * 0.75:  # repeated with other boundaries
            start, size = rng.randrange(position), rng.randrange(1, 30)
            put(start, size)
            position = max(position, start + size)
        elif kind < trouble * 0.98:
            acked = rng.choice((acked, rng.randrange(position + 1), position))
            talk.acknowledge(acked)
            model.acknowledge(acked, talk.now)
        else:
            talk.put(False, 0, acked, RST | ACK)
            model.reset(talk.now)
    model.finish()
    return talk.records, model


def check(got: CaptureContent, model: Model) -> None:
    rows: list[tuple[int, int] | None] = [None] * model.position
    for each in got.segments:
        columns = (each.stream, each.position, each.length, each.number, each.delivered)
        for stream, position, length, number, delivered in zip(*(c.tolist() for c in columns), strict=True):
            if stream == 0:
                rows[position : position + length] = [(number, delivered)] * length
    assert rows == model.delivered
    inside = [gap[1:] for gap in got.gaps() if gap[0] == 0 and gap[1] < model.position]
    assert inside == model.gaps
    streams = got.assembler.connections.streams
    assert int(streams.retransmitted[0]) == model.retransmitted


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from([256, 400, 1500, 1 << 22]))
@settings(deadline=None, max_examples=75)
def test_as_the_model_says(tmp_path_factory: pytest.TempPathFactory, seed: int, block_size: int) -> None:
    records, model = random_stream(Random(seed))
    check(read_bytes(tmp_path_factory.getbasetemp(), pcap(list(records), nano=True), block_size), model)


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from([256, 400, 1500]))
@settings(deadline=None, max_examples=60)
def test_what_is_given_up_for_want_of_room_does_not_depend_on_blocks(
    tmp_path_factory: pytest.TempPathFactory, seed: int, block_size: int
) -> None:
    folder, rng = tmp_path_factory.getbasetemp(), Random(seed)
    records, _ = random_stream(rng)
    data = pcap(list(records), nano=True)
    limits = {"waiting_packets": rng.randrange(1, 9), "waiting_bytes": rng.randrange(10, 120)}
    with limited(waiting_packets_in_all=rng.randrange(1, 20), **limits):
        assert outcome(read_bytes(folder, data, block_size)) == outcome(read_bytes(folder, data))


@pytest.mark.parametrize("block_size", [256, 400, 1 << 22])
def test_bytes_too_far_behind_a_fin_that_was_waited_for_are_none_of_the_stream(
    tmp_path: Path, block_size: int
) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(0, DATA[:10])
    talk.send(BEHIND + 6, b"", fin=True)
    talk.put(False, 0, 10, RST | ACK)
    for _ in range(4):
        talk.acknowledge(10)
    talk.now += 2 * GRACE
    talk.send(0, DATA[:5])
    streams = read_bytes(tmp_path, pcap(talk.records, nano=True), block_size).assembler.connections.streams
    assert (int(streams.retransmitted[0]), int(streams.outside[0])) == (0, 5)


def silent_after_a_loss(pause: int, *, acked: bool) -> list[Record]:
    """A connection that is silent after a packet behind a hole, and another one that continues."""
    talk = Conversation()
    talk.handshake()
    talk.send(0, DATA[:10])
    talk.send(20, DATA[20:30])
    if acked:
        talk.acknowledge(30)
    other = Conversation(client=("10.0.0.9", 50_000), now=talk.now)
    other.send(0, b"x")
    other.now += pause
    other.send(1, b"y")
    return talk.records + other.records


@pytest.mark.parametrize(
    ("acked", "patience", "cause"),
    [(True, GRACE, GapCause.NOT_CAPTURED), (False, PATIENCE, GapCause.UNKNOWN)],
)
@pytest.mark.parametrize("block_size", [256, 1 << 22])
def test_a_silent_connection_does_not_wait_for_the_end(
    tmp_path: Path, block_size: int, acked: bool, patience: int, cause: GapCause
) -> None:
    """Packets of other connections advance the clock."""
    got = read_bytes(tmp_path, pcap(list(silent_after_a_loss(patience, acked=acked)), nano=True), block_size)
    assert got.gaps() == [(0, 10, 10, cause)]
    assert not len(got.segments[-1].gaps)  # before the end of the capture
    assert got.assembler.waiting == {}
    early = silent_after_a_loss(patience - 3 * MS, acked=acked)
    got = read_bytes(tmp_path, pcap(list(early), nano=True), block_size)
    assert len(got.segments[-1].gaps)


@pytest.mark.parametrize(("others", "given_up"), [(9, False), (10, True)])
@pytest.mark.parametrize("block_size", [256, 1 << 22])
def test_packets_of_all_connections_end_the_wait(
    tmp_path: Path, block_size: int, others: int, given_up: bool
) -> None:
    """Waiting data is bounded over all streams: it must be among the latest packets of the capture."""
    talk = Conversation()
    talk.handshake()
    talk.send(20, DATA[20:30])
    other = Conversation(client=("10.0.0.9", 50_000), now=talk.now)
    for position in range(others):
        other.send(position, b"x")
    with limited(waiting_packets_in_all=10):
        got = read_bytes(tmp_path, pcap(list(talk.records + other.records), nano=True), block_size)
    assert got.gaps() == [(0, 0, 20, GapCause.UNKNOWN)]
    assert bool(len(got.segments[-1].gaps)) is not given_up  # at the end of the capture, else before


def test_no_more_packets_wait_than_the_limit_over_all_streams(tmp_path: Path) -> None:
    records: list[Record] = []
    for number in range(60):
        talk = Conversation(client=("10.0.0.9", 50_000 + number), now=T0 + number)
        talk.handshake()
        for low in range(20, 200, 20):
            talk.send(low, DATA[low : low + 10])
        records += talk.records
    data = pcap(sorted(records, key=lambda record: record.time), nano=True)
    with limited(waiting_packets_in_all=100):
        got = read_bytes(tmp_path, data, 4096)
    came = np.cumsum([np.count_nonzero(block.length) for block in got.blocks])
    went = np.cumsum([len(segments) for segments in got.segments])
    assert 90 < max(came - went[: len(came)]) <= 100
    assert came[-1] == went[-1] == 60 * 9


def test_each_hole_waits_for_itself_only(tmp_path: Path) -> None:
    """Many holes acknowledged together are given up together, not one after the other."""
    talk = Conversation()
    talk.handshake()
    for low in range(0, 1000, 20):
        talk.send(low, DATA[low : low + 10])
    talk.acknowledge(1000)
    talk.now += GRACE
    talk.acknowledge(1000)
    got = read_bytes(tmp_path, pcap(list(talk.records), nano=True))
    assert len(got.segments[0].gaps) == 49


def overlapping(folder: Path, count: int) -> tuple[CaptureContent, int]:
    """Packets that each begin one byte before the previous one and overlap it; and the number of reads they take."""
    talk = Conversation()
    talk.handshake()
    for at in range(count, 0, -1):
        talk.send(at, DATA[at : at + 200])
    talk.send(0, DATA[:1])
    reads = 0
    pread = os.pread

    def counted(*given: int) -> bytes:
        nonlocal reads
        reads += 1
        return pread(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", counted)
        read = read_bytes(folder, pcap(list(talk.records)))
    return read, reads


def test_packets_that_overlap_cost_one_read_each(tmp_path: Path) -> None:
    """Not one per pair."""
    few, more = overlapping(tmp_path, 250), overlapping(tmp_path, 500)
    assert more[1] < 500 + 50
    assert more[1] - few[1] < 250 + 25
    streams = more[0].assembler.connections.streams
    assert streams.retransmitted[0] == 499 * 199
    assert more[0].stream(0) == DATA[: 500 + 200]
    assert not more[0].assembler.conflicts


def test_overlapping_bytes_that_differ_are_counted_by_packet(tmp_path: Path) -> None:
    talk = Conversation()
    talk.handshake()
    talk.send(10, DATA[10:30])
    for at in (20, 15, 5):
        talk.send(at, bytes(byte ^ 1 for byte in DATA[at : at + 20]))
    talk.send(0, DATA[:5])
    read = read_bytes(tmp_path, pcap(list(talk.records)))
    first = DATA[:5] + bytes(byte ^ 1 for byte in DATA[5:10]) + DATA[10:30]
    assert read.stream(0)[:30] == first
    found = read.assembler.conflicts
    assert sorted((each.start, each.end) for each in found) == [(10, 25), (15, 35), (20, 30)]
    assert read.assembler.connections.streams.conflicting[0] == 10 + 15 + 15
