"""Completion of fault rules: it offers everything that the parser accepts, and nothing else, at the right position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest

from captures.filters import FilterError
from kproxy.proxy.rules import actions, completion, parser
from kproxy.proxy.rules.actions import ACTIONS, Action, ActionResult, Drop
from kproxy.proxy.rules.completion import complete_rule
from kproxy.proxy.rules.parser import OPTIONS, parse_rule
from kproxy.proxy.verdicts import Frame, Verdict


def texts(rule: str) -> list[str]:
    return [one.text for one in complete_rule(rule)]


def test_every_action_can_be_read_as_its_documentation_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edit.py").write_text("def request(exchange): ...")
    for name, action in ACTIONS.items():
        assert action.forms
        for example in action.forms:
            rule = parse_rule(f"api == Fetch => {name} {example}")
            assert isinstance(rule.action, action)
            assert str(rule.action) == f"{name} {example}".strip() or action.name == "error"


def test_every_option_can_be_read_as_its_documentation_writes_it() -> None:
    for name, option in OPTIONS.items():
        for example in option.examples:
            parse_rule(f"api == Fetch => drop, {name}={example}")


def test_a_class_is_all_that_a_new_action_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "ACTIONS", known := dict(ACTIONS))
    monkeypatch.setattr(parser, "ACTIONS", known)
    monkeypatch.setattr(completion, "ACTIONS", known)

    @dataclass(frozen=True, slots=True)
    class Repeat(Action):
        """Sends the frame twice."""

        name = "repeat"
        forms: ClassVar[Mapping[str, str]] = {"": "it is sent twice"}

        def apply(self, frame: Frame, chance: Random) -> ActionResult:
            return ActionResult(Verdict(data=frame.data * 2), "sent twice")

    assert parse_rule("api == Fetch => repeat, p=0.5").action == Repeat()
    assert [(one.text, one.doc) for one in complete_rule("api == Fetch => rep")] == [
        ("repeat", "it is sent twice")
    ]
    assert "| `repeat` | it is sent twice |" in completion.reference()["actions"]
    with pytest.raises(FilterError, match="repeat takes nothing"):
        parse_rule("api == Fetch => repeat 2")
    with pytest.raises(FilterError) as caught:
        parse_rule("api == Fetch => 7")
    assert "repeat" in caught.value.hint
    assert "repeat" not in ACTIONS


def test_what_drop_does_is_said_as_the_parser_does_it() -> None:
    (drop,) = complete_rule("api == Fetch => drop")
    assert drop.doc == Drop.forms[""] == "the connection is closed in its place"


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
