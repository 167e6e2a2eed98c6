"""The files found at a user's path, and their order."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from captures.packets import CaptureError, open_files, open_source
from captures.packets.files import FoundFiles, expanded, find_files, first_time
from captures.packets.joined_source import JoinedSource
from captures.packets.spool import Quota
from tests.captures.packets import kit

SECOND = 10**9


def capture(path: Path, *seconds: int) -> Path:
    """A capture with a packet at each of these times."""
    records = [kit.Record(kit.packet(kit.CLIENT, kit.BROKER, 1, 1, kit.ACK), at * SECOND) for at in seconds]
    path.write_bytes(kit.pcap(list(records)))
    return path


def find(*paths: Path | str) -> FoundFiles:
    return find_files([str(path) for path in paths], Quota())


def names(found: FoundFiles) -> list[str]:
    return [Path(file.path).name for file in found.files]


def test_a_folder_is_its_captures_in_the_order_of_their_first_packets(tmp_path: Path) -> None:
    # tcpdump -C 1 -W 3: the ring has come round, and the second file is the oldest
    capture(tmp_path / "kafka.pcap0", 300, 301)
    capture(tmp_path / "kafka.pcap1", 100, 180)
    capture(tmp_path / "kafka.pcap2", 200)
    (tmp_path / "no-packets").write_bytes(kit.pcap([]))
    (tmp_path / "notes.txt").write_text("remember the milk")
    (tmp_path / "empty").touch()
    (tmp_path / ".half-written.pcap").write_bytes(b"")
    (tmp_path / "below").mkdir()
    capture(tmp_path / "below" / "other.pcap", 50)
    found = find(tmp_path)
    assert names(found) == ["kafka.pcap1", "kafka.pcap2", "kafka.pcap0", "no-packets"]
    assert [file.first_time for file in found.files] == [100 * SECOND, 200 * SECOND, 300 * SECOND, None]
    assert found.passed_over == [str(tmp_path / "empty"), str(tmp_path / "notes.txt")]
    assert not found.unreadable


def test_a_pattern_is_the_files_that_fit(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        capture(tmp_path / f"kafka_{number:05}.pcap", number)
    capture(tmp_path / "other.pcap", 9)
    assert names(find(tmp_path / "kafka_*.pcap")) == [f"kafka_{number:05}.pcap" for number in (1, 2, 3)]
    assert names(find(tmp_path / "kafka_0000[12].pcap")) == ["kafka_00001.pcap", "kafka_00002.pcap"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    named = capture(tmp_path / "kafka[1].pcap", 1)
    assert expanded(str(named)) == [str(named)]
    assert names(find(named, tmp_path)) == ["kafka[1].pcap"]


def test_a_file_is_found_once(tmp_path: Path) -> None:
    first = capture(tmp_path / "a.pcap", 1)
    (tmp_path / "linked.pcap").hardlink_to(first)
    (tmp_path / "symbolic.pcap").symlink_to(first)
    capture(tmp_path / "b.pcap", 2)
    assert names(find(first, first, tmp_path, tmp_path / "*.pcap")) == ["a.pcap", "b.pcap"]


def test_what_is_named_and_cannot_be_read_is_reported(tmp_path: Path) -> None:
    good = capture(tmp_path / "good.pcap", 1)
    notes = tmp_path / "notes.txt"
    notes.write_text("remember the milk")
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(kit.pcap([])[:20])
    found = find(good, notes, tmp_path / "absent.pcap", cut, tmp_path / "*.cap")
    assert names(found) == ["good.pcap"]
    assert [(error.path, error.reason.split(":")[0]) for error in found.unreadable] == [
        (str(notes), "not a capture file"),
        (str(tmp_path / "absent.pcap"), "No such file or directory"),
        (str(cut), "the pcap file header is cut"),
        (str(tmp_path / "*.cap"), "no capture matches this pattern"),
    ]


def test_nothing_to_read_raises_and_tells_all_reasons(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    with pytest.raises(CaptureError, match="there is no capture in this folder"):
        open_files([str(tmp_path)])
    with pytest.raises(CaptureError, match=r"absent: No such file.*; .*notes.txt: not a capture"):
        open_files([str(tmp_path / "absent"), str(tmp_path / "notes.txt")])
    (tmp_path / f"{0:020}.log").write_bytes(bytes(100))
    with pytest.raises(CaptureError, match="in this folder, but log segments: kproxy records reads them"):
        open_files([str(tmp_path)])


def test_one_file_is_read_as_it_always_was(tmp_path: Path) -> None:
    assert not isinstance(open_files([str(capture(tmp_path / "a.pcap", 1))]), JoinedSource)
    assert isinstance(open_files([str(tmp_path)]), JoinedSource)


def test_the_first_packet_may_be_far_behind(tmp_path: Path) -> None:
    secrets = kit.block(0x0A, struct.pack("<II", 0x544C534B, 200_000) + bytes(200_000))
    packet = kit.enhanced(kit.packet(kit.CLIENT, kit.BROKER, 1, 1, kit.ACK), 5_000_000)
    path = tmp_path / "secrets.pcapng"
    path.write_bytes(gzip.compress(kit.section() + secrets * 3 + kit.interface() + packet))
    assert first_time(open_source(path)) == 5 * SECOND


def test_damage_before_the_first_packet_is_stepped_over(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", *range(1_700_000_100, 1_700_000_120))
    data = bytearray(path.read_bytes())
    data[24 + 8 : 24 + 12] = b"\xff\xff\xff\xff"  # the length of the first packet
    path.write_bytes(data)
    assert first_time(open_source(path)) == 1_700_000_101 * SECOND
