"""Completion of fault rules: it offers what the parser takes, all of it, and at the right place."""

from __future__ import annotations

import re

import pytest

from captures.filters import FilterError
from kproxy.proxy.rules.parsing import parse_rule
from kproxy.tui.rule_completion import ACTIONS, OPTIONS, complete_rule


def texts(rule: str) -> list[str]:
    return [one.text for one in complete_rule(rule)]


def test_it_knows_the_actions_that_there_are() -> None:
    with pytest.raises(FilterError) as caught:
        parse_rule("api == Fetch => 7")
    assert set(re.findall(r"\w+", caught.value.hint.removeprefix("there are"))) == set(ACTIONS)


def test_it_knows_options_that_there_are() -> None:
    for option, value in zip(OPTIONS, ("0.1", "5", "2m"), strict=True):
        parse_rule(f"api == Fetch => drop, {option}{value}")


@pytest.mark.parametrize(
    ("rule", "first"),
    [
        ("ap", "api"),
        ("res", "response.size"),
        ("response: erro", "error"),
        ("api == Fetch ", "and"),
        ("api == Fetch => ", "delay"),
        ("api == Fetch => dr", "drop"),
        ("api == Fetch => error NOT_LEADER_OR", "NOT_LEADER_OR_FOLLOWER"),
        ("api == Fetch => delay normal(200ms, 50ms), p", "p="),
        ("api == Fetch => drop, p=0.1, ", "p="),
    ],
)
def test_what_comes_next(rule: str, first: str) -> None:
    assert texts(rule)[0] == first


def test_a_side_can_come_first_and_an_arrow_after_a_condition() -> None:
    assert "response:" in texts("resp")
    assert "response:" not in texts("api == Fetch and resp")
    assert "=>" in texts("api == Fetch ")
    assert "=>" not in texts("api ==")


def test_inside_a_distribution_nothing_is_offered() -> None:
    assert texts("api == Fetch => delay normal(200ms, ") == []


def test_what_is_offered_replaces_what_was_typed() -> None:
    rule = "response: api == Fe"
    offer = complete_rule(rule)[0]
    assert rule[: offer.start] + offer.text == "response: api == Fetch"
