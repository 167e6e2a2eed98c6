"""The base of views."""

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
    """Progress of a view's counting.

    :ivar share: counted share of the exchanges
    :ivar rate: exchanges per second
    """

    share: float
    rate: float

    @classmethod
    def of(cls, *foldings: SessionFold[Any]) -> Progress | None:
        """Return the progress of the slowest fold, None if all are done."""
        slowest = min(foldings, key=lambda folding: folding.progress)
        return None if slowest.progress >= 1 else cls(slowest.progress, slowest.rate)


class View(Widget):
    """One view of a session.

    :param session: the session to show
    :cvar view_name: name of the view: ``connections`` for the command ``view.connections``
    """

    DEFAULT_CSS = """
    View { height: 1fr; width: 1fr; layout: vertical; }
    """

    view_name: ClassVar[str]

    @dataclass
    class Narrow(Message):
        """A request to add a filter to the current one, and show the list.

        :ivar filter: text of the filter
        """

        filter: str

    @dataclass
    class GoTo(Message):
        """A request to show one exchange in the list.

        :ivar number: of the exchange
        :ivar path: of the field to select; empty for none
        """

        number: int
        path: str = ""

    @dataclass
    class GoToIncident(Message):
        """A request to show an incident among the others.

        :ivar incident: its ID
        """

        incident: str

    def __init__(self, session: Session) -> None:
        super().__init__(id=self.view_name)
        self.session = session

    def on_shown(self) -> None:
        """Start activities that are needed while the view is shown."""

    def look_at(self, number: int) -> None:
        """Prepare to show an exchange, if single exchanges are shown."""

    def seek(self, key: Hashable) -> None:
        """Move the cursor to a row as soon as that is shown, unless the view is left before."""

    def on_hidden(self) -> None:
        """Stop the activities started by :meth:`on_shown`."""

    async def refresh_data(self) -> None:
        """Show changes; called when the view is shown, and periodically while its state changes."""

    async def renew(self) -> None:
        """Run :meth:`refresh_data`. Internal errors in it are reported, and leave the view as it was."""
        try:
            await self.refresh_data()
        except ClosedError:
            return  # the session is closing, and the screen with it
        except Exception as error:
            self.session.contain(error, f"the view {self.view_name}")

    def state(self) -> tuple[Hashable, ...]:
        """Return a value that changes when there is something new to show."""
        return (self.session.status.version,)

    @property
    def counting(self) -> Progress | None:
        """Progress of counting, None when all is counted."""
        return None

    def take_focus(self) -> None:
        """Focus the first focusable widget."""
        for widget in self.query("*"):
            if widget.focusable:
                widget.focus()
                return

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        """Move the cursor to the next match; return whether there is one."""
        return False
