"""Reading of growing captures; the tests of file formats read whole files."""

from __future__ import annotations

import gzip
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from captures.packets import CaptureError, PacketReader, open_source
from captures.packets.source import Source
from tests.captures.packets import kit

pytestmark = pytest.mark.quick

FRAME = kit.packet(kit.CLIENT, kit.BROKER, 1000, 0, kit.ACK, b"hello")
PCAP = kit.pcap([FRAME] * 5)
PCAPNG = kit.section() + kit.interface() + b"".join(kit.enhanced(FRAME, kit.T0 // 1000) for _ in range(5))
RECORD = 16 + len(FRAME)
HEADER = 24


class Writer:
    """The writing end of a capture in a pipe."""

    def __init__(self) -> None:
        reader, self._fd = os.pipe()
        self.input = os.fdopen(reader)

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    made = Writer()
    monkeypatch.setattr(sys, "stdin", made.input)
    yield made
    made.close()
    made.input.close()


@pytest.fixture
def live(writer: Writer) -> Iterator[Source]:
    with open_source("-") as source:
        yield source


def numbers(reader: PacketReader) -> list[int]:
    return [number for block in reader for number in block.number.tolist()]


def damage(reader: PacketReader) -> list[str]:
    return [each.reason for each in reader.statistics.damage]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("capture", "name"), [(PCAP, "pcap"), (PCAPNG, "pcapng")])
def test_a_packet_is_handed_out_as_soon_as_it_is_there(
    writer: Writer, live: Source, capture: bytes, name: str
) -> None:
    reader = PacketReader(live)
    assert (reader.interfaces, reader.secrets) == ([], [])
    size = RECORD if name == "pcap" else len(kit.enhanced(FRAME, 0))
    begin = len(capture) - 5 * size
    writer.write(capture[: begin + size])
    assert next(reader).number.tolist() == [1]
    assert len(reader.interfaces) == 1
    writer.write(capture[begin + size : begin + 3 * size + 10])
    assert next(reader).number.tolist() == [2, 3]
    later = threading.Timer(0.05, writer.write, (capture[begin + 3 * size + 10 :],))
    later.start()
    assert next(reader).number.tolist() == [4, 5]
    later.join()
    writer.close()
    assert numbers(reader) == []
    assert damage(reader) == []


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("capture", [PCAP, PCAPNG], ids=["pcap", "pcapng"])
@pytest.mark.parametrize("seed", range(3))
def test_it_does_not_matter_in_what_pieces_a_capture_comes(
    writer: Writer, live: Source, capture: bytes, pack: Callable[[bytes], bytes], seed: int
) -> None:
    def dribble() -> None:
        pieces, left = random.Random(seed), pack(capture)
        while left:
            size = pieces.choice([1, 3, 20, 60])
            writer.write(left[:size])
            left = left[size:]
        writer.close()

    thread = threading.Thread(target=dribble)
    thread.start()
    reader = PacketReader(live)
    assert numbers(reader) == [1, 2, 3, 4, 5]
    assert damage(reader) == []
    thread.join()


def test_a_section_of_the_other_byte_order_is_met_in_a_pipe(writer: Writer, live: Source) -> None:
    reader = PacketReader(live)
    writer.write(PCAPNG + kit.section(">")[:12])
    assert len(next(reader)) == 5
    writer.write(kit.section(">")[12:] + kit.interface(order=">") + kit.enhanced(FRAME, 7, order=">"))
    assert next(reader).number.tolist() == [6]


def test_a_large_record_that_comes_slowly_is_read_once(
    writer: Writer, live: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = kit.packet(kit.CLIENT, kit.BROKER, 1000, 0, kit.ACK, bytes(60_000))
    capture = kit.pcap([FRAME, *[frame] * 20, FRAME])
    read = 0
    read_into = Source.read_into

    def counted(source: Source, offset: int, buffer: memoryview) -> int:
        nonlocal read
        count = read_into(source, offset, buffer)
        read += count
        return count

    monkeypatch.setattr(Source, "read_into", counted)

    def dribble() -> None:
        for at in range(0, len(capture), 5_000):
            writer.write(capture[at : at + 5_000])
        writer.close()

    thread = threading.Thread(target=dribble)
    thread.start()
    assert len(numbers(PacketReader(live))) == 22
    assert read < 3 * len(capture)
    thread.join()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("cut", "stopped", "told"),
    [
        (HEADER + RECORD + 20, False, ["the file ends inside packet 2"]),
        (HEADER + RECORD + 3, False, ["the file ends inside packet 2"]),
        (HEADER + RECORD + 20, True, []),
        (HEADER + RECORD, False, []),
    ],
)
def test_the_end_inside_a_packet_is_damage_unless_we_made_it_end(
    writer: Writer, live: Source, cut: int, stopped: bool, told: list[str]
) -> None:
    reader = PacketReader(live)
    writer.write(PCAP[:cut])
    assert next(reader).number.tolist() == [1]
    if stopped:
        live.stop()
    else:
        writer.close()
    assert numbers(reader) == []
    assert damage(reader) == told


@pytest.mark.slow
def test_a_pipe_that_was_stopped_before_anything_came_is_an_empty_capture(live: Source) -> None:
    live.stop()
    reader = PacketReader(live)
    assert numbers(reader) == []
    assert damage(reader) == []


def test_an_empty_capture_in_a_pipe(writer: Writer, live: Source) -> None:
    reader = PacketReader(live)
    writer.write(PCAP[:HEADER])
    writer.close()
    assert numbers(reader) == []
    assert (len(reader.interfaces), damage(reader)) == (1, [])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a capture file: is empty"),
        (b"GET / HTTP/1.1\r\n\r\n", "not a capture file: begins with 47 45 54"),
        (PCAP[:20], "the pcap file header is cut: 20 of 24 bytes"),
        (PCAPNG[:20], "the pcapng section header is cut: 20 of 28 bytes"),
    ],
)
def test_what_is_no_capture_is_told_when_it_is_read(
    writer: Writer, live: Source, data: bytes, reason: str
) -> None:
    writer.write(data)
    writer.close()
    reader = PacketReader(live)
    with pytest.raises(CaptureError, match=reason):
        next(reader)


