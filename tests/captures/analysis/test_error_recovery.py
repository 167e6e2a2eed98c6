"""Client behaviour after errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from captures.analysis.error_recovery import LEFT, NOTHING, SPAN, ErrorRecovery, RecoveryRow, _outcome
from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from tests.captures.analysis.kit import MS, error, exchange, unanswered
from tests.captures.recorded import FOLDER

SECOND = 1_000 * MS
NOT_LEADER, UNKNOWN_TOPIC = 6, 3


def produce(topic: str, at: int, *codes: int, **fields: Any) -> Exchange:
    errors = [
        error(code, f"r[{place}].error_code", None, {"name": topic}, {"index": 0})
        for place, code in enumerate(codes)
    ]
    request = {"topic_data": [{"name": topic, "partition_data": [{"index": 0}]}]}
    return exchange(0, 9, request=request, response={}, errors=errors, time=at, **fields)


def after(*exchanges: Exchange) -> list[RecoveryRow]:
    stats = ErrorRecovery()
    for number, each in enumerate(exchanges, 1):
        each.number = number
        stats.add(each)
    return stats.result()


def steps(*exchanges: Exchange) -> list[tuple[str, ...]]:
    return [row.steps for row in after(*exchanges)]


def test_the_same_request_again_ends_it_with_its_outcome() -> None:
    rows = after(
        produce("orders", SECOND, NOT_LEADER),
        exchange(3, 12, request={"topics": [{"name": "orders"}]}, response={}, time=SECOND + 10 * MS),
        produce("orders", SECOND + 110 * MS),
        produce("orders", SECOND + 200 * MS),
    )
    (row,) = rows
    assert (row.api, row.code, row.count, row.first) == ("Produce", NOT_LEADER, 1, 1)
    assert row.steps == ("Metadata", "Produce again: ok")
    assert row.delay is not None
    assert row.delay.max == 8 * MS  # the error came 2 ms after its request


def test_what_came_of_it() -> None:
    first = produce("orders", SECOND, NOT_LEADER)
    assert steps(first, produce("orders", 2 * SECOND, NOT_LEADER))[0] == ("Produce again: same error",)
    other = steps(first, produce("orders", 2 * SECOND, UNKNOWN_TOPIC))
    assert ("Produce again: UNKNOWN_TOPIC_OR_PARTITION",) in other
    request = {"topic_data": [{"name": "orders"}]}
    assert steps(first, unanswered(0, 9, request=request, time=2 * SECOND)) == [("Produce again: no answer",)]


def test_what_is_about_something_else_does_not_count() -> None:
    assert steps(
        produce("orders", SECOND, NOT_LEADER),
        produce("payments", 2 * SECOND),
        exchange(1, 12, request={}, response={}, time=2 * SECOND),
        exchange(3, 12, request={}, response={}, time=2 * SECOND, client_id="another"),
        exchange(3, 12, request={}, response={}, time=SECOND),  # sent before the error came
    ) == [(NOTHING,)]


def test_other_groups_do_not_count() -> None:
    def beat(group: str, at: int, *codes: int) -> Exchange:
        return exchange(12, 4, request={"group_id": group}, errors=[error(code) for code in codes], time=at)

    def join(group: str, at: int) -> Exchange:
        return exchange(11, 9, request={"group_id": group}, response={}, time=at)

    assert steps(beat("a", SECOND, 27), join("b", 2 * SECOND), beat("b", 3 * SECOND)) == [(NOTHING,)]
    again = steps(beat("a", SECOND, 27), join("b", 2 * SECOND), join("a", 3 * SECOND), beat("a", 4 * SECOND))
    assert again == [("JoinGroup", "Heartbeat again: ok")]


def test_a_new_connection_is_a_step() -> None:
    def greet(connection: int) -> Exchange:
        return exchange(18, 3, request={}, response={}, time=2 * SECOND, connection=connection)

    assert steps(produce("orders", SECOND, NOT_LEADER), greet(0)) == [(NOTHING,)]
    assert steps(produce("orders", SECOND, NOT_LEADER), greet(5)) == [("new connection",)]


def test_after_a_while_it_is_over() -> None:
    assert steps(produce("orders", SECOND, NOT_LEADER), produce("orders", 2 * SECOND + SPAN)) == [(NOTHING,)]


def test_the_same_sequels_are_counted_together_and_the_result_can_be_asked_for_again() -> None:
    stats = ErrorRecovery()
    for at in range(1, 7):
        stats.add(produce("orders", at * SECOND, *([NOT_LEADER] if at % 2 else []), number=at))
    for _ in range(2):
        (row,) = stats.result()
        assert (row.count, row.first) == (3, 1)
        assert row.delay is not None
        assert row.delay.count == 3


def test_expected_errors_are_not_followed() -> None:
    routine = error(79)
    assert after(exchange(11, 9, errors=[routine], expected=[routine])) == []


def test_very_many_errors_are_given_up_in_time() -> None:
    rows = after(*(produce(f"t{at}", SECOND + at, NOT_LEADER) for at in range(200)))
    assert sum(row.count for row in rows) == 200


def test_who_closed_the_connection_is_told_by_the_capture() -> None:
    capture = open_capture(str(FOLDER / "20_k430_ck_zstd.pcap"))
    capture.read()
    stats = ErrorRecovery(capture)
    (*_, last) = ExchangeReader(capture, annotate=False, summary=False)
    last.errors, last.expected = [error(6)], []
    stats.add(last)
    (row,) = stats.result()
    assert row.steps == (LEFT,)
    assert row.delay is None


def test_an_answer_that_was_not_recorded_is_no_success() -> None:
    assert _outcome(unanswered(), 6) == "no answer"
    assert _outcome(replace(unanswered(), flag=Flag.NOT_RECORDED), 6) == "answer not recorded"
    assert _outcome(exchange(3, 12), 6) == "ok"
