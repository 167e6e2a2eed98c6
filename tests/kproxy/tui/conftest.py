"""Tests of the UI find no configuration of anybody, nothing that was kept, and always the same terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual._compositor import Compositor

from kproxy.tui import typed_keys
from kproxy.tui.main import screen
from kproxy.tui.views import exchanges


@pytest.fixture(autouse=True)
def _nobodys_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home: Path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORTERM", raising=False)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published is shown sooner than people need it, and keys come sooner than people press them."""
    monkeypatch.setattr(typed_keys, "_OPENING", 0.0)
    monkeypatch.setattr(screen, "_TICK", 0.02)
    monkeypatch.setattr(screen, "_VIEW_TICKS", 1)
    monkeypatch.setattr(exchanges, "_SETTLE_SECONDS", 0.005)


@pytest.fixture(autouse=True)
def _updates_are_not_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual composes the changed parts of a screen, then throws them away without a terminal: two fifths of the time.

    What a test looks at is drawn as a whole when it looks (``kit.shown_lines``, pictures).
    """

    def marked_as_drawn(compositor: Compositor) -> None:
        compositor._dirty_regions.clear()

    monkeypatch.setattr(Compositor, "render_partial_update", marked_as_drawn)
