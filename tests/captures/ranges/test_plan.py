"""The division of captures into ranges."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from captures.packets import CaptureError
from captures.ranges.plan import Range, make_plan
from tests.captures.packets.kit import Record, enhanced, interface, pcap, section

pytestmark = pytest.mark.quick

FRAME = bytes(100)


def made(path: Path, packets: int = 10, time: int = 0) -> str:
    path.write_bytes(pcap([Record(FRAME, 10**18 + time + each) for each in range(packets)]))
    return str(path)


@pytest.mark.parametrize("size", [1, 100, 500, 10**6])
def test_ranges_tile_a_pcap(tmp_path: Path, size: int) -> None:
    path = made(tmp_path / "a.pcap")
    plan = make_plan([path], size)
    whole = Path(path).stat().st_size
    assert plan.size == whole
    assert not plan.whole
    assert [each.number for each in plan.ranges] == list(range(len(plan.ranges)))
    edges = [each.begin for each in plan.ranges]
    assert edges == list(range(0, whole, size))
    assert [each.end for each in plan.ranges] == [*edges[1:], None]


def test_what_cannot_be_cut_is_a_range_by_itself(tmp_path: Path) -> None:
    data = Path(made(tmp_path / "a.pcap")).read_bytes()
    (tmp_path / "b.pcap.gz").write_bytes(gzip.compress(data))
    (tmp_path / "c.pcap.zst").write_bytes(zstandard.compress(data))
    (tmp_path / "d.pcapng").write_bytes(section() + interface() + enhanced(FRAME, 10**15 + 5))
    plan = make_plan([str(tmp_path)], 60)
    by_name = {Path(file.path).name: number for number, file in enumerate(plan.files)}
    assert {name: plan.whole.get(number) for name, number in by_name.items()} == {
        "a.pcap": None,
        "b.pcap.gz": "compressed with gzip",
        "c.pcap.zst": "compressed with zstd",
        "d.pcapng": "pcapng",
    }
    for name in ("b.pcap.gz", "c.pcap.zst", "d.pcapng"):
        mine = [each for each in plan.ranges if each.files[0] == by_name[name]]
        assert [(each.begin, each.end) for each in mine] == [(0, None)]
    assert sum(each.files[0] == by_name["a.pcap"] for each in plan.ranges) > 1


def test_small_files_share_a_range(tmp_path: Path) -> None:
    paths = [made(tmp_path / f"{each}.pcap", time=each * 10**9) for each in range(7)]
    size = Path(paths[0]).stat().st_size
    for number in (3, 4):
        path = Path(paths[number])
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert [each.files for each in make_plan(paths, 2 * size).ranges] == [(0, 2), (2, 3), (3, 5), (5, 7)]
    whole = make_plan(paths, 100 * size).ranges
    assert [(each.number, each.files, each.begin, each.end) for each in whole] == [
        (0, (0, 3), 0, None),
        (1, (3, 5), 0, None),
        (2, (5, 7), 0, None),
    ]
    assert [each.files for each in make_plan(paths[:2], size - 1).ranges] == [(0, 1)] * 2 + [(1, 2)] * 2


def test_files_are_in_the_order_of_their_first_packets(tmp_path: Path) -> None:
    late, early = made(tmp_path / "a.pcap", time=10**12), made(tmp_path / "b.pcap")
    assert [file.path for file in make_plan([late, early]).files] == [early, late]


def test_files_that_are_read_together(tmp_path: Path) -> None:
    paths = [made(tmp_path / f"{number}.pcap", time=number * 10**9) for number in range(4)]
    plan = make_plan(paths, 500)
    merged = plan.merged([(1, 3)], "why")
    assert merged.whole == {1: "why", 2: "why"}
    assert [each.number for each in merged.ranges] == list(range(len(merged.ranges)))
    both = [each for each in merged.ranges if each.files == (1, 3)]
    assert both == [Range(both[0].number, (1, 3))]
    others = [each.files[0] for each in plan.ranges if each.files[0] in (0, 3)]
    assert [each.files[0] for each in merged.ranges if each.files != (1, 3)] == others


def test_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"this is no capture at all")
    with pytest.raises(CaptureError, match="not a capture file"):
        make_plan([str(tmp_path / "a.pcap")])


def test_a_file_beside_others_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"this is no capture at all")
    plan = make_plan([str(tmp_path / "a.pcap"), made(tmp_path / "b.pcap")])
    assert [Path(file.path).name for file in plan.files] == ["b.pcap"]
    assert [Path(error.path).name for error in plan.unreadable] == ["a.pcap"]
