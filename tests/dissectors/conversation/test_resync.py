from __future__ import annotations

import pytest

from dissectors.conversation import Side
from dissectors.conversation.limits import Limits
from dissectors.conversation.plausible import ceilings
from dissectors.conversation.resync import Found, More, Requests, Responses, find_request, find_response
from tests.dissectors.conversation.streams import VERSIONS, Playbook, brief, frame, noise, request, response

JUNK = noise(200)


def about(client_ids: tuple[bytes, ...] = (), last_id: int | None = None, window: int = 10_000) -> Requests:
    known = {key: last for key, (_, last) in VERSIONS.items()}
    return Requests(known, ceilings(VERSIONS), Limits(resync_window=window), client_ids, last_id)


def due(*ids: int, lost: bool = False) -> Responses:
    return Responses(Limits(resync_window=10_000), {each: place for place, each in enumerate(ids)}, lost)


def test_a_request_at_the_anchor_needs_no_second() -> None:
    assert find_request(request(5), 0, 0, about(), final=False) == Found(0)


def test_a_request_elsewhere_needs_a_second_header() -> None:
    data = JUNK + request(5)
    assert find_request(data, 0, 0, about(), final=False) == More(200, len(request(5)) + 4)
    assert find_request(data + request(6)[:20], 0, 0, about(), final=False) == More(
        200, 2 * len(request(5)) - 4
    )
    assert find_request(data + request(6)[:-4], 0, 0, about(), final=False) == Found(200)


def test_a_known_client_that_goes_on_counting_needs_no_second() -> None:
    data = JUNK + request(5)
    assert find_request(data, 0, 0, about((b"consumer-1",), 3), final=False) == Found(200)
    assert isinstance(find_request(data, 0, 0, about((b"consumer-1",), 5), final=False), More)
    assert isinstance(find_request(data, 0, 0, about((b"producer-1",), 3), final=False), More)


def test_the_last_request_ends_where_the_bytes_end() -> None:
    data = JUNK + request(5)
    assert find_request(data, 0, 0, about(), final=True) == Found(200)
    assert isinstance(find_request(data + b"\0", 0, 0, about(), final=True), More)


def test_requests_without_client_id_need_a_chain_of_three() -> None:
    silent = [request(each, client_id=None) for each in range(4)]
    assert isinstance(find_request(JUNK + b"".join(silent[:2]), 0, -1, about(), final=False), More)
    assert find_request(JUNK + b"".join(silent[:3]), 0, -1, about(), final=False) == Found(200)


def test_a_chain_that_breaks_is_dropped() -> None:
    data = JUNK + request(5)[:-1] + request(6) + request(7)
    assert find_request(data, 0, -1, about(), final=False) == Found(200 + len(request(5)) - 1)


def test_a_candidate_larger_than_the_window_is_dropped() -> None:
    data = JUNK + request(5, noise(20_000)) + request(6) + request(7)
    assert find_request(data, 0, -1, about(), final=False) == Found(len(data) - 2 * len(request(6)))


def test_two_due_responses_in_order_are_found() -> None:
    data = JUNK + response(5) + response(6)
    assert find_response(data, 0, 0, due(5, 6), final=False) == Found(200)
    assert isinstance(find_response(data, 0, 0, due(6, 5), final=True), Found)
    assert find_response(data, 0, 0, due(6, 5), final=False) == More(210, 18)


def test_one_due_response_suffices_at_the_anchor_or_with_a_large_id() -> None:
    assert find_response(response(5), 0, 0, due(5), final=False) == Found(0)
    assert find_response(JUNK + response(5), 0, 0, due(5), final=False) == More(200, 18)
    assert find_response(JUNK + response(70_000), 0, 0, due(70_000), final=False) == Found(200)


def test_nothing_due_is_not_found() -> None:
    data = JUNK + b"".join(map(response, range(9)))
    assert find_response(data, 0, 0, due(), final=False) == More(len(data) - 7, 8)


def test_responses_to_lost_requests_are_known_by_counting() -> None:
    data = JUNK + b"".join(response(each, noise(30, each)) for each in range(100, 104))
    assert find_response(data, 0, -1, due(lost=True), final=False) == Found(200)
    backwards = JUNK + b"".join(response(each, noise(30, each)) for each in range(104, 100, -1))
    assert isinstance(find_response(backwards, 0, -1, due(lost=True), final=False), More)


def test_a_capture_that_begins_inside_a_connection() -> None:
    play = (
        Playbook(midstream=True)
        .client(noise(70), request(41), request(42))
        .broker(noise(30), response(40), response(41))
    )
    play.client(request(43)).broker(response(42), response(43))
    play.expect(
        "skipped client 0-70: the capture began inside the connection",
        "seen 41",
        "seen 42",
        "seen 43",
        "skipped broker 0-30: the capture began inside the connection",
        "orphan response 40 (no request with this correlation ID was seen)",
        "answered 41/41",
        "answered 42/42",
        "answered 43/43",
    )


def test_responses_to_requests_before_the_capture_are_orphans() -> None:
    play = (
        Playbook(midstream=True)
        .broker(*map(response, range(10, 14)))
        .client(request(14))
        .broker(response(14))
    )
    lines = [brief(event) for event in play.conversation.events()]
    assert lines[:4] == [
        f"orphan response {each} (no request with this correlation ID was seen)" for each in range(10, 14)
    ]
    assert lines[4:] == ["seen 14", "answered 14/14"]


def test_a_constant_id_mid_stream_pairs_with_nothing() -> None:
    # the first response may belong to a request before the capture
    play = Playbook(midstream=True).client(request(0), request(0)).broker(response(0), response(0))
    assert [each.request for each in play.exchanges()] == [None, None]


@pytest.mark.parametrize("side", Side)
def test_a_capture_of_one_direction(side: Side) -> None:
    play = Playbook(midstream=True)
    for number in range(1, 20):
        play.conversation.receive(
            side, request(number) if side is Side.CLIENT else response(number, noise(40, number))
        )
    play.conversation.finish()
    assert len(play.exchanges()) == 19


def test_a_capture_of_kafka_inside_a_record_is_not_taken_for_the_stream() -> None:
    # resynchronising inside a Produce whose records hold requests: their IDs do not go on from the last one
    inner = b"".join(request(each, client_id="other") for each in range(2))
    play = (
        Playbook()
        .client(request(500))
        .gap(Side.CLIENT, 100)
        .client(noise(40), inner, noise(20, 2), request(501), request(502))
    )
    play.broker(*map(response, (500, 501, 502)))
    assert [brief(each) for each in play.exchanges()] == [
        f"answered {each}/{each}" for each in (500, 501, 502)
    ]


def test_frames_of_all_sizes_are_framed() -> None:
    sizes = [0, 1, 4, 1000, 70_000]
    play = Playbook().client(*map(request, range(1, 6)))
    play.broker(*(frame((number + 1).to_bytes(4, "big") + noise(size)) for number, size in enumerate(sizes)))
    assert [each.response.size for each in play.exchanges() if each.response] == [size + 4 for size in sizes]
