"""Bounded chunk files, joined for the reader."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from captures.live.ring import Ring, ring_source
from captures.packets import Source, read_packets
from captures.packets.errors import SpoolDropped
from captures.packets.spool import Quota
from tests.captures.live.kit import HEADER, Writer, record
from tests.waiting import PATIENCE

LIMIT = 1 << 20


@pytest.fixture
def make_ring() -> Iterator[Callable[..., Ring]]:
    made: list[Ring] = []

    def make(*arguments: Any, **more: Any) -> Ring:
        made.append(Ring(*arguments, **more))
        return made[-1]

    yield make
    for ring in made:
        ring.close()


def source_of(ring: Ring) -> Source:
    return ring_source(ring, ring.finish, Quota(1 << 20))


def whole(source: Source) -> bytes:
    found = bytearray()
    buffer = bytearray(1 << 16)
    while size := source.read_into(len(found), memoryview(buffer)):
        found += buffer[:size]
    return bytes(found)


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_chunks_are_joined_to_one_capture(make_ring: Callable[..., Ring]) -> None:
    ring = make_ring(LIMIT)
    writer = Writer(ring)
    records = [record(number) for number in range(150)]  # three chunks
    for item in records:
        writer.write(item)
    ring.finish()
    with source_of(ring) as source:
        assert whole(source) == HEADER + b"".join(records)
        assert source.complete
        assert [block.number.tolist() for block in read_packets(source)] == [list(range(1, 151))]


def test_each_chunk_is_a_capture_of_its_own(make_ring: Callable[..., Ring], tmp_path: Path) -> None:
    ring = make_ring(LIMIT, folder=tmp_path)
    writer = Writer(ring)
    for number in range(150):
        writer.write(record(number))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["00000001.pcap", "00000002.pcap", "00000003.pcap"]
    assert all(path.read_bytes().startswith(HEADER) for path in tmp_path.iterdir())


@pytest.mark.slow
def test_the_bound_holds_at_any_time(make_ring: Callable[..., Ring], tmp_path: Path) -> None:
    ring = make_ring(LIMIT, folder=tmp_path)
    writer = Writer(ring)
    largest = 0
    for number in range(3000):
        writer.write(record(number))
        largest = max(largest, on_disk(tmp_path))
    assert LIMIT - ring.chunk_size < largest <= LIMIT
    assert ring.unread == 0  # nobody wanted to read


def test_the_reader_sees_what_is_left_as_one_capture(make_ring: Callable[..., Ring], tmp_path: Path) -> None:
    ring = make_ring(LIMIT, folder=tmp_path)
    with source_of(ring) as source:
        writer = Writer(ring)
        for number in range(3000):
            writer.write(record(number))
        ring.finish()
        seen = sum(len(block) for block in read_packets(source))
    assert ring.unread > 1000
    assert seen == 3000 - ring.unread


def test_a_reader_that_falls_behind_loses_whole_packets_only(
    make_ring: Callable[..., Ring], tmp_path: Path
) -> None:
    ring = make_ring(LIMIT, folder=tmp_path)
    writer = Writer(ring)
    writer.write(*[record(number) for number in range(10)])
    with source_of(ring) as source:
        packets = read_packets(source)
        seen = next(packets).number.tolist()
        assert len(seen) == 10
        for number in range(10, 3000):
            writer.write(record(number))
        ring.finish()
        times = [time for block in packets for time in block.time.tolist()]
        assert packets.statistics.damage == []
    assert len(times) == 2990 - ring.unread
    assert ring.unread > 1000
    assert times == sorted(times)


@pytest.mark.slow
def test_what_was_read_and_dropped_since_is_told(make_ring: Callable[..., Ring], tmp_path: Path) -> None:
    ring = make_ring(LIMIT, folder=tmp_path)
    writer = Writer(ring)
    writer.write(record(0))
    with source_of(ring) as source:
        position = source.read_into(0, memoryview(bytearray(1 << 20)))
        for number in range(1, 3000):
            writer.write(record(number))
            position += source.read_into(position, memoryview(bytearray(1 << 20)))
        with pytest.raises(SpoolDropped):
            source.read(0, 100)
        assert not source.held(0)
        assert source.held(position - 1)
        assert source.read(position - len(record(0)), 1 << 20) == record(2999)


def test_a_file_that_was_asked_for_stays(make_ring: Callable[..., Ring], tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    ring = make_ring(LIMIT, first=(path.open("x+b", buffering=0), path))
    writer = Writer(ring)
    records = [record(number) for number in range(3000)]
    for item in records:
        writer.write(item)
    ring.finish()
    with source_of(ring) as source:
        assert whole(source) == HEADER + b"".join(records)
    assert path.read_bytes() == HEADER + b"".join(records)


def test_a_broken_chunk_is_cut_to_whole_records_and_followed_by_another(
    make_ring: Callable[..., Ring], tmp_path: Path
) -> None:
    path = tmp_path / "out.pcap"
    ring = make_ring(LIMIT, first=(path.open("x+b", buffering=0), path))
    writer = Writer(ring)
    writer.write(record(0))
    os.write(ring._chunks[-1].file.fileno(), record(1)[:50])  # as a full disk leaves it
    ring.broke()
    writer.begin()
    writer.write(record(2))
    ring.finish()
    with source_of(ring) as source:
        assert whole(source) == HEADER + record(0) + record(2)
    assert path.read_bytes() == HEADER + record(0)


def test_a_ring_that_broke_stays_within_what_there_was_room_for(
    make_ring: Callable[..., Ring], tmp_path: Path
) -> None:
    ring = make_ring(LIMIT, folder=tmp_path)
    writer = Writer(ring)
    for number in range(500):
        writer.write(record(number))
    ring.broke()
    held = on_disk(tmp_path)
    writer.begin()
    for number in range(1000):
        writer.write(record(number))
        assert on_disk(tmp_path) <= held


def test_nothing_is_left_behind(make_ring: Callable[..., Ring], tmp_path: Path) -> None:
    ring = make_ring(LIMIT, folder=tmp_path)
    Writer(ring).write(record(0))
    source_of(ring).close()
    assert list(tmp_path.iterdir()) == []


def test_the_reader_waits_for_the_writer_and_is_woken(make_ring: Callable[..., Ring]) -> None:
    ring = make_ring(LIMIT)
    source = source_of(ring)
    found: list[bytes] = []
    reading = threading.Thread(target=lambda: found.append(whole(source)))
    reading.start()
    Writer(ring).write(record(0))
    source.stop()  # ends the ring, as the sniffer does
    reading.join(PATIENCE)
    assert found == [HEADER + record(0)]
