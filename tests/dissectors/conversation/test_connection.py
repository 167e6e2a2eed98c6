from __future__ import annotations

import pytest

from dissectors.apis import version_limits
from dissectors.conversation import (
    Conversation,
    Damage,
    FrameExchange,
    Limits,
    Outcome,
    RequestSeen,
    Side,
    State,
)
from dissectors.conversation.client import MAX_CLIENT_IDS
from tests.dissectors.conversation.streams import (
    API_VERSIONS,
    CONTROLLED_SHUTDOWN,
    FETCH,
    VERSIONS,
    Playbook,
    brief,
    frame,
    noise,
    produce,
    request,
    response,
)

pytestmark = pytest.mark.quick


def test_a_request_is_seen_and_then_answered() -> None:
    play = Playbook().client(request(1)).expect("seen 1")
    assert len(play.conversation._pairing.queue) == 1
    play.broker(response(1)).expect("answered 1/1")
    assert not play.conversation._pairing.queue
    assert not list(play.conversation.events())


def test_frames_know_their_place_header_and_payload() -> None:
    asked, again, answer = request(7, key=FETCH, version=12), request(8, client_id=None), response(7, b"abc")
    play = Playbook().client(asked, again).broker(answer)
    seen, seen_again, exchange = play.conversation.events()
    assert isinstance(seen, RequestSeen)
    assert (seen.request.start, seen.request.end, seen.request.size) == (0, len(asked), len(asked) - 4)
    assert (seen.request.api_key, seen.request.api_version, seen.request.client_id) == (1, 12, "consumer-1")
    assert seen.request.payload == asked[4:]
    assert seen.request.side is Side.CLIENT
    assert isinstance(seen_again, RequestSeen)
    assert seen_again.request.start == len(asked)
    assert seen_again.request.client_id is None
    assert brief(exchange) == "answered 7/7"
    assert exchange.response.payload == answer[4:]
    assert exchange.response.damage is None
    assert (exchange.response.start, exchange.response.size) == (0, 7)
    assert exchange.response.side is Side.BROKER


@pytest.mark.parametrize(
    ("client_id", "known"), [("orders", True), ("a\0b", True), ("client-1", True), ("client-63", False)]
)
def test_all_client_ids_go_with_a_connection_to_another_reader(client_id: str, known: bool) -> None:
    """Any of them confirms a request after a loss, not only the latest one; the first ones are kept."""
    names = ["orders", "a\0b", *(f"client-{number}" for number in range(MAX_CLIENT_IDS))]
    play = Playbook()
    for correlation_id, name in enumerate(names):
        play.client(request(correlation_id, client_id=name)).broker(response(correlation_id))
    standing = play.conversation.checkpoint()
    assert standing is not None
    assert standing.client_ids == names[:MAX_CLIENT_IDS]
    latest = [each.request for each in play.conversation.events() if isinstance(each, RequestSeen)][-1]
    went_on = Conversation(VERSIONS)
    went_on.resume(
        standing.positions, [], latest=latest, last_answer=len(names) - 1, client_ids=standing.client_ids
    )
    for each in (play.conversation, went_on):
        each.gap(Side.CLIENT, None, "lost")
        each.receive(Side.CLIENT, noise(50) + request(len(names), client_id=client_id)[:-2])
        assert each.state(Side.CLIENT) is (State.FRAMES if known else State.LOST)


@pytest.mark.parametrize("cut", [1, 3, 500])
def test_nobody_else_goes_on_while_a_whole_frame_waits_for_what_confirms_it(cut: int) -> None:
    """Another reader takes what is unread for the beginning of one frame."""
    play = Playbook().client(request(1)).broker(response(1))
    doubtful = request(2, key=999)
    for at in range(0, len(doubtful), cut):
        assert play.conversation.checkpoint() is not None
        play.client(doubtful[at : at + cut])
    assert play.conversation.checkpoint() is None
    play.client(request(3))
    standing = play.conversation.checkpoint()
    assert standing is not None
    assert (standing.unread, len(standing.in_flight)) == ((b"", b""), 2)


def test_short_input_means_more_is_needed() -> None:
    play = Playbook()
    for byte in request(1):
        play.expect()
        play.client(bytes([byte]))
    play.expect("seen 1")


def test_pipelined_requests_are_answered_in_order() -> None:
    play = Playbook().client(request(1), request(2), request(3)).expect("seen 1", "seen 2", "seen 3")
    play.broker(response(1), response(2)).expect("answered 1/1", "answered 2/2")
    play.broker(response(3)).expect("answered 3/3")


def test_acks_0_expects_no_response() -> None:
    play = Playbook().client(produce(1, 0), produce(2, 1)).broker(response(2))
    play.expect("seen 1", "no response expected 1", "seen 2", "answered 2/2")


