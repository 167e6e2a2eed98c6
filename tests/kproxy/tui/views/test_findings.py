"""The view of findings: its texts, their targets, and the rules without a result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.tui.views.findings import Findings
from tests.kproxy.tui.views.hosting import column, press, said, shown, table

pytestmark = pytest.mark.slow

CLEAN = Path(__file__).resolve().parents[3] / "data" / "clean"


async def test_the_gravest_comes_first() -> None:
    async with shown(Findings) as pilot:
        severities = [text for text in column(pilot, "severity") if text != "-"]
        assert severities == sorted(severities, key=["high", "medium", "low", "info"].index)
        place = column(pilot, "rule").index("session_timeouts")
        assert "m3 was removed from group gr2-java_eager_range" in column(pilot, "what")[place]


async def test_what_to_do_and_what_it_rests_on() -> None:
    async with shown(Findings) as pilot:
        app: Any = pilot.app
        found = table(pilot)
        place = column(pilot, "rule").index("session_timeouts")
        found.focus()
        await press(pilot, "home", *["down"] * place)
        assert "what to do" in said(pilot)
        assert "process ended" in said(pilot)
        await press(pilot, "enter")
        assert str(app.met[0]) == column(pilot, "evidence", 1)[0].removeprefix("#")
        assert column(pilot, "client", 1)[0] == "m3"
        assert "→ ok" in column(pilot, "request → response", 1)[0]
        table(pilot, 1).focus()
        await press(pilot, "home", "enter")
        assert (await app.session.exchange(app.met[1])).number == app.met[1]


async def test_everything_is_looked_at_whatever_the_filter_shows() -> None:
    async with shown(Findings) as pilot:
        whole = column(pilot, "what")
    async with shown(Findings, wanted="api == Metadata") as pilot:
        assert column(pilot, "what") == whole


async def test_what_was_not_judged_is_told_too() -> None:
    async with shown(Findings, CLEAN / "20_k430_kafkajs_none.pcap.zst") as pilot:
        assert column(pilot, "severity")[-1] == "-"
        assert "could not judge" in column(pilot, "what")[-1]
        table(pilot).focus()
        await press(pilot, "end")
        assert ": " in said(pilot)
