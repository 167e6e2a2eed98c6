"""The content of the help."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.filters.fields import FIELDS
from captures.filters.shortforms import FORMS
from kproxy.tui.commands import COMMANDS, Scope
from kproxy.tui.manual import Section, about_sections, filter_sections, found, key_sections, markdown, spelled


def row_of(sections: list[Section], name: str) -> tuple[str, ...]:
    return next(row for section in sections for row in section.rows if row[-1] == f"`{name}`")


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("question_mark", "?"),
        ("right_square_bracket", "]"),
        ("ctrl+s", "ctrl+s"),
        ("enter", "enter"),
        ("Q", "Q"),
        ("f1", "f1"),
        ("ctrl+backslash", "ctrl+\\"),
    ],
)
def test_keys_are_written_as_people_do(key: str, written: str) -> None:
    assert spelled(key) == written


def test_every_command_is_there_once() -> None:
    names = [row[-1] for section in key_sections([], {}) for row in section.rows if len(row) == 4]
    assert sorted(names) == sorted(f"`{command.name}`" for command in COMMANDS)


def test_where_the_focus_is_comes_first() -> None:
    titles = [section.title for section in key_sections([Scope.BYTES, Scope.SCREEN], {})]
    assert titles[:3] == ["bytes", "everywhere", "list of exchanges"]
    assert titles[-1] == "always"
    assert next(section.title for section in key_sections([], {})) == "everywhere"


def test_a_command_with_its_keys_and_its_name_on_the_line() -> None:
    assert row_of(key_sections([], {}), "filter.edit")[::2] == ("`f`", "`:filter [FILTER]`")
    assert row_of(key_sections([], {"filter.edit": "f2,slash"}), "filter.edit")[0] == "`f2` `/`"
    assert row_of(key_sections([], {"filter.edit": "unbound"}), "filter.edit")[0] == ""


def test_the_filter_language_is_there_as_a_whole() -> None:
    rows = {section.title: section.rows for section in filter_sections()}
    assert len(rows["Fields"]) == len(FIELDS)
    assert len(rows["Short forms"]) > len(FORMS)
    for section in filter_sections():
        assert {len(row) for row in section.rows} <= {len(section.header)}
    assert ('`value contains "id"`', "the value contains the text") in rows[""]


def test_a_search_leaves_what_has_all_its_words() -> None:
    sections = [
        Section("one", ("first text", "second"), ("a", "b"), (("red", "apple"), ("green", "apple"))),
        Section("two", (), ("a",), (("pear",),)),
    ]
    assert found(sections, "") == sections
    assert found(sections, " Apple RED ") == [Section("one", (), ("a", "b"), (("red", "apple"),))]
    assert found(sections, "second") == [Section("one", ("second",), ("a", "b"), ())]
    assert found(sections, "two") == [sections[1]]
    assert found(sections, "plum") == []


def test_about_this_run() -> None:
    sections = about_sections([("terminal", "xterm")], ["theme: wrong"], Path("mine.toml"))
    assert sections[0].text == ("theme: wrong",)
    assert ("terminal", "xterm") in sections[1].rows
    assert ("configuration", "mine.toml") in sections[2].rows
    assert len(about_sections()) == 2


def test_markdown() -> None:
    sections = [Section("one", ("text",), ("a", "b"), (("x|y", "z"),)), Section("two", ("alone",))]
    assert (
        markdown(sections) == "### One\n\ntext\n\n| a | b |\n|---|---|\n| x\\|y | z |\n\n### Two\n\nalone\n"
    )
