"""The tee in the data plane: data dropped when the queue is full, and data kept."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from captures.export.pcapng_writer import PcapngWriter
from kproxy.cli import main
from kproxy.proxy.blocks import BlockMaker
from kproxy.proxy.shared_queue import Receiver
from kproxy.proxy.tee import DATA, END, NOTE, OPEN, RECORD, RESET, Tee
from tests.captures.packets import kit
from tests.kproxy.fake_broker import METADATA
from tests.kproxy.frames import request_frame, response_frame
from tests.kproxy.proxy.recordings import BROKER, CLIENT, MS, T0, read, streams


class Record(NamedTuple):
    number: int
    kind: int
    side: int
    time: int
    position: int
    data: bytes
    comment: str


class Taker:
    """Takes records of a tee, in this process."""

    def __init__(self, tee: Tee) -> None:
        self.receiver = Receiver(tee.queue.fds[0], os.dup(tee.queue.fds[1]))

    def some(self) -> list[Record]:
        found = []
        place, end = self.receiver.available()
        while place < end:
            length, number, time, position, size, noted, kind, side = RECORD.unpack_from(
                self.receiver.memory, place
            )
            if not length:
                place = end
                break
            at = place + RECORD.size
            data = self.receiver.memory[at : at + size]
            comment = self.receiver.memory[at + size : at + size + noted].decode()
            found.append(Record(number, kind, side, time, position, data, comment))
            place += length
        self.receiver.take(place)
        return found

    def all(self) -> list[Record]:
        found = []
        while self.receiver.waiting:
            found += self.some()
        return found


@pytest.fixture
def tee() -> Iterator[Tee]:
    made = Tee(1 << 14)
    yield made
    made.close()


@pytest.fixture
def taker(tee: Tee) -> Iterator[Taker]:
    made = Taker(tee)
    yield made
    made.receiver.close()


def test_records(tee: Tee, taker: Taker) -> None:
    one = tee.connection(CLIENT, ("2001:db8::1", 9092), T0)
    two = tee.connection(CLIENT, BROKER, T0 + 1)
    one.data(0, b"question", T0 + 2)
    two.data(1, bytearray(b"odd"), T0 + 3, "held for 3 s — rule 1")
    one.data(1, memoryview(b"answer"), T0 + 4)
    one.data(0, b"", T0 + 5)
    one.note(0, "a sample", T0 + 6)
    one.end(0, T0 + 7)
    one.end(0, T0 + 8)
    two.reset(1, T0 + 9)
    two.end(0, T0 + 10)
    assert taker.all() == [
        (1, OPEN, 0, T0, 0, b"10.1.0.7:50001\n[2001:db8::1]:9092", ""),
        (2, OPEN, 0, T0 + 1, 0, b"10.1.0.7:50001\n10.9.0.1:9092", ""),
        (1, DATA, 0, T0 + 2, 0, b"question", ""),
        (2, DATA, 1, T0 + 3, 0, b"odd", "held for 3 s — rule 1"),
        (1, DATA, 1, T0 + 4, 0, b"answer", ""),
        (1, NOTE, 0, T0 + 6, 8, b"", "a sample"),
        (1, END, 0, T0 + 7, 8, b"", ""),
        (2, RESET, 1, T0 + 9, 3, b"", ""),
    ]
    assert list(tee.live) == [1]


def test_large_pieces_are_cut_and_long_comments_too(tee: Tee, taker: Taker) -> None:
    connection = tee.connection(CLIENT, BROKER, T0)
    data = os.urandom(5000)
    connection.data(0, data, T0, "\udcff é" * 3000)
    records = taker.all()[1:]
    assert b"".join(record.data for record in records) == data
    assert [record.position for record in records] == [0, 2048, 4096]
    assert records[0].comment.startswith("\\udcff é")
    assert len(records[0].comment.encode()) in range(2040, 2049)
    assert not any(record.comment for record in records[1:])


def test_whole_connections_are_suspended_and_go_on_behind_a_hole(tee: Tee, taker: Taker) -> None:
    greedy, modest = (tee.connection(("10.1.0.7", port), BROKER, T0) for port in (1, 2))
    for _ in range(10):
        greedy.data(0, bytes(2000), T0)
    assert tee.dropped_bytes
    assert tee.dropped_connections == 1
    modest.data(0, b"fits", T0)  # a small message still fits
    greedy.data(1, b"fits too", T0)  # but not for a connection that already lost data
    dropped = tee.dropped_bytes
    assert dropped % 2000 == len(b"fits too")
    records = taker.all()
    got = sum(len(record.data) for record in records if record.number == 1 and record.kind == DATA)
    assert got + dropped == 20_000 + len(b"fits too")
    assert [record.data for record in records if record.number == 2 and record.kind == DATA] == [b"fits"]
    greedy.data(1, b"again", T0 + MS)
    assert [record[1:] for record in taker.all()] == [
        (NOTE, 0, T0 + MS, 20_000, b"", f"kproxy: tee dropped {dropped - 8} bytes that the client sent"),
        (NOTE, 1, T0 + MS, 8, b"", "kproxy: tee dropped 8 bytes that the broker sent"),
        (NOTE, 0, T0 + MS, 20_000, b"", ""),
        (DATA, 1, T0 + MS, 8, b"again", ""),
    ]
    assert tee.dropped_bytes == dropped


def test_it_goes_on_only_below_half(tee: Tee, taker: Taker) -> None:
    connection, filler = (tee.connection(("10.1.0.7", port), BROKER, T0) for port in (1, 2))
    while not tee.dropped_bytes:
        connection.data(0, bytes(1000), T0)
    taker.all()
    while tee.waiting < tee.half:
        filler.data(0, bytes(1000), T0)
    connection.data(0, b"x", T0)
    assert {record.number for record in taker.all()} == {2}
    connection.data(0, b"x", T0)
    assert [record.kind for record in taker.all()] == [NOTE, NOTE, DATA]


@pytest.mark.parametrize("broken", [True, False])
def test_ends_of_suspended_connections_are_recorded(broken: bool, tee: Tee, taker: Taker) -> None:
    connection = tee.connection(CLIENT, BROKER, T0)
    while not tee.dropped_bytes:
        connection.data(1, bytes(1000), T0)
    if broken:
        connection.reset(0, T0 + MS)
    else:
        connection.end(1, T0 + MS)
        connection.end(0, T0 + MS)
    kinds = [record.kind for record in taker.all() if record.kind != DATA]
    assert kinds == [OPEN, NOTE, NOTE, NOTE, *([RESET] if broken else [END, END])]
    assert not tee.live
    connection.data(0, b"after the end", T0)
    assert not taker.all()


def test_ends_find_room_when_there_is_none(tee: Tee, taker: Taker) -> None:
    """Hundreds of connections begin and end while nobody reads the queue; memory stays bounded."""
    filler = tee.connection(CLIENT, BROKER, T0)
    for _ in range(20):
        filler.data(0, bytes(1000), T0)
    for number in range(3000):
        connection = tee.connection(("10.1.0.7", number + 1), BROKER, T0)
        connection.data(0, bytes(1000), T0)
        connection.end(0, T0)
        connection.end(1, T0)
    assert len(tee.kept) <= 4096
    assert list(tee.live) == [1]
    assert tee.dropped_connections == 3001
    by_number = defaultdict(list)
    while tee.waiting:
        for record in taker.all():
            by_number[record.number].append(record.kind)
        tee.congested  # noqa: B018  # hands on what is kept
    assert by_number[2] == [OPEN, NOTE, NOTE, END, END]
    assert all(kinds[0] == OPEN for kinds in by_number.values())
    after = tee.connection(CLIENT, BROKER, T0)
    after.data(0, b"fine", T0)
    assert [record.kind for record in taker.all()] == [OPEN, DATA]


def test_lossless_keeps_all_in_order() -> None:
    tee = Tee(1 << 14, lossless=True)
    taker = Taker(tee)
    connection = tee.connection(CLIENT, BROKER, T0)
    sent = [os.urandom(700) for _ in range(60)]
    assert not tee.congested
    for number, data in enumerate(sent):
        connection.data(0, data, T0 + number, "commented" if number == 30 else "")
        connection.note(1, f"note {number}", T0 + number)
    connection.end(0, T0 + 100)
    assert tee.congested
    assert tee.waiting > tee.queue.size
    found = []
    while tee.congested or tee.waiting:
        found += taker.some()
    assert not tee.congested
    assert [record.data for record in found if record.kind == DATA] == sent
    assert [record.comment for record in found if record.kind == NOTE] == [f"note {n}" for n in range(60)]
    assert found[-1].kind == END
    assert [record.position for record in found if record.kind == DATA] == list(range(0, 42_000, 700))
    assert tee.dropped_bytes == tee.dropped_connections == 0
    tee.close()
    taker.receiver.close()


def test_nothing_raises_after_the_end(tee: Tee, taker: Taker) -> None:
    connection = tee.connection(CLIENT, BROKER, T0)
    tee.close()
    tee.close()
    connection.data(0, b"late", T0)
    connection.data(0, b"late", T0, "comment")
    connection.note(0, "late", T0)
    connection.end(0, T0)
    connection.reset(0, T0)
    tee.connection(CLIENT, BROKER, T0).data(0, b"later", T0)
    assert tee.dropped_bytes == 13
    assert not tee.congested


def test_the_hole_is_a_hole_in_the_capture(tee: Tee, taker: Taker, tmp_path: Path) -> None:
    """A reader finds the data before the gap, and the gap; the note is on the following exchange."""
    connection = tee.connection(CLIENT, BROKER, T0)
    blocks = BlockMaker(taker.receiver.view, 7, lambda _: None)
    path = tmp_path / "a.pcapng"
    with path.open("wb") as file:
        PcapngWriter(file).interface(snapshot_length=0)

        def record() -> None:
            while taker.receiver.waiting:
                begin, end = taker.receiver.available()
                taker.receiver.take(blocks.read(begin, end, 1 << 20))
                for buffer in blocks.buffers:
                    file.write(buffer)
                blocks.written()

        for number in range(30):
            connection.data(0, b"%4d" % number * 250, T0 + number * MS)
        record()
        connection.data(0, b"again", T0 + 5000 * MS)
        connection.data(1, b"answer", T0 + 5001 * MS)
        record()
    capture = read(path)
    (sent, answered), client = streams(capture)[0], capture.client_stream(0)
    assert answered == b"answer"
    assert sent == b"".join(b"%4d" % number * 250 for number in range(30))[: len(sent)]
    assert len(sent) + tee.dropped_bytes == 30_000
    assert int(capture.connections.streams.lost[client]) == tee.dropped_bytes
    assert kit.read_stream(capture.index, client, 30_000, 30_005) == b"again"


def recorded(tee: Tee, taker: Taker, path: Path, *, goes_on: bool) -> None:
    """Record exchanges; the second lacks its response, the third is missing."""
    blocks = BlockMaker(taker.receiver.view, 7, lambda _: None)
    connection = tee.connection(CLIENT, BROKER, T0)

    def record() -> None:
        while taker.receiver.waiting:
            begin, end = taker.receiver.available()
            taker.receiver.take(blocks.read(begin, end, 1 << 20))
            for buffer in blocks.buffers:
                file.write(buffer)
            blocks.written()

    def exchange(number: int, sides: tuple[int, ...] = (0, 1)) -> None:
        answer = {"cluster_id": "c" * 2000}  # more than the free space in the queue
        frames = (
            request_frame(METADATA, 12, {"topics": None}, number),
            response_frame(METADATA, 12, answer, number),
        )
        for side in sides:
            connection.data(side, frames[side], T0 + number * MS)

    with path.open("wb") as file:
        PcapngWriter(file).interface(snapshot_length=0)
        exchange(1)
        exchange(2, (0,))
        filler = tee.connection(("10.1.0.8", 1), BROKER, T0)
        while not tee.dropped_bytes:
            filler.data(0, bytes(1000), T0)
        filler.reset(0, T0)
        before = tee.dropped_bytes
        exchange(2, (1,))
        assert tee.dropped_bytes > before
        exchange(3)
        record()
        if goes_on:
            exchange(4)
            connection.end(0, T0 + 5 * MS)
            connection.end(1, T0 + 5 * MS)
        tee.close()
        record()


@pytest.mark.parametrize("goes_on", [True, False])
def test_what_was_not_recorded_is_no_missing_answer(
    goes_on: bool, tee: Tee, taker: Taker, tmp_path: Path
) -> None:
    path = tmp_path / "a.pcapng"
    recorded(tee, taker, path, goes_on=goes_on)
    result = CliRunner().invoke(main, ["read", "--json", str(path)])
    read_back = [json.loads(line) for line in result.stdout.splitlines()]
    mine = [each for each in read_back if each["client"] == "10.1.0.7:50001"]
    assert [each["correlation_id"] for each in mine] == [1, 2, 4] if goes_on else [1, 2]
    assert [each["flags"] for each in mine] == [[], ["not_recorded"], ["resynchronised"]][: len(mine)]
    assert result.exit_code == 3
    text = CliRunner().invoke(main, ["read", str(path)])
    assert "answer not recorded" in text.stdout
    assert "NO ANSWER" not in text.stdout
    assert "1 whose answer was not recorded" in text.output
    assert f"{tee.dropped_bytes:,} bytes lost" in text.output
    only = CliRunner().invoke(main, ["read", "-Y", "not_recorded", "--json", str(path)])
    assert len(only.stdout.splitlines()) == 1
    stats = json.loads(CliRunner().invoke(main, ["stats", "--json", str(path)]).stdout)
    (row,) = [each for each in stats["apis"] if each["api"] == "Metadata"]
    assert (row["not_recorded"], row["unanswered"]) == (1, 0)
    found = json.loads(CliRunner().invoke(main, ["diagnose", "--json", str(path)]).stdout.splitlines()[0])
    assert "capture_losses" in json.dumps(found)
