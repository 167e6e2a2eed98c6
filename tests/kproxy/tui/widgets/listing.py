"""An application that only shows a list of exchanges."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip

from kproxy.tui.profiles import DEFAULT, Profile
from kproxy.tui.widgets.exchange_list import ExchangeList
from tests.kproxy.tui.published import PublishedSession

SIZE = (120, 20)
BODY = SIZE[1] - 1


class ListApp(App[None]):
    """Shows a list and stores its messages."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, session: PublishedSession, profile: Profile = DEFAULT) -> None:
        super().__init__()
        self.session = session
        self.list = ExchangeList(session, profile)  # type: ignore[arg-type]
        self.said: list[Any] = []

    def compose(self) -> ComposeResult:
        yield self.list

    def on_mount(self) -> None:
        self.list.focus()
        self.list.refresh_rows()

    def on_exchange_list_selected(self, message: ExchangeList.Selected) -> None:
        self.said.append(message.number if message.held is None else message.held)

    def on_exchange_list_entered(self, message: ExchangeList.Entered) -> None:
        self.said.append(("entered", message.number))

    def on_exchange_list_sort_by(self, message: ExchangeList.SortBy) -> None:
        self.said.append(("sort", message.order))

    def on_exchange_list_profile_changed(self, message: ExchangeList.ProfileChanged) -> None:
        self.said.append(message.profile)

    def strip(self, y: int) -> Strip:
        """Return a painted line of the list."""
        return self.list.render_lines(Region(0, y, self.list.size.width, 1))[0]

    def line(self, y: int) -> str:
        """Return the text of a line of the list."""
        return self.list.render_line(y).text

    @property
    def lines(self) -> list[str]:
        """The texts of all lines."""
        return [self.line(y) for y in range(self.list.size.height)]


async def renewed(pilot: Pilot[None]) -> None:
    """Show the published data, and wait until it is painted."""
    app = pilot.app
    assert isinstance(app, ListApp)
    app.list.refresh_rows()
    await pilot.pause()
