"""No test here queries the terminal that the tests run in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kproxy.doctor.terminal._TERMINAL", str(tmp_path / "no-terminal"))
