"""The network's share of latencies, for each kind of evidence."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from captures.analysis.round_trips import RoundTrips
from captures.exchanges import Capture, open_capture
from captures.exchanges.samples import Sample
from captures.interventions import TcpSample
from tests.captures.packets.kit import MS, Conversation, pcap

METADATA = bytes.fromhex("00000013 0003 0000 00000001 0003 617070 00000000".replace(" ", ""))
"""A Metadata v0 request of the client ``app`` for all topics; its length follows from the layout."""
ANSWER = bytes.fromhex("0000000c 00000001 00000000 00000000".replace(" ", ""))
"""Its response: no brokers, no topics."""


def request(correlation_id: int) -> bytes:
    body = METADATA[4:8] + correlation_id.to_bytes(4, "big") + METADATA[12:]
    return len(body).to_bytes(4, "big") + body


def answer(correlation_id: int) -> bytes:
    body = correlation_id.to_bytes(4, "big") + ANSWER[8:]
    return len(body).to_bytes(4, "big") + body


def read(folder: Path, conversation: Conversation) -> Capture:
    path = folder / "one.pcap"
    path.write_bytes(pcap(list(conversation.records)))
    found = open_capture(str(path))
    found.read()
    return found


def exchanges(conversation: Conversation, *delays: int) -> None:
    """Requests, each acknowledged by its response after this many ms."""
    sent = received = 0
    for number, delay in enumerate(delays):
        asked, said = request(number), answer(number)
        conversation.send(sent, asked, ack=received)
        sent += len(asked)
        conversation.now += (delay - 1) * MS
        conversation.send(received, said, ack=sent, from_client=False)
        received += len(said)


def test_the_handshake_tells_it(tmp_path: Path) -> None:
    conversation = Conversation()
    conversation.handshake()
    exchanges(conversation, 5)
    trips = RoundTrips(read(tmp_path, conversation))
    trips.look_at_acknowledgments([0])
    assert trips.of(0) == 1 * MS


def test_without_one_the_quickest_acknowledgment_does(tmp_path: Path) -> None:
    conversation = Conversation()
    exchanges(conversation, 9, 4, 7)
    trips = RoundTrips(read(tmp_path, conversation))
    assert trips.of(0) is None
    trips.look_at_acknowledgments([0])
    assert trips.of(0) == 4 * MS


def test_what_was_sent_twice_tells_nothing(tmp_path: Path) -> None:
    conversation = Conversation()
    exchanges(conversation, 9)
    sent, received = len(request(0)), len(answer(0))
    conversation.send(sent, request(1), ack=received)
    conversation.send(sent, request(1), ack=received)
    conversation.send(received, answer(1), ack=sent + len(request(1)), from_client=False)
    trips = RoundTrips(read(tmp_path, conversation))
    trips.look_at_acknowledgments([0])
    assert trips.of(0) == 9 * MS


def test_what_the_kernel_told_a_proxy(tmp_path: Path) -> None:
    conversation = Conversation()
    exchanges(conversation, 9)
    capture = read(tmp_path, conversation)
    told = [("client", 9), ("broker", 700), ("broker", 0), ("broker", 300), ("broker", 500)]
    samples = [Sample(1, 0, TcpSample(side=side, rtt_us=rtt)) for side, rtt in told]  # type: ignore[arg-type]
    capture.samples.restore(samples, {})
    trips = RoundTrips(capture)
    trips.look_at_acknowledgments(np.array([0]).tolist())
    assert trips.of(0) == 500_000


def test_samples_that_took_the_place_of_as_many_others_count(tmp_path: Path) -> None:
    conversation = Conversation()
    exchanges(conversation, 9)
    capture = read(tmp_path, conversation)
    trips = RoundTrips(capture)
    for rtt in (400, 900):
        capture.samples.restore([Sample(rtt, 0, TcpSample(side="broker", rtt_us=rtt))], {})
        assert trips.of(0) == rtt * 1000
