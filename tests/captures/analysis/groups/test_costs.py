"""The costs of rebalances, in words."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.groups.model import CommitFailure, RepeatedFetch, Stop, TopicPartition
from captures.analysis.groups.words import cost_in_words
from tests.captures.analysis.groups.kit import SECOND, at, rebalance


def stop(partition: int, seconds: float, *, ended: bool = True) -> Stop:
    return Stop(TopicPartition("orders", partition), round(seconds * SECOND), ended, 1, 2 if ended else None)


def failure(code: int, name: str) -> CommitFailure:
    return CommitFailure(9, at(10), "m1-id", code, name)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, ""),
        ({"stopped": [stop(4, 5.3)]}, "no member consumed orders-4 for 5.3 s"),
        (
            {"stopped": [stop(4, 5.3), stop(3, 5.1)], "consumed_on": 4},
            "no member consumed orders 3-4 for 5.3 s (consumption of 4 other partitions continued)",
        ),
        (
            {"stopped": [stop(n, 5.3) for n in range(5)], "consumed_on": 1},
            "no member consumed orders 0-4 for 5.3 s (consumption of 1 other partition continued)",
        ),
        (
            {"stopped": [stop(0, 0.3), stop(1, 5), stop(2, 1), stop(3, 0.26)]},
            "no member consumed orders-1 for 5 s, orders-2 for 1 s and 2 more partitions for up to 300 ms",
        ),
        ({"stopped": [stop(4, 9, ended=False)]}, "no member has consumed orders-4 for 9 s so far"),
        (
            {"stopped": [stop(4, 5.3), stop(5, 9, ended=False)]},
            "no member consumed orders-4 for 5.3 s and no member has consumed orders-5 for 9 s so far",
        ),
        (
            {"refetched": [RepeatedFetch(TopicPartition("orders", 4), 7, 19, 5)]},
            "12 records of orders-4 were fetched again",
        ),
        (
            {"refetched": [RepeatedFetch(TopicPartition("orders", 4), 7, 8, 5)]},
            "1 record of orders-4 was fetched again",
        ),
        (
            {
                "refetched": [
                    RepeatedFetch(TopicPartition("orders", 4), 7, 8, 5),
                    RepeatedFetch(TopicPartition("orders", 1), 7, 8, 5),
                ],
                "commit_failures": [
                    failure(27, "REBALANCE_IN_PROGRESS"),
                    failure(27, "REBALANCE_IN_PROGRESS"),
                    failure(25, "UNKNOWN_MEMBER_ID"),
                ],
            },
            "2 records of orders 1,4 were fetched again; 3 commits failed (REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID)",
        ),
    ],
)
def test_what_it_cost_in_words(fields: dict[str, Any], said: str) -> None:
    assert cost_in_words(rebalance(**fields)) == said
