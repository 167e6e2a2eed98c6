from __future__ import annotations

import pytest

from dissectors.conversation import Side
from dissectors.conversation.limits import Limits
from dissectors.conversation.plausible import highest
from dissectors.conversation.resync import Evidence, Requests, Responses, Search
from tests.dissectors.conversation.streams import VERSIONS, Playbook, brief, frame, noise, request, response

pytestmark = pytest.mark.quick

JUNK = noise(200)


def about(client_ids: tuple[bytes, ...] = (), last_id: int | None = None, window: int = 10_000) -> Requests:
    known = {key: last for key, (_, last) in VERSIONS.items()}
    return Requests(known, highest(VERSIONS)[1], Limits(resync_window=window), client_ids, last_id)


def due(*ids: int, lost: bool = False) -> Responses:
    return Responses(Limits(resync_window=10_000), {each: place for place, each in enumerate(ids)}, lost)


def find(data: bytes, evidence: Evidence, anchor: int = 0, *, final: bool = False) -> int | None:
    """Search all at once and byte by byte: both find the same, the latter as soon as possible."""
    at_once = Search(0, anchor).find(data, 0, evidence, final=final)
    search = Search(0, anchor)
    for stop in range(1, len(data) + 1):
        kept = search.keep_from
        found = search.find(data[kept:stop], kept, evidence, final=final and stop == len(data))
        if found is not None:
            break
    assert found == at_once
    return at_once


def test_a_request_at_the_anchor_needs_no_second() -> None:
    assert find(request(5)[:24], about()) == 0
    assert find(request(5)[:23], about()) is None


def test_a_request_elsewhere_needs_a_second_header() -> None:
    data = JUNK + request(5)
    assert find(data, about()) is None
    assert find(data + request(6)[:20], about()) is None
    assert find(data + request(6)[:-4], about()) == 200


def test_a_known_client_that_goes_on_counting_needs_no_second() -> None:
    data = JUNK + request(5)
    assert find(data, about((b"consumer-1",), 3)) == 200
    assert find(data, about((b"consumer-1",), 5)) is None
    assert find(data, about((b"producer-1",), 3)) is None


def test_a_known_connection_takes_strangers_only_as_a_chain_of_three() -> None:
    data = JUNK + request(5, client_id="other") + request(6, client_id="other")
    assert find(data, about((b"consumer-1",), 3)) is None
    assert find(data + request(7, client_id="other"), about((b"consumer-1",), 3)) == 200


def test_the_last_request_ends_where_the_bytes_end() -> None:
    data = JUNK + request(5)
    assert find(data, about(), final=True) == 200
    assert find(data + b"\0\0", about(), final=True) == 200
    assert find(data + b"\xff", about(), final=True) is None
    assert find(data[:-1], about(), final=True) is None


def test_requests_without_client_id_need_a_chain_of_three() -> None:
    silent = [request(each, client_id=None) for each in range(4)]
    assert find(JUNK + b"".join(silent[:2]), about(), -1) is None
    assert find(JUNK + b"".join(silent[:3]), about(), -1) == 200


def test_a_chain_that_breaks_is_dropped() -> None:
    data = JUNK + request(5)[:-1] + request(6) + request(7)
    assert find(data, about(), -1) == 200 + len(request(5)) - 1


def test_a_candidate_larger_than_the_window_is_dropped() -> None:
    data = JUNK + request(5, noise(3000)) + request(6) + request(7)
    assert find(data, about(window=2000), -1) == len(data) - 2 * len(request(6))


def test_a_large_candidate_does_not_hold_up_others() -> None:
    # 200: a header that announces 9,000 bytes; after it, two requests that confirm each other
    lure = request(1, bytes(9000))[:40]
    assert find(JUNK + lure + request(6) + request(7), about(), -1) == 240


def test_what_proves_a_frame_too_late_is_ignored() -> None:
    data = JUNK + request(5) + request(6)
    assert Search(0).find(data, 0, about(), until=len(data) - 4) == 200
    assert Search(0).find(data, 0, about(), until=len(data) - 5) is None


def test_two_due_responses_in_order_are_found() -> None:
    data = JUNK + response(5) + response(6)
    assert find(data, due(5, 6)) == 200
    assert find(data, due(6, 5)) is None
    assert find(data, due(6, 5), final=True) == 210


def test_one_due_response_suffices_at_the_anchor_or_with_a_large_id() -> None:
    assert find(response(5), due(5)) == 0
    assert find(JUNK + response(5), due(5)) is None
    assert find(JUNK + response(70_000), due(70_000)) == 200


def test_nothing_due_is_not_found() -> None:
    assert find(JUNK + b"".join(map(response, range(9))), due()) is None


def test_responses_to_lost_requests_are_known_by_counting() -> None:
    data = JUNK + b"".join(response(each, noise(30, each)) for each in range(100, 104))
    assert find(data, due(lost=True), -1) == 200
    backwards = JUNK + b"".join(response(each, noise(30, each)) for each in range(104, 100, -1))
    assert find(backwards, due(lost=True), -1) is None


def test_a_search_keeps_what_may_still_be_proven() -> None:
    search = Search(0)
    lure = request(1, bytes(9000))[:40]
    assert search.find(noise(70_000) + lure, 0, about()) is None
    assert search.keep_from == 70_000


def test_a_capture_that_begins_inside_a_connection() -> None:
    play = (
        Playbook(midstream=True)
        .client(noise(70), request(41), request(42))
        .broker(noise(30), response(40), response(41))
    )
    play.client(request(43)).broker(response(42), response(43))
    play.expect(
        "skipped client 0-70: the capture started inside the connection",
        "seen 41",
        "seen 42",
        "seen 43",
        "skipped broker 0-30: the capture started inside the connection",
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
    # resynchronising inside a Produce whose records contain requests: their IDs do not continue from the last one
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
