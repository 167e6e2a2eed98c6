"""Locations of user files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.user_folders import user_folder


@pytest.mark.parametrize(
    ("variable", "usual"),
    [("XDG_CACHE_HOME", ".cache"), ("XDG_STATE_HOME", ".local/state"), ("XDG_DATA_HOME", ".local/share")],
)
def test_variables_name_folders_and_relative_ones_are_ignored(
    variable: str, usual: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "/somewhere")
    assert user_folder(variable) == Path("/somewhere/kproxy")
    for said in ("", "somewhere"):
        monkeypatch.setenv(variable, said)
        assert user_folder(variable) == tmp_path / usual / "kproxy"
