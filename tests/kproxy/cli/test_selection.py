"""``--group``: names and patterns."""

from __future__ import annotations

import click
import pytest

from kproxy.cli.selection import chosen, fits, there_are

NAMES = ["orders-1", "orders-[1]", "payments"]


def test_names_and_patterns() -> None:
    assert chosen(NAMES, []) == set(NAMES)
    assert chosen(NAMES, ["payments", "orders-*"]) == set(NAMES)


def test_a_name_goes_before_a_pattern() -> None:
    assert chosen(NAMES, ["orders-[1]"]) == {"orders-[1]"}


def test_what_is_not_there() -> None:
    with pytest.raises(click.UsageError, match="no group 'x' in the capture; there are 'orders-1', "):
        chosen(NAMES, ["payments", "x"])


def test_groups_that_are_still_to_come() -> None:
    assert fits("orders-9", [])
    assert fits("orders-9", ["orders-*"])
    assert not fits("payments", ["orders-*"])


def test_there_may_be_many_or_none() -> None:
    assert there_are([]) == "there is none at all"
    assert there_are(["a"]) == "there is 'a'"
    assert there_are([str(number) for number in range(25)]).endswith("'19' and 5 more")
