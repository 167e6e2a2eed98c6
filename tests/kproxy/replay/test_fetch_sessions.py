"""Fetch sessions, recorded and live."""

from __future__ import annotations

from typing import Any

from kproxy.replay.fetch_sessions import FetchSessions, answered, has_known_partitions

Body = dict[str, Any]


def fetch(session_id: int, epoch: int, *partitions: tuple[int, int], forgotten: tuple[int, ...] = ()) -> Body:
    asked = [{"partition": number, "fetch_offset": offset} for number, offset in partitions]
    return {
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [{"topic": "orders", "partitions": asked}] if asked else [],
        "forgotten_topics_data": [{"topic": "orders", "partitions": forgotten}] if forgotten else [],
    }


def asked(body: Body) -> dict[int, int]:
    return {
        each["partition"]: each["fetch_offset"] for topic in body["topics"] for each in topic["partitions"]
    }


class Talk:
    """A recorded session 7, replayed."""

    def __init__(self) -> None:
        self.sessions = FetchSessions()

    def step(self, body: Body, recorded: Body, live: Body | None) -> Body:
        sent, session = self.sessions.request(12, body)
        self.sessions.recorded(session, recorded)
        answered(session, sent, live)
        return sent


def test_without_a_session_nothing_changes() -> None:
    body = fetch(0, -1, (0, 5))
    assert FetchSessions().request(12, body) == (body, None)
    old = {"topics": []}
    assert FetchSessions().request(4, old) == (old, None)


def test_the_live_session_takes_the_place_of_the_recorded() -> None:
    talk = Talk()
    recorded, live = {"session_id": 7, "error_code": 0}, {"session_id": 99, "error_code": 0}
    first = talk.step(fetch(0, 0, (0, 5), (1, 6)), recorded, live)
    assert (first["session_id"], first["session_epoch"]) == (0, 0)
    for epoch in (1, 2, 3):
        sent = talk.step(fetch(7, epoch, (1, 6 + epoch)), recorded, live)
        assert (sent["session_id"], sent["session_epoch"]) == (99, epoch)
        assert asked(sent) == {1: 6 + epoch}
    closed = talk.step(fetch(7, -1), recorded, {"session_id": 0, "error_code": 0})
    assert (closed["session_id"], closed["session_epoch"]) == (99, -1)


def test_a_broker_that_keeps_no_session_is_asked_for_everything() -> None:
    talk = Talk()
    recorded, live = {"session_id": 7}, {"session_id": 0, "error_code": 0}
    talk.step(fetch(0, 0, (0, 5), (1, 6), (2, 7)), recorded, live)
    sent = talk.step(fetch(7, 1, (1, 60), forgotten=(2,)), recorded, live)
    assert (sent["session_id"], sent["session_epoch"]) == (0, 0)
    assert asked(sent) == {0: 5, 1: 60}
    assert sent["forgotten_topics_data"] == []
    sent = talk.step(fetch(7, 2), recorded, live)
    assert asked(sent) == {0: 5, 1: 60}


def test_a_lost_session_begins_anew() -> None:
    talk = Talk()
    recorded = {"session_id": 7}
    talk.step(fetch(0, 0, (0, 5)), recorded, {"session_id": 99, "error_code": 0})
    talk.step(fetch(7, 1), recorded, {"session_id": 0, "error_code": 70})
    sent = talk.step(fetch(7, 2), recorded, {"session_id": 100, "error_code": 0})
    assert (sent["session_id"], sent["session_epoch"], asked(sent)) == (0, 0, {0: 5})
    sent = talk.step(fetch(7, 3), recorded, {"session_id": 100, "error_code": 0})
    assert (sent["session_id"], sent["session_epoch"], asked(sent)) == (100, 1, {})


def test_no_answer_ends_a_session() -> None:
    talk = Talk()
    talk.step(fetch(0, 0, (0, 5)), {"session_id": 7}, {"session_id": 99, "error_code": 0})
    talk.step(fetch(7, 1), {"session_id": 7}, None)
    assert talk.step(fetch(7, 2), {"session_id": 7}, None)["session_epoch"] == 0


def test_epochs_come_round_to_1() -> None:
    """As in FetchMetadata.nextEpoch of Kafka's clients: 0 would open a session."""
    sessions = FetchSessions()
    _, session = sessions.request(12, fetch(0, 0, (0, 5)))
    answered(session, {"session_epoch": 0x7FFF_FFFF}, {"session_id": 9, "error_code": 0})
    assert session is not None
    assert session.next_epoch == 1


def test_topic_ids_name_the_topics_from_version_13_on() -> None:
    sessions = FetchSessions()
    body = fetch(0, 0)
    body["topics"] = [{"topic_id": "x", "partitions": [{"partition": 0, "fetch_offset": 1}]}]
    _, session = sessions.request(13, body)
    sessions.recorded(session, {"session_id": 7})
    sent, _ = sessions.request(13, fetch(7, 1))
    assert sent["topics"] == body["topics"]


def test_a_session_that_began_before_the_capture() -> None:
    sessions = FetchSessions()
    body = fetch(7, 12)
    _, session = sessions.request(12, body)
    assert not has_known_partitions(session, body)
    body = fetch(7, 13, (3, 40))
    sent, session = sessions.request(12, body)
    assert has_known_partitions(session, body)
    assert asked(sent) == {3: 40}
