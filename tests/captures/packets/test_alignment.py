"""Captures of several hosts: comparison and alignment of their clocks, and packets that both captured."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.packets import CaptureError, JoinedSource, PacketBlock, open_source, read_packets
from captures.packets.addresses import AddressBook
from captures.packets.alignment import Clocks, Copies
from captures.packets.clock_offsets import Sightings, clock_offset
from captures.packets.files import CaptureFile
from tests.captures.packets import kit

SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"
US, MS = 1_000, 1_000_000


def records_of(path: Path) -> list[tuple[int, bytes]]:
    """Time in ns and frame of the packets of a pcap file with microseconds (pcap-savefile(5))."""
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        seconds, fraction, size, _ = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 10**9 + fraction * US, data[at + 16 : at + 16 + size]))
        at += 16 + size
    return found


def two_hosts(tmp_path: Path, *, ahead: int, lost: float = 0.0) -> list[str]:
    """The sample as captured by client and broker with a network between them.

    :param ahead: ns by which the broker's clock is ahead
    :param lost: share of packets missing from the client's capture
    """
    chance = np.random.default_rng(5)
    brokers = (10101,)
    latest = {True: [0, 0], False: [0, 0]}
    client, broker = [], []
    for time, frame in records_of(SAMPLE):
        from_broker = int.from_bytes(frame[34:36], "big") in brokers  # Ethernet, IPv4 without options, TCP
        delay = 100 * US + int(chance.exponential(50 * US))
        seen = (time + delay, time) if from_broker else (time - delay, time)
        # the network keeps the packets of a direction in order
        latest[from_broker] = seen_there = [max(pair) for pair in zip(seen, latest[from_broker], strict=True)]
        if chance.random() >= lost:
            client.append(kit.Record(frame, seen_there[0]))
        broker.append(kit.Record(frame, seen_there[1] + ahead))
    paths = []
    for name, records in (("client", client), ("broker", broker)):
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(kit.pcap(sorted(records, key=lambda record: record.time), nano=True))
        paths.append(str(path))
    return paths


def read(paths: list[str], **how: bool) -> Capture:
    capture = open_capture(paths, **how)
    capture.read()
    return capture


def told(exchange: Exchange) -> tuple[object, ...]:
    return exchange.client, exchange.api, exchange.correlation_id, exchange.flag, exchange.request_size


def joined(capture: Capture) -> JoinedSource:
    assert isinstance(capture.source, JoinedSource)
    return capture.source


def block_of(tmp_path: Path, records: list[kit.Record], addresses: AddressBook) -> PacketBlock:
    from captures.packets.reader import PacketReader

    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.pcap"
    path.write_bytes(kit.pcap(records, nano=True))
    (block,) = PacketReader(open_source(str(path)), addresses=addresses)
    return block


# ---------------------------------------------------------------- two hosts
@pytest.mark.parametrize("ahead", [3_214_000, -250_000, 3_600 * 10**9])
def test_the_offset_is_told_and_taken_away(tmp_path: Path, ahead: int) -> None:
    paths = two_hosts(tmp_path, ahead=ahead)
    capture = read(paths, align_clocks=True)
    ((file, reference, offset),) = joined(capture).clocks or []
    sign = 1 if file.path == paths[1] else -1
    assert {file.path, reference.path} == set(paths)
    assert offset.uncertainty is not None
    assert abs(sign * offset.offset - ahead) <= offset.uncertainty < 130 * US
    begin, end = capture.connections.first_time.min(), capture.connections.last_time.max()
    assert end - begin < 40 * 10**9, "the sample lasts 37 s"


@pytest.mark.sample(1)
@pytest.mark.parametrize("align", [False, True], ids=["as they are", "aligned"])
def test_exchanges_are_those_of_one_capture(tmp_path: Path, align: bool) -> None:
    capture, single = read(two_hosts(tmp_path, ahead=3 * MS), align_clocks=align), read([str(SAMPLE)])
    assert [told(each) for each in ExchangeReader(capture)] == [told(each) for each in ExchangeReader(single)]
    assert joined(capture).copies == single.statistics.packets
    streams = capture.connections.streams
    assert int(streams.retransmitted.sum()) == int(single.connections.streams.retransmitted.sum())
    assert int(streams.reordered.sum()) == 0


@pytest.mark.slow
def test_latencies_are_those_of_one_host(tmp_path: Path) -> None:
    paths = two_hosts(tmp_path, ahead=3 * MS)
    together = [exchange.latency for exchange in ExchangeReader(read(paths, align_clocks=True))]
    assert together == [exchange.latency for exchange in ExchangeReader(read(paths[:1]))]


@pytest.mark.slow
def test_what_one_capture_lacks_comes_from_the_other(tmp_path: Path) -> None:
    capture = read(two_hosts(tmp_path, ahead=3 * MS, lost=0.05), align_clocks=True)
    single = read([str(SAMPLE)])
    # packets from the other file arrive a little later, and may get a later number
    assert {told(each) for each in ExchangeReader(capture)} == {told(each) for each in ExchangeReader(single)}
    assert len(capture.table) == len(single.table)
    assert int(capture.connections.streams.lost.sum()) == 0


def test_a_second_reading_gives_the_same_packets(tmp_path: Path) -> None:
    capture = read(two_hosts(tmp_path, ahead=3 * MS), align_clocks=True)
    first, second = (list(read_packets(capture.source)) for _ in range(2))
    for name in ("number", "time", "seq", "offset"):
        one, other = (
            np.concatenate([getattr(block, name) for block in blocks]) for blocks in (first, second)
        )
        assert one.tolist() == other.tolist()


def test_a_pipe_cannot_be_aligned(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    try:
        os.write(writer, SAMPLE.read_bytes()[:4096])
        with pytest.raises(CaptureError, match="reading it twice"):
            open_capture([str(SAMPLE), str(pipe)], align_clocks=True)
    finally:
        os.close(writer)


# ---------------------------------------------------------------- what is compared
def test_files_that_follow_each_other_share_nothing(tmp_path: Path) -> None:
    records = [kit.Record(frame, time) for time, frame in records_of(SAMPLE)]
    paths = []
    for number, part in enumerate((records[:700], records[700:])):
        paths.append(str(tmp_path / f"{number}.pcap"))
        Path(paths[-1]).write_bytes(kit.pcap(part))
    capture = read(paths)
    assert joined(capture).clocks == []
    assert joined(capture).copies == 0


def test_what_keeps_connections_alive_is_not_compared(tmp_path: Path) -> None:
    addresses, talk = AddressBook(), kit.Conversation()
    for _ in range(20):  # keep-alives: one byte before the next one, RFC 9293 section 3.8.4
        talk.put(True, -1, 0, kit.ACK, b"\0")
        talk.put(False, 0, 0, kit.ACK)
    first, second = Sightings(addresses), Sightings(addresses)
    first.add(block_of(tmp_path, talk.records[:20], addresses))
    second.add(block_of(tmp_path, talk.records[20:], addresses))
    assert clock_offset(first.once(), second.once()) is None


def test_of_many_packets_the_same_part_is_kept_in_every_capture(tmp_path: Path) -> None:
    addresses, talk = AddressBook(), kit.Conversation()
    for number in range(500):
        talk.send(100 * number, b"x" * 100)
    later = [kit.Record(record.frame, record.time + 7 * MS) for record in talk.records]
    first, second = Sightings(addresses, most=50), Sightings(addresses, most=400)
    first.add(block_of(tmp_path, talk.records, addresses))
    second.add(block_of(tmp_path, later, addresses))
    found = clock_offset(first.once(), second.once())
    assert found is not None
    assert 4 <= found.packets <= 50
    assert (found.offset, found.uncertainty) == (7 * MS, None)


def test_clocks_are_compared_along_what_files_share(tmp_path: Path) -> None:
    """The second file shares packets with the first and with the third, which share none with each other."""
    addresses, talk = AddressBook(), kit.Conversation()
    for number in range(40):
        talk.send(100 * number, b"x" * 100)
        talk.send(100 * number, b"y" * 100, from_client=False)
    files = [CaptureFile(name, 0, (0, 0), None) for name in ("one", "two", "three")]
    clocks = Clocks(addresses, files)
    for number, (rows, ahead) in enumerate(
        [(slice(0, 40), 0), (slice(20, 70), 5 * MS), (slice(50, 80), 9 * MS)]
    ):
        records = [kit.Record(record.frame, record.time + ahead) for record in talk.records[rows]]
        clocks.see(number, block_of(tmp_path, records, addresses))
    found = [(each.file.path, each.reference.path, each.offset.offset) for each in clocks.compare()]
    assert found == [("two", "one", 5 * MS), ("three", "two", 4 * MS)]


# ---------------------------------------------------------------- copies
def test_what_was_sent_again_is_no_copy(tmp_path: Path) -> None:
    """Both files have a packet twice; each of the two is delivered once, whichever file has it first."""
    addresses, talk = AddressBook(), kit.Conversation()
    once, again = talk.send(0, b"x" * 10), talk.send(0, b"x" * 10)
    other = talk.send(10, b"y" * 10)
    block = block_of(tmp_path, [once, once, again, again, other], addresses)
    copies = Copies()
    fresh = copies.fresh(block, np.array([0, 1, 1, 0, 1]), several=True)
    assert fresh.tolist() == [True, False, True, False, True]
    assert copies.count == 2


def test_copies_are_known_from_block_to_block(tmp_path: Path) -> None:
    addresses, talk = AddressBook(), kit.Conversation()
    records = [talk.send(10 * number, b"x" * 10) for number in range(6)]
    block = block_of(tmp_path, records, addresses)
    copies = Copies()
    assert copies.fresh(block, np.zeros(6, np.int64), several=False).all()
    assert not copies.fresh(block, np.ones(6, np.int64), several=True).any()
    # the other file has ended
    assert not copies.fresh(block, np.full(6, 2), several=False).any()
