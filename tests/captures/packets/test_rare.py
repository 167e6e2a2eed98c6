from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from captures.packets import ACK, rare
from captures.packets.rare import FragmentStore, find_ip
from tests.captures.packets.kit import ipv4, ipv6, limited, pcap, read_bytes, tcp

SEGMENT = tcp(40000, 9092, 1000, 7, ACK, b"payload")
V4 = ipv4("10.0.0.1", "10.0.0.2", SEGMENT)
V6 = ipv6("2001:db8::1", "2001:db8::2", SEGMENT)
SNAP = b"\xaa\xaa\x03\0\0\0"

CASES = {
    "PPP": (9, b"\xff\x03\x00\x21" + V4),  # RFC 1662
    "PPP, IPv6": (9, b"\xff\x03\x00\x57" + V6),
    "802.11": (105, b"\x08\x00" + bytes(22) + SNAP + b"\x08\x00" + V4),  # data frame, IEEE 802.11-2020 9.2.4
    "radiotap": (127, b"\0\0\x08\0\0\0\0\0" + b"\x08\x00" + bytes(22) + SNAP + b"\x86\xdd" + V6),
}


@pytest.mark.parametrize("name", CASES)
def test_link_types_that_scapy_knows(tmp_path: Path, name: str) -> None:
    link_type, frame = CASES[name]
    got = read_bytes(tmp_path, pcap([frame, frame], link_type))
    assert got.payloads() == [b"payload"] * 2
    assert got.reader.statistics.not_tcp == {}


def test_link_types_nobody_knows_are_counted(tmp_path: Path) -> None:
    got = read_bytes(tmp_path, pcap([V4, V4], 147))  # LINKTYPE_USER0
    assert got.reader.statistics.not_tcp == {"link type 147 without recognisable IP": 2}
    assert find_ip(b"\xff", 9) == (0, -1)


@pytest.mark.slow
def test_scapy_is_not_imported_for_common_captures(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(pcap([V4, V6], 101))
    program = (
        "import sys; from captures.packets import open_source, read_packets;"
        f"assert sum(map(len, read_packets(open_source({str(path)!r})))) == 2;"
        "sys.exit(any(name.startswith('scapy') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[3])


def test_overlapping_fragments_keep_the_lower_ones() -> None:
    store = FragmentStore()
    assert store.add(b"k", 8, True, b"B" * 16) is None
    assert store.add(b"k", 16, False, b"C" * 16) is None
    assert store.add(b"other", 0, True, b"x") is None
    assert store.add(b"k", 0, True, b"A" * 8) == b"A" * 8 + b"B" * 16 + b"C" * 8
    assert (store.waiting, store.take_given_up()) == (1, 0)
    assert store.add(b"other", 65_535, False, b"too long") is None
    assert store.take_given_up() == 1


def test_fragments_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any number and order of fragments, nothing is joined before the last one has arrived."""
    joined = 0

    def counted(datagram: rare._Datagram) -> bytes:
        nonlocal joined
        joined += 1
        return join(datagram)

    join = rare._join
    monkeypatch.setattr(rare, "_join", counted)
    store, payload = FragmentStore(), random.Random(3).randbytes(8000)
    order = [1000 - 1, *random.Random(4).sample(range(999), 999)]
    found = [store.add(b"k", 8 * at, at < 999, payload[8 * at :][:8]) for at in order]
    assert (found[-1], joined, store.waiting) == (payload, 1, 0)
    assert found[:-1] == [None] * 999


def test_datagrams_that_wait_are_bounded() -> None:
    with limited(datagrams=3, datagram_bytes=100):
        store = FragmentStore()
    for number in range(4):
        store.add(b"%d" % number, 0, True, b"x" * 8)
    assert (store.waiting, store.take_given_up()) == (3, 1)
    store.add(b"3", 8, True, b"x" * 80)
    assert (store.waiting, store.take_given_up()) == (3, 1)
    store.add(b"3", 16, True, b"x" * 90)  # all of it, overlaps included
    assert (store.waiting, store.take_given_up()) == (0, 4)
