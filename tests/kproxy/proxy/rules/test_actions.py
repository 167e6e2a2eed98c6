from __future__ import annotations

import statistics
from random import Random

import pytest

from captures.meaning import errors_in
from dissectors.frames import decode_response
from kproxy.proxy.rules import actions
from kproxy.proxy.rules.errors import AnswerError
from kproxy.proxy.verdicts import Ending, Frame
from tests.kproxy.proxy.rules.frames import FETCH, request, response

MS = 10**6
HEARTBEAT = {"group_id": "billing", "generation_id": 3, "member_id": "app-1-x"}


@pytest.fixture
def frame() -> Frame:
    return request("Heartbeat", 3, HEARTBEAT)


@pytest.fixture
def chance() -> Random:
    return Random("actions")


def test_a_fixed_delay(frame: Frame, chance: Random) -> None:
    verdict, words, _ = actions.Delay(actions.ConstantDelay(200 * MS)).apply(frame, chance)
    assert verdict.delay == 200 * MS
    assert verdict.data is None
    assert words == "delayed by 200ms"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("distribution", "median", "p99"),
    [
        (actions.Uniform(100 * MS, 500 * MS), 300, 496),
        (actions.Normal(200 * MS, 50 * MS), 200, 316),
        (actions.Exponential(100 * MS), 69.3, 460),
        (actions.LogNormal(20 * MS, 300 * MS), 20, 300),
    ],
)
def test_delays_are_distributed_as_they_say(
    frame: Frame, chance: Random, distribution: actions.Distribution, median: float, p99: float
) -> None:
    # expected values from the textbook formulas
    action = actions.Delay(distribution)
    delays = sorted(action.apply(frame, chance).verdict.delay / MS for _ in range(20_000))
    assert statistics.median(delays) == pytest.approx(median, rel=0.05)
    assert delays[int(0.99 * len(delays))] == pytest.approx(p99, rel=0.1)


def test_no_delay_is_negative_or_endless(frame: Frame, chance: Random) -> None:
    wild = actions.Delay(actions.Normal(1, 10**15))
    delays = [wild.apply(frame, chance).verdict.delay for _ in range(200)]
    assert min(delays) == 0
    assert max(delays) == actions.LONGEST_DELAY


@pytest.mark.parametrize(
    ("action", "ending"),
    [
        (actions.Drop(), Ending.CLOSE),
        (actions.Reset(), Ending.RESET),
        (actions.Blackhole(), Ending.SWALLOW),
    ],
)
def test_what_ends_a_connection_sends_nothing(
    frame: Frame, chance: Random, action: actions.Action, ending: Ending
) -> None:
    verdict, words, _ = action.apply(frame, chance)
    assert verdict.data == b""
    assert verdict.ending is ending
    assert words


def test_throttle(frame: Frame, chance: Random) -> None:
    verdict, words, _ = actions.Throttle(100_000).apply(frame, chance)
    assert verdict.rate == 100_000
    assert verdict.data is None
    assert words == "throttled to 100kB/s"


def test_truncate(frame: Frame, chance: Random) -> None:
    verdict, words, _ = actions.Truncate(10).apply(frame, chance)
    assert verdict.data == frame.data[:10]
    assert verdict.ending is Ending.CLOSE
    assert words == f"truncated to 10 of {len(frame.data)} bytes, connection closed"
    assert actions.Truncate(10_000).apply(frame, chance).verdict.data == frame.data


def test_corrupt_at_an_offset(frame: Frame, chance: Random) -> None:
    verdict, words, _ = actions.Corrupt(14).apply(frame, chance)
    data = verdict.data
    assert data is not None
    assert [at for at in range(len(data)) if data[at] != frame.data[at]] == [14]
    assert words.startswith("byte at offset 14 changed from 0x")


@pytest.mark.parametrize("side", ["request", "response"])
def test_corrupt_leaves_the_header_alone(chance: Random, side: str) -> None:
    asked = request("Heartbeat", 4, HEARTBEAT)
    frame = asked if side == "request" else response("Heartbeat", 4, {"error_code": 0}, to=asked)
    body_size = len(frame.data) - (4 + 8 + 2 + len("app-1") + 1 if side == "request" else 4 + 4 + 1)
    places = set()
    for _ in range(2000):
        data = actions.Corrupt().apply(frame, chance).verdict.data
        assert data is not None
        (at,) = (at for at in range(len(data)) if data[at] != frame.data[at])
        places.add(at)
    assert places == set(range(len(frame.data) - body_size, len(frame.data)))


def test_corrupt_of_a_frame_without_a_body(chance: Random) -> None:
    frame = request("ApiVersions", 0, {})
    data = actions.Corrupt().apply(frame, chance).verdict.data
    assert data is not None
    assert data != frame.data


def test_corrupt_behind_the_end(frame: Frame, chance: Random) -> None:
    with pytest.raises(AnswerError, match="no offset 5000"):
        actions.Corrupt(5000).apply(frame, chance)


def test_the_same_seed_corrupts_the_same_byte(frame: Frame) -> None:
    once, again = (actions.Corrupt().apply(frame, Random(3)).verdict.data for _ in range(2))
    assert once == again


def test_an_error_in_place_of_a_request(frame: Frame, chance: Random) -> None:
    verdict, words, changed = actions.Error(27).apply(frame, chance)
    assert verdict.data == b""
    assert verdict.answer is not None
    assert decode_response(verdict.answer[4:], 12, 3).value == {"throttle_time_ms": 0, "error_code": 27}
    assert words == "answered with REBALANCE_IN_PROGRESS"
    assert changed == ()


def test_an_error_with_acks_0_closes_the_connection(chance: Random) -> None:
    frame = request("Produce", 7, {"acks": 0, "timeout_ms": 1, "topic_data": []})
    verdict, words, _ = actions.Error(6).apply(frame, chance)
    assert verdict.data == b""
    assert verdict.answer is None
    assert verdict.ending is Ending.CLOSE
    assert "acks=0" in words


def test_an_error_put_into_a_response(chance: Random) -> None:
    partitions = [{"partition_index": index, "high_watermark": 9, "records": b"abc"} for index in (0, 1)]
    answer = {"responses": [{"topic": "orders", "partitions": partitions}]}
    frame = response("Fetch", 4, answer, to=request("Fetch", 4, FETCH))
    verdict, words, changed = actions.Error(3).apply(frame, chance)
    assert verdict.data is not None
    assert verdict.answer is None
    value = decode_response(verdict.data[4:], 1, 4).value
    assert [error.code for error in errors_in(1, 4, value)] == [3, 3]
    assert value is not None
    assert value["responses"][0]["partitions"][0]["records"] == b"abc"
    assert words == "UNKNOWN_TOPIC_OR_PARTITION inserted"
    assert [(change.path, change.sent, change.got) for change in changed] == [
        ("responses[0].partitions[0].error_code", 0, 3),
        ("responses[0].partitions[1].error_code", 0, 3),
    ]
