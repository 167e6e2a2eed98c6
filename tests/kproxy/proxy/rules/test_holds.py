from __future__ import annotations

import pytest

from captures.filters import FilterError
from captures.interventions import Intervention, comment_content
from dissectors.apis import NAMES
from dissectors.frames import decode_request
from kproxy.proxy.rules import holds as module
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.rules.holds import Holds
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import UNCHANGED, Ending, Frame, Hold, Verdict
from tests.kproxy.proxy.rules.frames import FETCH, SECOND, START, Clock, request, response

HEARTBEAT = {"group_id": "billing", "generation_id": 3, "member_id": "app-1-x"}


class Session:
    """The calls of a session to a hold."""

    def __init__(self) -> None:
        self.released: list[Verdict] = []

    def hold(self, verdict: Verdict) -> Hold:
        held = verdict.hold
        assert held is not None
        assert verdict.data is None
        held.release = self.released.append
        held.waiting_behind = lambda: 2
        return held

    @property
    def said(self) -> Intervention:
        said = comment_content(self.released[-1].comments[0])
        assert said is not None
        return said


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def holds(clock: Clock) -> Holds:
    return Holds(TopicNames(), clock=clock)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def fetch() -> Frame:
    return request("Fetch", 4, FETCH)


def test_nothing_is_held_without_a_filter(holds: Holds, fetch: Frame) -> None:
    assert not holds.active
    assert not holds.wants("request", 1)
    assert holds.decide(fetch) is UNCHANGED


def test_what_matches_waits_until_it_is_released(
    holds: Holds, session: Session, clock: Clock, fetch: Frame
) -> None:
    assert holds.set_filter("api == Fetch and topic == orders") == "request"
    assert holds.active
    assert holds.wants("request", 1)
    assert not holds.wants("response", 1)
    held = session.hold(holds.decide(fetch))
    assert held.number == 1
    assert held.frame is fetch
    clock.forward(2)
    assert holds.to_json() == {
        "filters": {"request": "api == Fetch and topic == orders"},
        "held": [
            {
                "number": 1,
                "side": "request",
                "api": "Fetch",
                "version": 4,
                "correlation_id": 42,
                "connection": 7,
                "client": ("10.0.0.9", 41_078),
                "client_id": "app-1",
                "broker": ("10.1.0.1", 9092),
                "node_id": 3,
                "size": len(fetch.data),
                "held_since_ns": START,
                "held_ns": 2 * SECOND,
                "released_in_ns": 22 * SECOND,
                "waiting_behind": 2,
            }
        ],
        "passed": 0,
        "failures": 0,
        "undecided": 0,
    }
    holds.release(1)
    (verdict,) = session.released
    assert verdict.data is None
    assert verdict.ending is Ending.NONE
    assert (session.said.held_ns, session.said.released_by) == (2 * SECOND, "user")
    assert holds.to_json()["held"] == []
    with pytest.raises(LookupError, match="no frame 1 is held"):
        holds.release(1)


def test_it_is_told_how_many_are_held(clock: Clock, session: Session, fetch: Frame) -> None:
    told: list[int] = []
    holds = Holds(TopicNames(), clock=clock, held=told.append)
    holds.set_filter("api == Fetch")
    for _ in range(5):
        session.hold(holds.decide(fetch))
    assert told == [1, 2, 3, 4, 5]
    told.clear()
    holds.release(1)
    holds.kill(2)
    holds.edit(3, changes={"max_wait_ms": 3})
    assert told == [4, 3, 2]
    told.clear()
    assert holds.release_all() == 2
    assert holds.release_all() == 0
    session.hold(holds.decide(fetch))
    clock.forward(24)
    holds.release_due(clock())
    holds.release_due(clock())
    assert told == [0, 1, 0]


def test_others_go_on(holds: Holds) -> None:
    holds.set_filter("api == Fetch")
    assert holds.decide(request("Heartbeat", 3, HEARTBEAT)) is UNCHANGED


def test_a_frame_goes_on_by_itself_before_its_client_gives_up(
    holds: Holds, session: Session, clock: Clock, fetch: Frame
) -> None:
    holds.set_filter("api == Fetch")
    session.hold(holds.decide(fetch))
    clock.forward(23.9)
    holds.release_due(clock())
    assert session.released == []
    clock.forward(0.1)
    holds.release_due(clock())
    assert (session.said.released_by, session.said.held_ns) == ("timeout", 24 * SECOND)


