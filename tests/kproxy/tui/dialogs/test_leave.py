from __future__ import annotations

from collections.abc import Sequence

import pytest
from textual.app import App
from textual.widgets import OptionList, Static

from kproxy.tui.dialogs.leave import Leave, Leaving
from kproxy.tui.live.state import Connection
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.tui.live.proxied import shown
from tests.waiting import until

SECOND = 1_000_000_000
CONNECTIONS = (
    Connection(1, "10.0.0.7:41078", "billing\x1b[2J", "b1:9092", 2, 1, 90 * SECOND),
    Connection(2, "10.0.0.8:41079", None, "b1:9092", 0, 0, SECOND),
)


class Leaves(App[None]):
    """Shows only the dialog."""

    def __init__(self, connections: Sequence[Connection], **options: object) -> None:
        super().__init__()
        self.dialog = Leave(connections, **options)  # type: ignore[arg-type]
        self.returned: list[Leaving | None] = []

    def on_mount(self) -> None:
        self.push_screen(self.dialog, self.returned.append)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "chosen"),
    [("enter", None), ("escape", None), ("up enter", "background"), ("up up enter", "end")],
)
async def test_it_stays_unless_something_else_is_chosen(keys: str, chosen: Leaving | None) -> None:
    app = Leaves(CONNECTIONS, held=1, run="2026-11-21T09-00-00Z-9092")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(shown(app, Leave))
        assert "2 connections open through this proxy, 2 requests in flight." in str(
            app.dialog.query_one("#question", Static).visual
        )
        rows = [row.text() for row in app.dialog.query_one(RowTable).rows]
        assert "billing" in rows[0]
        assert "not known yet" in rows[1]
        await pilot.press(*keys.split())
        await until(lambda: app.returned)
        assert app.returned == [chosen]


async def test_without_connections_it_ends() -> None:
    app = Leaves((), held=2)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(shown(app, Leave))
        assert "2 messages held" in str(app.dialog.query_one("#question", Static).visual)
        assert app.dialog.query_one(OptionList).option_count == 3
        await pilot.press("enter")
        await until(lambda: app.returned)
        assert app.returned == ["end"]
