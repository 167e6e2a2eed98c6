"""The columns of the list, and their texts."""

from __future__ import annotations

from datetime import UTC

import pytest

from captures.filters import FilterError, compile_filter
from kproxy.session import order
from kproxy.session.published import State, Summary
from kproxy.tui.columns import (
    COLUMNS,
    Clock,
    as_summary,
    column,
    compile_typed,
    field_names,
    field_problem,
    running,
)
from tests.kproxy.tui.published import BEGIN, MS, SECOND, held, summary

AT = Clock(UTC, BEGIN, BEGIN + 10 * SECOND)


def said(name: str, shown: Summary, room: int = 40) -> str:
    return column(name).text(shown, AT, room)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (412, "412"),
        (1023, "1023"),
        (10_240, "10k"),
        (3_355_444, "3.2M"),
        (1023 << 20, "1.0G"),
        (5 << 40, "5.0T"),
    ],
)
def test_sizes_take_four_cells(count: int, text: str) -> None:
    assert said("request.size", summary(1, request_size=count)) == text
    assert len(text) <= 4


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "…0.0s"), (-3, "…0.0s"), (1.24, "…1.2s"), (99.94, "…99.9s"), (185, "…3m05s"), (36_000, "…10h00m")],
)
def test_running_times_fit_the_column_of_latencies(seconds: float, text: str) -> None:
    assert running(round(seconds * SECOND)) == text
    assert len(text) <= column("latency").most


def test_times_are_shown_as_exactly_as_there_is_room() -> None:
    assert said("time", summary(0), 12) == "09:14:03.218"
    assert said("time", summary(0), 11) == "09:14:03"
    assert said("elapsed", summary(1_500)) == "1.500"
    assert said("day", summary(0), 18) == "11-21 09:14:03.218"
    assert said("day", summary(0), 14) == "11-21 09:14:03"


def test_latency_is_of_what_was_answered_or_of_what_still_runs() -> None:
    assert said("latency", summary(1)) == "0.9"
    assert said("latency", summary(1, latency=None)) == "-"
    waiting = summary(1, latency=None, running_since=AT.now - 1_200 * MS)
    assert said("latency", waiting) == "…1.2s"


def test_excess_leaves_out_what_is_waited_by_design() -> None:
    waited = summary(1, latency=503 * MS, wait=500 * MS)
    assert said("excess", waited) == "3.0"
    assert said("wait", waited) == "500.0"
    assert said("excess", summary(1, latency=None)) == "-"
    assert said("wait", summary(1)) == ""


def test_the_summary_is_of_request_and_response() -> None:
    assert said("summary", summary(1)) == "orders payments → 3 brokers"
    assert said("summary", summary(1, response="")) == "orders payments"
    assert said("summary", summary(1, request="")) == "→ 3 brokers"


def test_sizes_of_what_is_not_there_are_not_zero() -> None:
    assert said("size", summary(1)) == "  72  412"
    assert said("size", summary(1, response_size=0)) == "  72    -"
    assert said("request.size", summary(1, request_size=0)) == "-"


def test_a_column_can_be_made_of_a_field() -> None:
    made = column("request.topics[0].name")
    assert made.title == "name"
    assert made.order == "request.topics[0].name"
    assert said("request.topics[0].name", summary(1, cells={"request.topics[0].name": "orders"})) == "orders"
    assert said("request.topics[0].name", summary(1)) == ""


def test_fields_are_checked() -> None:
    assert field_problem("topic") == ""
    assert field_problem("request.topics.name") == ""
    assert "no" in field_problem("request.topics.nam")
    assert field_problem("topic == 'x'")
    assert field_problem("")


def test_fields_are_completed() -> None:
    assert "topic" in field_names("top")
    assert "request.topics" in field_names("request.top")
    assert not field_names("api == ")


def test_the_list_can_be_ordered_by_what_its_columns_say() -> None:
    for each in COLUMNS.values():
        if each.order and each.order not in order.COLUMNS:
            assert compile_filter(each.order), "a field of the filter language"


def test_least_and_most_make_sense() -> None:
    for each in COLUMNS.values():
        assert 0 < each.least <= each.most
        assert len(each.title) <= each.most


def test_what_is_held_says_what_waits_and_when_it_goes_on() -> None:
    shown = as_summary(held(7), BEGIN + 12 * SECOND)
    assert (shown.number, shown.state, shown.api) == (7, State.HELD, "Produce v13")
    assert shown.request == "request held, 2 waiting behind"
    assert said("state", shown) == "‖ held, 18 s left"
    assert (shown.request_size, shown.response_size) == (1_200, 0)
    assert column("latency").text(shown, Clock(UTC, BEGIN, BEGIN + 12 * SECOND), 9) == "…12.0s"


def test_a_held_response_is_told_as_one() -> None:
    shown = as_summary(held(7, side="response", waiting_behind=0, client_id=None), BEGIN + 40 * SECOND)
    assert shown.request == "response held"
    assert shown.text == "held, 0 s left"
    assert shown.client == "10.0.0.7:41078"
    assert (shown.request_size, shown.response_size) == (0, 1_200)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ms > 100", "the column ms is the field latency"),
        ("# == 188", "the column # is the field number"),
        ("conn == 9 and error", "the column conn is the field connection"),
        ("state == slow", "a state is no field"),
        ("Fetch v18", "write api == Fetch and version == 18"),
        ('error and api == "Fetch v18"', "write api == Fetch and version == 18"),
        ("bytes > 1000", "request.size and response.size"),
        ("api == Fech", "did you mean Fetch"),
    ],
)
def test_the_title_of_a_column_in_a_filter_leads_to_its_field(text: str, hint: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_typed(text, None)
    assert hint in str(caught.value)


def test_columns_that_a_filter_is_told_of_are_fields() -> None:
    for each in COLUMNS.values():
        hint = f"the column {each.title} is the field {each.id}"
        try:
            compile_typed(f"{each.title} == 1", None)
        except FilterError as error:
            if hint in str(error):
                assert not field_problem(each.id)
