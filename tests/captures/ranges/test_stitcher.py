"""Connections cut by ranges: synthetic traffic with all kinds of trouble."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures.exchanges import Flag
from captures.ranges import range_reader
from captures.ranges.edges import unpack
from captures.ranges.jobs import EDGES, Input, marked_of, read_part, stitch_bucket
from captures.ranges.plan import make_plan
from tests.captures.exchanges.talk import Talk
from tests.captures.packets.kit import MS, Record, pcap
from tests.captures.ranges.both import EVERYTHING, one_reading, same
from tests.captures.ranges.made import long_talk, mixed, packets, timed, traffic, troubled

pytestmark = pytest.mark.slow

often = settings(
    max_examples=100 if EVERYTHING else 4, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def check(records: list[Record], rng: Random) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made.pcap"
        path.write_bytes(pcap([*records], nano=True))
        size = rng.choice((2_000, 9_000, 30_000))
        same([path], size, buckets=rng.choice((1, 3)), block=rng.choice((256, 900, 4_000)))


@often
@given(seed=st.integers(0, 2**32))
def test_traffic_without_trouble(seed: int) -> None:
    rng = Random(seed)
    check(traffic(rng, connections=rng.choice((1, 2)), trouble=0), rng)


@often
@given(seed=st.integers(0, 2**32))
def test_loss_repetition_and_cuts(seed: int) -> None:
    rng = Random(seed)
    made = [
        packets(long_talk(rng, number), rng, isn=_isn(rng), most=rng.choice((60, 700))) for number in (0, 1)
    ]
    check(timed(mixed([troubled(each, rng, 0.04) for each in made], rng), rng), rng)


@often
@given(seed=st.integers(0, 2**32))
def test_clocks_that_are_not_in_order(seed: int) -> None:
    rng = Random(seed)
    made = [packets(long_talk(rng, number), rng, isn=_isn(rng), most=400) for number in (0, 1, 2)]
    share = rng.choice((0, 0.04))
    check(timed(mixed([troubled(each, rng, share, ("lost",)) for each in made], rng), rng, odd=True), rng)


def _isn(rng: Random) -> tuple[int, int]:
    return rng.randrange(1 << 32), rng.randrange(1 << 32)


# ------------------------------------------------------------ cases
def ordinary(count: int = 40, body: int = 60) -> Talk:
    talk = Talk(0)
    for correlation_id in range(count):
        talk.exchange(correlation_id, body=bytes([correlation_id % 256]) * body)
    return talk


def spaced(records: list[Record]) -> list[Record]:
    return [Record(each.frame, records[0].time + at * MS, each.wire) for at, each in enumerate(records)]


@pytest.mark.parametrize("differs", [False, True])
@pytest.mark.parametrize("later", [1, 30, 60, 90])
def test_bytes_that_come_again_in_a_later_range(later: int, differs: bool, tmp_path: Path) -> None:
    records = packets(ordinary(), Random(1))
    asked = next(at for at, each in enumerate(records) if at > 20 and len(each.frame) > 100)
    again = bytearray(records[asked].frame)
    if differs:
        again[-3] ^= 1
    records.insert(asked + later, Record(bytes(again)))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*spaced(records)], nano=True))
    expected = one_reading([path])
    marked = [each for each in expected.exchanges if b"conflicting" in each]
    assert len(marked) == differs
    same([path], 1_500, 4_000, expected=expected, block=300)


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("size", [4_000, 6_000, 9_000])
def test_bytes_that_come_again_before_their_frame_is_complete(size: int, asks: bool, tmp_path: Path) -> None:
    """The range with both copies does not have the end of the frame, and that with the end does not see them differ."""
    talk = ordinary(2)
    talk.ask(500, body=bytes(12_000 if asks else 4))
    talk.answer(bytes(4 if asks else 12_000))
    for correlation_id in range(600, 640):
        talk.exchange(correlation_id)
    records = packets(talk, Random(1))
    first = next(at for at, each in enumerate(records) if bytes(1_000) in each.frame)
    again = bytearray(records[first + 1].frame)
    again[-3] ^= 1
    records.insert(first + 2, Record(bytes(again)))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*spaced(records)], nano=True))
    expected = one_reading([path])
    (marked,) = [each for each in expected.exchanges if b"conflicting" in each]
    assert b'"correlation_id":500' in marked
    same([path], size, expected=expected, block=300)


@pytest.mark.parametrize("size", [2_000, 5_000])
@pytest.mark.parametrize("share", [0, 0.03])
def test_a_client_id_that_only_earlier_ranges_have_seen(size: int, share: float, tmp_path: Path) -> None:
    """It proves where frames go on behind a loss, and how large they may be, wherever the edges are."""
    rng = Random(3)
    talk = ordinary(5)
    for correlation_id in range(100, 200):
        talk.exchange(correlation_id, client_id="other", body=bytes(correlation_id % 7 * 20))
    for correlation_id in range(300, 304):
        talk.exchange(correlation_id, client_id="app")
    talk.ask(400, client_id="other")
    talk.ask(401, client_id="app", body=bytes(9_000))
    if not share:
        talk.messages[-1] = True, b"\x20" + talk.messages[-1][1][1:]
    path = tmp_path / "a.pcap"
    records = [each for each in packets(talk, rng, most=200) if rng.random() >= share]
    path.write_bytes(pcap([*spaced(records)], nano=True))
    expected = one_reading([path])
    assert len(expected.exchanges) > 80
    same([path], size, expected=expected, block=300)


@pytest.mark.parametrize("size", [1_000, 2_500, 6_000])
def test_a_late_answer_to_a_request_that_needs_none(size: int, tmp_path: Path) -> None:
    talk = ordinary(10)
    talk.produce(77, 0, 7)
    for correlation_id in range(100, 130):
        talk.exchange(correlation_id)
    talk.messages.append(
        (False, bytes.fromhex("000000080000004d00000000"))
    )  # a response to correlation ID 77
    for correlation_id in range(200, 210):
        talk.exchange(correlation_id)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*spaced(packets(talk, Random(1)))], nano=True))
    expected = one_reading([path])
    assert not any(b"orphan" in each for each in expected.exchanges)
    same([path], size, expected=expected, block=300)


@pytest.mark.parametrize("end", ["fin", "rst", ""])
@pytest.mark.parametrize("size", [1_000, 3_000])
def test_ports_that_are_used_again(end: str, size: int, tmp_path: Path) -> None:
    records: list[Record] = []
    for generation in range(5):
        records += packets(
            ordinary(9), Random(generation), isn=(generation * 10**6, generation * 10**7), end=end
        )
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*spaced(records)], nano=True))
    read = same([path], size, block=400)
    assert [each.generation for each in read.numbered.connections.values()] == list(range(5))


def test_a_frame_over_many_ranges(tmp_path: Path) -> None:
    talk = ordinary(5)
    talk.exchange(500, body=bytes(60_000))
    for correlation_id in range(600, 620):
        talk.exchange(correlation_id)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*spaced(packets(talk, Random(1)))], nano=True))
    same([path], 1_000, 7_000, block=500)


def test_raw_sasl_tokens_and_what_follows(tmp_path: Path) -> None:
    talk = Talk(0)
    talk.exchange(1, key=17, version=0)
    talk.token(b"\0user\0secret", b"")
    for correlation_id in range(2, 60):
        talk.exchange(correlation_id)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*spaced(packets(talk, Random(1)))], nano=True))
    expected = one_reading([path])
    assert any(b"sasl" in each.lower() for each in expected.exchanges)
    same([path], 500, 2_000, expected=expected, block=300)


def test_ranges_are_taken_over_where_they_agree(tmp_path: Path) -> None:
    """Only what lies about the edges is put together elsewhere: the payload does not travel, nor do many packets."""
    talk = ordinary(300)
    records = spaced(packets(talk, Random(1)))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*records], nano=True))
    given = Input(make_plan([str(path)], 20_000))
    with (
        mock.patch.object(range_reader, "_FIRST_BLOCK", 1_000),
        mock.patch.object(range_reader, "BLOCK_SIZE", 4_000),
    ):
        told = {part.number: list(read_part(given, part)) for part in given.plan.ranges}
        edges = [each for number in sorted(told) for each in told[number] if each.kind == EDGES]
        marks = [each.mark for each in marked_of(told)]
        made = stitch_bucket(given, marks, [(each.part, each.data) for each in edges])
    assert len(given.plan.ranges) >= 3
    assert not made.refused
    assert [part for part, _, _ in made.connections[0].parts] == list(range(len(given.plan.ranges)))
    assert len(made.exchanges) < 0.3 * len(talk.exchanges)
    assert sum(len(unpack(each.data).packets) for each in edges) < 0.3 * len(records)
    assert not any(each.row["flags"] & Flag.ORPHAN for each in made.exchanges)
