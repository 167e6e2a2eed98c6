"""Connection attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.attempts import (
    Ending,
    Outcome,
    attempts,
    ended,
    ended_by_broker,
    ended_by_brokers,
    ending,
)
from captures.exchanges import Capture, open_capture
from captures.packets import ACK, FIN, RST, SYN
from tests.captures.exchanges.talk import capture_of
from tests.captures.packets.kit import MS, Conversation
from tests.conftest import DATA


def open_conversation() -> Conversation:
    made = Conversation()
    made.handshake()
    made.send(0, b"request")
    made.send(0, b"response", ack=7, from_client=False)
    return made


def later(milliseconds: int) -> Conversation:
    """Another packet, so that the capture goes on."""
    made = Conversation(client=("10.0.0.9", 50_000))
    made.now += milliseconds * MS
    made.handshake()
    return made


def outcomes(folder: Path, *conversations: Conversation) -> list[Outcome]:
    records = sorted(
        (record for each in conversations for record in each.records), key=lambda record: record.time
    )
    return [attempt.outcome for attempt in attempts(capture_of(folder, records))]


def tried(answer: int = 0) -> Conversation:
    made = Conversation()
    made.put(True, -1, 0, SYN)
    if answer:
        made.put(False, 0, 0, answer)
    return made


def test_outcomes(tmp_path: Path) -> None:
    assert outcomes(tmp_path, open_conversation()) == [Outcome.ACCEPTED]
    assert outcomes(tmp_path, tried(RST | ACK)) == [Outcome.REFUSED]
    assert outcomes(tmp_path, tried(), later(1_500)) == [Outcome.SILENT, Outcome.ACCEPTED]


def test_some_outcomes_only(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, [*tried(RST | ACK).records, *later(900).records])
    assert [each.outcome for each in attempts(capture)] == [Outcome.REFUSED, Outcome.ACCEPTED]
    assert [each.connection for each in attempts(capture, (Outcome.ACCEPTED,))] == [1]


def test_a_syn_may_be_answered_yet(tmp_path: Path) -> None:
    assert outcomes(tmp_path, tried(), later(500)) == [Outcome.ACCEPTED]


def test_of_one_direction_silence_tells_nothing(tmp_path: Path) -> None:
    one_way = later(1_500)
    del one_way.records[1]  # the SYN-ACK
    assert outcomes(tmp_path, tried(), one_way) == [Outcome.ACCEPTED]  # because its client goes on


def test_a_connection_that_is_reset_after_data_was_accepted(tmp_path: Path) -> None:
    made = open_conversation()
    made.put(False, 8, 7, RST | ACK)
    assert outcomes(tmp_path, made) == [Outcome.ACCEPTED]


@pytest.mark.parametrize(
    ("first", "flag", "by_broker"), [(True, FIN, False), (False, FIN, True), (False, RST, True)]
)
def test_who_ended_a_connection(tmp_path: Path, first: bool, flag: int, by_broker: bool) -> None:
    made = open_conversation()
    made.put(first, 7 if first else 8, 8 if first else 7, flag | ACK)
    made.put(not first, 8 if first else 7, 7 if first else 8, RST | ACK)
    capture = capture_of(tmp_path, made.records)
    time = made.records[-2].time
    assert ended(capture, 0) == time
    assert ended_by_broker(capture, 0) == (time if by_broker else None)
    assert list(ended_by_brokers(capture)) == ([(0, time)] if by_broker else [])


def test_of_ends_at_one_time_the_clients_fin_counts(tmp_path: Path) -> None:
    made = open_conversation()
    made.put(False, 8, 7, RST | ACK)
    made.put(True, 7, 8, FIN | ACK)
    made.put(True, 8, 8, RST | ACK)
    time = made.records[-3].time
    for record in made.records[-2:]:
        record.time = time
    capture = capture_of(tmp_path, made.records)
    assert ending(capture, 0) == Ending(time, by_broker=False, reset=False)
    assert list(ended_by_brokers(capture)) == []


def test_open_and_unknown_connections_have_not_ended(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, open_conversation().records)
    assert ended(capture, 0) is None
    assert ended(capture, 7) is None
    assert ended_by_broker(capture, 7) is None


def test_nothing_captured_yet() -> None:
    capture: Capture = open_capture(str(DATA / "20_k430_ck_zstd.pcap"))
    assert list(attempts(capture)) == []
