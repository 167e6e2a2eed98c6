"""Exchanges as kproxy itself shows them."""

from __future__ import annotations

import json
from datetime import UTC

import pytest
from click.testing import CliRunner

from captures.filters import compile_filter
from kproxy.cli import main
from kproxy.copy_as.formats import Context, by_name
from tests.kproxy.copy_as.kit import recorded
from tests.kproxy.tui.kit import REBALANCE


def printed(*arguments: str) -> str:
    return CliRunner().invoke(main, ["read", *arguments, str(REBALANCE)], catch_exceptions=False).stdout


def test_json_is_that_of_read() -> None:
    shown, exchanges = recorded(REBALANCE)
    form, context = by_name("json"), Context(shown.capture)
    assert form.text(exchanges[:40], context) == printed("--json", "--text", "-c", "40")
    assert json.loads(form.text(exchanges[17:18], context))["number"] == 18


def test_a_tree_is_that_of_read() -> None:
    shown, exchanges = recorded(REBALANCE)
    context = Context(shown.capture, UTC)
    tree = by_name("tree").text(exchanges[17:18], context).splitlines()
    lines = printed("-V", "-c", "18", "--utc").splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("    18 "))
    assert tree[1:] == lines[begin + 1 : begin + len(tree)]
    assert tree[0].split() == lines[begin].split()
    assert by_name("line").text(exchanges[17:18], context) == f"{tree[0]}\n"


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ([18], "number == 18\n"),
        ([18, 19], "number in {18..19}\n"),
        ([30, 18, 20, 19, 400], "number in {18..20, 30, 400}\n"),
    ],
)
def test_a_filter_shows_these_and_no_others(chosen: list[int], text: str) -> None:
    shown, exchanges = recorded(REBALANCE)
    assert (
        by_name("filter").text([exchanges[number - 1] for number in chosen], Context(shown.capture)) == text
    )
    wanted = compile_filter(text)
    assert [each.number for each in exchanges if wanted.match(each)] == sorted(chosen)


def test_a_diagram_has_the_connection_too() -> None:
    shown, exchanges = recorded(REBALANCE)
    drawn = by_name("mermaid").text(exchanges[17:19], Context(shown.capture))
    assert drawn.startswith("sequenceDiagram\n")
    assert "TCP connect" in drawn
    assert "JoinGroup v9" in drawn
