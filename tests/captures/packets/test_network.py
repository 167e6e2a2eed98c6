from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest

from captures.packets import ACK
from tests.captures.packets.kit import Record, ethernet, ipv4, ipv6, pcap, read_bytes, tcp

SEGMENT = tcp(40000, 9092, 1000, 7, ACK, b"payload")
A, B = "10.0.0.1", "10.0.0.2"
A6, B6 = "2001:db8::1", "2001:db8::2"
V4 = ipv4(A, B, SEGMENT)
V6 = ipv6(A6, B6, SEGMENT)
FRAME = ethernet(V4)


def extension(following: int, size: int = 8) -> bytes:
    """A generic IPv6 extension header, RFC 8200 section 4."""
    return bytes([following, size // 8 - 1]) + bytes(size - 2)


WHOLE = {
    "IPv4 options": ethernet(ipv4(A, B, SEGMENT, options=10)),
    "TCP options": ethernet(ipv4(A, B, tcp(40000, 9092, 1000, 7, ACK, b"payload", options=10))),
    "total length 0": ethernet(ipv4(A, B, SEGMENT, total=0)),
    "Ethernet padding": FRAME + bytes(6),
    "IPv6 payload length 0": ethernet(ipv6(A6, B6, SEGMENT, length=0), 0x86DD),
    "hop-by-hop": ethernet(ipv6(A6, B6, extension(6) + SEGMENT, 0), 0x86DD),
    "three extensions": ethernet(
        ipv6(A6, B6, extension(43, 16) + extension(60) + extension(6, 24) + SEGMENT, 0), 0x86DD
    ),
    # RFC 4302: the length counts words of 4 bytes, less 2
    "authentication": ethernet(ipv6(A6, B6, bytes([6, 4]) + bytes(22) + SEGMENT, 51), 0x86DD),
    "atomic fragment": ethernet(ipv6(A6, B6, bytes([6, 0]) + bytes(6) + SEGMENT, 44), 0x86DD),  # RFC 6946
}


@pytest.mark.parametrize("name", WHOLE)
def test_headers(tmp_path: Path, name: str) -> None:
    got = read_bytes(tmp_path, pcap([FRAME, WHOLE[name], FRAME]))
    assert got.payloads() == [b"payload"] * 3
    assert got.column("length").tolist() == [7] * 3
    assert got.column("seq").tolist() == [1000] * 3
    assert got.column("window").tolist() == [64000] * 3


# RFC 2784/2890 GRE, RFC 7348 VXLAN, RFC 8926 Geneve, RFC 3032 MPLS, RFC 4448 pseudowires, RFC 2516 PPPoE
def udp(port: int, payload: bytes) -> bytes:
    return struct.pack(">HHHH", 5555, port, len(payload) + 8, 0) + payload


def label(number: int, bottom: bool) -> bytes:
    return struct.pack(">I", number << 12 | bottom << 8 | 64)


VXLAN = struct.pack(">II", 0x08000000, 42 << 8)
TUNNELS = {
    "GRE": ethernet(ipv4(A, B, struct.pack(">HH", 0, 0x0800) + V4, 47)),
    "GRE with key and sequence": ethernet(ipv4(A, B, struct.pack(">HHII", 0x3000, 0x86DD, 1, 2) + V6, 47)),
    "GRE, Ethernet": ethernet(ipv6(A6, B6, struct.pack(">HH", 0, 0x6558) + FRAME, 47), 0x86DD),
    "ERSPAN": ethernet(ipv4(A, B, struct.pack(">HHI", 0x1000, 0x88BE, 1) + bytes(8) + FRAME, 47)),
    "IP in IP": ethernet(ipv4(A, B, V4, 4)),
    "IPv6 in IP": ethernet(ipv4(A, B, V6, 41)),
    "VXLAN": ethernet(ipv4(A, B, udp(4789, VXLAN + FRAME), 17)),
    "VXLAN in VXLAN": ethernet(
        ipv4(A, B, udp(4789, VXLAN + ethernet(ipv4(A, B, udp(8472, VXLAN + FRAME), 17))), 17)
    ),
    "Geneve": ethernet(ipv4(A, B, udp(6081, struct.pack(">BBHI", 2, 0, 0x6558, 1) + bytes(8) + FRAME), 17)),
    "MPLS": ethernet(label(5, False) + label(6, True) + V4, 0x8847),
    "MPLS, IPv6": ethernet(label(6, True) + V6, 0x8847),
    "MPLS pseudowire": ethernet(label(6, True) + bytes(4) + FRAME, 0x8848),
    "PPPoE": ethernet(struct.pack(">BBHHH", 0x11, 0, 3, len(V4) + 2, 0x21) + V4, 0x8864),
    "PPPoE, IPv6": ethernet(struct.pack(">BBHHH", 0x11, 0, 3, len(V6) + 2, 0x57) + V6, 0x8864),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_tunnels(tmp_path: Path, name: str) -> None:
    got = read_bytes(tmp_path, pcap([TUNNELS[name], FRAME, TUNNELS[name]]))
    assert got.payloads() == [b"payload"] * 3
    assert got.column("number").tolist() == [1, 2, 3]
    assert got.reader.statistics.not_tcp == {}
    assert got.reader.statistics.tunnels.total() >= 2


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TUNNELS)
def test_tunnels_cut_anywhere(tmp_path: Path, name: str) -> None:
    for size in range(14, len(TUNNELS[name])):
        got = read_bytes(tmp_path, pcap([TUNNELS[name]], snaplen=size))
        assert got.column("seq").tolist() in ([], [1000])
        assert all(b"payload".startswith(payload) for payload in got.payloads())


def test_tunnels_nested_too_deep(tmp_path: Path) -> None:
    frame = V4
    for _ in range(9):
        frame = ipv4(A, B, frame, 4)
    assert read_bytes(tmp_path, pcap([ethernet(frame)])).reader.statistics.not_tcp == {
        "tunnels nested too deep": 1
    }


def fragments(payload: bytes, sizes: list[int], version: int) -> list[bytes]:
    out, offset = [], 0
    for number, size in enumerate(sizes):
        part = payload[offset : offset + size]
        more = number < len(sizes) - 1
        if version == 4:
            out.append(ethernet(ipv4(A, B, part, fragment=more << 13 | offset // 8)))
        else:
            head = struct.pack(">BBHI", 6, 0, offset | more, 99)
            out.append(ethernet(ipv6(A6, B6, head + part, 44), 0x86DD))
        offset += size
    return out


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_fragments_in_any_order(tmp_path: Path, version: int, order: tuple[int, ...]) -> None:
    payload = bytes(range(256))
    segment = tcp(40000, 9092, 1000, 7, ACK, payload)
    parts = fragments(segment, [104, 96, len(segment) - 200], version)
    got = read_bytes(tmp_path, pcap([parts[index] for index in order] + [FRAME]))
    assert got.payloads() == [payload, b"payload"]
    assert got.column("number").tolist() == [3, 4]
    assert got.reader.statistics.not_tcp == {"IP fragment reassembled with others": 2}
    assert got.stream(0).startswith(payload)


def test_fragments_that_do_not_complete(tmp_path: Path) -> None:
    parts = fragments(SEGMENT * 9, [80, 80, 83], 4)
    got = read_bytes(tmp_path, pcap([parts[0], parts[2], parts[0]]))
    assert got.reader.statistics.fragments_waiting == 2
    assert got.reader.statistics.not_tcp == {"IP fragment given up": 1}
    cut = pcap([Record(parts[0][:60], wire=len(parts[0]))])
    assert read_bytes(tmp_path, cut).reader.statistics.not_tcp == {
        "IP fragment cut by the snapshot length": 1
    }
    other = ethernet(ipv4(A, B, bytes(80), 17, fragment=0x2000))
    assert read_bytes(tmp_path, pcap([other])).reader.statistics.not_tcp == {"IP fragment of UDP": 1}


def test_fragments_kept_are_bounded(tmp_path: Path) -> None:
    firsts = [ethernet(ipv4(A, B, bytes(80), fragment=0x2000, identification=n)) for n in range(1500)]
    statistics = read_bytes(tmp_path, pcap(list(firsts))).reader.statistics
    assert (statistics.fragments_waiting, statistics.not_tcp) == (1024, {"IP fragment given up": 476})


def test_malformed_and_other_protocols_are_counted(tmp_path: Path) -> None:
    frames = [
        ethernet(b"\x55" + V4[1:]),  # version 5
        ethernet(b"\x44" + V4[1:]),  # header of 16 bytes
        ethernet(ipv4(A, B, SEGMENT, total=10)),
        ethernet(ipv4(A, B, SEGMENT[:12] + b"\x40" + SEGMENT[13:])),  # TCP header of 16 bytes
        ethernet(ipv4(A, B, SEGMENT, total=30)),  # shorter than its TCP header
        ethernet(ipv4(A, B, udp(53, b"?"), 17)),
        ethernet(ipv4(A, B, bytes(8), 1)),
        ethernet(ipv4(A, B, bytes(8), 200)),
        ethernet(ipv4(A, B, struct.pack(">HH", 1, 0x880B), 47)),
    ]
    statistics = read_bytes(tmp_path, pcap(list(frames))).reader.statistics
    assert statistics.not_tcp == {
        "malformed IP": 3,
        "malformed TCP": 1,
        "headers cut by the snapshot length": 1,
        "UDP": 1,
        "ICMP": 1,
        "IP protocol 200": 1,
        "GRE version 1 or with routing": 1,
    }
