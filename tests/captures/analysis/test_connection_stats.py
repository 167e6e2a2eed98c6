"""Connections with their story."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.connection_stats import ConnectionRow, ConnectionStats
from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.json_objects import to_json
from captures.packets import ACK, FIN, RST
from tests.captures.exchanges.proxied import SAMPLE
from tests.captures.exchanges.proxied import Recording as ProxiedRecording
from tests.captures.exchanges.talk import capture_of
from tests.captures.packets.kit import MS, Conversation
from tests.dissectors.conversation import streams

ASKED = streams.request(1, b"\0\0\0\0", key=3, version=1, client_id="app")  # Metadata v1 without topics
ANSWERED = streams.response(1, b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0")  # no brokers, controller 1, no topics


def rows_of(capture: Capture, **times: int) -> list[ConnectionRow]:
    stats = ConnectionStats(capture)
    for exchange in ExchangeReader(capture, annotate=False):
        stats.add(exchange)
    return stats.result(**times)


def talk(number: int = 0) -> Conversation:
    """A connection with one exchange, still open."""
    made = Conversation(client=("10.0.0.1", 40_000 + number))
    made.handshake()
    made.send(0, ASKED)
    made.send(0, ANSWERED, ack=len(ASKED), from_client=False)
    return made


def only(folder: Path, conversation: Conversation) -> ConnectionRow:
    (row,) = rows_of(capture_of(folder, conversation.records))
    return row


def test_what_it_carried(tmp_path: Path) -> None:
    row = only(tmp_path, talk())
    assert (row.client, row.broker) == ("10.0.0.1:40000", "10.0.0.2:9092")
    assert (row.client_ids, row.exchanges, row.versions) == (["app"], 1, {"Metadata": [1]})
    assert (row.request_bytes, row.response_bytes) == (len(ASKED), len(ANSWERED))
    assert row.handshake == MS
    assert row.last - row.first == 4 * MS
    assert row.whole
    assert not row.troubled


@pytest.mark.parametrize(
    ("packets", "ended", "then_reset_by"),
    [
        ([], "open", None),
        ([(True, FIN), (False, FIN)], "closed by client", None),
        ([(False, FIN), (True, FIN)], "closed by broker", None),
        ([(True, RST)], "reset by client", None),
        ([(False, RST)], "reset by broker", None),
        # the client left data unread
        ([(True, FIN), (True, RST)], "closed by client", "client"),
    ],
)
def test_how_it_ended(
    tmp_path: Path, packets: list[tuple[bool, int]], ended: str, then_reset_by: str | None
) -> None:
    conversation = talk()
    sent = {True: len(ASKED), False: len(ANSWERED)}
    for from_client, flag in packets:
        conversation.put(from_client, sent[from_client], sent[not from_client], flag | ACK)
    row = only(tmp_path, conversation)
    assert (row.ended, row.then_reset_by) == (ended, then_reset_by)
    assert row.troubled == ended.startswith("reset")


@pytest.mark.parametrize(("quiet", "troubled"), [(0, False), (2_000, True)])
def test_an_unanswered_request_is_trouble_once_it_takes_long(
    tmp_path: Path, quiet: int, troubled: bool
) -> None:
    conversation = talk()
    conversation.send(len(ASKED), ASKED, ack=len(ANSWERED))
    conversation.now += quiet * MS
    conversation.acknowledge(2 * len(ASKED), position=len(ANSWERED))
    row = only(tmp_path, conversation)
    assert row.unanswered == {"Metadata": 1}
    assert row.unanswered_for == (quiet + 1) * MS
    assert row.troubled == troubled


def test_what_tcp_met_is_told_by_side(tmp_path: Path) -> None:
    conversation = talk()
    conversation.send(0, ANSWERED, ack=len(ASKED), from_client=False)  # again
    conversation.put(True, len(ASKED), len(ANSWERED), ACK, window=0)
    row = only(tmp_path, conversation)
    assert row.retransmitted == (0, len(ANSWERED))
    assert row.zero_windows == (1, 0)
    assert row.troubled


def test_the_sides_are_right_where_the_broker_spoke_first(tmp_path: Path) -> None:
    conversation = Conversation()
    conversation.send(0, ANSWERED, from_client=False)
    conversation.send(0, ASKED + ASKED, ack=len(ANSWERED))
    conversation.send(len(ANSWERED), ANSWERED, ack=2 * len(ASKED), from_client=False)
    conversation.put(False, 2 * len(ANSWERED), 2 * len(ASKED), FIN | ACK)
    row = only(tmp_path, conversation)
    assert (row.client, row.whole, row.handshake) == (
        f"{conversation.client[0]}:{conversation.client[1]}",
        False,
        None,
    )
    assert (row.request_bytes, row.response_bytes) == (2 * len(ASKED), 2 * len(ANSWERED))
    assert row.ended == "closed by broker"


def test_trouble_comes_first_and_times_choose(tmp_path: Path) -> None:
    sound, reset = talk(1), talk(2)
    for record in reset.records:
        record.time += 10 * MS
    reset.now += 10 * MS
    reset.put(False, len(ANSWERED), len(ASKED), RST | ACK)
    capture = capture_of(tmp_path, sound.records + reset.records)
    assert [row.connection for row in rows_of(capture)] == [1, 0]
    begin = reset.records[0].time
    assert [row.connection for row in rows_of(capture, begin=begin)] == [1]
    assert [row.connection for row in rows_of(capture, end=begin - 1)] == [0]


def test_a_recorded_sasl_connection(recorded_scram: Path) -> None:
    capture = open_capture(str(recorded_scram))
    capture.read()
    rows = rows_of(capture)
    assert len(rows) > 1
    for row in rows:
        intro = row.introduction
        assert (intro.mechanism, intro.principal, intro.authenticated) == ("SCRAM-SHA-256", "admin", True)
        assert to_json(row)["principal"] == "admin"
        # franz-go starts with ApiVersions v5, which Kafka 4.3.0 does not support
        assert row.fallback == {5: 0} or 5 not in row.versions.get("ApiVersions", [])
    assert any(row.fallback for row in rows)


def test_what_is_not_kafka_says_so(recorded_garbage: Path) -> None:
    capture = open_capture(str(recorded_garbage))
    capture.read()
    foreign = [row for row in rows_of(capture) if row.foreign]
    assert len(foreign) == len(capture.foreign) > 0
    assert all(row.troubled for row in foreign)


def test_a_proxied_connection_has_the_round_trip_of_the_kernel_and_no_handshake(tmp_path: Path) -> None:
    recording = ProxiedRecording()
    for packet in recording.made.records:  # a proxy records its handshake with a single time
        packet.time = recording.made.records[0].time
    recording.note(1, SAMPLE)
    capture = open_capture([str(recording.write(tmp_path / "proxied.pcapng"))])
    capture.read()
    row = ConnectionStats(capture).row(0)
    assert (row.whole, row.handshake, row.round_trip) == (True, None, SAMPLE.rtt_us * 1_000)
