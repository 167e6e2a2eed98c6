"""Totals of outcomes."""

from __future__ import annotations

from captures.json_objects import to_json
from kproxy.replay.differences import Difference
from kproxy.replay.results import Outcome, Results

HEARTBEAT = 12
MS = 1_000_000


def outcome(number: int, **values: object) -> Outcome:
    return Outcome(number, 0, HEARTBEAT, 3, 3, **values)  # type: ignore[arg-type]


def test_each_exchange_counts_once() -> None:
    results = Results()
    assert results.same
    results.add(outcome(1, comparable=True, recorded_latency=4 * MS, latency=6 * MS))
    assert results.same
    difference = Difference("error_code", "error_code", 0, 27)
    results.add(outcome(2, comparable=True, latency=8 * MS, differences=[difference], errors=(27,)))
    results.add(outcome(3, failure="not answered in time"))
    results.add(outcome(4))
    assert not results.same
    (row,) = results.apis.values()
    assert (row.sent, row.same, row.differing, row.failed, row.not_compared) == (4, 1, 1, 1, 1)
    assert row.other_errors == 1
    assert (results.sent, results.differing, results.failed) == (4, 1, 1)
    assert results.failures == {"not answered in time": 1}
    times = row.latency.percentiles()
    assert times is not None
    assert (times.count, times.max) == (2, 8 * MS)


def test_an_answer_that_is_missing_is_no_difference_but_not_the_same() -> None:
    results = Results()
    results.add(outcome(3, failure="closed"))
    assert (results.same, results.differing) == (False, 0)


def test_the_same_errors_in_another_order_are_the_same() -> None:
    results = Results()
    results.add(outcome(1, comparable=True, recorded_errors=(3, 6), errors=(6, 3)))
    results.add(outcome(2, comparable=True, recorded_errors=(3, 3), errors=(3,)))
    assert results.apis["Heartbeat"].other_errors == 1


def test_differences_are_grouped_by_field() -> None:
    results = Results()
    for number, index in ((5, 0), (6, 1)):
        found = Difference(
            f"topics[t].partitions[{index}].error_code", "topics.partitions.error_code", 0, index
        )
        results.add(outcome(number, comparable=True, differences=[found]))
    (group,) = results.groups.values()
    assert (group.api, group.count, group.exchange) == ("Heartbeat", 2, 5)


def test_the_documented_shape() -> None:
    results = Results()
    results.add(outcome(1, comparable=True, latency=8 * MS))
    shape = to_json(results.apis["Heartbeat"])
    assert shape["api"] == "Heartbeat"
    assert shape["recorded_latency"] is None
    assert shape["latency"]["p50_ns"] == 8 * MS
