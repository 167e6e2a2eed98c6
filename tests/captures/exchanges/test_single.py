"""The thorough path: capture times and packets, and how a connection ends."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from captures.exchanges import Capture, Flag
from captures.exchanges.pieces import Piece
from captures.exchanges.single import _Marks
from dissectors.conversation.pairing import MAX_SILENT
from tests.captures.exchanges.talk import Talk, Thorough, capture_of, exchanges, packets, rows
from tests.captures.packets.kit import Conversation
from tests.dissectors.conversation import streams


def test_marks_find_time_and_packet() -> None:
    marks = _Marks()
    for position, time, packet in ((0, 5, 10), (100, 6, 20), (150, 9, 26)):
        marks.add(Piece(0, position, time, packet, b""))
    assert [marks.find(at) for at in (0, 99, 100, 149, 150, 400)] == [
        *((5, 10), (5, 10)),
        *((6, 20), (6, 20)),
        *((9, 26), (9, 26)),
    ]


def test_marks_are_forgotten_but_for_some() -> None:
    marks = _Marks()
    for number in range(20_000):
        marks.add(Piece(0, 10 * number, number, 0, b""))
        marks.forget(10 * number)
    assert marks.find(199_995) == (19_999, 0)
    assert len(marks._positions) < 10_000


@pytest.mark.parametrize("kind", [Capture, Thorough])
def test_times_are_those_of_first_and_last_byte(tmp_path: Path, kind: type[Capture]) -> None:
    asked, answered = streams.request(1, b"x" * 100), streams.response(1, b"y" * 100)
    talk = Conversation()
    talk.handshake()
    pieces = [
        (True, asked, 0, 50),
        (True, asked, 50, len(asked)),
        (False, answered, 0, 3),
        (False, answered, 3, len(answered)),
    ]
    for from_client, data, start, end in pieces:
        talk.send(start, data[start:end], from_client=from_client)
    (row,) = rows(capture_of(tmp_path, talk.records, kind=kind))
    found = [row[name] for name in ("request_first", "request_last", "response_first", "response_last")]
    assert found == [record.time for record in talk.records[3:]]


@pytest.mark.slow
def test_hand_back_leaves_the_ending_to_the_bulk_way(tmp_path: Path) -> None:
    """Requests in flight when a connection returns to the bulk path are answered there, not given up here."""
    talk = Talk(0)
    talk.exchange(0, key=streams.SASL_HANDSHAKE, version=0, body=b"\0\5PLAIN")
    talk.token(b"\0alice\0secret", b"")
    for correlation_id in range(1, 200):
        talk.ask(correlation_id)
        if correlation_id > 10:
            talk.answer()
    while talk.in_flight:
        talk.answer()
    records = packets(talk, Random(3), most=60)
    for block_size in (700, 2000, 5000, 1 << 22):
        capture = capture_of(tmp_path, records, block_size)
        assert exchanges(capture) == talk.exchanges, block_size


def test_answers_without_need_are_remembered_up_to_a_bound(tmp_path: Path) -> None:
    """An unneeded response to the latest request is shown with it; the request of another was too long ago."""
    talk = Talk(0)
    for correlation_id in range(MAX_SILENT + 50):
        talk.produce(correlation_id, 0, 7)
    for correlation_id in (MAX_SILENT + 49, 0):
        talk.messages.append((False, streams.response(correlation_id)))
    for kind in (Capture, Thorough):
        capture = capture_of(tmp_path, packets(talk, Random(1)), kind=kind)
        answered = [each for each in exchanges(capture) if each.response_size and each.api_key == 0]
        assert [each.correlation_id for each in answered] == [MAX_SILENT + 49]
        assert answered[0].flags == Flag.NO_RESPONSE_EXPECTED
