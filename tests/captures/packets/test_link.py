"""Every link layer carries the same TCP packet, over IPv4 and IPv6."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from captures.packets import ACK
from tests.captures.packets.kit import ethernet, ipv4, ipv6, pcap, read_bytes, tcp

SEGMENT = tcp(40000, 9092, 1000, 7, ACK, b"payload")
V4 = ipv4("10.0.0.1", "10.0.0.2", SEGMENT)
V6 = ipv6("2001:db8::1", "2001:db8::2", SEGMENT)


def sll(protocol: int, payload: bytes) -> bytes:
    """https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL.html"""
    return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), protocol) + payload


def sll2(protocol: int, payload: bytes) -> bytes:
    """https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html"""
    return struct.pack(">HHIHBB8s", protocol, 0, 2, 1, 0, 6, bytes(8)) + payload


def snap(protocol: int, payload: bytes) -> bytes:
    """IEEE 802.3 length, 802.2 SNAP header (RFC 1042)."""
    return ethernet(b"\xaa\xaa\x03\0\0\0" + struct.pack(">H", protocol) + payload, len(payload) + 8)


CASES = {
    "ethernet": (1, ethernet(V4), ethernet(V6, 0x86DD)),
    "802.1Q": (1, ethernet(V4, tags=(0x8100,)), ethernet(V6, 0x86DD, (0x8100,))),
    "QinQ": (1, ethernet(V4, tags=(0x88A8, 0x8100)), ethernet(V6, 0x86DD, (0x8100, 0x8100))),
    "SNAP": (1, snap(0x0800, V4), snap(0x86DD, V6)),
    "SLL": (113, sll(0x0800, V4), sll(0x86DD, V6)),
    "SLL with VLAN": (113, sll(0x8100, b"\0\5\x08\0" + V4), sll(0x8100, b"\0\5\x86\xdd" + V6)),
    "SLL2": (276, sll2(0x0800, V4), sll2(0x86DD, V6)),
    "NULL little-endian, Linux": (0, struct.pack("<I", 2) + V4, struct.pack("<I", 10) + V6),
    "NULL big-endian, FreeBSD": (0, struct.pack(">I", 2) + V4, struct.pack(">I", 28) + V6),
    "NULL, macOS": (0, struct.pack("<I", 2) + V4, struct.pack("<I", 30) + V6),
    "LOOP, OpenBSD": (108, struct.pack(">I", 2) + V4, struct.pack(">I", 24) + V6),
    "raw": (101, V4, V6),
    "raw, OpenBSD's number": (14, V4, V6),
    "raw, FreeBSD's number": (12, V4, V6),
}


@pytest.mark.parametrize("name", CASES)
def test_link_layers(tmp_path: Path, name: str) -> None:
    link_type, four, six = CASES[name]
    got = read_bytes(tmp_path, pcap([four, six, six, four], link_type))
    assert got.payloads() == [b"payload"] * 4
    texts = [got.reader.addresses.text(endpoint) for endpoint in got.column("src").tolist()]
    assert texts == ["10.0.0.1:40000", "[2001:db8::1]:40000", "[2001:db8::1]:40000", "10.0.0.1:40000"]
    assert got.reader.statistics.not_tcp == {}


@pytest.mark.parametrize(("link_type", "frame"), [(228, V4), (229, V6)])
def test_raw_ip_of_one_version(tmp_path: Path, link_type: int, frame: bytes) -> None:
    got = read_bytes(tmp_path, pcap([frame], link_type))
    assert got.payloads() == [b"payload"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_cut_anywhere(tmp_path: Path, name: str) -> None:
    """Cut by the snapshot length at every byte: counted as cut, or a packet with less payload."""
    link_type, four, six = CASES[name]
    for frame in (four, six):
        headers = len(frame) - len(b"payload") - 4  # window and what follows may be missing
        for size in range(1, len(frame)):
            data = pcap([frame, frame], link_type, snaplen=size)
            got = read_bytes(tmp_path, data)
            if size < headers:
                assert got.reader.statistics.not_tcp == {"headers cut by the snapshot length": 2}
            else:
                assert got.payloads() == [b"payload"[: max(0, size - headers - 4)]] * 2
                assert got.column("length").tolist() == [7, 7]


def test_what_is_not_ip_is_counted(tmp_path: Path) -> None:
    tags = (0x8100,) * 6
    frames = [
        ethernet(bytes(28), 0x0806),
        ethernet(bytes(40), 0x88CC),
        ethernet(bytes(40), 38),
        ethernet(V4, tags=tags),
    ]
    got = read_bytes(tmp_path, pcap([*frames, ethernet(bytes(40), 0x9999)]))
    assert got.reader.statistics.not_tcp == {
        "ARP": 1,
        "LLDP": 1,
        "IEEE 802.2": 1,
        "VLAN tags nested too deep": 1,
        "ethertype 0x9999": 1,
    }
    assert read_bytes(tmp_path, pcap([struct.pack("<I", 7) + V4], 0)).reader.statistics.not_tcp == {
        "not IP": 1
    }
