"""Properties of all views: internal errors are contained, and the time of opening makes no difference."""

from __future__ import annotations

from typing import Any

import pytest
from textual.widgets import Static

from kproxy.session import Session
from kproxy.tui.app import KproxyApp
from kproxy.tui.settings import Settings
from kproxy.tui.views.base import View
from kproxy.tui.views.errors import Errors
from kproxy.tui.views.findings import Findings
from kproxy.tui.views.groups import Groups
from kproxy.tui.views.incidents import Incidents
from kproxy.tui.views.topics import Topics
from kproxy.tui.widgets.row_table import RowTable
from tests.conftest import DATA
from tests.kproxy.tui.kit import main_of, opened, session_of, settled, shown_lines
from tests.kproxy.tui.views.hosting import column, said, shown

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


@pytest.mark.parametrize("name", ["21_k430_kip848_java", "21_k430_ck_crashloop", "21_k430_share_group"])
@pytest.mark.parametrize("view", [Groups, Findings, Incidents])
async def test_views_show_of_a_whole_file_what_they_show_of_its_exchanges_one_by_one(
    view: type[View], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def content() -> tuple[object, ...]:
        async with shown(view, DATA.parent / "groups" / f"{name}.pcap.zst") as pilot:
            tables = [[row.cells for row in each.rows] for each in pilot.app.query(RowTable)]
            return said(pilot), tables

    by_columns = await content()
    monkeypatch.setattr(Session, "whole", False)
    assert by_columns == await content()


@pytest.mark.parametrize("key", "5670W")
async def test_a_view_opened_while_the_file_is_read_shows_what_one_opened_later_does(key: str) -> None:
    pages = []
    for early in (True, False):
        app = KproxyApp(session_of(), Settings())
        async with app.run_test(size=(150, 40)) as pilot:
            if not early:
                await settled(pilot)
            await pilot.press(key)
            await settled(pilot)
            pages.append(shown_lines(pilot))
        app.session.close()
    assert pages[0] == pages[1]