def test_endless_garbage_is_an_error(writer: Writer, live: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.packets.reader._MOST_GARBAGE", 1 << 17)
    ended = threading.Event()

    def endless() -> None:
        writer.write(PCAP)
        while not ended.is_set():
            writer.write(b"\xff" * 4096)

    thread = threading.Thread(target=endless)
    thread.start()
    reader = PacketReader(live)
    found = numbers(reader)
    ended.set()
    os.read(writer.input.fileno(), 1 << 16)
    thread.join()
    assert found == [1, 2, 3, 4, 5]
    assert len(damage(reader)) == 1
    assert "a record longer than any frame, and no packet in the" in damage(reader)[0]


def test_damage_in_a_pipe_is_skipped(writer: Writer, live: Source) -> None:
    reader = PacketReader(live)
    writer.write(PCAP + b"\xff" * 3000)
    assert len(next(reader)) == 5
    writer.write(PCAP[HEADER:])
    writer.close()
    assert numbers(reader) == [6, 7, 8, 9, 10]
    assert [each.skipped for each in reader.statistics.damage] == [3000]


def test_a_capture_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.touch()
    with open_source(path, follow=True) as source, path.open("ab", buffering=0) as file:
        reader = PacketReader(source)
        later = threading.Timer(0.05, file.write, (PCAP[: HEADER + RECORD + 7],))
        later.start()
        assert next(reader).number.tolist() == [1]
        later.join()
        file.write(PCAP[HEADER + RECORD + 7 : HEADER + 2 * RECORD])
        assert next(reader).number.tolist() == [2]
        source.stop()
        assert numbers(reader) == []
        assert damage(reader) == []


def test_a_followed_file_that_is_written_anew_is_told(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(PCAP)
    with open_source(path, follow=True) as source:
        reader = PacketReader(source)
        assert len(next(reader)) == 5
        path.write_bytes(PCAP[:HEADER])
        assert numbers(reader) == []
        assert "the file was truncated to 24 bytes while it was followed" in damage(reader)[0]


def test_a_file_that_shrinks_while_it_is_read_ends(tmp_path: Path) -> None:
    path = tmp_path / "shrinking.pcap"
    path.write_bytes(PCAP)
    with open_source(path) as source:
        os.truncate(path, HEADER + RECORD + 20)
        reader = PacketReader(source)
        assert numbers(reader) == [1]
        assert damage(reader) == ["the file ends inside packet 2"]


@pytest.mark.slow
def test_a_compressed_capture_reads_as_a_plain_one(tmp_path: Path) -> None:
    records = [kit.Record(FRAME + bytes(number % 1000), kit.T0 + number) for number in range(2_000)]
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(kit.pcap(records))
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    one, other = kit.read(plain, 1 << 14), kit.read(packed, 1 << 14)
    for name in ("number", "time", "seq", "offset", "captured"):
        assert (one.column(name) == other.column(name)).all()
    assert other.reader.source.complete
    assert other.reader.done == other.reader.source.size