def test_a_frame_is_held_through_a_clock_that_is_set(
    holds: Holds, session: Session, clock: Clock, fetch: Frame
) -> None:
    holds.set_filter("api == Fetch")
    session.hold(holds.decide(fetch))
    clock.forward(3600)
    holds.clock_set(3600 * SECOND)
    holds.release_due(clock())
    assert session.released == []
    clock.forward(24)
    holds.release_due(clock())
    assert session.said.released_by == "timeout"


def test_a_response_has_what_is_left_of_the_clients_time(
    holds: Holds, session: Session, clock: Clock, fetch: Frame
) -> None:
    holds.set_filter("response: api == Fetch")
    assert holds.wants("request", 1)
    clock.forward(20)
    answer = response("Fetch", 4, {"responses": []}, to=fetch, time=clock())
    held = session.hold(holds.decide(answer))
    assert held.until == START + 24 * SECOND
    clock.forward(10)
    assert holds.decide(response("Fetch", 4, {"responses": []}, to=fetch, time=clock())) is UNCHANGED
    assert holds.passed == 1


def test_an_edited_frame_goes_on_in_its_place(holds: Holds, session: Session, fetch: Frame) -> None:
    holds.set_filter("api == Fetch")
    session.hold(holds.decide(fetch))
    with pytest.raises(EditError, match="no topics\\[7\\]"):
        holds.edit(1, changes={"topics[7].topic": "x"})
    changed = holds.edit(1, changes={"topics[0].partitions[1].fetch_offset": 99})
    assert [(change.path, change.sent, change.got) for change in changed] == [
        ("topics[0].partitions[1].fetch_offset", 5, 99)
    ]
    (verdict,) = session.released
    assert verdict.data is not None
    value = decode_request(verdict.data[4:]).value
    assert value is not None
    assert value["topics"][0]["partitions"][1]["fetch_offset"] == 99
    assert session.said.released_by == "edited"
    assert session.said.changed == changed


def test_a_killed_frame_closes_its_connection(holds: Holds, session: Session, fetch: Frame) -> None:
    holds.set_filter("api == Fetch")
    session.hold(holds.decide(fetch))
    holds.kill(1)
    (verdict,) = session.released
    assert (verdict.data, verdict.ending) == (b"", Ending.CLOSE)
    assert session.said.released_by == "killed"
    assert session.said.not_forwarded


def test_all_are_released_at_once(holds: Holds, session: Session, fetch: Frame) -> None:
    holds.set_filter("api == Fetch")
    for _ in range(3):
        session.hold(holds.decide(fetch))
    assert holds.release_all("detached") == 3
    assert len(session.released) == 3
    assert session.said.released_by == "detached"
    assert holds.active


def test_what_has_lost_its_connection_is_forgotten(holds: Holds, session: Session, fetch: Frame) -> None:
    holds.set_filter("api == Fetch")
    session.hold(holds.decide(fetch)).gone = True
    assert holds.to_json()["held"] == []
    with pytest.raises(LookupError):
        holds.release(1)
    session.hold(holds.decide(fetch)).gone = True
    holds.release_due(START + 3600 * SECOND)
    assert session.released == []


def test_there_is_a_most(
    holds: Holds, session: Session, fetch: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 2)
    holds.set_filter("api == Fetch")
    for _ in range(2):
        session.hold(holds.decide(fetch))
    assert holds.decide(fetch) is UNCHANGED
    assert holds.passed == 1


def test_one_filter_for_each_side(holds: Holds, fetch: Frame) -> None:
    holds.set_filter("api == Fetch")
    holds.set_filter("response: api == Metadata")
    holds.set_filter("api == Heartbeat")
    assert holds.to_json()["filters"] == {"request": "api == Heartbeat", "response": "api == Metadata"}
    assert {key for key in range(len(NAMES)) if holds.wants("request", key)} == {3, 12}
    holds.clear_filter("request")
    assert holds.to_json()["filters"] == {"response": "api == Metadata"}
    holds.clear_filter()
    assert not holds.active


def test_a_mistake_changes_nothing(holds: Holds) -> None:
    holds.set_filter("api == Fetch")
    with pytest.raises(FilterError):
        holds.set_filter("api == Fetsch")
    assert holds.to_json()["filters"] == {"request": "api == Fetch"}


def test_a_filter_that_fails_holds_nothing(
    holds: Holds, fetch: Frame, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kproxy.proxy.rules.views import View

    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(View, "meets", broken)
    holds.set_filter("api == Fetch")
    assert holds.decide(fetch) is UNCHANGED
    assert holds.decide(fetch) is UNCHANGED
    assert holds.failures == 2
    assert len(caplog.records) == 1
