"""Selection of rules and thresholds by name."""

from __future__ import annotations

import re

import pytest

from captures.analysis.findings.all import RULES
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.findings.rule_selection import UnknownRuleError, chosen, limits, parsed
from captures.analysis.findings.rules.members import HeartbeatGaps
from captures.analysis.findings.rules.rebalances import SlowPolls


def test_rules_are_chosen_by_name() -> None:
    assert chosen(RULES) == list(RULES)
    assert set(chosen(RULES, ["slow_polls", "heartbeat_gaps"])) == {HeartbeatGaps, SlowPolls}
    assert chosen(RULES, ["slow_polls", "heartbeat_gaps"], ["slow_polls"]) == [HeartbeatGaps]
    assert SlowPolls not in chosen(RULES, without=["slow_polls"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("slow_poll.held_up=5s", "there is no rule 'slow_poll': did you mean slow_polls"),
        ("nonsense.x=1", "there is no rule 'nonsense'"),
        ("slow_polls.held=5s", "slow_polls has no threshold 'held': it has slow_polls.held_up"),
        ("session_timeouts.zzz=5s", "session_timeouts has no threshold 'zzz': it has none"),
        ("slow_polls.held_up", "sets nothing: write RULE.NAME=VALUE"),
        ("slow_polls.held_up=often", "'often' is no value of slow_polls.held_up: write something like 6s"),
        ("slow_polls.held_up=-5s", "is no value"),
    ],
)
def test_names_that_are_none(text: str, why: str) -> None:
    with pytest.raises(UnknownRuleError, match=re.escape(why)):
        limits(RULES, [text])


def test_a_later_setting_wins() -> None:
    assert limits(RULES, ["slow_polls.held_up=5s", "slow_polls.held_up = 1500"]) == {
        "slow_polls.held_up": 1500
    }


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        (Unit.MS, "250", 250),
        (Unit.MS, "250ms", 250),
        (Unit.MS, "2min", 120_000),
        (Unit.BYTES, "1,024", 1024),
        (Unit.BYTES, "64 KiB", 65_536),
        (Unit.BYTES, "10 B", 10),
        (Unit.PERCENT, "12.5 %", 12.5),
        (Unit.A_SECOND, "20/s", 20),
        (Unit.COUNT, "5", 5),
        (Unit.COUNT, "5s", None),
        (Unit.PERCENT, "", None),
        (Unit.BYTES, "5s", None),
    ],
)
def test_values_have_the_unit_of_the_threshold(unit: Unit, text: str, value: float | None) -> None:
    assert parsed(Threshold("name", 1, unit, "what it bounds"), text) == value


def test_what_is_shown_can_be_set() -> None:
    for rule in RULES:
        for threshold in rule.thresholds:
            assert parsed(threshold, threshold.shown(threshold.default)) == threshold.default, threshold
