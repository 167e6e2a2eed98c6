"""The history of typed text: stored, bounded, and never an obstacle."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kproxy.tui import history
from kproxy.tui.history import History, HistoryCursor


def kept(directory: Path, name: str = "filter") -> list[str]:
    """Return the history that another run finds."""
    found = History(name, directory)
    found.load()
    return list(found.entries)


def test_what_was_added_is_found_by_the_next_run(tmp_path: Path) -> None:
    first = History("filter", tmp_path)
    for text in ("api == Fetch", 'topic ~ "é\x1b[31m\n"', "\ud800", "api == Fetch"):
        first.add(text)
    first.save()
    assert kept(tmp_path) == ['topic ~ "é\x1b[31m\n"', "\ud800", "api == Fetch"]


def test_each_text_is_kept_once_and_only_the_latest_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_ENTRIES", 3)
    typed = History("search", tmp_path)
    for text in ("a", "b", "c", "a", "d", " ", ""):
        typed.add(text)
    typed.save()
    assert kept(tmp_path, "search") == ["c", "a", "d"]


def test_a_very_long_text_is_not_kept(tmp_path: Path) -> None:
    typed = History("filter", tmp_path)
    typed.add("x" * (history.LONGEST_ENTRY + 1))
    assert not typed.entries


def test_two_runs_at_once_keep_what_both_typed(tmp_path: Path) -> None:
    one, other = History("filter", tmp_path), History("filter", tmp_path)
    one.add("one")
    other.add("other")
    one.save()
    other.save()
    assert kept(tmp_path) == ["one", "other"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    typed = History("filter", tmp_path / "deep" / "down")
    typed.add("topic == secret")
    typed.save()
    path = tmp_path / "deep" / "down" / "filter"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_lines_that_are_no_texts_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "filter").write_bytes(b'"good"\n{"a": 1}\nbroken\n\xff\xfe\n""\n' + b"[" * 100_000 + b"\n7\n")
    assert kept(tmp_path) == ["good"]


@pytest.mark.parametrize("obstacle", ["file in the place of the directory", "directory in its own place"])
def test_what_cannot_be_kept_is_nobodys_trouble(tmp_path: Path, obstacle: str) -> None:
    if obstacle.startswith("file"):
        (tmp_path / "history").write_text("")
        typed = History("filter", tmp_path / "history")
    else:
        (tmp_path / "filter").mkdir()
        typed = History("filter", tmp_path)
    typed.load()
    typed.add("x")
    typed.save()
    assert list(typed.entries) == ["x"]
    assert [path.name for path in tmp_path.iterdir()] in (["history"], ["filter"])


def test_it_is_under_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    typed = History("command")
    typed.add("goto 7")
    typed.save()
    assert (tmp_path / "kproxy" / "history" / "command").read_text() == '"goto 7"\n'


@pytest.mark.parametrize("stated", ["", "relative/path"])
def test_without_an_absolute_state_directory_it_is_under_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", stated)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history.state_directory() == tmp_path / ".local" / "state" / "kproxy"


def test_recalling_meets_what_begins_alike_and_comes_back_to_what_was_typed() -> None:
    walk = HistoryCursor(["api == Fetch", "topic == a", "api == Produce"], "api", "api")
    assert [walk.older(), walk.older(), walk.older()] == ["api == Produce", "api == Fetch", None]
    assert [walk.newer(), walk.newer(), walk.newer()] == ["api == Produce", "api", None]


def test_recalling_from_an_entry_passes_it_over() -> None:
    assert HistoryCursor(["a", "b"], "").older() == "b"
    assert HistoryCursor(["a", "b"], "b").older() == "a"
