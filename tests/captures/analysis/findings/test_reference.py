"""The page of rules in the documentation."""

from __future__ import annotations

import re

from captures.analysis.findings.all import RULES
from captures.analysis.findings.reference import reference
from captures.analysis.findings.rules.rebalances import SessionTimeouts, SlowPolls


def test_every_rule_has_a_place_and_a_link() -> None:
    page = reference()
    names = [rule.name for rule in RULES]
    assert re.findall(r"^## `(\w+)`$", page, re.MULTILINE) == names
    assert re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\) \|", page, re.MULTILINE) == [(name, name) for name in names]


def test_thresholds_are_listed_with_their_defaults() -> None:
    page = reference([SessionTimeouts, SlowPolls])
    assert re.findall(r"^\| `(\w+\.\w+)` \| (.+?) \|", page, re.MULTILINE) == [("slow_polls.held_up", "6s")]


def test_no_line_is_too_long_but_in_tables() -> None:
    assert max(len(line) for line in reference().splitlines() if not line.startswith("|")) <= 120
