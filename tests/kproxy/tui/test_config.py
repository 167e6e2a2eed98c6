"""The configuration file: what it means, and what is said of one that makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.tui.config import Config, config_path, filter_name_problem, load, parsed
from kproxy.tui.profiles import Chosen

EVERYTHING = """\
theme = "nord"
color = "never"
mouse = false
follow = false
footer = false
layout = "beside"
slow = "1.5s"
profile = "mine"

[colors]
error = "#ff0000"

[keys]
"mark.toggle" = "f2"
filter.edit = "ctrl+e, F"

[filters]
slow-fetch = "api == Fetch and excess > 1s"

[profiles]
mine = [{ column = "time" }, { column = "topic", width = 20 }]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_everything_that_can_be_said(file: Path) -> None:
    file.write_text(EVERYTHING)
    loaded = load(file)
    assert loaded.problems == ()
    config = loaded.config
    assert (config.theme, config.color, config.profile) == ("nord", "never", "mine")
    assert (config.mouse, config.follow, config.footer) == (False, False, False)
    assert config.layout == "beside"
    assert config.slow == 1_500_000_000
    assert config.colors == {"error": "#ff0000"}
    assert config.keys == {"mark.toggle": "f2", "filter.edit": "ctrl+e, F"}
    assert config.filters == {"slow-fetch": "api == Fetch and excess > 1s"}
    assert config.profiles["mine"].columns == (Chosen("time"), Chosen("topic", 20))


def test_a_setting_that_makes_no_sense_leaves_the_others_alone(file: Path) -> None:
    file.write_text('theme = 3\nslow = "50ms"\n[filters]\nbad = "latency >"\ngood = "error"\n')
    config = load(file).config
    assert (config.theme, config.slow, config.filters) == ("", 50_000_000, {"good": "error"})


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"theme": 3}, "theme: expected a text, got a whole number"),
        ({"mouse": "yes"}, "mouse: expected true or false, got a text"),
        ({"color": "red"}, "color: invalid value 'red' (there are auto, always, never)"),
        ({"layout": "wide"}, "layout: invalid value 'wide' (there are stacked, beside, list)"),
        ({"slow": "soon"}, "slow: expected a duration such as '100ms', got 'soon'"),
        ({"slow": "-1s"}, "slow: expected a duration such as '100ms', got '-1s'"),
        ({"slow": 100}, "slow: expected a duration such as '100ms', got 100"),
        ({"them": "x"}, "them: there is no such setting (did you mean theme?)"),
        ({"keys": 3}, "keys: expected a table, got a whole number"),
        ({"keys": {"mark.toggle": 3}}, "keys.mark.toggle: expected a text, got a whole number"),
        ({"filters": {"marked": "error"}}, "filters.marked: @marked has a meaning of its own in filters"),
        ({"filters": {"a b": "error"}}, "filters.'a b': 'a b' is no name for a filter"),
        ({"filters": {"a": "error =="}}, "filters.a: a value is missing after == at character 9"),
        ({"profiles": {"a": []}}, "profiles.a: profile 'a' has no columns"),
        ({"profiles": {"a": [{"colum": "time"}]}}, "profiles.a[0]: the table contains unknown field `colum`"),
        (
            {"profiles": {"a": [{"column": "time", "width": "3"}]}},
            "profiles.a[0].width: expected a whole number, got a text",
        ),
        ({"profiles": {"a": [{"column": "nothing"}]}}, "profiles.a: profile 'a', column 1: 'nothing' is no"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(said: dict[str, object], problem: str) -> None:
    config, problems = parsed(said)
    assert [text[: len(problem)] for text in problems] == [problem]
    assert config == Config(**{name: {} for name in said if isinstance(said[name], dict)})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"theme = \n", "this is no TOML: Invalid value (at line 1, column 9). Nothing of it is used"),
        (b"\xff", "this is no UTF-8 text: byte 0"),
    ],
)
def test_a_broken_file_means_defaults(file: Path, content: bytes, problem: str) -> None:
    file.write_bytes(content)
    loaded = load(file)
    assert loaded.config == Config()
    assert loaded.problems == (f"{file}: {problem}",)


def test_a_file_that_was_named_has_to_be_there(file: Path) -> None:
    assert load(file).problems == (f"{file}: there is no such file",)
    assert load(file.parent).problems == (f"{file.parent}: Is a directory",)


def test_the_usual_file_need_not_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_path() == tmp_path / "kproxy" / "config.toml"
    assert load().problems == ()
    config_path().parent.mkdir()
    config_path().write_text("mouse = false")
    assert load().config.mouse is False


def test_a_relative_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert config_path() == Path.home() / ".config" / "kproxy" / "config.toml"


@pytest.mark.parametrize("name", ["a", "slow-fetch", "größe", "a_b1"])
def test_names_of_filters(name: str) -> None:
    assert filter_name_problem(name) == ""


@pytest.mark.parametrize("name", ["", "1", "17", "a b", "shown", "hidden", "@a", "a,b", "a.b"])
def test_names_that_mean_something_else(name: str) -> None:
    assert filter_name_problem(name) != ""
