from __future__ import annotations

from pathlib import Path

import pytest

from captures.packets import ACK, CaptureError
from tests.captures.packets.kit import BROKER, CLIENT, MS, T0, Record, packet, pcap, read_bytes

pytestmark = pytest.mark.quick

FRAMES = [packet(CLIENT, BROKER, 1000 + n, 7, ACK, bytes([n]) * (n * 7 % 50)) for n in range(40)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nano", "modified"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("block_size", [1 << 12, 1 << 20])
def test_variants(tmp_path: Path, order: str, nano: bool, modified: bool, block_size: int) -> None:
    records = [Record(frame, T0 + n * MS + 123_000 + nano) for n, frame in enumerate(FRAMES)]
    got = read_bytes(tmp_path, pcap(list(records), order=order, nano=nano, modified=modified), block_size)
    assert got.column("time").tolist() == [record.time for record in records]
    assert got.column("number").tolist() == list(range(1, 41))
    assert got.column("seq").tolist() == list(range(1000, 1040))
    assert got.payloads() == [bytes([n]) * (n * 7 % 50) for n in range(40)]
    assert got.reader.statistics.damage == []


def test_upper_bits_of_the_link_type_tell_the_check_sequence(tmp_path: Path) -> None:
    # pcap-linktype: bits 28-31 are the length of the FCS, bit 26 says that they are
    assert len(read_bytes(tmp_path, pcap(list(FRAMES), 0x44000001)).column("seq")) == 40


def test_header_only(tmp_path: Path) -> None:
    got = read_bytes(tmp_path, pcap([]))
    assert got.blocks == []
    assert got.reader.statistics.packets == 0
    assert got.reader.statistics.damage == []


def test_cut_in_the_last_packet(tmp_path: Path) -> None:
    data = pcap(list(FRAMES))
    for cut in (1, 40, 60, 80):  # inside the frame, inside the record header, inside the frame before
        got = read_bytes(tmp_path, data[:-cut])
        assert len(got.column("seq")) in (38, 39)
        (damage,) = got.reader.statistics.damage
        assert damage.reason == f"the file ends inside packet {len(got.column('seq')) + 1}"


def test_cut_file_header(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="header is cut: 10 of 24 bytes"):
        read_bytes(tmp_path, pcap([])[:10])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"GET / HTTP", "begins with 47 45 54 20 2f 20 48 54; kproxy reads pcap, pcapng, gzip, zstd"),
    ],
)
def test_no_capture(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        read_bytes(tmp_path, content)


@pytest.mark.parametrize("block_size", [1 << 12, 1 << 20])
def test_goes_on_behind_damage(tmp_path: Path, block_size: int) -> None:
    before, after = pcap(FRAMES[:20]), pcap([Record(frame, T0) for frame in FRAMES[20:]])[24:]
    got = read_bytes(tmp_path, before + b"\xff" * 10_000 + after, block_size)
    assert got.column("seq").tolist() == list(range(1000, 1040))
    (damage,) = got.reader.statistics.damage
    assert (damage.offset, damage.skipped) == (len(before), 10_000)


def test_damage_to_the_end(tmp_path: Path) -> None:
    before = pcap(FRAMES[:20])
    got = read_bytes(tmp_path, before + b"\xff" * 10_000, 1 << 12)
    assert len(got.column("seq")) == 20
    (damage,) = got.reader.statistics.damage
    assert (damage.offset, damage.skipped) == (len(before), 0)


def test_a_record_larger_than_the_block(tmp_path: Path) -> None:
    large = packet(CLIENT, BROKER, 1, 1, ACK, b"x" * 60_000)
    got = read_bytes(tmp_path, pcap([FRAMES[0], large, FRAMES[1]]), 1 << 12)
    assert [len(payload) for payload in got.payloads()] == [0, 60_000, 7]
