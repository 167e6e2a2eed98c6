"""Typed file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.tui.files import completions_here, problem_here


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "type the name"),
        ("  ", "type the name"),
        ("folder", "is a folder"),
        ("folder/", "is a folder"),
        ("new/", "is a folder"),
        ("nowhere/a", "there is no folder nowhere"),
        ("file/a", "there is no folder file"),
        ("a\0b", "NUL"),
        ("~nobody-of-this-name/a", "home"),
        ("file", ""),
        ("folder/new", ""),
    ],
)
def test_what_is_wrong_with_a_name_is_said(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    found = problem_here(name)
    assert said in found
    assert bool(said) is bool(found)


def test_names_go_on_as_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "out").mkdir()
    for name in ("orders.csv", "out/a.csv", ".hidden"):
        (tmp_path / name).touch()
    assert completions_here("o") == ["out/", "orders.csv"]
    assert completions_here("./or") == ["./orders.csv"]
    assert completions_here("out/") == ["out/a.csv"]
    assert completions_here("~/or") == ["~/orders.csv"]
    assert completions_here(".h") == [".hidden"]
    assert completions_here("") == ["out/", "orders.csv"]
    assert completions_here("nowhere/x") == []
    assert completions_here("a\0") == []
