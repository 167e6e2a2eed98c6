"""The command palette: its entries, and their execution."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.command import CommandPalette, Provider
from textual.pilot import Pilot
from textual.system_commands import SystemCommandsProvider

from kproxy.tui.app import KproxyApp
from kproxy.tui.commands import BY_NAME, COMMANDS, Scope
from kproxy.tui.config import load_settings
from kproxy.tui.palette import title_of
from kproxy.tui.settings import Settings
from tests.kproxy.tui.kit import session_of, settled
from tests.waiting import until

pytestmark = pytest.mark.slow

FILE = """\
[ui.keys]
help.show = "f2"
[filters]
mine = "api == Produce"
[ui.column-sets]
"[/odd]" = [{ column = "number" }, { column = "summary" }]
"""


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Pilot[object]]:
    file = folder / "kproxy.toml"
    file.write_text(FILE)
    app = KproxyApp(session_of(), Settings(load_settings(file)))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        yield pilot  # type: ignore[misc]
    app.session.close()


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


async def offers(provider: Provider, query: str = "") -> dict[str, str]:
    hits = provider.search(query) if query else provider.discover()
    return {str(hit.text): str(hit.help) async for hit in hits}


async def test_every_command_that_can_be_done_is_offered(tmp_path: Path) -> None:
    async with opened(tmp_path) as pilot:
        offered = await offers(SystemCommandsProvider(pilot.app.screen))
    for command in COMMANDS:
        if command.scope in (Scope.SCREEN, Scope.LIST) and not command.doc.startswith("Live:"):
            assert title_of(command) in offered
        if command.scope in (Scope.TABLE, Scope.FAULTS):
            assert title_of(command) not in offered
    assert offered["Filter"] == f"{BY_NAME['filter.edit'].doc}  f"
    assert offered["Help"].endswith("  f2")


async def test_what_needs_a_proxy_is_not_offered_without_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as pilot:
        offered = await offers(SystemCommandsProvider(pilot.app.screen))
    assert "Hold: release" not in offered


async def test_filters_profiles_and_themes_are_found_by_name(tmp_path: Path) -> None:
    async with opened(tmp_path) as pilot:
        provider = SystemCommandsProvider(pilot.app.screen)
        assert (await offers(provider, "@mine"))["Filter: @mine"] == "api == Produce"
        assert "Profile: timing" in await offers(provider, "timing")
        assert "Theme: nord" in await offers(provider, "nord")
        assert "Profile: [/odd]" in await offers(provider, "odd")


async def test_a_command_is_carried_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as pilot:
        await pilot.press("ctrl+p", *"view latency")
        palette = pilot.app.screen
        assert isinstance(palette, CommandPalette)
        await until(lambda: palette.query_one("CommandList").option_count > 0)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(lambda: pilot.app.screen is not palette)
        await settled(pilot)
        assert pilot.app.main.view.view_name == "latency"  # type: ignore[attr-defined]


async def test_a_saved_filter_is_applied(tmp_path: Path) -> None:
    async with opened(tmp_path) as pilot:
        offered = [hit async for hit in SystemCommandsProvider(pilot.app.screen).search("@mine")]
        offered[0].command()
        await settled(pilot)
        status = pilot.app.session.status  # type: ignore[attr-defined]
        assert status.filter is not None
        assert status.filter.text == "api == Produce"
