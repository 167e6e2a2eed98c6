from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from captures.packets import ACK, CaptureError
from tests.captures.packets.kit import (
    BROKER,
    CLIENT,
    T0,
    block,
    enhanced,
    ethernet,
    interface,
    limited,
    option,
    packet,
    read_bytes,
    section,
)

FRAMES = [packet(CLIENT, BROKER, 1000 + n, 7, ACK, bytes([n]) * (n * 7 % 50)) for n in range(40)]
MICROS = T0 // 1000


def many(order: str = "<") -> bytes:
    return b"".join(enhanced(frame, MICROS + n, order=order) for n, frame in enumerate(FRAMES))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("block_size", [1 << 12, 1 << 20])
def test_enhanced_packets(tmp_path: Path, order: str, block_size: int) -> None:
    got = read_bytes(tmp_path, section(order) + interface(order=order) + many(order), block_size)
    assert got.column("time").tolist() == [T0 + 1000 * n for n in range(40)]
    assert got.column("number").tolist() == list(range(1, 41))
    assert got.payloads() == [bytes([n]) * (n * 7 % 50) for n in range(40)]
    assert got.reader.statistics.damage == []


@pytest.mark.parametrize("block_size", [1 << 12, 1 << 20])
def test_sections_of_either_byte_order(tmp_path: Path, block_size: int) -> None:
    """Each section has its own byte order, and numbers its interfaces from 0."""
    data = b""
    for order in "<>><<>":
        data += section(order) + interface(order=order) + interface(101, order=order)
        data += many(order) + enhanced(FRAMES[0][14:], MICROS, 1, order=order)
    got = read_bytes(tmp_path, data, block_size)
    assert got.column("seq").tolist() == [*range(1000, 1040), 1000] * 6
    assert got.column("interface").tolist() == [2 * n + (k == 40) for n in range(6) for k in range(41)]
    assert [each.link_type for each in got.reader.interfaces] == [1, 101] * 6


