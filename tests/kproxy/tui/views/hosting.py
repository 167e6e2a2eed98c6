"""An application with a single view, and queries about its tables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from captures.filters import compile_filter
from kproxy.session import Session
from kproxy.tui.views.base import View
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Row, text_of
from tests.kproxy.tui.kit import REBALANCE, read_session, settled


class ViewApp(App[None]):
    """Hosts a view, and stores its requests.

    :ivar met: filters that it requested, and numbers of exchanges that it went to
    """

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, session: Session, view: type[View]) -> None:
        super().__init__()
        self.session = session
        self._view = view
        self.met: list[str | int] = []

    def compose(self) -> ComposeResult:
        yield self._view(self.session)

    @property
    def view(self) -> Any:
        return self.query_one(View)

    def on_view_narrow(self, message: View.Narrow) -> None:
        self.met.append(message.filter)

    def on_view_go_to(self, message: View.GoTo) -> None:
        self.met.append(message.number)


class PictureApp(ViewApp):
    """Reads the capture itself, because snapshots are taken of applications that have not started."""

    async def on_mount(self) -> None:
        self.session.start()
        await self.session.idle()
        self.view.on_shown()
        await self.session.idle()
        await self.view.refresh_data()

    def on_unmount(self) -> None:
        self.session.close()


@asynccontextmanager
async def shown(
    view: type[View],
    path: Path = REBALANCE,
    *,
    wanted: str = "",
    size: tuple[int, int] = (150, 40),
    **options: Any,
) -> AsyncIterator[Pilot[None]]:
    """Return a view of a capture that was read.

    :param wanted: filter
    """
    async with read_session(path, **options) as session:
        if wanted:
            await session.set_filter(compile_filter(wanted))
        app = ViewApp(session, view)
        async with app.run_test(size=size) as pilot:
            app.view.on_shown()
            await session.idle()
            await app.view.refresh_data()
            await settled(pilot)
            yield pilot


def table(pilot: Pilot[None], place: int = 0) -> RowTable:
    """Return the table of a view; its details come after it."""
    return list(pilot.app.query(RowTable))[place]


def cell(table: RowTable, row: Row, title: str) -> str:
    return text_of(row.cells[[column.title for column in table.columns].index(title)])


def column(pilot: Pilot[None], title: str, place: int = 0) -> list[str]:
    found = table(pilot, place)
    return [cell(found, row, title) for row in found.rows]


def said(pilot: Pilot[None]) -> str:
    """Return the text about the selected row."""
    return str(pilot.app.query_one(".text Static").render())


async def press(pilot: Pilot[Any], *keys: str) -> None:
    await pilot.press(*keys)
    await settled(pilot)
