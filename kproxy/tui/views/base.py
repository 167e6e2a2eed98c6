"""What the views of a session have in common."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual.message import Message
from textual.widget import Widget

from captures.filters.regex import TextRegex
from kproxy.session.engine import ClosedError

if TYPE_CHECKING:
    from kproxy.session import Session, SessionFold


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a view has counted.

    :ivar share: of the exchanges
    :ivar rate: exchanges a second
    """

    share: float
    rate: float

    @classmethod
    def of(cls, *foldings: SessionFold[Any]) -> Progress | None:
        """Return how far some foldings are, None if they have counted all."""
        slowest = min(foldings, key=lambda folding: folding.progress)
        return None if slowest.progress >= 1 else cls(slowest.progress, slowest.rate)


class View(Widget):
    """One way to look at what a session shows.

    :param session: what is looked at
    :cvar view_name: what the view is called: ``connections`` for the command ``view.connections``
    """

    DEFAULT_CSS = """
    View { height: 1fr; width: 1fr; layout: vertical; }
    """

    view_name: ClassVar[str]

    @dataclass
    class Narrow(Message):
        """Show the exchanges that fit a filter, of those that are shown now.

        :ivar filter: its text
        """

        filter: str

    @dataclass
    class GoTo(Message):
        """Show one exchange in the list.

        :ivar number: its number
        :ivar path: of the field that is looked for; empty for none
        """

        number: int
        path: str = ""

    def __init__(self, session: Session) -> None:
        super().__init__(id=self.view_name)
        self.session = session

    def on_shown(self) -> None:
        """Begin what has to go on while the view is looked at."""

    def on_hidden(self) -> None:
        """End it."""

    async def refresh_data(self) -> None:
        """Show what has changed; called when the view is shown, and now and then as long as something changes."""

    async def renew(self) -> None:
        """Do :meth:`refresh_data`. A fault of ours in it is told, and leaves the view as it was and all else usable."""
        try:
            await self.refresh_data()
        except ClosedError:
            return  # the session ends, and the screen with it
        except Exception as error:
            self.session.contain(error, f"the view {self.view_name}")

    def state(self) -> tuple[Hashable, ...]:
        """Return what changes when there is something new to show."""
        return (self.session.status.version,)

    @property
    def counting(self) -> Progress | None:
        """How far counting is, None when all is counted."""
        return None

    def take_focus(self) -> None:
        """Give the focus to what is to be used first."""
        for widget in self.query("*"):
            if widget.focusable:
                widget.focus()
                return

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        """Go to the next text that matches; return whether there is one."""
        return False
