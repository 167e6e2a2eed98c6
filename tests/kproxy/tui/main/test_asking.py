"""Questions about the whole capture, asked in the UI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from kproxy.tui.commands import BY_NAME
from kproxy.tui.dialogs.answer import AnswerDialog
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.tui.kit import main_of, opened, settled, shown_lines

pytestmark = pytest.mark.slow

CRASH_LOOP = Path(__file__).resolve().parents[3] / "data" / "groups" / "21_k430_ck_crashloop.pcap.zst"


async def ask(pilot: Pilot[Any], name: str, argument: str = "") -> list[str]:
    """Ask a question; return the lines of the answer, empty without an answer."""
    main_of(pilot).typing.perform(BY_NAME[name], argument)
    await settled(pilot)
    if not isinstance(pilot.app.screen, AnswerDialog):
        return []
    return [row.text() for row in pilot.app.screen.query_one(RowTable).rows]


async def test_the_way_of_a_record() -> None:
    async with opened() as pilot:
        lines = await ask(pilot, "question.journey", "r2-java_eager_range-3@3")
        assert lines[0].startswith('r2-java_eager_range-3@3  key "k13"')
        steps = [line.split()[0] for line in lines if line.startswith("  ")]
        assert [step for step in steps if step in ("sent", "acknowledged", "delivered", "committed")] == [
            "sent",
            "acknowledged",
            "delivered",
            "committed",
        ]


async def test_enter_goes_to_the_exchange_of_the_line() -> None:
    async with opened() as pilot:
        lines = await ask(pilot, "question.journey", "r2-java_eager_range-3@3")
        sent = next(place for place, line in enumerate(lines) if line.startswith("  sent"))
        await pilot.press(*["down"] * sent, "enter")
        await settled(pilot)
        assert not isinstance(pilot.app.screen, AnswerDialog)
        assert main_of(pilot).number == 55
        exchange = await main_of(pilot).session.exchange(55)
        assert exchange.api == "Produce"


async def test_the_story_of_the_client_under_the_cursor() -> None:
    async with opened() as pilot:
        main_of(pilot).go_to(205)  # m2 leaves the group
        await settled(pilot)
        lines = await ask(pilot, "question.party")
        assert lines[0].startswith("m2 at 127.0.0.1")
        assert any("leaves" in line and "#205" in line for line in lines)


async def test_settings_of_one_client_and_of_all() -> None:
    async with opened() as pilot:
        lines = await ask(pilot, "question.config", "m1")
        assert "session.timeout.ms=6000" in lines
        assert not any("pump" in line for line in lines)
        await pilot.press("q")
        everybody = await ask(pilot, "question.config")
        assert any(line.startswith("# pump") for line in everybody)


async def test_what_another_release_would_refuse() -> None:
    async with opened() as pilot:
        lines = await ask(pilot, "question.compat", "0.10.2")
        assert lines[0].startswith("With Kafka 0.10.2, of 6 clients: 4 would be refused")


async def test_what_differs_from_another_capture() -> None:
    async with opened() as pilot:
        lines = await ask(pilot, "question.diff", str(CRASH_LOOP))
        assert any(line.startswith(f"good  {str(CRASH_LOOP)[:20]}") for line in lines)
        assert any(line.startswith("bad   this  402 exchanges") for line in lines)
        table = pilot.app.screen.query_one(RowTable)
        leading = [row for row in table.rows if row.leads_to is not None]
        assert leading
        assert not any(row.text().strip().startswith("good ") for row in leading), (
            "numbers of the other capture"
        )


async def test_what_differs_between_two_times() -> None:
    async with opened() as pilot:
        lines = await ask(pilot, "question.diff", "0s..15s 15s..")
        assert any(line.startswith("good  0s..15s") for line in lines)
        assert any("m3 was removed from" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "argument", "said"),
    [
        ("question.journey", "orders", "is not a record"),
        ("question.journey", "orders-1@7", "is not in what was captured"),
        ("question.party", "nobody", "no client 'nobody'"),
        ("question.config", "nobody", "no client 'nobody'"),
        ("question.compat", "9.9", "9.9"),
        ("question.diff", "/nowhere/to/be.pcap", "/nowhere/to/be.pcap"),
        ("question.diff", "soon..later 1s..2s", "'soon' is not a time"),
    ],
)
async def test_what_has_no_answer_says_why(name: str, argument: str, said: str) -> None:
    async with opened() as pilot:
        assert await ask(pilot, name, argument) == []
        assert any(said in line for line in shown_lines(pilot))
        if isinstance(pilot.app.screen, Prompt):  # the typed text is not lost
            assert pilot.app.screen.query_one(Input).value == argument
        else:
            assert name in ("question.party", "question.config")
