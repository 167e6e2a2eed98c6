"""The configuration file: doctor's findings about invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from kproxy.doctor import State
from kproxy.doctor.configuration import checks

pytestmark = pytest.mark.slow


def test_a_configuration_that_makes_no_sense_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (check,) = checks()
    assert check.state is State.OK
    (tmp_path / "kproxy").mkdir()
    (tmp_path / "kproxy" / "kproxy.toml").write_text(
        "[ui]\nfollow = 'perhaps'\nslow = 3\n[read]\ncuont = 1\n[proxy]\nlisten = 3\n"
    )
    (check,) = checks()
    assert check.state is State.LIMITED
    assert "ui.follow: expected true or false" in check.about
    assert check.about.endswith("and 1 more")
    said = CliRunner().invoke(main, ["doctor"]).stdout
    assert "line 5: read.cuont: there is no option" in said
