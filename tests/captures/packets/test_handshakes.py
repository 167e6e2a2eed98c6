"""Partially captured handshakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.packets import ACK, RST, SYN, GapCause
from tests.captures.packets.kit import MS, CaptureContent, Conversation, pcap, read_bytes

BLOCKS = pytest.mark.parametrize("block_size", [256, 1 << 22])


def run(folder: Path, talk: Conversation, block_size: int) -> CaptureContent:
    return read_bytes(folder, pcap(list(talk.records), nano=True), block_size)


def begun() -> Conversation:
    """A SYN whose answer was not captured."""
    talk = Conversation()
    talk.put(True, -1, -talk.broker_isn - 1, SYN)
    return talk


@BLOCKS
@pytest.mark.parametrize("acknowledged", [True, False])
def test_syn_without_syn_ack(tmp_path: Path, block_size: int, acknowledged: bool) -> None:
    """The client's first acknowledgment tells where the broker's stream begins, so its losses show."""
    talk = begun()
    if acknowledged:
        talk.acknowledge(0, from_client=True)
    talk.send(0, b"request")
    talk.send(10, b"second half", ack=7, from_client=False)
    talk.acknowledge(21, from_client=True, position=7)
    got = run(tmp_path, talk, block_size)
    assert got.gaps() == [(1, 0, 10, GapCause.NOT_CAPTURED)]
    assert (got.stream(0), got.stream(1)) == (b"request", b"second half")
    streams = got.assembler.connections.streams
    assert streams.syn_seen.tolist() == [True, True]
    assert got.assembler.connections[0].client_known


@BLOCKS
def test_a_client_that_has_said_more_tells_nothing(tmp_path: Path, block_size: int) -> None:
    """Its first packet was lost too: its current acknowledgment may point into the middle of a response."""
    talk = begun()
    talk.send(7, b"later", ack=30)
    talk.send(30, b"answer", ack=12, from_client=False)
    got = run(tmp_path, talk, block_size)
    assert got.stream(1) == b"answer"
    assert got.assembler.connections.streams.syn_seen.tolist() == [True, False]
    assert [gap[:2] for gap in got.gaps()] == [(0, 0)]


@BLOCKS
def test_bytes_that_came_before_say_more_than_an_acknowledgment(tmp_path: Path, block_size: int) -> None:
    talk = begun()
    talk.send(0, b"banner", from_client=False)
    talk.send(0, b"request", ack=6)
    got = run(tmp_path, talk, block_size)
    assert (got.stream(0), got.stream(1), got.gaps()) == (b"request", b"banner", [])


@BLOCKS
def test_syn_ack_that_was_captured_late(tmp_path: Path, block_size: int) -> None:
    talk = begun()
    talk.acknowledge(0, from_client=True)
    talk.put(False, -1, 0, SYN | ACK)
    talk.send(0, b"request")
    talk.send(0, b"answer", ack=7, from_client=False)
    got = run(tmp_path, talk, block_size)
    assert len(got.assembler.connections) == 1
    assert got.assembler.connections[0].handshake == 2 * MS
    assert (got.stream(0), got.stream(1), got.gaps()) == (b"request", b"answer", [])


@BLOCKS
def test_syns_that_nobody_answers(tmp_path: Path, block_size: int) -> None:
    """A port scan: each is a connection, and later packets on the same ports belong to another."""
    scans = [Conversation(("10.0.0.1", port)) for port in range(40_000, 40_030)]
    for talk in scans:
        talk.put(True, -1, -5001, SYN)
    scans[3].put(False, -5001, 0, RST | ACK)
    scans[5].client_isn = 77_000
    scans[5].handshake()
    scans[5].send(0, b"request")
    records = [record for talk in scans for record in talk.records]
    got = read_bytes(tmp_path, pcap(list(records), nano=True), block_size)
    connections = got.assembler.connections
    assert len(connections) == 31
    assert sum(connections[each].closed == "reset by b" for each in range(31)) == 1
    newest = max(range(31), key=lambda each: connections[each].generation)
    assert got.stream(2 * newest) == b"request"
