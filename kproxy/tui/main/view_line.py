"""The line of views with their keys and names; and the visits that escape leads back to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from rich.text import Text
from textual import events
from textual.keys import key_to_character
from textual.message import Message
from textual.widget import Widget

from captures.filters import Filter
from dissectors.printable import printable
from kproxy.tui.commands import COMMANDS
from kproxy.tui.keymap import keys_of
from kproxy.tui.list_position import ListPlace
from kproxy.tui.widgets.row_table import TablePlace

_GAPS = ((2, " "), (1, " "), (1, ""))
"""Cells between views, and text between key and name, from roomy to dense."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A state of the main screen that escape leads back to.

    :ivar view: name of the view
    :ivar filter: current filter, None for none
    :ivar place: place in the list, None if the list is empty
    :ivar tables: places in the tables of the view
    :ivar focus: the focused widget
    """

    view: str
    filter: Filter | None
    place: ListPlace | None
    tables: tuple[TablePlace, ...]
    focus: Widget | None

    @property
    def title(self) -> str:
        """Short description."""
        return f"{self.view}{'' if self.filter is None else f' {printable(self.filter.text)}'}"

    @property
    def cursors(self) -> Hashable:
        """The places of the cursors, independent of scrolling."""
        return self.view, self.place and self.place.number, tuple(table.key for table in self.tables)


@dataclass(frozen=True, slots=True)
class _Tab:
    """A view in the line.

    :ivar key: width of its key in cells
    :ivar begin: its first cell
    """

    name: str
    text: str
    key: int
    begin: int


def _shown_key(keys: Sequence[str]) -> str:
    return (key_to_character(keys[0]) or keys[0]) if keys else ""


class ViewLine(Widget):
    """A line with all views.

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

    def show(self, current: str) -> None:
        """Highlight a view."""
        if current != self._current:
            self._current = current
            self.refresh()

    def render(self) -> Text:
        line = Text(no_wrap=True, end="")
        for tab in self._tabs():
            line.append(f"{' ' * (tab.begin - len(line))}{tab.text}")
            line.stylize("bold", tab.begin, tab.begin + tab.key)
            if tab.name == self._current:
                line.stylize("bold reverse", tab.begin, tab.begin + len(tab.text))
        return line

    def _tabs(self) -> list[_Tab]:
        """Return the views with names as long as fit for all; gaps shrink before names do."""
        room = self.size.width
        longest = max(len(name) for name, _ in self._views)
        for most, (gap, behind_key) in product(range(longest, 0, -1), _GAPS):
            texts = [
                f"{key}{behind_key}{name if name == self._current else name[:most]}".strip()
                for name, key in self._views
            ]
            taken = sum(map(len, texts)) + gap * (len(texts) - 1)
            if taken <= room:
                break
        tabs: list[_Tab] = []
        at = 0
        for (name, key), text in zip(self._views, texts, strict=True):
            tabs.append(_Tab(name, text, len(key), at))
            at += len(text) + gap
        return tabs

    def on_click(self, event: events.Click) -> None:
        """Switch to the clicked view."""
        at = event.get_content_offset(self)
        if at is None:
            return
        for tab in self._tabs():
            if tab.begin <= at.x < tab.begin + len(tab.text):
                self.post_message(self.Chosen(tab.name))
