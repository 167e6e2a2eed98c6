"""The partitions of a Fetch, including those of its session."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.fetch_sessions import FetchSessions, ObservedFetch
from captures.exchanges import Exchange
from tests.captures.analysis.kit import MS, exchange, unanswered

ORDERS = "lLiF-TMRRuSo8TJjkfl4vQ"


def topics(offsets: dict[int, int], name: str = "orders") -> list[dict[str, Any]]:
    partitions = [{"partition": number, "fetch_offset": offset} for number, offset in offsets.items()]
    return [{"topic": name, "partitions": partitions}] if partitions else []


def fetch(
    offsets: dict[int, int],
    *,
    session: int = 0,
    epoch: int = -1,
    forgotten: tuple[int, ...] = (),
    given: int = 0,
    **fields: Any,
) -> Exchange:
    dropped = [{"topic": "orders", "partitions": forgotten}] if forgotten else []
    asked = {
        "replica_id": -1,
        "session_id": session,
        "session_epoch": epoch,
        "topics": topics(offsets),
        "forgotten_topics_data": dropped,
    }
    return exchange(1, 12, request=asked, response={"session_id": given, "responses": []}, **fields)


def seen(sessions: FetchSessions, each: Exchange) -> ObservedFetch:
    found = sessions.add(each)
    assert found is not None
    return found


def partitions(found: ObservedFetch) -> dict[int, int]:
    return {place[1]: offset for place, offset in found.session.partitions.items()}


def sessions() -> FetchSessions:
    return FetchSessions(lambda _: None)


def test_a_session_remembers_what_later_requests_do_not_name() -> None:
    known = sessions()
    first = seen(known, fetch({0: 10, 1: 20}, epoch=0, given=77))
    assert (partitions(first), first.session.whole) == ({0: 10, 1: 20}, True)
    later = seen(known, fetch({1: 25}, session=77, epoch=1, given=77))
    assert (partitions(later), later.session.whole) == ({0: 10, 1: 25}, True)
    assert later.asked == [(("orders", 1), 25)]
    assert partitions(seen(known, fetch({}, session=77, epoch=2, given=77))) == {0: 10, 1: 25}


def test_forgotten_partitions_are_fetched_no_more() -> None:
    known = sessions()
    seen(known, fetch({0: 10, 1: 20}, epoch=0, given=77))
    later = seen(known, fetch({}, session=77, epoch=1, forgotten=(0, 9), given=77))
    assert partitions(later) == {1: 20}
    assert later.dropped == [("orders", 0)]


def test_a_new_session_replaces_the_one_before() -> None:
    known = sessions()
    seen(known, fetch({0: 10, 1: 20}, epoch=0, given=77))
    anew = seen(known, fetch({1: 21}, epoch=0, given=78))
    assert (partitions(anew), anew.session.id, anew.dropped) == ({1: 21}, 78, [("orders", 0)])


def test_without_a_session_each_request_names_all() -> None:
    known = sessions()
    seen(known, fetch({0: 10, 1: 20}))
    assert seen(known, fetch({1: 21})).dropped == [("orders", 0)]


def test_old_versions_have_no_sessions() -> None:
    old = exchange(1, 3, request={"replica_id": -1, "topics": topics({0: 4})}, response={"responses": []})
    found = seen(sessions(), old)
    assert (partitions(found), found.session.whole) == ({0: 4}, True)


def test_a_capture_that_begins_inside_a_session_never_knows_it_whole() -> None:
    known = sessions()
    found = seen(known, fetch({1: 25}, session=77, epoch=9, given=77))
    assert (partitions(found), found.session.whole) == ({1: 25}, False)
    found = seen(known, fetch({2: 7}, session=77, epoch=10, given=77))
    assert (partitions(found), found.session.whole) == ({1: 25, 2: 7}, False)


def test_connections_have_sessions_of_their_own() -> None:
    known = sessions()
    seen(known, fetch({0: 10}, epoch=0, given=77))
    assert partitions(seen(known, fetch({1: 1}, epoch=0, given=78, connection=5))) == {1: 1}
    assert partitions(seen(known, fetch({}, session=77, epoch=1, given=77))) == {0: 10}


def test_topics_by_id_are_named_where_the_name_is_known() -> None:
    asked = {"topics": [{"topic_id": ORDERS, "partitions": [{"partition": 3, "fetch_offset": 1}]}]}
    by_id = exchange(1, 13, request=asked, response={})
    assert seen(FetchSessions({ORDERS: "orders"}.get), by_id).asked == [(("orders", 3), 1)]
    assert seen(sessions(), by_id).asked == [((ORDERS, 3), 1)]


def test_share_fetches_have_sessions_too() -> None:
    known = sessions()
    topic = {"topic_id": ORDERS, "partitions": [{"partition_index": 0}, {"partition_index": 2}]}
    asked = {"group_id": "g", "member_id": "m", "share_session_epoch": 0, "topics": [topic]}
    seen(known, exchange(78, 1, request=asked, response={}))
    later = asked | {
        "share_session_epoch": 1,
        "topics": [],
        "forgotten_topics_data": [{"topic_id": ORDERS, "partitions": (2,)}],
    }
    found = seen(known, exchange(78, 1, request=later, response={}))
    assert found.session.partitions == {(ORDERS, 0): -1}


def test_the_end_is_that_of_the_answer() -> None:
    answered = seen(sessions(), fetch({0: 1}, latency=500 * MS))
    assert answered.end == 1_000_000_000 + 500 * MS
    silent = unanswered(1, 12, request={"topics": topics({0: 1})})
    assert seen(sessions(), silent).end == silent.time


@pytest.mark.parametrize(
    "request_",
    [
        None,
        {},
        {"topics": None},
        {"topics": [None, {"topic": "orders"}, {"partitions": [None, {}]}]},
        {"topics": [{"topic": "orders", "partitions": [{"partition": 1}]}], "forgotten_topics_data": [None]},
        {"session_id": 5, "session_epoch": 3, "forgotten_topics_data": [{"topic": "x", "partitions": None}]},
    ],
)
def test_partial_bodies_do_no_harm(request_: dict[str, Any] | None) -> None:
    known = sessions()
    known.add(exchange(1, 12, request=request_, response={"responses": [None, {"partitions": [None]}]}))
    known.add(exchange(1, 12, request=request_, response=None))


def test_other_apis_fetch_nothing() -> None:
    assert sessions().add(exchange(3, 12, request={"topics": []}, response={})) is None


def test_a_topic_that_gets_its_name_later_is_fetched_once() -> None:
    """Fetch has topic IDs from v13 on; the capture began before any message had the name."""
    names: dict[str, str] = {}
    followed = FetchSessions(names.get)

    def asked(offset: int, epoch: int) -> ObservedFetch:
        rows = [{"topic_id": ORDERS, "partitions": [{"partition": 0, "fetch_offset": offset}]}]
        request = {"replica_id": -1, "session_id": 7, "session_epoch": epoch, "topics": rows}
        return seen(followed, exchange(1, 13, request=request, response={"session_id": 7, "responses": []}))

    first = asked(200, 5)
    assert dict(first.session.partitions) == {(ORDERS, 0): 200}
    assert followed.is_unnamed(ORDERS)
    names[ORDERS] = "orders"
    second = asked(262, 6)
    assert dict(second.session.partitions) == {("orders", 0): 262}
    assert second.dropped == [(ORDERS, 0)]
