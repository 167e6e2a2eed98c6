"""UI settings in the configuration file, and messages about invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.saved_choices import ProfileColumn
from kproxy.tui.config import Config, filter_name_problem, load_settings, parsed

EVERYTHING = """\
[ui]
theme = "nord"
color = "never"
mouse = false
follow = false
footer = false
layout = "beside"
slow = "1.5s"
columns = "mine"

[ui.colors]
error = "#ff0000"

[ui.keys]
"mark.toggle" = "f2"
filter.edit = "ctrl+e, F"

[ui.column-sets]
mine = [{ column = "time" }, { column = "topic", width = 20 }]

[filters]
slow-fetch = "api == Fetch and excess > 1s"
"""

FORMER = (
    EVERYTHING.replace("[ui]\n", "")
    .replace("[ui.column-sets]", "[profiles]")
    .replace("[ui.", "[")
    .replace("columns =", "profile =")
)
"""The same in the earlier format, when the file was for the UI alone."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kproxy.toml"


def test_everything_that_can_be_said(file: Path) -> None:
    file.write_text(EVERYTHING)
    loaded = load_settings(file)
    assert loaded.problems == ()
    config = loaded.config
    assert (config.theme, config.color, config.columns) == ("nord", "never", "mine")
    assert (config.mouse, config.follow, config.footer) == (False, False, False)
    assert config.layout == "beside"
    assert config.slow == 1_500_000_000
    assert config.colors == {"error": "#ff0000"}
    assert config.keys == {"mark.toggle": "f2", "filter.edit": "ctrl+e, F"}
    assert config.filters == {"slow-fetch": "api == Fetch and excess > 1s"}
    assert config.column_sets["mine"].columns == (ProfileColumn("time"), ProfileColumn("topic", 20))


def test_the_former_file_goes_on(file: Path) -> None:
    file.write_text(EVERYTHING)
    now = load_settings(file).config
    file.write_text(FORMER)
    loaded = load_settings(file)
    assert loaded.config == now
    (note,) = loaded.problems
    assert "stand in the table [ui] now" in note


def test_a_setting_that_makes_no_sense_leaves_the_others_alone(file: Path) -> None:
    file.write_text('[ui]\ntheme = 3\nslow = "50ms"\n[filters]\nbad = "latency >"\ngood = "error"\n')
    config = load_settings(file).config
    assert (config.theme, config.slow, config.filters) == ("", 50_000_000, {"good": "error"})


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"theme": 3}, "ui.theme: expected a text, got a whole number"),
        ({"mouse": "yes"}, "ui.mouse: expected true or false, got a text"),
        ({"color": "red"}, "ui.color: invalid value 'red' (there are auto, always, never)"),
        ({"layout": "wide"}, "ui.layout: invalid value 'wide' (there are stacked, beside, list)"),
        ({"slow": "soon"}, "ui.slow: expected a duration such as '100ms', got 'soon'"),
        ({"slow": "-1s"}, "ui.slow: expected a duration such as '100ms', got '-1s'"),
        ({"slow": 100}, "ui.slow: expected a duration such as '100ms', got 100"),
        ({"them": "x"}, "ui.them: there is no such setting (did you mean theme?)"),
        ({"keys": 3}, "ui.keys: expected a table, got a whole number"),
        ({"keys": {"mark.toggle": 3}}, "ui.keys.mark.toggle: expected a text, got a whole number"),
        ({"filters": {"marked": "error"}}, "filters.marked: @marked has a meaning of its own in filters"),
        ({"filters": {"a b": "error"}}, "filters.'a b': 'a b' is no name for a filter"),
        ({"filters": {"a": "error =="}}, "filters.a: a value is missing after == at character 9"),
        ({"column-sets": {"a": []}}, "ui.column-sets.a: profile 'a' has no columns"),
        (
            {"column-sets": {"a": [{"colum": "time"}]}},
            "ui.column-sets.a[0]: the table contains unknown field `colum`",
        ),
        (
            {"column-sets": {"a": [{"column": "time", "width": "3"}]}},
            "ui.column-sets.a[0].width: expected a whole number, got a text",
        ),
        (
            {"column-sets": {"a": [{"column": "nothing"}]}},
            "ui.column-sets.a: profile 'a', column 1: 'nothing' is no",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(said: dict[str, object], problem: str) -> None:
    config, problems = parsed(said)
    assert [text[: len(problem)] for text in problems] == [problem]
    assert config == Config(**{name.replace("-", "_"): {} for name in said if isinstance(said[name], dict)})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"theme = \n", "this is not TOML: Invalid value (at line 1, column 9). Nothing of it is used"),
        (b"\xff", "this is not UTF-8 text: byte 0. Nothing of it is used"),
    ],
)
def test_a_broken_file_means_defaults(file: Path, content: bytes, problem: str) -> None:
    file.write_bytes(content)
    loaded = load_settings(file)
    assert loaded.config == Config()
    assert loaded.problems == (f"{file}: {problem}",)


def test_a_file_that_was_named_has_to_be_there(file: Path) -> None:
    assert load_settings(file).problems == (f"{file}: there is no such file. Nothing of it is used",)
    assert load_settings(file.parent).problems == (f"{file.parent}: Is a directory. Nothing of it is used",)


@pytest.mark.parametrize("name", ["a", "slow-fetch", "größe", "a_b1"])
def test_names_of_filters(name: str) -> None:
    assert filter_name_problem(name) == ""


@pytest.mark.parametrize("name", ["", "1", "17", "a b", "shown", "hidden", "@a", "a,b", "a.b"])
def test_names_that_mean_something_else(name: str) -> None:
    assert filter_name_problem(name) != ""
