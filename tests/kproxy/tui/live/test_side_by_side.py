from __future__ import annotations

from typing import Any

from dissectors.frames import decode_response
from dissectors.records import Record
from dissectors.records.build import build_batch
from kproxy.replay.response_comparison import compared
from kproxy.replay.results import Outcome
from kproxy.tui.live.replay import ReplayedExchange
from kproxy.tui.live.side_by_side import Line, Mark, side_by_side
from tests.kproxy.frames import response_frame

FETCH, LIST_GROUPS = 1, 16


def answered(
    key: int, version: int, then: dict[str, Any] | None, now: dict[str, Any] | None
) -> ReplayedExchange:
    first, second = (
        None if body is None else decode_response(response_frame(key, version, body)[4:], key, version)
        for body in (then, now)
    )
    outcome = Outcome(7, 1, key, version, version)
    if first is not None and second is not None:
        outcome.comparable = True
        outcome.differences, outcome.expected = compared(first, second, lambda _: None, lambda _: None)
    return ReplayedExchange(outcome, first, second)


def marked(lines: list[Line], mark: Mark) -> list[str]:
    return [line.name for line in lines if line.mark is mark]


def fetched(*values: bytes, high_watermark: int = 3) -> dict[str, Any]:
    records = build_batch(
        [Record(index, 1_700_000_000_000, None, value) for index, value in enumerate(values)]
    )
    partition = {"partition_index": 0, "high_watermark": high_watermark, "records": records}
    return {"responses": [{"topic": "orders", "partitions": [partition]}]}


def test_records_are_decoded() -> None:
    lines = side_by_side(answered(FETCH, 4, fetched(b"a", b"b"), fetched(b"a", b"c")))
    values = [(line.recorded, line.new, line.mark) for line in lines if line.name == "value"]
    assert [(one.strip('"')[0], other.strip('"')[0]) for one, other, _ in values] == [("a", "a"), ("b", "c")]
    assert [mark for *_, mark in values] == [Mark.SAME, Mark.DIFFERENT]


def test_elements_that_have_names_belong_together_whatever_their_order() -> None:
    one, other = {"group_id": "a", "protocol_type": "consumer"}, {"group_id": "b", "protocol_type": "connect"}
    lines = side_by_side(answered(LIST_GROUPS, 3, {"groups": [one, other]}, {"groups": [other, one]}))
    assert marked(lines, Mark.DIFFERENT) == []
    assert [line.name for line in lines if line.depth == 1] == ["[a]", "[b]"]


def test_what_has_to_differ_is_marked_otherwise() -> None:
    lines = side_by_side(
        answered(FETCH, 4, fetched(b"a"), fetched(b"a", high_watermark=4) | {"throttle_time_ms": 7})
    )
    assert marked(lines, Mark.DIFFERENT) == ["high_watermark"]
    assert marked(lines, Mark.MAY_DIFFER) == ["throttle_time_ms"]


def test_one_response_alone_is_shown_without_marks() -> None:
    lines = side_by_side(answered(LIST_GROUPS, 3, None, {"groups": [{"group_id": "a"}]}))
    assert {line.mark for line in lines} == {Mark.SAME}
    assert ("group_id", "", '"a"') in [(line.name, line.recorded, line.new) for line in lines]
    assert side_by_side(answered(LIST_GROUPS, 3, None, None)) == []
