"""The brokers behind the proxy, in the UI."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.widgets import Static

from kproxy.tui.dialogs.brokers import BrokersDialog
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.tui.live.proxied import shown
from tests.waiting import until

BROKER: dict[str, Any] = {
    "role": "broker",
    "node_id": 1,
    "address": "kafka-1:9092",
    "dialled": None,
    "at": "127.0.0.1:9094",
    "reachable": True,
    "why": "",
}
AWAY = BROKER | {
    "node_id": 2,
    "address": "kafka-2\x1b[2J:9092",
    "reachable": False,
    "why": "no such host \x1b[2J",
}


class Brokers(App[None]):
    """Shows only the dialog."""

    def __init__(self, *brokers: dict[str, Any]) -> None:
        super().__init__()
        self.dialog = BrokersDialog(brokers)

    def on_mount(self) -> None:
        self.push_screen(self.dialog)


async def test_brokers_are_shown_with_where_they_are_and_why_one_cannot_be_reached() -> None:
    app = Brokers(BROKER, AWAY)
    async with app.run_test(size=(100, 24)) as pilot:
        await until(shown(app, BrokersDialog))
        rows = [row.text() for row in app.dialog.query_one(RowTable).rows]
        assert "kafka-1:9092" in rows[0]
        assert "127.0.0.1:9094" in rows[0]
        assert "yes" in rows[0]
        assert "no" in rows[1].split()
        reason = str(app.dialog.query_one(Static).visual)
        assert "broker 2: no such host" in reason
        assert "\x1b" not in reason
        await pilot.press("q")
        await until(lambda: app.screen is not app.dialog)


async def test_no_broker_is_known() -> None:
    app = Brokers()
    async with app.run_test(size=(100, 24)):
        await until(shown(app, BrokersDialog))
        assert not app.dialog.query_one(RowTable).rows
        assert not app.dialog.query(Static)
