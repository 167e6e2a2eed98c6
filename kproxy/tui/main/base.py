"""What the parts of the main screen have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.screen import Screen
from textual.widgets import ContentSwitcher

from kproxy.tui.main.status_line import StatusLine
from kproxy.tui.session import Session
from kproxy.tui.views.base import View
from kproxy.tui.views.exchanges import Exchanges

if TYPE_CHECKING:
    from kproxy.tui.app import KproxyApp


class MainScreenBase(Screen[None]):
    """A screen of a session, with views.

    :param session: what is looked at
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    @property
    def kproxy(self) -> KproxyApp:
        """The application."""
        app: Any = self.app
        return app  # type: ignore[no-any-return]

    @property
    def exchanges(self) -> Exchanges:
        """The list with the details."""
        return self.query_one(Exchanges)

    @property
    def view(self) -> View:
        """The view that is shown."""
        return self.query_one(f"#{self.query_one('#views', ContentSwitcher).current}", View)

    @property
    def number(self) -> int | None:
        """The exchange under the cursor of the list, None if there is none."""
        return self.exchanges.list.number

    def tell(self, message: str) -> None:
        """Show a message for a while; it may hold what came from the wire."""
        self.query_one(StatusLine).tell(message)

    def show_view(self, name: str) -> None:
        """Show a view."""
        raise NotImplementedError
