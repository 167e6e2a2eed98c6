"""The settings of a UI: the configuration file, and the stored state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kproxy.saved_choices import ProfileColumn, choices_path
from kproxy.tui.config import load_settings
from kproxy.tui.profiles import DEFAULT, Profile
from kproxy.tui.settings import Settings, SettingsError
from kproxy.tui.themes import usual_theme

FILE = """\
[filters]
mine = "error"
[ui.column-sets]
mine = [{ column = "time" }]
"""
COLUMNS = (ProfileColumn("time"), ProfileColumn("topic", 20))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "mine.toml"
    path.write_text(FILE)
    return path


def test_nothing_there_is_the_usual() -> None:
    settings = Settings()
    assert settings.problems == ()
    assert (settings.theme, settings.profile) == (usual_theme(), DEFAULT)
    assert (settings.keymap, settings.filters) == ({}, {})
    assert "default" in settings.profiles


def test_what_is_kept_is_there_the_next_time() -> None:
    settings = Settings()
    settings.keep_theme("nord")
    settings.keep_filter("slow", "latency > 1s")
    settings.keep_profile(Profile("two", COLUMNS))
    for now in (settings, Settings()):
        assert now.theme == "nord"
        assert dict(now.filters) == {"slow": "latency > 1s"}
        assert now.profile == now.profiles["two"] == Profile("two", COLUMNS)


def test_the_file_goes_first(file: Path) -> None:
    Settings().keep_theme("nord")
    Settings().keep_filter("mine", "latency > 1s")
    file.write_text(f'[ui]\ntheme = "dracula"\n{FILE}')
    settings = Settings(load_settings(file))
    assert settings.theme == "dracula"
    assert settings.filters["mine"] == "error"


def test_what_is_in_the_file_is_not_kept_a_second_time(file: Path) -> None:
    settings = Settings(load_settings(file))
    for keep in (
        lambda: settings.keep_filter("mine", "error"),
        lambda: settings.keep_profile(Profile("mine", COLUMNS)),
    ):
        with pytest.raises(SettingsError, match=r"'mine' is in .*mine\.toml: change it there"):
            keep()
    assert file.read_text() == FILE
    assert not choices_path().exists()


def test_what_makes_no_sense_is_not_kept() -> None:
    settings = Settings()
    with pytest.raises(SettingsError, match="a value is missing"):
        settings.keep_filter("slow", "latency >")
    with pytest.raises(SettingsError, match="has a meaning of its own"):
        settings.keep_filter("shown", "error")
    with pytest.raises(SettingsError, match="always there"):
        settings.keep_profile(Profile("default", COLUMNS))
    with pytest.raises(SettingsError, match="a name is missing"):
        settings.keep_profile(Profile("", COLUMNS))


def test_a_folder_that_cannot_be_written_is_said(folder: Path) -> None:
    (folder / "state").write_text("")
    with pytest.raises(SettingsError, match=r"ui\.json: "):
        Settings().keep_theme("nord")


@pytest.mark.parametrize("content", [b"", b"{", b'{"filters": 3}'])
def test_a_broken_state_is_none(content: bytes) -> None:
    choices_path().parent.mkdir(parents=True)
    choices_path().write_bytes(content)
    settings = Settings()
    assert settings.theme == usual_theme()
    settings.keep_theme("nord")
    assert Settings().theme == "nord"


def test_columns_that_there_are_no_more_are_left_out() -> None:
    choices_path().parent.mkdir(parents=True)
    choices_path().write_text('{"profile": "old", "profiles": {"old": [{"column": "nothing"}]}}')
    assert "old" not in Settings().profiles
    assert Settings().profile == DEFAULT


def test_several_uis_keep_what_the_others_kept() -> None:
    names = [f"f{n}" for n in range(20)]
    uis = [Settings() for _ in names]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda pair: pair[0].keep_filter(pair[1], "error"), zip(uis, names, strict=True)))
    assert sorted(Settings().filters) == sorted(names)
    assert sorted(path.name for path in choices_path().parent.iterdir()) == ["ui.json", "ui.lock"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            'keys = { mark.togle = "m" }',
            "ui.keys.mark.togle: there is no such command (did you mean mark.toggle",
        ),
        ('theme = "norrd"', "ui.theme: there is no theme 'norrd' (did you mean nord?)"),
        ('colors = { eror = "red" }', "ui.colors.eror: there is no such colour; there are primary"),
        ('columns = "minee"', "ui.columns: there are no columns 'minee' (did you mean mine?)"),
    ],
)
def test_names_that_there_are_not_are_told_with_the_file(file: Path, line: str, problem: str) -> None:
    file.write_text(f"[ui]\n{line}\n{FILE}")
    settings = Settings(load_settings(file))
    assert [text.startswith(f"{file}: {problem}") for text in settings.problems] == [True]
    assert (settings.theme, settings.keymap, settings.profile) == (usual_theme(), {}, DEFAULT)
