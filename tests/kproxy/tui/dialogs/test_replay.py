from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static

from kproxy.session import Session
from kproxy.tui.dialogs.comparison import FieldComparison
from kproxy.tui.dialogs.replay import ASK, PLAN, RESULTS, ReplayDialog
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.fake_broker import PRODUCE, FakeBroker
from tests.kproxy.tui.live.proxied import shown
from tests.kproxy.tui.live.replayed import recorded
from tests.waiting import until

pytestmark = pytest.mark.slow


class ReplayApp(App[None]):
    """Shows only the dialog."""

    def __init__(self, session: Session, numbers: list[int], brokers: str = "") -> None:
        super().__init__()
        self.dialog = ReplayDialog(session, numbers, brokers)
        self.returned: list[str | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.dialog, self.returned.append)

    @property
    def problem(self) -> str:
        return str(self.dialog.query_one("#problem", Static).visual)

    def rows(self, name: str) -> list[str]:
        return [row.text() for row in self.dialog.query_one(name, RowTable).rows]


@asynccontextmanager
async def replayed(
    folder: Path, *numbers: int, size: tuple[int, int] = (120, 34)
) -> AsyncIterator[tuple[FakeBroker, ReplayApp, Pilot[None]]]:
    async with FakeBroker(cluster_id="recorded") as broker, recorded(folder, broker) as session:
        app = ReplayApp(session, list(numbers), f"{broker.host}:{broker.port}")
        async with app.run_test(size=size) as pilot:
            await until(lambda: "to send again" in str(app.dialog.query_one("#about", Static).visual))
            yield broker, app, pilot


def at(app: ReplayApp, step: str) -> Callable[[], bool]:
    return lambda: app.dialog._step == step


async def test_several_are_planned_sent_and_compared(tmp_path: Path) -> None:
    async with replayed(tmp_path, 1, 2, 3) as (broker, app, pilot):
        assert app.dialog.query_one("#writes").display
        await pilot.press("enter")
        await until(at(app, PLAN))
        assert any("Produce" in row and "go back to allow it" in row for row in app.rows("#plan-table"))
        assert "2 requests of 1 connection" in str(app.dialog.query_one("#plan-text", Static).visual)
        await pilot.press("enter")
        await until(at(app, RESULTS))
        await until(
            lambda: "answered as recorded" in str(app.dialog.query_one("#results-text", Static).visual)
        )
        first, second = app.rows("#results-table")
        assert "= same" in first
        assert "≠ 2 differences" in second
        await pilot.press("down", "enter")
        await until(lambda: shown(app, FieldComparison)() and app.screen.query_one(RowTable).rows)
        table = app.screen.query_one(RowTable)
        await until(lambda: table.selected is not None and "leader_id" in table.selected.text())
        await pilot.press("n")
        assert table.selected is not None
        assert "[2]" in table.selected.text()
        await pilot.press("N")
        assert "leader_id" in table.selected.text()
        await pilot.press("escape")
        await pilot.press("escape")
        await until(lambda: app.returned)
        assert app.returned == [f"{broker.host}:{broker.port}"]
        assert not broker.of(PRODUCE)


@pytest.mark.parametrize("allowed", ["produce", "all"])
async def test_one_is_compared_at_once_at_80_columns(tmp_path: Path, allowed: str) -> None:
    async with replayed(tmp_path, 3, size=(80, 24)) as (broker, app, pilot):
        said = str(app.dialog.query_one("#writing", Static).visual)
        assert "Produce" in said
        app.dialog.query_one("#allow", Input).value = allowed
        await pilot.press("enter")
        await until(at(app, PLAN))
        await pilot.press("enter")
        await until(lambda: shown(app, FieldComparison)() and app.screen.query_one(RowTable).rows)
        assert len(broker.of(PRODUCE)) == 1
        assert "base_offset" in str(app.screen.query_one("#verdict", Static).visual) or any(
            "base_offset" in row.text() for row in app.screen.query_one(RowTable).rows
        )


async def test_what_makes_no_sense_is_told(tmp_path: Path) -> None:
    async with replayed(tmp_path, 1) as (broker, app, pilot):
        field = app.dialog.query_one("#brokers", Input)
        good = field.value
        field.value = "nowhere:port"
        await pilot.press("enter")
        await until(lambda: "not an address" in app.problem)
        field.value = good
        app.dialog.query_one("#speed", Input).value = "quick"
        await pilot.press("enter")
        await until(lambda: "is not a speed" in app.problem)
        app.dialog.query_one("#speed", Input).value = "2"
        app.dialog.query_one("#allow", Input).value = "Produze"
        await pilot.press("enter")
        await until(lambda: "'Produze' is not a Kafka API" in app.problem)
        app.dialog.query_one("#allow", Input).value = "SaslAuthenticate"
        await pilot.press("enter")
        await until(lambda: "never replayed" in app.problem)
        app.dialog.query_one("#allow", Input).value = ""
        app.dialog.query_one("#config", Input).value = str(tmp_path / "none.properties")
        await pilot.press("enter")
        await until(lambda: "none.properties" in app.problem)
        app.dialog.query_one("#config", Input).value = ""
        await broker.stop()
        await pilot.press("enter")
        await until(lambda: str(broker.port) in app.problem)
        assert at(app, ASK)()


async def test_one_can_go_back_from_the_plan(tmp_path: Path) -> None:
    async with replayed(tmp_path, 1) as (broker, app, pilot):
        await pilot.press("enter")
        await until(at(app, PLAN))
        await pilot.press("escape")
        assert at(app, ASK)()
        assert app.dialog.query_one("#brokers", Input).has_focus
        await pilot.press("escape")
        await until(lambda: app.returned)
        assert [each.client_id for each in broker.received if each.client_id != "kproxy"] == []
