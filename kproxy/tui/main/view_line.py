"""The line of views: their keys and names, the one that is shown marked, and where escape leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from rich.text import Text
from textual import events
from textual.keys import key_to_character
from textual.message import Message
from textual.widget import Widget

from captures.filters import Filter
from dissectors.printable import printable
from kproxy.text.cells import cut, width
from kproxy.tui.commands import COMMANDS
from kproxy.tui.keymap import keys_of
from kproxy.tui.list_position import ListPlace
from kproxy.tui.widgets.row_table import TablePlace

_GAP = 2
_BACK = 14
_BACK_SHARE = 5
"""Where escape leads has a share of the line, one part of so many, but not fewer cells than these."""
_SHORT = 2
"""Characters below which no name is cut to say where escape leads."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What escape leads back to.

    :ivar view: name of the view
    :ivar filter: what was shown, None for everything
    :ivar place: in the list, None where that is empty
    :ivar tables: places in the tables of the view
    :ivar focus: the widget that had it
    """

    view: str
    filter: Filter | None
    place: ListPlace | None
    tables: tuple[TablePlace, ...]
    focus: Widget | None


@dataclass(frozen=True, slots=True)
class _Tab:
    name: str
    text: str
    begin: int


def _shown_key(keys: Sequence[str]) -> str:
    return (key_to_character(keys[0]) or keys[0]) if keys else ""


class ViewLine(Widget):
    """Shows which views there are.

    :param keymap: keys that were changed
    """

    DEFAULT_CSS = """
    ViewLine { height: 1; background: $surface; color: $foreground-muted; padding: 0 1; }
    """

    @dataclass
    class Chosen(Message):
        """A view was clicked.

        :ivar name: of the view
        """

        name: str

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._views = [
            (command.name.removeprefix("view."), _shown_key(keys_of(command, keymap)))
            for command in COMMANDS
            if command.group == "view"
        ]
        self._current = ""
        self._back: Visit | None = None

    def show(self, current: str, visits: Sequence[Visit]) -> None:
        """Mark a view.

        :param visits: where escape leads, the last first
        """
        back = visits[-1] if visits else None
        if (current, back) != (self._current, self._back):
            self._current, self._back = current, back
            self.refresh()

    def render(self) -> Text:
        """Return the line."""
        room = self.size.width
        line = Text(no_wrap=True, end="")
        for tab in self._tabs():
            line.append(f"{' ' * (tab.begin - len(line))}{tab.text}")
            if tab.name == self._current:
                line.stylize("bold reverse", tab.begin, tab.begin + len(tab.text))
        left = room - width(line.plain) - _GAP
        if self._leads_back and left > 0:
            told = cut(self._leads_back, left)
            line.append(f"{' ' * (left + _GAP - width(told))}{told}")
        return line

    @property
    def _leads_back(self) -> str:
        """Where escape leads, empty if it does not."""
        if self._back is None:
            return ""
        wanted = self._back.filter
        return f"esc: {self._back.view}{'' if wanted is None else f' {printable(wanted.text)}'}"

    def _tabs(self) -> list[_Tab]:
        """Return the views, with names as long as there is room for all; gaps give way before names do."""
        room = self.size.width
        if self._leads_back:
            room -= _GAP + min(width(self._leads_back), max(room // _BACK_SHARE, _BACK))
        longest = max(len(name) for name, _ in self._views)
        for most, gap in product(range(longest, 0, -1), range(_GAP, 0, -1)):
            texts = [
                f"{key} {name if name == self._current else name[:most]}".strip() for name, key in self._views
            ]
            taken = sum(map(len, texts)) + gap * (len(texts) - 1)
            if taken <= room or (most <= _SHORT and gap == 1 and taken <= self.size.width):
                break
        tabs: list[_Tab] = []
        at = 0
        for (name, _), text in zip(self._views, texts, strict=True):
            tabs.append(_Tab(name, text, at))
            at += len(text) + gap
        return tabs

    def on_click(self, event: events.Click) -> None:
        """Show the view under the pointer."""
        at = event.get_content_offset(self)
        if at is None:
            return
        for tab in self._tabs():
            if tab.begin <= at.x < tab.begin + len(tab.text):
                self.post_message(self.Chosen(tab.name))