def test_a_broker_that_answers_acks_0_all_the_same() -> None:
    # noida 0.2.3 does (06_noida_acks0.pcap)
    play = Playbook().client(produce(1, 0)).broker(response(1)).client(request(2)).broker(response(2))
    play.expect(
        "seen 1",
        "no response expected 1",
        "orphan response 1 (answers a Produce with acks=0, which needs no answer)",
        "seen 2",
        "answered 2/2",
    )


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    # ControlledShutdownRequest.json v0 (header v0): broker_id int32
    shutdown = frame(b"\x00\x07\x00\x00" + b"\x00\x00\x00\x05" + b"\x00\x00\x00\x01")
    play = Playbook().client(request(4), shutdown).broker(response(4), response(5))
    seen = [event for event in play.conversation.events() if isinstance(event, RequestSeen)]
    assert (seen[1].request.api_key, seen[1].request.client_id) == (CONTROLLED_SHUTDOWN, None)


def test_an_api_versions_error_is_an_answer() -> None:
    # error 35 in v0 format, one entry 18: 0-4 (LIVE.md, Versions and errors)
    play = Playbook().client(request(1, key=API_VERSIONS, version=5))
    play.broker(response(1, b"\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x04")).expect(
        "seen 1", "answered 1/1"
    )


def test_client_ids_that_are_no_text() -> None:
    """The first request must decode; after it, the ID proves nothing, and need not."""
    odd = request(1, client_id="a\0b")
    play = Playbook()
    for at in range(len(odd)):
        play.expect()
        play.client(odd[at : at + 1])
    play.expect("seen 1").broker(response(1)).expect("answered 1/1")
    play.client(request(2, noise(40), client_id="\x1b[2J")).broker(response(2)).expect(
        "seen 2", "answered 2/2"
    )
    latin = frame(b"\x00\x03\x00\x01\x00\x00\x00\x03\x00\x05Ger\xe4t\0\0\0\0")
    play.client(latin[:20], latin[20:])
    (seen,) = play.conversation.events()
    assert isinstance(seen, RequestSeen)
    assert seen.request.client_id == "Ger\ufffdt"


def test_client_ids_that_are_no_text_are_found_again_behind_a_gap() -> None:
    for client_id in ("a\0b", "a\ufffdb"):
        play = Playbook().client(request(1, client_id=client_id)).expect("seen 1")
        play.gap(Side.CLIENT, None).client(noise(30), request(2, noise(40), client_id=client_id))
        end = len(request(1, client_id=client_id))
        play.expect(f"skipped client {end}-{end + 30}: lost", "seen 2")


def test_a_beginning_that_only_looks_like_a_request() -> None:
    """API, version and length are valid, but the client ID is not text, and the body is not of that API."""
    for body in (b"", b"\0\0\0\0\0", noise(300)):
        play = Playbook().client(request(1, body, client_id="a\0b"), noise(70_000))
        assert [brief(event).split(":")[0] for event in play.conversation.events()] == ["foreign client 0"]


def test_versions_and_apis_of_the_future_are_marked_not_refused() -> None:
    play = Playbook().client(request(1), request(2, key=METADATA_NEXT[0], version=METADATA_NEXT[1]))
    play.client(request(3, key=97, version=0))
    suspicious = [
        event.request.suspicious for event in play.conversation.events() if isinstance(event, RequestSeen)
    ]
    assert suspicious == ["", *["newer than the known APIs and versions"] * 2]


#: one version beyond the last of Metadata
METADATA_NEXT = 3, 14


def test_an_unknown_api_is_shown_when_the_stream_goes_on_behind_it() -> None:
    # Api key 999: what 0.9 leaves unanswered on an open connection
    play = (
        Playbook()
        .client(request(1), request(2, key=999))
        .broker(response(1))
        .client(request(3))
        .broker(response(3))
    )
    play.expect(
        "seen 1",
        "answered 1/1",
        "seen 2",
        "seen 3",
        "unanswered 2 (a later request was answered first)",
        "answered 3/3",
    )


def test_an_unknown_api_as_the_last_request() -> None:
    play = (
        Playbook()
        .client(request(1))
        .broker(response(1))
        .client(request(2, key=999))
        .expect("seen 1", "answered 1/1")
    )
    play.conversation.finish("the connection ended")
    play.expect("seen 2", "unanswered 2 (the connection ended)", "finished")


def test_reset_and_end_of_capture_say_so() -> None:
    play = Playbook().client(request(1))
    play.conversation.finish("the connection was reset")
    play.expect("seen 1", "unanswered 1 (the connection was reset)", "finished")
    play.conversation.finish("the connection was reset")
    play.expect()
    play = Playbook().client(request(1))
    play.conversation.finish()
    play.expect("seen 1", "unanswered 1 (the capture ended)", "finished")


def test_the_connection_ends_inside_a_request() -> None:
    whole = request(9, noise(100))
    play = Playbook().client(request(1), whole[:40])
    play.conversation.finish()
    *_, skipped, cut, unanswered, finished = play.conversation.events()
    start = len(request(1))
    assert (
        brief(skipped)
        == f"skipped client {start}-{start + 40}: the capture ended inside a frame (40 of {len(whole)} bytes)"
    )
    assert brief(cut) == "unanswered 9 (the connection or the capture ended inside it)"
    assert cut.request.damage is Damage.CUT_OFF
    assert cut.request.payload == whole[4:40]
    assert cut.request.size == len(whole) - 4
    assert brief(unanswered) == "unanswered 1 (the capture ended)"
    assert brief(finished) == "finished"


