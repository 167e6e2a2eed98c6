"""UI tests see no user's configuration, no stored state, and always the same terminal."""

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
    """Shorten the delays before published data is shown, and between keys, which are meant for people."""
    monkeypatch.setattr(typed_keys, "_OPENING", 0.0)
    monkeypatch.setattr(screen, "_TICK", 0.02)
    monkeypatch.setattr(screen, "_VIEW_TICKS", 1)
    monkeypatch.setattr(exchanges, "_SETTLE_SECONDS", 0.005)


@pytest.fixture(autouse=True)
def _updates_are_not_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual composes the changed parts of a screen and, without a terminal, discards them: two fifths of the time.

    The screen that a test looks at is drawn completely on request (``kit.shown_lines``, pictures).
    """

    def marked_as_drawn(compositor: Compositor) -> None:
        compositor._dirty_regions.clear()

    monkeypatch.setattr(Compositor, "render_partial_update", marked_as_drawn)
