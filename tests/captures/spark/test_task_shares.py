"""What needs all exchanges is shared without gaps, and without anything twice."""

from __future__ import annotations

import pytest

from captures.analysis.findings.all import RULES
from captures.spark.task_shares import shares_of
from captures.tables.schema import OF_THE_WHOLE

ALL = tuple(OF_THE_WHOLE)


@pytest.mark.parametrize("processors", [1, 2, 3, 64])
def test_every_rule_and_every_table_is_in_one_share(processors: int) -> None:
    shares = shares_of(ALL, RULES, processors)
    assert len(shares) == (1 if processors < 3 else 3)
    rules = [rule for share in shares for rule in share.rules]
    assert sorted(rule.name for rule in rules) == sorted(rule.name for rule in RULES)
    for table in ALL:
        assert sum(table in share.tables for share in shares) == (len(shares) if table == "findings" else 1)


def test_tables_without_findings_are_one_share() -> None:
    (share,) = shares_of(("connections", "rebalances"), RULES, 64)
    assert share.tables == ("connections", "rebalances")


def test_shares_without_anything_to_do_are_none() -> None:
    groups = tuple(rule for rule in RULES if rule.of_groups)
    (share,) = shares_of(("findings",), groups, 64)
    assert share.rules == groups