def test_a_fetch_response_that_ends_after_its_first_8_bytes() -> None:
    # LIVE.md, Pairing: the first segment is size and correlation ID, then the client leaves
    play = Playbook().client(request(1)).broker(response(1, noise(1000))[:8])
    play.conversation.finish("the connection was reset")
    *_, skipped, exchange, _ = play.conversation.events()
    assert brief(skipped) == "skipped broker 0-8: the connection was reset inside a frame (8 of 1008 bytes)"
    assert exchange.outcome is Outcome.UNANSWERED
    assert (exchange.request.correlation_id, exchange.response.damage) == (1, Damage.CUT_OFF)


def test_a_capture_that_holds_the_response_before_its_request() -> None:
    play = (
        Playbook()
        .client(request(1))
        .broker(response(1), response(2), response(3))
        .expect("seen 1", "answered 1/1")
    )
    play.client(request(2)).expect("seen 2", "answered 2/2")
    play.client(request(3)).expect("seen 3", "answered 3/3")


def test_a_response_that_was_never_asked_for() -> None:
    play = (
        Playbook()
        .client(request(1))
        .broker(response(77), response(1))
        .expect("seen 1", "orphan response 77 (no request with this correlation ID was seen)", "answered 1/1")
    )
    play.broker(response(78))
    play.conversation.finish()
    play.expect("orphan response 78 (no request with this correlation ID was seen)", "finished")


def test_by_default_every_version_of_every_api_is_known() -> None:
    conversation = Conversation()
    for key, (first, last) in version_limits().items():
        if (key, first) != (CONTROLLED_SHUTDOWN, 0):
            conversation.receive(Side.CLIENT, request(key, key=key, version=first))
        if key != 17:
            conversation.receive(Side.CLIENT, request(key, key=key, version=last))
        conversation.receive(Side.BROKER, response(key))
    assert not [
        event.request.suspicious
        for event in conversation.events()
        if isinstance(event, RequestSeen) and event.request.suspicious
    ]


def test_a_frame_over_the_limit_keeps_its_beginning_and_its_place() -> None:
    limits = Limits(max_frame=1000, kept_prefix=100)
    asked, answer = request(1, noise(5000)), response(1, noise(7000, 2))
    play = Playbook(limits=limits)
    for at in range(0, len(asked), 333):
        play.client(asked[at : at + 333])
    play.client(request(2)).broker(answer, response(2))
    first, second = play.exchanges()
    assert first.request is not None
    assert first.response is not None
    assert first.request.damage is first.response.damage is Damage.OVER_LIMIT
    assert first.request.payload == asked[4:104]
    assert first.response.payload == answer[4:104]
    assert (first.request.end, first.response.end) == (len(asked), len(answer))
    assert brief(second) == "answered 2/2"


def test_too_many_requests_in_flight_give_up_the_oldest() -> None:
    play = Playbook(limits=Limits(max_pending_requests=2)).client(
        request(1), request(2), request(3), request(4)
    )
    play.expect(
        "seen 1", "seen 2", "seen 3", "unanswered 1 (too many requests in flight)", "seen 4",
        "unanswered 2 (too many requests in flight)",
    )  # fmt: skip
    play.broker(response(1), response(2), response(3), response(4)).expect(
        "orphan response 1 (no request with this correlation ID was seen)",
        "orphan response 2 (no request with this correlation ID was seen)",
        "answered 3/3",
        "answered 4/4",
    )


def test_payloads_in_flight_are_bounded() -> None:
    play = Playbook(limits=Limits(max_pending_bytes=10_000, kept_prefix=10))
    for correlation_id in range(100):
        play.client(request(correlation_id, noise(500)))
    seen = [event.request for event in play.conversation.events() if isinstance(event, RequestSeen)]
    assert sum(len(each.payload) for each in seen) <= 20_000
    assert {each.damage for each in seen if len(each.payload) == 10} == {Damage.OVER_LIMIT}


@pytest.mark.parametrize("broker_first", [False, True])
def test_the_first_request_of_a_side_may_have_the_first_correlation_id(broker_first: bool) -> None:
    """Clients count from 0: without a handshake it is paired, unless the broker sent data before it."""
    conversation = Conversation(midstream=True)
    asked, answered = request(0), response(0)
    order = [(Side.CLIENT, asked), (Side.BROKER, answered)]
    for side, data in reversed(order) if broker_first else order:
        conversation.receive(side, data)
    conversation.finish()
    outcomes = [event.outcome for event in conversation.events() if isinstance(event, FrameExchange)]
    assert (outcomes == [Outcome.ANSWERED]) != broker_first
