"""The screen as a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from kproxy.tui.files import save_screenshot


class ScreenshotApp(App[None]):
    TITLE = "kproxy"

    def compose(self) -> ComposeResult:
        yield Static("orders", markup=False)


async def test_a_picture_gets_a_new_name_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = ScreenshotApp()
    async with app.run_test(size=(40, 5)):
        made = [await save_screenshot(app) for _ in range(2)]
    assert len({path.name for path in made}) == 2
    for path in made:
        assert path.name.startswith("kproxy-")
        assert path.suffix == ".svg"
        assert "orders" in path.read_text()


async def test_a_name_may_be_given_and_may_be_wrong(tmp_path: Path) -> None:
    app = ScreenshotApp()
    async with app.run_test(size=(40, 5)):
        assert await save_screenshot(app, str(tmp_path / "a.svg")) == tmp_path / "a.svg"
        with pytest.raises(OSError, match="there is no folder"):
            await save_screenshot(app, str(tmp_path / "nowhere" / "a.svg"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
