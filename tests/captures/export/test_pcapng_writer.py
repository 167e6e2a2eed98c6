"""The pcapng writer: read back by our reader and scapy's, truncated, and appended to."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader

from captures.export.pcapng_writer import Packet, PcapngWriter, open_for_append
from captures.packets import open_source, read_packets

pytestmark = pytest.mark.quick

T0 = 1_700_000_000_123_456_789


def written(packets: list[Packet], **interface: object) -> bytes:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    writer.interface(**interface)
    writer.write_packets(packets)
    assert writer.packets == len(packets)
    return file.getvalue()


def read_by_scapy(data: bytes) -> list[tuple[bytes, int, int]]:
    reader = RawPcapNgReader(io.BytesIO(data))
    return [
        (frame, (meta.tshigh << 32) | meta.tslow, meta.wirelen) for frame, meta in reader if meta is not None
    ]


@given(
    st.lists(
        st.builds(
            Packet,
            st.just(0),
            st.integers(0, 2**63 - 1),
            st.binary(max_size=70),
            st.just(0),
            st.text(max_size=20),
        ),
        max_size=8,
    )
)
@settings(max_examples=50)
def test_scapy_reads_what_is_written(packets: list[Packet]) -> None:
    found = read_by_scapy(written(packets))
    assert found == [(packet.data, packet.time, len(packet.data)) for packet in packets]


def test_our_reader_reads_comments_names_and_times(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    frame = b"\x02" * 12 + b"\x08\x00" + bytes(60)
    packet = Packet(0, T0, frame, 9000, "held for 3 s — by a rule")
    path.write_bytes(written([packet], name="lo", description="tee", snapshot_length=0))
    reader = read_packets(open_source(path))
    (block,) = list(reader)
    assert block.comments == {1: "held for 3 s — by a rule"}
    (interface,) = reader.interfaces
    assert (interface.name, interface.description, interface.link_type) == ("lo", "tee", 1)
    assert interface.units == 1_000_000_000
    assert interface.snapshot_length == 0


def test_an_interface_that_was_not_declared() -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    before = file.getvalue()
    with pytest.raises(ValueError, match="interface 0 was not declared, there are 0"):
        writer.write_packets([Packet(0, T0, b"x")])
    assert file.getvalue() == before


def test_a_comment_longer_than_an_option_holds_is_cut_between_characters() -> None:
    (block,) = [written([Packet(0, T0, b"", 0, "é" * 40_000)])]
    assert ("é" * 32_767).encode() in block
    assert read_by_scapy(block)


def test_every_block_is_one_write() -> None:
    class Writes(io.RawIOBase):
        def __init__(self) -> None:
            self.parts: list[bytes] = []

        def write(self, data: bytes) -> int:  # type: ignore[override]  # narrower on purpose
            self.parts.append(bytes(data))
            return len(data)

    file = Writes()
    writer = PcapngWriter(file)  # type: ignore[arg-type]  # it only writes
    writer.interface()
    writer.write_packets([Packet(0, T0, b"abcde")])
    for part in file.parts:
        assert int.from_bytes(part[4:8], "little") == len(part) == int.from_bytes(part[-4:], "little")


@pytest.mark.parametrize("cut", [0, 1, 7, 20])
def test_appending_after_a_killed_writer(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.pcapng"
    data = written([Packet(0, T0, b"first"), Packet(0, T0 + 1, b"second")])
    path.write_bytes(data[: len(data) - cut])
    with open_for_append(path) as file:
        writer = PcapngWriter(file)
        writer.interface(name="again")
        writer.write_packets([Packet(0, T0 + 2, b"third")])
    frames = [frame for frame, _, _ in read_by_scapy(path.read_bytes())]
    assert frames == [b"first", b"third"] if cut else frames == [b"first", b"second", b"third"]


def test_appending_to_nothing_makes_a_file(tmp_path: Path) -> None:
    with open_for_append(tmp_path / "new.pcapng") as file:
        PcapngWriter(file)
    assert list(read_packets(open_source(tmp_path / "new.pcapng"))) == []


def test_appending_to_something_else_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"these are my notes, and nothing else")
    with pytest.raises(ValueError, match="not a pcapng file"):
        open_for_append(path)
    assert path.read_bytes() == b"these are my notes, and nothing else"
