"""A single range: its records, what it is sure of, and what it leaves to others."""

from __future__ import annotations

from pathlib import Path
from random import Random
from time import process_time
from unittest import mock

import numpy as np
import pytest

from captures.ranges import range_reader
from captures.ranges.edges import Edges
from captures.ranges.plan import Range, make_plan
from captures.ranges.range_reader import RangePackets, RangeReader, in_buckets, packets_between, read_range
from tests.captures.exchanges.talk import Talk
from tests.captures.packets.kit import MS, T0, Record, pcap
from tests.captures.ranges.made import packets, traffic


def ordinary(count: int = 40) -> Talk:
    talk = Talk(0)
    for correlation_id in range(count):
        talk.exchange(correlation_id, body=bytes(60))
    return talk


def written(path: Path, records: list[Record]) -> list[str]:
    times = (Record(each.frame, T0 + at * MS, each.wire) for at, each in enumerate(records))
    path.write_bytes(pcap([*times], nano=True))
    return [str(path)]


def read(paths: list[str], part: Range, block: int = 500) -> RangeReader:
    plan = make_plan(paths, 1 << 40)
    with (
        mock.patch.object(range_reader, "_FIRST_BLOCK", block),
        mock.patch.object(range_reader, "BLOCK_SIZE", 4 * block),
    ):
        return read_range(plan.source(), part)


@pytest.mark.slow
@pytest.mark.parametrize("size", [150, 1_000, 7_777])
def test_every_packet_is_in_one_range(size: int, tmp_path: Path) -> None:
    records = traffic(Random(1), connections=2, trouble=0)[:400]
    paths = written(tmp_path / "a.pcap", records)
    plan = make_plan(paths, size)
    offsets: list[int] = []
    before = 24
    for part in plan.ranges:
        walk = RangePackets(plan.source(), part)
        offsets += [int(each) for block in walk for each in block.offset]
        assert walk.edges[0] == before
        before = walk.edges[1]
    assert before == plan.size
    assert len(offsets) == len(records)
    assert offsets == sorted(offsets)


def test_a_connection_that_began_before_is_sure_of_itself_after_a_moment(tmp_path: Path) -> None:
    records = packets(ordinary(), Random(1))
    paths = written(tmp_path / "a.pcap", records)
    finished, edges = read(paths, Range(0, (0, 1), 3_000, None)).results()
    (crossing,) = edges.crossings
    assert not crossing.begins
    assert crossing.agreed is not None
    assert 0 < len(finished) == crossing.exchanges < 40
    assert 0 < len(edges.packets) < len(records) / 3
    assert edges.packets.number.max() == crossing.agreed.packet
    assert finished.columns["packet"].min() > crossing.agreed.packet


def test_a_connection_that_begins_in_the_range_leaves_nothing(tmp_path: Path) -> None:
    paths = written(tmp_path / "a.pcap", packets(ordinary(), Random(1), end="fin"))
    finished, edges = read(paths, Range(0, (0, 1), 0, None)).results()
    (crossing,) = edges.crossings
    assert crossing.begins
    assert crossing.state.settled
    assert not len(edges.packets)
    assert len(finished) == 40


@pytest.mark.parametrize("what", ["again", "an orphan"])
def test_what_makes_a_connection_unsure_of_itself(what: str, tmp_path: Path) -> None:
    talk = ordinary()
    if what == "an orphan":
        talk.messages.insert(60, (False, bytes.fromhex("00000008000003e700000000")))  # correlation ID 999
    records = packets(talk, Random(1))
    if what == "again":
        early = next(each for each in records[35:] if len(each.frame) > 100)
        records.append(Record(early.frame))
    paths = written(tmp_path / "a.pcap", records)
    finished, edges = read(paths, Range(0, (0, 1), 3_000, None)).results()
    assert not edges.crossings
    assert not len(finished)
    skipped = 3_000 // (len(records[30].frame) + 16)
    assert len(edges.packets) > len(records) - 3 * skipped


@pytest.mark.slow
def test_packets_between_endpoints(tmp_path: Path) -> None:
    paths = written(tmp_path / "a.pcap", traffic(Random(2), connections=3, trouble=0)[:600])
    part = Range(0, (0, 1), 0, None)
    plan = make_plan(paths, 1 << 40)
    _, edges = read(paths, Range(0, (0, 1), 700, None)).results()
    pairs = {pair: number for number, pair in enumerate(edges.pairs)}
    parts = [packets_between(plan.source(), part, {pair}, pairs, in_place=True)[0] for pair in pairs]
    every, _ = packets_between(plan.source(), part, pairs, pairs, in_place=True)
    assert sorted(np.concatenate([each.number for each in parts]).tolist()) == every.number.tolist()
    for number, each in enumerate(parts):
        assert set(each.pair.tolist()) <= {number}


@pytest.mark.slow
def test_buckets_hold_all_there_is_once(tmp_path: Path) -> None:
    paths = written(tmp_path / "a.pcap", traffic(Random(3), connections=4, trouble=0.02)[:900])
    _, edges = read(paths, Range(0, (0, 1), 700, None)).results()
    made = in_buckets(edges, 3)

    def told(each: Edges) -> list[tuple[object, ...]]:
        packets = each.packets
        rows = zip(packets.pair.tolist(), packets.number.tolist(), packets.seq.tolist(), strict=True)
        found: list[tuple[object, ...]] = [(each.pairs[pair], number, seq) for pair, number, seq in rows]
        return found + [(each.pairs[crossing.pair], crossing.local) for crossing in each.crossings]

    assert sorted(map(repr, told(edges))) == sorted(repr(row) for each in made.values() for row in told(each))
    for pair in edges.pairs:
        assert sum(pair in each.pairs for each in made.values()) == 1


@pytest.mark.slow
def test_many_short_connections_cost_little(tmp_path: Path) -> None:
    talk = Talk(0)
    talk.exchange(1)
    one = packets(talk, Random(1), end="fin")
    records = []
    for number in range(1_500):
        port = (20_000 + number).to_bytes(2)
        for each in one:
            frame = bytearray(each.frame)
            at = 34 if frame[26:30] == b"\x0a\0\0\1" else 36
            frame[at : at + 2] = port
            records.append(Record(bytes(frame)))
    paths = written(tmp_path / "a.pcap", records)
    made = read(paths, Range(0, (0, 1), 0, None), block=1 << 20)
    begin = process_time()
    finished, edges = made.results()
    assert process_time() - begin < 1.5
    assert len(finished) == len(edges.crossings) == 1_500
    assert not len(edges.packets)
    assert all(each.state.settled for each in edges.crossings)
