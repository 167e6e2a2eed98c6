"""Captures read in ranges, all steps: the same as one reading, for any files and ranges."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import zstandard

from captures.export.pcapng_writer import PcapngWriter
from captures.ranges.jobs import (
    EDGES,
    Input,
    RangeSummary,
    marked_of,
    misread,
    number_all,
    read_part,
    replan,
    stitch_bucket,
)
from captures.ranges.plan import make_plan
from tests.captures.exchanges.proxied import DELAYED, HELD, REWRITTEN, SAMPLE, UPSTREAM, Recording, metadata
from tests.captures.exchanges.talk import Talk
from tests.captures.packets.kit import (
    MS,
    T0,
    Record,
    ethernet,
    ipv4,
    pcap,
    pcapng_of,
    rotated,
)
from tests.captures.ranges.both import EVERYTHING, compare, in_ranges, one_reading, same
from tests.captures.ranges.made import mixed, packets, timed, traffic

FOLDER = Path(__file__).parents[2] / "data" / "captures"
SIZES = (5_000, 20_000, 150_000, 1 << 20)
CHOSEN = {
    "09_any_sll2.pcap": (9_000,),
    "09_ipv6.pcap": (12_000,),
    "09_loss3pct_before_tap.pcap.zst": (60_000,),
    "09_snaplen128.pcap": (5_000,),
    "21_k430_share_group.pcap.zst": (200_000,),
    "24_k430_franz_scramsha256.pcap": (4_000,),
    "24_k430_plaintext_to_tls_first.pcap": (3_000,),
    "26_k430_add_controller_controller.pcap.zst": (150_000,),
    "30_k0822_scala_acks0_partial.pcap": (9_000,),
    "35_k282_sasl_plain.pcap.zst": (6_000,),
    "06_tansu_garbage.pcap": (2_000,),
    "06_noida_acks0_java.pcap": (7_000,),
    "24_k430_tls13_franz.pcap": (7_000,),
    "tls_kcat_12.pcap": (5_000,),
}
RECORDED = (
    sorted((path.name, size) for path in FOLDER.glob("*.pcap*") for size in SIZES)
    if EVERYTHING
    else [(name, size) for name, sizes in CHOSEN.items() for size in sizes]
)


def plain(name: str, folder: Path) -> Path:
    """Return a recorded capture that can be cut; what is compressed is written out."""
    path = FOLDER / name
    if not name.endswith(".zst"):
        return path
    made = folder / name.removesuffix(".zst")
    with path.open("rb") as file, made.open("wb") as out:
        zstandard.ZstdDecompressor().copy_stream(file, out)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), RECORDED)
def test_recorded_captures(name: str, size: int, tmp_path: Path) -> None:
    secrets = (FOLDER / name).with_suffix(".keylog")
    keylog = secrets.read_bytes() if secrets.exists() else b""
    path = plain(name, tmp_path)
    expected = one_reading([path], keylog)
    read = same([path], size, keylog=keylog, expected=expected)
    if path.suffix == ".pcap" and path.stat().st_size > 2 * size:
        assert len(read.given.plan.ranges) > 1
    # connections come to agree early when little is looked at together
    same([path], size, keylog=keylog, expected=expected, block=2_000)


# ------------------------------------------------------------ files
def written(path: Path, records: list[Record], **options: bool) -> Path:
    path.write_bytes(pcap([*records], nano=True, **options))  # type: ignore[arg-type]
    return path


def ordinary(number: int = 0, count: int = 60, body: int = 40) -> Talk:
    talk = Talk(number)
    for correlation_id in range(count):
        talk.exchange(correlation_id, body=bytes(body))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize("size", [2_000, 9_000])
def test_rotated_files(size: int, tmp_path: Path) -> None:
    data = pcap([*traffic(Random(5), connections=2, trouble=0)])
    paths = []
    for number, part in enumerate(rotated(data, 150)):
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(part)
    same(paths, size, block=700)
    same(list(reversed(paths)), size)


@pytest.mark.slow
def test_overlapping_files_are_read_together(tmp_path: Path) -> None:
    records = timed(
        mixed([packets(ordinary(number), Random(number)) for number in range(3)], Random(1)), Random(1)
    )
    halves = [records[0::2], records[1::2]]
    paths = [written(tmp_path / f"{number}.pcap", half) for number, half in enumerate(halves)]
    late = [replace(record, time=record.time + 10**12) for record in packets(ordinary(7), Random(7))]
    paths.append(written(tmp_path / "late.pcap", late))
    read = same(paths, 3_000)
    assert [each.files for each in read.given.plan.ranges if each.files[1] - each.files[0] > 1] == [(0, 2)]
    assert sum(each.files == (2, 3) for each in read.given.plan.ranges) > 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [600, 4_000])
def test_compressed_files(size: int, tmp_path: Path) -> None:
    data = pcap([*traffic(Random(8), trouble=0.02)], nano=True)
    parts = [rotated(data, 200)[each] for each in (0, 1, 2)]
    (tmp_path / "0.pcap.gz").write_bytes(gzip.compress(parts[0]))
    (tmp_path / "1.pcap").write_bytes(parts[1])
    (tmp_path / "2.pcap.zst").write_bytes(zstandard.compress(parts[2]))
    read = same([tmp_path], size, block=900)
    assert sorted(read.given.plan.whole.values()) == ["compressed with gzip", "compressed with zstd"]


@pytest.mark.slow
def test_secrets_in_one_of_several_files(tmp_path: Path) -> None:
    data = (FOLDER / "24_k430_tls13_franz.pcap").read_bytes()
    secrets = (FOLDER / "24_k430_tls13_franz.keylog").read_bytes()
    first, *others = rotated(data, 30)
    (tmp_path / "0.pcapng").write_bytes(pcapng_of(first, secrets))
    for number, other in enumerate(others, 1):
        (tmp_path / f"{number}.pcap").write_bytes(other)
    read = same([tmp_path], 2_000)
    assert read.numbered.exchanges > 10


@pytest.mark.sample(2)
@pytest.mark.parametrize("cut", [4, 5, 6, 8, 12, 21, 34])
def test_a_recording_of_the_proxy_in_two_files(cut: int, tmp_path: Path) -> None:
    recording = Recording()
    recording.note(1, UPSTREAM, SAMPLE)
    for number in range(1, 15, 2):
        one, other = metadata(number), metadata(number + 1)
        recording.data(0, one[0], DELAYED)
        recording.data(0, other[0], "[marked] the second")
        recording.data(1, one[1], HELD, "looked at")
        recording.note(1, SAMPLE)
        recording.data(1, other[1], REWRITTEN)
    every = recording.packets()
    for name, part in (("1", every[:cut]), ("2", every[cut:])):
        with (tmp_path / f"{name}.pcapng").open("wb") as file:
            writer = PcapngWriter(file)
            writer.interface(name="kproxy")
            writer.write_packets(part)
    expected = one_reading([tmp_path])
    assert len(expected.samples) == 8
    assert b"the second" in b"".join(expected.exchanges)
    same([tmp_path], 1_000, expected=expected)
    same([tmp_path], 1_000, expected=expected, block=300)


# ------------------------------------------------------------ what looks like a record, and what does not
@pytest.mark.slow
def test_payload_that_holds_records_of_a_capture(tmp_path: Path) -> None:
    inside = pcap([Record(bytes(range(60)), T0 + each) for each in range(40)], nano=True)[24:]
    talk = Talk(0)
    for correlation_id in range(12):
        talk.exchange(correlation_id, body=inside)
    path = written(tmp_path / "a.pcap", timed(packets(talk, Random(1)), Random(1)))
    expected = one_reading([path])
    fooled = 0
    for size in (1_000, 2_500):
        given = Input(make_plan([str(path)], size))
        marks = [marked_of({part.number: list(read_part(given, part))})[0].mark for part in given.plan.ranges]
        fooled += len(misread(given.plan, marks))
        same([path], size, expected=expected, block=500)
    assert fooled


@pytest.mark.slow
@pytest.mark.parametrize("size", [500, 1_500, 10_000])
def test_damaged_files(size: int, tmp_path: Path) -> None:
    data = pcap([*timed(packets(ordinary(), Random(3)), Random(3))], nano=True)
    one, other = size + 30, 2 * size + 7
    garbage = b"\xff" * 700
    path = tmp_path / "a.pcap"
    for made in (
        data[:one] + garbage + data[one:],
        data[:one] + garbage + data[one:other] + garbage + data[other:],
        data[: len(data) - 11],
        data[:one] + garbage,
        data + garbage,
        data[:24],
    ):
        path.unlink(missing_ok=True)
        path.write_bytes(made)
        same([path], size, block=400)


@pytest.mark.slow
def test_fragments_that_cross_an_edge_are_read_together(tmp_path: Path) -> None:
    records = packets(ordinary(body=900), Random(2))
    out: list[Record] = []
    for number, record in enumerate(records):
        segment = record.frame[34:]
        if number % 9 == 5 and len(segment) > 400:
            for begin, more in ((0, 0x2000), (200, 0)):
                part = segment[begin:200] if more else segment[begin:]
                where = more | begin // 8
                src, dst = (".".join(map(str, record.frame[at : at + 4])) for at in (26, 30))
                whole = ipv4(src, dst, part, fragment=where, identification=number)
                out.append(Record(ethernet(whole), record.time))
        else:
            out.append(record)
    path = written(tmp_path / "a.pcap", out)
    found: set[str] = set()
    for size in range(3_000, 9_000, 1_100):
        read = same([path], size)
        found.update(read.given.plan.whole.values())
    assert any("fragments" in why for why in found)


def test_nothing_but_other_packets(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", [Record(bytes(80), T0 + each * MS) for each in range(50)])
    read = same([path], 300)
    assert not read.numbered.exchanges
    assert not read.numbered.connections


# ------------------------------------------------------------ steps
@pytest.mark.slow
def test_order_and_number_of_buckets_change_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", traffic(Random(11), connections=4, trouble=0.02))
    expected = one_reading([path])
    for buckets in (1, 5):
        compare(expected, in_ranges([path], 9_000, buckets=buckets, block=900)[0], f"{buckets} buckets")


@pytest.mark.slow
def test_steps_may_be_taken_in_any_order(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap", traffic(Random(12), connections=3, trouble=0))
    given = Input(make_plan([str(path)], 6_000), buckets=4)
    told = {part.number: list(read_part(given, part)) for part in reversed(given.plan.ranges)}
    marked: list[RangeSummary] = marked_of(told)
    marks = [each.mark for each in marked]
    assert not misread(given.plan, marks)
    assert replan(given.plan, marks) is None
    edges = [each for number in sorted(told, reverse=True) for each in told[number] if each.kind == EDGES]
    together = [
        stitch_bucket(given, marks, [(each.part, each.data) for each in edges if each.bucket == bucket])
        for bucket in reversed(range(4))
    ]
    numbered = number_all(given, marked, together)
    _, read = in_ranges([path], 6_000)
    assert [each.count for each in numbered.contexts] == [each.count for each in read.numbered.contexts]
    assert [each.first_number for each in numbered.connections.values()] == [
        each.first_number for each in read.numbered.connections.values()
    ]


@pytest.mark.slow
def test_a_clock_that_was_set_back_at_an_edge(tmp_path: Path) -> None:
    """Missing data is given up by the clock of the whole capture, which a range must be given."""
    records = timed(packets(ordinary(count=200, body=300), Random(4)), Random(4))
    half = len(records) // 2
    back = [replace(record, time=record.time - 3_600 * 10**9) for record in records[half:]]
    del back[20:22], back[60:61]
    path = written(tmp_path / "a.pcap", [*records[:half], *back])
    edge = 24 + sum(16 + len(record.frame) for record in records[:half])
    read = same([path], edge, block=1_000)
    assert [part.clock is not None for part in read.given.plan.ranges][1]


@pytest.mark.slow
def test_a_loss_that_only_a_closing_packet_shows(tmp_path: Path) -> None:
    """The bytes before a FIN are missing: in ranges that shows at the end, in one reading by what others send."""
    lost = packets(ordinary(count=20), Random(6), end="fin")
    del lost[max(at for at, record in enumerate(lost) if len(record.frame) > 54)]  # with payload
    other = [replace(record) for record in packets(ordinary(1, count=80), Random(7))]
    records = timed([*other[:20], *lost, *other[20:]], Random(1))
    path = written(tmp_path / "a.pcap", records)
    expected = one_reading([path])
    assert expected.skipped
    same([path], 2_000, 5_000, expected=expected, block=400)
