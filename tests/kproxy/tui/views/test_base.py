"""A view that fails: what is told, and what goes on."""

from __future__ import annotations

from typing import Any

import pytest
from textual.widgets import Static

from kproxy.tui.views.errors import Errors
from kproxy.tui.views.topics import Topics
from tests.kproxy.tui.kit import main_of, opened, settled
from tests.kproxy.tui.views.hosting import column, shown

pytestmark = pytest.mark.slow


def broken(*_: Any) -> Any:
    raise KeyError("planted")


async def test_a_view_that_fails_leaves_the_others_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Topics, "rows", broken)
    async with opened() as pilot:
        main = main_of(pilot)
        await main.show_view("topics")
        await settled(pilot)
        banner = main.query_one("#banner", Static)
        assert banner.display
        assert "the view topics failed: KeyError: 'planted'" in str(banner.content)
        assert main.session.status.faults
        await main.show_view("errors")
        await settled(pilot)
        assert isinstance(main.view, Errors)


async def test_details_that_fail_leave_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(Errors) as pilot:
        app: Any = pilot.app
        monkeypatch.setattr(Errors, "detail", broken)
        await app.view.renew()
        assert column(pilot, "error")
        assert app.session.faults.count
