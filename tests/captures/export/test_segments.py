"""Packets of synthetic connections: read by scapy, which recomputes their checksums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from captures.export.checksum import words_sum
from captures.export.segments import MAX_SEGMENT, Conversation

ENDS = [
    ("10.0.0.1:40000", "10.0.0.2:9092", "10.0.0.1", "10.0.0.2"),
    ("[2001:db8::1]:40000", "[::1]:9092", "2001:db8::1", "::1"),
    ("127.0.0.1:40000", "[fe80::1%eth0]:9092", "::ffff:127.0.0.1", "fe80::1"),
    ("[::ffff:10.0.0.1]:40000", "10.0.0.2:9092", "10.0.0.1", "10.0.0.2"),
]


def checked(data: bytes) -> tuple[str, str, TCP]:
    """Addresses and TCP segment of a packet, after a check of its lengths and checksums."""
    packet = Ether(data)
    again = packet.copy()
    ip, other = packet.payload, again.payload
    assert isinstance(ip, IP | IPv6)
    del again[TCP].chksum
    if isinstance(ip, IP):
        del other.chksum, other.len
    else:
        del other.plen
    assert bytes(again) == data
    return ip.src, ip.dst, packet[TCP]


@pytest.mark.parametrize(("client", "broker", "source", "target"), ENDS)
def test_a_whole_connection(client: str, broker: str, source: str, target: str) -> None:
    talk = Conversation(client, broker, 7)
    made = [*talk.handshake(), talk.segment(0, 0, b"question", push=True), talk.segment(1, 0, b"odd")]
    made += [talk.acknowledgment(0, 8), *talk.finish(0), talk.reset(1)]
    found = [checked(data) for data in made]
    assert [(src, dst) for src, dst, _ in found[:2]] == [(source, target), (target, source)]
    flags = [str(tcp.flags) for _, _, tcp in found]
    assert flags == ["S", "SA", "A", "PA", "A", "A", "FA", "A", "RA"]
    begin = found[0][2].seq, found[1][2].seq
    positions = [
        ((tcp.seq - begin[side]) % 2**32, (tcp.ack - begin[1 - side]) % 2**32)
        for side, (_, _, tcp) in zip((0, 1, 0, 0, 1, 0, 0, 1, 1), found, strict=True)
    ]
    assert positions[1:] == [(0, 1), (1, 1), (1, 1), (1, 9), (9, 4), (9, 4), (4, 10), (4, 10)]
    assert dict(found[0][2].options)["MSS"] == MAX_SEGMENT
    assert found[3][2].window == 65_535


@given(
    st.integers(0, 2**33),
    st.binary(max_size=2000),
    st.integers(0, 1),
    st.sampled_from(ENDS),
    st.integers(0, 2**34),
)
def test_checksums(position: int, payload: bytes, side: int, ends: tuple[str, ...], seed: int) -> None:
    talk = Conversation(ends[0], ends[1], seed)
    data = talk.segment(side, position, payload)
    assert bytes(checked(data)[2].payload) == payload
    head = Conversation(ends[0], ends[1], seed).segment_header(
        side, position, len(payload), words_sum(payload)
    )
    assert head + payload == data


def test_what_is_missing_counts() -> None:
    talk = Conversation("10.0.0.1:40000", "10.0.0.2:9092")
    data = talk.segment(0, 0, b"half", missing=4)
    assert checked(data + bytes(4))[2].payload
    assert checked(talk.segment(1, 0, b"x"))[2].ack == checked(data + bytes(4))[2].seq + 8
