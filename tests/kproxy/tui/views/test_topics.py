"""Rates and rows of topics during live traffic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kproxy.session import Session
from kproxy.tui.views.topic_figures import TopicsFold, lag, standings
from kproxy.tui.views.topics import Topics
from kproxy.tui.widgets.table_rows import Row, text_of
from tests.captures.analysis.kit import exchange
from tests.kproxy.tui.kit import session_of

SECOND = 1_000_000_000


def fetch(topic: str, size: int, *, at: int = 0, offset: int = 0, client: str = "app") -> Any:
    asked = {"partition": 0, "fetch_offset": offset}
    told = {"partition_index": 0, "error_code": 0, "high_watermark": 100, "records": b"\0" * size}
    return exchange(
        1,
        12,
        request={"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked]}]},
        response={"responses": [{"topic": topic, "partitions": [told]}]},
        time=at,
        client_id=client,
    )


def view_of(session: Session) -> tuple[Topics, TopicsFold]:
    view = Topics(session)
    fold = view.make(SimpleNamespace(plain=session._access.plain))  # type: ignore[arg-type]
    return view, fold


def rows(view: Topics, fold: TopicsFold, now: int) -> list[Row]:
    return list(view.rows(fold, SimpleNamespace(capture=SimpleNamespace(latest=now))))  # type: ignore[arg-type]


def cell(row: Row, place: int) -> str:
    return text_of(row.cells[place])


NOW = [place for place, column in enumerate(Topics.COLUMNS) if column.title == "now/s"][1]
PER_SECOND = [place for place, column in enumerate(Topics.COLUMNS) if column.title == "per s"][1]


def test_the_rate_of_the_last_seconds_is_told_of_what_flows() -> None:
    view, fold = view_of(session_of(live=True))
    fold.add(fetch("orders", 1_000_000, at=0))
    assert cell(rows(view, fold, SECOND)[0], NOW) == ""  # nothing to compare with yet
    fold.add(fetch("orders", 4000, at=2 * SECOND))
    assert cell(rows(view, fold, 3 * SECOND)[0], NOW) == "2.0k"
    for second in range(4, 30):
        found = rows(view, fold, second * SECOND)
    assert cell(found[0], NOW) == ""
    assert cell(found[0], PER_SECOND) == "490k"


def test_a_capture_that_is_over_has_no_rate_of_now() -> None:
    view, fold = view_of(session_of())
    fold.add(fetch("orders", 4000, at=0))
    rows(view, fold, SECOND)
    fold.add(fetch("orders", 4000, at=2 * SECOND))
    assert cell(rows(view, fold, 3 * SECOND)[0], NOW) == ""


def test_only_rows_that_have_changed_are_made_anew() -> None:
    view, fold = view_of(session_of())
    fold.add(fetch("quiet", 0))
    fold.add(fetch("orders", 10, at=SECOND))
    before = {row.key: row.children[0] for row in rows(view, fold, 0)}
    fold.add(fetch("orders", 10, at=SECOND))
    after = {row.key: row.children[0] for row in rows(view, fold, 0)}
    assert after["quiet", None] is before["quiet", None]
    assert after["orders", None] is not before["orders", None]


def test_the_lag_is_that_of_who_is_most_behind() -> None:
    fold = TopicsFold({}.get)
    fold.add(fetch("orders", 10, offset=40))
    fold.add(fetch("orders", 10, offset=90, client="other"))
    topic = fold.result()["orders"]
    assert lag(topic.total) == 60
    assert standings(topic.total, groups=False)["other"] == ((0,), 90, 10)
    told = [{"partition_index": 0, "committed_offset": 70, "error_code": 0}]
    committed = {"topics": [{"name": "orders", "partitions": told}]}
    fold.add(exchange(9, 5, request={"group_id": "web"}, response=committed))
    assert lag(fold.result()["orders"].total) == 30  # the committed offset of a group has precedence
