"""The view of incidents: events, their times and effects, and their targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.tui.views.incidents import Incidents, _bar
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.tui.kit import REBALANCE, main_of, opened, settled
from tests.kproxy.tui.views.hosting import column, press, said, shown, table

GROUPS = Path(__file__).resolve().parents[3] / "data" / "groups"
OUTAGE = GROUPS / "46_k430_broker_killed.pcap.zst"
STREAMS = GROUPS / "21_k430_streams_classic.pcap.zst"


@pytest.mark.slow
async def test_an_outage_is_one_row_with_what_followed_from_it() -> None:
    async with shown(Incidents, OUTAGE) as pilot:
        app: Any = pilot.app
        assert column(pilot, "incident") == ["Broker outage"]
        assert column(pilot, "lasted") == ["27 s"]
        table(pilot).focus()
        await press(pilot, "home")
        assert "what to do" in said(pilot)
        assert "refused 635 attempts to connect" in column(pilot, "what")[0]
        effects = column(pilot, "effect", 1)
        assert {"stopped", "rebalance", "finding"} <= set(effects)
        await press(pilot, "enter")
        assert app.met[0].startswith("connection in {"), "attempts to connect have no exchange"
        table(pilot, 1).focus()
        await press(pilot, "home", "enter")
        assert (await app.session.exchange(app.met[1])).number == app.met[1]


@pytest.mark.slow
async def test_nothing_is_cut_off_in_80_columns() -> None:
    async with shown(Incidents, REBALANCE, size=(80, 24)) as pilot:
        for place in range(3):
            assert table(pilot, place).rows
            assert table(pilot, place).max_scroll_x == 0, "columns are out of sight"
        lines = [table(pilot, 1).line_text(y) for y in range(table(pilot, 1).line_count())]
        assert "…" not in "".join(lines[1:]), "effects are wrapped, and their evidence is named"


@pytest.mark.slow
async def test_a_filter_hides_no_incident() -> None:
    async with shown(Incidents, OUTAGE, wanted="api == Metadata") as pilot:
        assert column(pilot, "incident") == ["Broker outage"]


def test_the_bar_shows_where_a_time_lies() -> None:
    assert _bar(0, 50, 100) == "━" * 12 + "·" * 12
    assert _bar(100, 0, 100) == "·" * 23 + "━"
    assert _bar(0, 0, 0) == "━" * 24


@pytest.mark.slow
async def test_because_of_leads_to_the_incident_and_escape_back() -> None:
    async with opened(STREAMS) as pilot:
        for key in ("W", "home", "5", "tab", "tab"):
            await pilot.press(key)
            await settled(pilot)
        text = pilot.app.screen.query_one("#groups FactText")
        assert "because of" in str(text.render())
        await pilot.press("enter")
        await settled(pilot)
        view = main_of(pilot).view
        assert isinstance(view, Incidents)
        chosen = view.query(RowTable)[0].selected
        assert chosen is not None
        assert chosen.key == "member_absence-1", "the second of several"
        await pilot.press("escape")
        await settled(pilot)
        assert text.has_focus
