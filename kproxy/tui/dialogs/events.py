"""Past notices, warnings and errors, which the screen shows for a few seconds only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from captures.time_format import clock
from kproxy.tui.dialogs.base import Box, ScrollDialog, lines

if TYPE_CHECKING:
    from kproxy.tui.app import Event

LOOKS = {
    "information": ("·", "notice", ""),
    "warning": ("!", "warning", "$text-warning"),
    "error": ("✗", "error", "$text-error"),
}
"""Symbol, word and style of each severity."""


class EventsDialog(ScrollDialog):
    """A list of events, the latest at the end.

    :param events: in order of time
    :param zone: time zone; None for local time
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("E", "dismiss", "close"),
    ]

    def __init__(self, events: Sequence[Event], zone: tzinfo | None) -> None:
        super().__init__()
        self._events = tuple(events)
        self._zone = zone

    def compose(self) -> ComposeResult:
        with Box(f"events: {len(self._events):,}", "q: close"), VerticalScroll():
            yield Static(self._text(), markup=False)

    def on_mount(self) -> None:
        self._pane.focus()
        self._pane.scroll_end(animate=False)

    def _text(self) -> Content:
        if not self._events:
            return Content("No notices so far.")
        return Content("\n").join(self._line(event) for event in self._events)

    def _line(self, event: Event) -> Content:
        symbol, word, style = LOOKS[event.severity]
        return Content.assemble(
            (f"{clock(event.time, self._zone)}  ", "dim"), (f"{symbol} {word:<8} ", style), lines(event.text)
        )
