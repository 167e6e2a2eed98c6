"""The line of views with their keys and names; and the visits that escape leads back to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.text import Text
from textual import events
from textual.keys import key_to_character
from textual.message import Message
from textual.widget import Widget

from captures.filters import Filter
from dissectors.printable import printable
from kproxy.tui.commands import COMMANDS
from kproxy.tui.keymap import keys_of
from kproxy.tui.list_position import ListPosition
from kproxy.tui.widgets.row_table import TablePosition

_GAPS = ((2, " "), (1, " "), (1, ""))
"""Cells between views, and text between key and name, from roomy to dense."""
_BEFORE, _AFTER = "‹ ", " ›"
"""Signs of views that do not fit; a click on one scrolls the line."""


@dataclass(frozen=True, slots=True)
class ViewState:
    """A state of the main screen that escape leads back to.

    :ivar view: name of the view
    :ivar filter: current filter, None for none
    :ivar position: place in the list, None if the list is empty
    :ivar tables: places in the tables of the view
    :ivar focus: the focused widget
    """

    view: str
    filter: Filter | None
    position: ListPosition | None
    tables: tuple[TablePosition, ...]
    focus: Widget | None

    @property
    def title(self) -> str:
        """Short description."""
        return f"{self.view}{'' if self.filter is None else f' {printable(self.filter.text)}'}"

    @property
    def cursors(self) -> Hashable:
        """The places of the cursors, independent of scrolling."""
        return self.view, self.position and self.position.number, tuple(table.key for table in self.tables)


class _Tab(NamedTuple):
    """A view in the line.

    :ivar key: width of its key in cells
    :ivar begin: its first cell
    """

    name: str
    text: str
    key: int
    begin: int

    @property
    def end(self) -> int:
        return self.begin + len(self.text)


def _shown_key(keys: Sequence[str]) -> str:
    return (key_to_character(keys[0]) or keys[0]) if keys else ""


class ViewLine(Widget):
    """A line with the names of the views, which scrolls if they do not fit.

    :param keymap: the changed keys
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
        self._first: int | None = None

    def show(self, current: str) -> None:
        """Highlight a view."""
        if current != self._current:
            self._current, self._first = current, None
            self.refresh()

    def render(self) -> Text:
        line = Text(no_wrap=True, end="")
        tabs, before, after = self._tabs()
        if before:
            line.append(_BEFORE)
        for tab in tabs:
            line.append(f"{' ' * (tab.begin - len(line))}{tab.text}")
            line.stylize("bold", tab.begin, tab.begin + tab.key)
            if tab.name == self._current:
                line.stylize("bold reverse", tab.begin, tab.end)
        if after:
            line.append(_AFTER)
        return line

    def _tabs(self) -> tuple[list[_Tab], int, int]:
        """Return the tabs that fit, and how many views there are before and after them; gaps shrink first."""
        room = self.size.width
        for gap, behind_key in _GAPS:
            tabs = self._all_tabs(gap, behind_key)
            if tabs[-1].end <= room:
                return tabs, 0, 0

        def shift(first: int) -> int:
            """Return the number of cells that the line scrolls so that it starts with the tab `first`."""
            return tabs[first].begin - (len(_BEFORE) if first else 0)

        def end_from(first: int) -> int:
            """Return the end of the tabs that fit from `first` on, at least one."""
            if tabs[-1].end - shift(first) <= room:
                return len(tabs)
            ends = [tab.end - shift(first) for tab in tabs[first:]]
            return first + max(1, bisect_right(ends, room - len(_AFTER)))

        first = self._first
        if first is None:
            current = next((index for index, tab in enumerate(tabs) if tab.name == self._current), 0)
            first = next(each for each in range(len(tabs)) if end_from(each) > current)
        first = min(first, next(each for each in range(len(tabs)) if end_from(each) == len(tabs)))
        end = end_from(first)
        shown = [tab._replace(begin=tab.begin - shift(first)) for tab in tabs[first:end]]
        return shown, first, len(tabs) - end

    def _all_tabs(self, gap: int, behind_key: str) -> list[_Tab]:
        """Return the tabs of all views, from the first cell on."""
        tabs: list[_Tab] = []
        for name, key in self._views:
            begin = tabs[-1].end + gap if tabs else 0
            tabs.append(_Tab(name, f"{key}{behind_key}{name}".strip(), len(key), begin))
        return tabs

    def on_click(self, event: events.Click) -> None:
        """Switch to the clicked view, or scroll to those that do not fit."""
        at = event.get_content_offset(self)
        if at is None:
            return
        tabs, before, after = self._tabs()
        for tab in tabs:
            if tab.begin <= at.x < tab.end:
                self.post_message(self.Chosen(tab.name))
                return
        if before and at.x < len(_BEFORE):
            self._first = 0
        elif after and at.x >= tabs[-1].end:
            self._first = before + len(tabs)
        self.refresh()
