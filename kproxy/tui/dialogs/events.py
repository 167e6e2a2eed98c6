"""Past notices, warnings and errors, which the screen shows for a few seconds only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from captures.time_format import clock
from kproxy.tui.dialogs.base import Dialog, lines

if TYPE_CHECKING:
    from kproxy.tui.app import Event

LOOKS = {
    "information": ("·", "notice", ""),
    "warning": ("!", "warning", "$text-warning"),
    "error": ("✗", "error", "$text-error"),
}
"""Symbol, word and style of each severity."""


class EventsDialog(Dialog[None]):
    """A list of events, the latest at the end. Returns nothing.

    :param events: in order of time
    :param zone: time zone; None for local time
    """

    DEFAULT_CSS = """
    EventsDialog {
        & > .box { width: 124; height: 100%; }
        VerticalScroll { height: 1fr; }
        Static { width: 1fr; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("E,q", "dismiss", "close"),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
        Binding("space,ctrl+f", "scroll('page_down')", show=False),
        Binding("ctrl+b", "scroll('page_up')", show=False),
        Binding("g", "scroll('home')", show=False),
        Binding("G", "scroll('end')", show=False),
    ]

    def __init__(self, events: Sequence[Event], zone: tzinfo | None) -> None:
        super().__init__()
        self._events = tuple(events)
        self._zone = zone

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = f"events: {len(self._events):,}"
            box.border_subtitle = "q: close"
            with VerticalScroll():
                yield Static(self._text(), markup=False)

    def on_mount(self) -> None:
        scroll = self.query_one(VerticalScroll)
        scroll.focus()
        scroll.scroll_end(animate=False)

    def action_scroll(self, where: str) -> None:
        getattr(self.query_one(VerticalScroll), f"scroll_{where}")(animate=False)

    def _text(self) -> Content:
        if not self._events:
            return Content("No notices so far.")
        return Content("\n").join(self._line(event) for event in self._events)

    def _line(self, event: Event) -> Content:
        symbol, word, style = LOOKS[event.severity]
        return Content.assemble(
            (f"{clock(event.time, self._zone)}  ", "dim"), (f"{symbol} {word:<8} ", style), lines(event.text)
        )
