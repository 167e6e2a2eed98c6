"""Work that needs all exchanges is divided without gaps or overlaps."""

from __future__ import annotations

import pytest

from captures.analysis.findings.all import RULES
from captures.analysis.findings.keys import Key
from captures.spark.task_shares import shares_of
from captures.tables.schema import OF_THE_WHOLE
from dissectors.api_keys import ApiKey

ALL = tuple(OF_THE_WHOLE)


@pytest.mark.parametrize("processors", [1, 2, 3, 64, 1024])
def test_every_rule_and_every_table_is_in_one_share_or_dealt_out(processors: int) -> None:
    shares = shares_of(ALL, RULES, processors)
    kinds = {share[:3]: share.of for share in shares}
    assert len(shares) == sum(kinds.values())
    assert len(set(shares)) == len(shares)
    assert all(of == (1 if key is Key.CLUSTER else min(processors, 100)) for (*_, key), of in kinds.items())
    if processors > 2:
        of_key = {Key.CLUSTER: {Key.CLUSTER, Key.CAPTURE}}
        assert all(
            rule.key in of_key.get(key, {key}) or rule.of_groups
            for (_, rules, key) in kinds
            for rule in rules
        )
    rules = [rule for _, rules, _ in kinds for rule in rules]
    assert sorted(rule.name for rule in rules) == sorted(rule.name for rule in RULES)
    for table in ALL:
        assert sum(table in tables for tables, *_ in kinds) == (
            sum(bool(rules) for _, rules, _ in kinds) if table == "findings" else 1
        )


def test_one_task_makes_all_if_asked_to() -> None:
    (share,) = shares_of(ALL, RULES, 0)
    assert (share.tables, share.rules) == (ALL, tuple(RULES))


@pytest.mark.parametrize("processors", [1, 2])
def test_with_few_processors_rules_about_records_have_a_task_of_their_own(processors: int) -> None:
    others, records = shares_of(ALL, RULES, processors)
    assert others.follows_groups
    assert set(others.tables) == set(ALL)
    assert records.tables == ("findings",)
    assert all(rule.apis & {ApiKey.PRODUCE, ApiKey.FETCH} for rule in records.rules)


@pytest.mark.parametrize("connection", range(20))
@pytest.mark.parametrize("table", ["connections", "tcp_health"])
def test_every_connection_is_in_one_share(connection: int, table: str) -> None:
    shares = [share for share in shares_of((table,), RULES, 7) if share.has(connection)]
    assert len(shares) == 1


def test_shares_without_anything_to_do_are_none() -> None:
    groups = tuple(rule for rule in RULES if rule.of_groups)
    share, *others = shares_of(("findings",), groups, 64)
    assert share.rules == groups
    assert share.follows_groups
    assert len(others) == 64
    assert all(other.collects for other in others)
    others = tuple(rule for rule in RULES if rule.key is Key.CLIENT)
    assert not any(each.collects or each.rules != others for each in shares_of(("findings",), others, 64))
