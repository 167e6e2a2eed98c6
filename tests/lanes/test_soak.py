"""The soak finds altered, lost and added bytes, connections that end too soon, and growing memory."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from dissectors.frames import decode_request, decode_response
from tests.lanes.soak import accounts, talk
from tests.lanes.soak.accounts import ConnectionAccount, RecordedConnection, Stream
from tests.lanes.soak.talk import VERSIONS, Habit
from tests.lanes.soak.watch import Sample, course
from tests.lanes.tools import Wrong

_PLAIN = next(each for each in range(talk.LASTING, 100) if talk.habit(each) is Habit.PLAIN)
_MIB = 1 << 20


def _said(side: int, count: int) -> bytes:
    return b"".join(frame for _, frame in islice(talk.frames(_PLAIN, side), count))


@pytest.mark.parametrize("habit", Habit)
def test_what_the_peers_say_is_kafka(habit: Habit) -> None:
    connection = next(each for each in range(1000) if talk.habit(each) is habit)
    for number in range(10):
        frame = talk.request(connection, number)
        asked = decode_request(frame[4:])
        assert not asked.problems
        assert talk.connection_of(frame[4:]) == connection
        if talk.is_answered(connection, number):
            key = talk.message(connection, number).key
            assert not decode_response(talk.response(connection, number)[4:], key, VERSIONS[key]).problems


def test_each_exchange_differs() -> None:
    requests = {talk.request(connection, number) for connection in range(20) for number in range(20)}
    assert len(requests) == 400


def test_a_stream_that_is_all_there() -> None:
    stream, said = Stream(_PLAIN, 0), _said(0, 20)
    for at in range(0, len(said), 77):
        stream.data(at, said[at : at + 77])
    assert (stream.seen, stream.end, stream.again) == (len(said), len(said), 0)
    assert stream.whole == set(range(20))


def test_an_altered_byte_is_found() -> None:
    said = bytearray(_said(0, 20))
    said[len(said) // 2] ^= 1
    with pytest.raises(Wrong, match="other bytes were recorded"):
        Stream(_PLAIN, 0).data(0, bytes(said))


def test_bytes_in_the_wrong_place_are_found() -> None:
    said = _said(1, 20)
    with pytest.raises(Wrong):
        Stream(_PLAIN, 1).data(1, said)


def test_a_hole_takes_the_exchanges_that_it_touches() -> None:
    frames = [frame for _, frame in islice(talk.frames(_PLAIN, 0), 6)]
    stream, first = Stream(_PLAIN, 0), b"".join(frames[:2])
    stream.data(0, first + frames[2][:5])
    behind = len(b"".join(frames[:4]))
    stream.data(behind, frames[4])
    stream.data(len(first), frames[2][:5])  # again
    stream.reaches(behind + len(frames[4]) + 3)
    assert stream.whole == {0, 1, 4}
    assert stream.again == 5
    assert stream.end - stream.seen == len(frames[2]) - 5 + len(frames[3]) + 3


def test_what_is_missing_is_counted() -> None:
    streams = Stream(_PLAIN, 0), Stream(_PLAIN, 1)
    streams[0].data(0, b"".join(frame for _, frame in islice(talk.frames(_PLAIN, 0), 2)))
    size = streams[0].seen
    one = ConnectionAccount(_PLAIN, sent=[size + 10, 40], received=[size + 4, 30])
    lack = accounts.missing({_PLAIN: one}, {_PLAIN: RecordedConnection(_PLAIN, streams)})
    assert (lack.at_least, lack.at_most, lack.connections) == (4 + 30, 10 + 40, 1)
    with pytest.raises(Wrong, match="were recorded of"):
        accounts.missing(
            {_PLAIN: ConnectionAccount(_PLAIN, sent=[size - 1, 0])},
            {_PLAIN: RecordedConnection(_PLAIN, streams)},
        )


@pytest.mark.parametrize(
    ("end", "away", "fine"),
    [
        ("fin", [], True),
        ("broken: reset", [], False),
        ("stuck", [], False),
        ("broken: reset", [(90.0, 110.0)], True),
        ("wrong: other bytes", [(90.0, 110.0)], False),
    ],
)
def test_connections_end_as_they_were_meant_to(end: str, away: list[tuple[float, float]], fine: bool) -> None:
    one = ConnectionAccount(_PLAIN, ends=[end, "fin"], at=[100.0, 100.0])
    if fine:
        assert sum(accounts.judge([one], away).values()) == 1
    else:
        with pytest.raises(Wrong, match=f"connection {_PLAIN}"):
            accounts.judge([one], away)


def test_journals_of_both_ends_are_put_together(tmp_path: Path) -> None:
    client = {"connection": 7, "port": 2000, "sent": 5, "received": 9, "answered": 3, "end": "fin", "at": 1.0}
    broker = {"connection": 7, "sent": 10, "received": 4, "end": "reset", "at": 2.0}
    for name, facts in {"client": client, "broker": broker}.items():
        (tmp_path / name).write_text(json.dumps(facts) + "\n")
    [one] = accounts.told(tmp_path / "client", tmp_path / "broker").values()
    assert (one.port, one.sent, one.received) == (2000, [5, 10], [4, 9])
    assert (one.ends, one.at, one.answered) == (["fin", "reset"], [1.0, 2.0], 3)


@pytest.mark.parametrize(
    ("a_minute", "descriptors", "grown"),
    [(0, 0, ""), (_MIB // 60, 0, ""), (_MIB, 0, "memory"), (0, 1, "descriptors")],
)
def test_growth_is_noticed(a_minute: int, descriptors: int, grown: str) -> None:
    samples = [
        Sample(each, 50 * _MIB + each // 60 * a_minute, 20 + each // 60 * descriptors)
        for each in range(0, 3600, 5)
    ]
    assert grown in course("plane", samples).grown
    assert bool(course("plane", samples).grown) == bool(grown)


def test_what_is_there_only_in_the_beginning_is_no_growth() -> None:
    samples = [Sample(each, (40 if each < 300 else 80) * _MIB, 20) for each in range(0, 3600, 5)]
    assert not course("plane", samples).grown
