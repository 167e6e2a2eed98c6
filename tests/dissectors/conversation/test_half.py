"""Gaps: what is kept of a damaged frame, and where framing resumes."""

from __future__ import annotations

import struct

import pytest

from dissectors.conversation import Damage, Limits, Outcome, Side
from dissectors.conversation.half import Buffer
from tests.dissectors.conversation.streams import Playbook, brief, noise, produce, request, response


def test_a_hole_inside_a_response_costs_nothing_but_its_bytes() -> None:
    answer = response(1, noise(3000))
    play = Playbook().client(request(1), request(2)).broker(answer[:1000])
    play.gap(Side.BROKER, 500).broker(answer[1500:], response(2))
    first, second = play.exchanges()
    assert first.outcome is second.outcome is Outcome.ANSWERED
    assert first.response is not None
    assert first.response.damage is Damage.MISSING_BYTES
    assert first.response.missing == ((1000, 1500),)
    assert first.response.payload == answer[4:1000]
    assert (first.response.start, first.response.end) == (0, len(answer))
    assert second.response is not None
    assert (second.response.start, second.response.damage) == (len(answer), None)


def test_two_holes_in_one_frame_the_last_one_to_its_end() -> None:
    asked = request(1, noise(1000))
    play = Playbook().client(asked[:100]).gap(Side.CLIENT, 50).client(asked[150:900])
    play.gap(Side.CLIENT, len(asked) - 900).client(request(2)).broker(response(1), response(2))
    first, second = play.exchanges()
    assert first.request is not None
    assert first.request.missing == ((100, 150), (900, len(asked)))
    assert first.request.payload == asked[4:100]
    assert first.request.client_id == "consumer-1"
    assert brief(second) == "answered 2/2"


def test_a_hole_in_a_produce_still_knows_its_acks() -> None:
    asked = produce(1, 0) + noise(0)
    play = Playbook().client(asked[:-4]).gap(Side.CLIENT, 4).client(request(2)).broker(response(2))
    play.expect("seen 1", "no response expected 1", "seen 2", "answered 2/2")


def test_a_hole_over_the_correlation_id_of_a_response() -> None:
    answer = response(1, noise(100))
    play = Playbook().client(request(1), request(2)).broker(answer[:6]).gap(Side.BROKER, 20)
    play.broker(answer[26:], response(2)).expect(
        "seen 1",
        "seen 2",
        f"skipped broker 0-{len(answer)}: a response whose correlation ID is missing",
        "not recorded 1 (a later request was answered first)",
        "answered 2/2",
    )


def test_a_hole_over_the_header_of_a_request() -> None:
    asked = request(2, noise(100))
    play = Playbook().client(request(1), asked[:6]).gap(Side.CLIENT, 20).client(asked[26:], request(3))
    play.broker(response(1), response(2), response(3))
    start = len(request(1))
    play.expect(
        "seen 1",
        f"skipped client {start}-{start + len(asked)}: a request whose header is missing",
        "seen 3",
        "answered 1/1",
        "orphan response 2 (no request with this correlation ID was seen)",
        "answered 3/3",
    )


def test_a_hole_beyond_the_end_of_a_response_looks_for_the_next() -> None:
    answers = [response(number, noise(200, number)) for number in range(1, 5)]
    play = Playbook().client(*map(request, range(1, 5))).broker(answers[0][:100])
    # the rest of 1, and 2 except its last 50 bytes
    play.gap(Side.BROKER, 266).broker(answers[1][-50:], answers[2], answers[3])
    *_, damaged, skipped, unanswered, third, fourth = play.conversation.events()
    assert brief(damaged) == "answered 1/1"
    assert damaged.response.missing == ((100, 208),)
    assert brief(skipped) == "skipped broker 208-416: lost"
    assert brief(unanswered) == "not recorded 2 (a later request was answered first)"
    assert [brief(third), brief(fourth)] == ["answered 3/3", "answered 4/4"]
    assert fourth.response.start == 624


def test_a_hole_of_unknown_length() -> None:
    answers = [response(number, noise(200, number)) for number in range(1, 5)]
    play = Playbook().client(*map(request, range(1, 5))).broker(answers[0][:100])
    play.gap(Side.BROKER, None).broker(answers[1][-50:], answers[2], answers[3])
    lines = [brief(event) for event in play.conversation.events()]
    assert lines[4:] == [
        "answered 1/1",
        "skipped broker 100-150: lost",
        "not recorded 2 (a later request was answered first)",
        "answered 3/3",
        "answered 4/4",
    ]