# if_tsresol (section 4.2): ticks per second, ticks, nanoseconds they stand for
@pytest.mark.parametrize(
    ("resolution", "offset", "ticks", "nanoseconds"),
    [
        (9, 0, (1 << 64) - 1, 0),  # in 2554: not known
        (6, 0, (1 << 64) - 1, 0),
        (9, (1 << 63) - 1, 5, 0),
        (9, -(1 << 63), 5, 0),
        (3, 0, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (6, 0, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (9, 0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (0, 0, 1_700_000_000, 1_700_000_000_000_000_000),
        (0x80 | 10, 0, 1_700_000_000 << 10 | 512, 1_700_000_000_500_000_000),
        (6, 3600, 1_700_000_000_000_000, 1_700_003_600_000_000_000),
        (6, -3600, 1_700_000_000_000_000, 1_699_996_400_000_000_000),
        (9, 1_700_000_000, 5, 1_700_000_000_000_000_005),
    ],
)
def test_time_resolution_and_offset(
    tmp_path: Path, resolution: int, offset: int, ticks: int, nanoseconds: int
) -> None:
    options = (option(9, bytes([resolution])), option(14, struct.pack("<q", offset)), option(2, b"eth7"))
    data = section() + interface() + interface(1, *options)
    data += enhanced(FRAMES[1], ticks, 1) + enhanced(FRAMES[2], MICROS, 0)
    got = read_bytes(tmp_path, data)
    assert got.column("time").tolist() == [nanoseconds, T0]
    assert got.reader.interfaces[1].name == "eth7"


def test_simple_and_obsolete_packets(tmp_path: Path) -> None:
    frame = FRAMES[9]
    simple = block(3, struct.pack("<I", len(frame)) + frame)
    cut = block(
        3, struct.pack("<I", len(frame)) + frame[:60]
    )  # section 4.4: cut to the interface's snap length
    obsolete = block(
        2,
        struct.pack("<HHIIII", 1, 0xFFFF, MICROS >> 32, MICROS & 0xFFFFFFFF, len(frame), len(frame)) + frame,
    )
    data = section() + interface(snaplen=60) + interface() + simple[:0] + obsolete + cut
    got = read_bytes(tmp_path, data)
    assert got.column("time").tolist() == [T0, 0]
    assert got.column("interface").tolist() == [1, 0]
    assert got.column("length").tolist() == [13, 13]
    assert got.payloads() == [bytes([9]) * 13, bytes([9]) * 6]
    whole = read_bytes(tmp_path, section() + interface() + simple)
    assert whole.payloads() == [bytes([9]) * 13]


def test_other_blocks_are_counted_and_passed_over(tmp_path: Path) -> None:
    key_log = b"CLIENT_RANDOM 00 11\n"
    secrets = block(0x0A, struct.pack("<II", 0x544C534B, len(key_log)) + key_log)
    ssh = block(0x0A, struct.pack("<II", 0x5353484B, 4) + b"none")
    drops = [
        block(5, struct.pack("<III", 0, 0, 0) + option(5, struct.pack("<Q", n)) + option(0, b""))
        for n in (3, 8)
    ]
    short = block(5, b"")
    data = (
        section() + secrets + interface() + enhanced(FRAMES[0], MICROS) + drops[0] + block(4, bytes(8)) + ssh
    )
    data += (
        block(0x0BAD, b"\0\0\0\1abc")
        + block(0x80000001, b"x")
        + enhanced(FRAMES[1], MICROS)
        + short
        + drops[1]
    )
    got = read_bytes(tmp_path, data)
    assert got.column("seq").tolist() == [1000, 1001]
    assert got.reader.secrets == [key_log]
    assert got.reader.statistics.dropped == 8
    assert got.reader.statistics.blocks_skipped == {
        "decryption secrets": 2,
        "interface statistics": 2,
        "name resolution": 1,
        "custom": 1,
        "type 0x80000001": 1,
        "type 0x5, too short": 1,
    }


def test_packet_comments(tmp_path: Path) -> None:
    arp = ethernet(bytes(28), 0x0806)
    data = section() + interface()
    data += enhanced(FRAMES[0], MICROS, 0, option(2, b"\0\0\0\1"), option(1, "held 5 ms – rule".encode()))
    data += enhanced(FRAMES[1], MICROS, 0, option(1, b"one"), option(1, b"two")) + enhanced(FRAMES[2], MICROS)
    data += enhanced(arp, MICROS, 0, option(1, b"not TCP"))
    got = read_bytes(tmp_path, data)
    comments = {number: text for each in got.blocks for number, text in each.comments.items()}
    assert comments == {1: "held 5 ms – rule", 2: "one\ntwo", 4: "not TCP"}


def test_undeclared_interface(tmp_path: Path) -> None:
    got = read_bytes(
        tmp_path, section() + interface() + enhanced(FRAMES[0], MICROS, 3) + enhanced(FRAMES[1], MICROS)
    )
    assert got.column("seq").tolist() == [1001]
    assert got.reader.statistics.not_tcp == {"interface not declared": 1}


def test_captured_length_beyond_the_block_is_bounded(tmp_path: Path) -> None:
    lying = bytearray(enhanced(FRAMES[9], MICROS))
    lying[20:24] = struct.pack("<I", 10_000)
    got = read_bytes(tmp_path, section() + interface() + bytes(lying) + enhanced(FRAMES[1], MICROS))
    assert got.payloads() == [bytes([9]) * 13, bytes([1]) * 7]


def test_cut_and_damaged(tmp_path: Path) -> None:
    head = section() + interface()
    got = read_bytes(tmp_path, head + many()[:-30])
    assert len(got.column("seq")) == 39
    assert got.reader.statistics.damage[0].reason == "the file ends inside packet 40"
    got = read_bytes(tmp_path, head + many() + b"\xff" * 5000 + many(), 1 << 12)
    assert got.column("seq").tolist() == list(range(1000, 1040)) * 2
    assert [damage.skipped for damage in got.reader.statistics.damage] == [5000]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (section()[:20], "section header is cut: 20 of 28 bytes"),
        (section()[:8] + b"\0\0\0\0" + section()[12:], "no byte-order magic"),
    ],
)
def test_no_section_header(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        read_bytes(tmp_path, data)


@pytest.mark.slow
def test_many_changes_of_byte_order_take_linear_time(tmp_path: Path) -> None:
    one = section("<") + interface(order="<") + section(">") + interface(order=">")
    got = read_bytes(tmp_path, one * 2000 + enhanced(FRAMES[0], MICROS, order=">"))
    assert got.column("interface").tolist() == [3999]
    assert np.array_equal(got.column("time"), [T0])


def test_packets_of_many_interfaces_have_each_its_clock(tmp_path: Path) -> None:
    clocks = [(9, 10**9), (6, 10**6), (3, 10**3), (0x80 | 10, 1 << 10), (12, 10**12)]
    declared = b"".join(
        interface(1, option(9, bytes([clocks[n % 5][0]])), option(14, struct.pack("<q", n)))
        for n in range(50)
    )
    packets = b"".join(
        enhanced(FRAMES[n % 40], 7 * clocks[n % 5][1] + clocks[n % 5][1] // 2, n) for n in reversed(range(50))
    )
    got = read_bytes(tmp_path, section() + declared + packets + enhanced(FRAMES[0], MICROS, 50))
    assert got.column("interface").tolist() == list(reversed(range(50)))
    assert got.column("time").tolist() == [(7 + n) * 10**9 + 500_000_000 for n in reversed(range(50))]
    assert got.reader.statistics.not_tcp == {"interface not declared": 1}


@pytest.mark.parametrize(
    ("limit", "before", "reason"),
    [
        (
            "file_interfaces",
            section() + interface() * 3,
            "interface 4 would go over the limit file_interfaces (3",
        ),
        (
            "file_sections",
            section() * 2 + section(">") + interface(order=">"),
            "section 4 would go over the limit",
        ),
    ],
)
def test_reading_ends_at_a_limit(tmp_path: Path, limit: str, before: bytes, reason: str) -> None:
    """Everything before is kept, also in the same block of the file."""
    order = ">" if b"\x1a\x2b\x3c\x4d" in before else "<"
    fourth = interface(order=order) if limit == "file_interfaces" else section()
    data = before + many(order) + fourth + many()
    for size in (1 << 22, 1 << 10):
        with limited(**{limit: 3}):
            got = read_bytes(tmp_path, data, size)
        assert len(got.column("seq")) == 40
        (damage,) = got.reader.statistics.damage
        assert damage.reason.startswith(f"stopped here: {reason}")
        assert damage.offset == len(before + many(order))
    assert read_bytes(tmp_path, data).reader.statistics.packets == 80


def test_secrets_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    secrets = [b"CLIENT_RANDOM %d" % n for n in range(5)]
    blocks = b"".join(block(10, struct.pack("<II", 0x544C534B, len(each)) + each) for each in secrets)
    with limited(file_secrets=3 * len(secrets[0])):
        got = read_bytes(tmp_path, section() + interface() + blocks + many())
    assert got.reader.secrets == secrets[:3]
    assert got.reader.statistics.blocks_skipped == {"decryption secrets": 5}
