"""Errors by API and code."""

from __future__ import annotations

from captures.analysis.error_stats import ErrorStats
from captures.json_objects import to_json
from tests.captures.analysis.kit import error, exchange


def test_one_response_with_an_error_for_many_partitions_counts_once() -> None:
    stats = ErrorStats()
    stats.add(
        exchange(0, 9, number=7, errors=[error(6, "r[0].error_code"), error(6, "r[1].error_code", "moved")])
    )
    stats.add(exchange(0, 9, number=9, errors=[error(6)], client_id=None))
    (row,) = stats.result()
    assert (row.api, row.name, row.count, row.exchanges) == ("Produce", "NOT_LEADER_OR_FOLLOWER", 3, 2)
    assert (row.first, row.last, row.message) == (7, 9, "moved")
    assert (row.first_time, row.last_time) == (1_000_000_000, 1_000_000_000)
    assert to_json(row)["first_time"] == "1970-01-01T00:00:01.000000000Z"
    assert row.clients == {"app": 1, "10.0.0.9": 1}


def test_expected_errors_come_last_with_their_reason() -> None:
    stats = ErrorStats()
    routine = error(79)
    for _ in range(5):
        stats.add(exchange(11, 9, errors=[routine], expected=[routine]))
    stats.add(exchange(11, 9, errors=[error(79)]))
    unexpected, expected = stats.result()
    assert (unexpected.expected, unexpected.reason) == (False, "")
    assert expected.expected
    assert "KIP-394" in expected.reason


def test_what_went_well_leaves_nothing() -> None:
    stats = ErrorStats()
    stats.add(exchange())
    assert stats.result() == []