def test_requests_lost_leave_their_responses_orphans() -> None:
    play = (
        Playbook().client(request(1)).gap(Side.CLIENT, len(request(2)) + len(request(3))).client(request(4))
    )
    play.broker(response(1), response(2), response(3), response(4))
    play.expect(
        "seen 1",
        "skipped client 28-84: lost",
        "seen 4",
        "answered 1/1",
        "orphan response 2 (no request with this correlation ID was seen)",
        "orphan response 3 (no request with this correlation ID was seen)",
        "answered 4/4",
    )


def test_the_first_bytes_are_missing() -> None:
    play = Playbook().gap(Side.CLIENT, 1000).client(noise(50), request(5), request(6)).gap(Side.BROKER, 10)
    play.broker(response(5), response(6))
    play.expect(
        "skipped client 0-1050: lost",
        "seen 5",
        "seen 6",
        "skipped broker 0-10: lost",
        "answered 5/5",
        "answered 6/6",
    )


def test_each_gap_of_a_stream_that_stays_lost_is_reported() -> None:
    play = (
        Playbook()
        .client(request(1))
        .broker(response(1))
        .gap(Side.BROKER, 10)
        .broker(noise(90))
        .gap(Side.BROKER, 5)
    )
    play.conversation.finish()
    play.expect(
        "seen 1", "answered 1/1", "skipped broker 10-110: lost", "skipped broker 110-115: lost", "finished"
    )


def test_an_impossible_size_loses_step_until_frames_follow() -> None:
    play = Playbook().client(request(1), b"\xff\xff\xff\xff", noise(60), request(2), request(3))
    play.broker(response(1), b"\xff\xff\xff\xff", noise(60), response(2), response(3))
    play.expect(
        "seen 1",
        "skipped client 28-92: an impossible request size",
        "seen 2",
        "seen 3",
        "answered 1/1",
        "skipped broker 10-74: an impossible response size",
        "answered 2/2",
        "answered 3/3",
    )


def test_no_frame_is_larger_than_its_length_can_be_told() -> None:
    """With its size field it would not fit an int32; the response is due, which proves sizes that are possible."""
    play = (
        Playbook().client(request(1), request(2)).broker(b"\x7f\xff\xff\xff", struct.pack(">i", 1), noise(20))
    )
    play.conversation.finish()
    play.expect(
        "seen 1",
        "seen 2",
        "skipped broker 0-28: an impossible response size",
        "unanswered 1 (the capture ended)",
        "unanswered 2 (the capture ended)",
        "finished",
    )


def test_garbage_that_would_swallow_frames_is_left_alone() -> None:
    # a size of 200 and no header that is due: believing it would cost the frames inside
    junk = b"\x00\x00\x00\xc8" + noise(20)
    play = Playbook().client(request(1), junk, *map(request, range(2, 12)))
    play.broker(response(1), junk, *map(response, range(2, 40)))
    assert [each.request.correlation_id for each in play.exchanges() if each.request] == list(range(1, 12))


def test_what_is_lost_is_not_kept() -> None:
    limits = Limits(resync_window=10_000)
    play = Playbook(midstream=True, limits=limits)
    for seed in range(100):
        play.client(noise(5000, seed)).broker(noise(5000, seed))
        for half in (play.conversation._client, play.conversation._broker):
            assert half.buffer.available < 80_000
    play.client(request(900_000), request(900_001)).broker(response(900_000), response(900_001))
    assert [brief(each) for each in play.exchanges()] == ["answered 900000/900000", "answered 900001/900001"]


def test_a_gap_of_nothing_is_none() -> None:
    play = Playbook().client(request(1)).gap(Side.BROKER, 0)
    play.broker(response(1)).expect("seen 1", "answered 1/1")


@pytest.mark.parametrize("side", Side)
def test_bytes_after_the_end_are_counted_only(side: Side) -> None:
    play = Playbook()
    play.conversation.finish()
    play.expect("finished")
    play.conversation.receive(side, request(1))
    play.conversation.gap(side, 10, "lost")
    play.conversation.finish()
    play.expect()


def test_the_buffer_knows_positions() -> None:
    buffer = Buffer()
    buffer.append(b"abcd")
    buffer.offset = 1
    buffer.append(b"ef")
    assert (buffer.position, buffer.end, buffer.available) == (1, 6, 5)
    assert buffer.rest() == b"bcdef"
    assert (buffer.position, buffer.end, buffer.base) == (1, 6, 1)
    buffer.jump(10)
    assert (buffer.position, buffer.end, buffer.available) == (16, 16, 0)
