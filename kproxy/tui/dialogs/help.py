"""Help: keys, the filter language, and facts about this run; searchable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Static, TabbedContent, TabPane, Tabs

from kproxy.tui.commands import BY_NAME, Scope
from kproxy.tui.dialogs.base import Box, ScrollDialog
from kproxy.tui.manual import (
    NAME,
    Section,
    about_sections,
    filter_sections,
    found,
    key_sections,
    view_section,
)

TABS = {"keys": "keys", "filter": "filter language", "about": "about"}
WIDE = 100
"""Columns of the terminal from which everything fits."""
MOST_ALIGNED = 20
"""Most cells by which first columns of tables with the same header are aligned."""
LEAST_PROSE = 30
"""Least cells of a second column, which contains sentences, before the others are folded."""


class HelpDialog(ScrollDialog):
    """A dialog that shows help.

    :param focused: the focused widget; the keys of its place come first
    :param keymap: the changed keys
    :param about: facts about this run, see :func:`kproxy.tui.manual.about_sections`
    """

    DEFAULT_CSS = """
    HelpDialog {
        TabbedContent { height: 1fr; }
        TabPane { padding: 0; }
        #search { padding: 0; background: $boost; display: none; }
        #search.-open { display: block; }
    }
    """

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "dismiss", "close"),
        Binding("escape", "back", "back", show=False),
        Binding("slash,f", "search", "search"),
        Binding("tab,right,l", "tab(1)", "next part"),
        Binding("shift+tab,left,h", "tab(-1)", "part before", show=False),
    ]

    def __init__(
        self,
        focused: Widget | None,
        keymap: Mapping[str, str],
        about: Sequence[Section] | None = None,
    ) -> None:
        super().__init__()
        self._texts: dict[str, Sequence[Section]] = {
            "keys": [view_section(keymap), *key_sections(places_of(focused), keymap)],
            "filter": filter_sections(),
            "about": about_sections() if about is None else about,
        }
        self._drawn: dict[str, tuple[str, bool]] = {}

    def compose(self) -> ComposeResult:
        with Box("help", "tab: next page   /: search   q: close"):
            with TabbedContent(initial="keys"):
                for name, title in TABS.items():
                    with TabPane(title, id=name), VerticalScroll(can_focus=False):
                        yield Static(classes="text")
            yield Input(id="search", placeholder="words to find", compact=True)

    def on_mount(self) -> None:
        self.query_one(Tabs).can_focus = False

    def on_resize(self) -> None:
        self._show()

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        event.stop()
        self._show()

    def _show(self) -> None:
        """Draw the current part if search or width have changed."""
        part, search, narrow = self.query_one(TabbedContent).active, self._search, self.size.width < WIDE
        if self._drawn.get(part) == (search, narrow) or part not in self._texts:
            return
        self._drawn[part] = (search, narrow)
        shown = found(self._texts[part], search)
        nothing = Text(f"Nothing here has {search!r} in it.")
        text = drawn(shown, narrow=narrow) if shown else nothing
        self.query_one(f"#{part} .text", Static).update(text)

    @property
    def _search(self) -> str:
        return self.query_one(Input).value.strip()

    def action_search(self) -> None:
        field = self.query_one(Input)
        field.add_class("-open")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.set_focus(None)

    def action_back(self) -> None:
        """Close the search field, or the dialog."""
        field = self.query_one(Input)
        if not field.has_class("-open"):
            self.dismiss()
            return
        field.value = ""
        field.remove_class("-open")
        self.set_focus(None)

    def action_tab(self, step: int) -> None:
        tabs = self.query_one(TabbedContent)
        names = list(TABS)
        tabs.active = names[(names.index(tabs.active) + step) % len(names)]

    @property
    def _pane(self) -> VerticalScroll:
        return self.query_one(f"#{self.query_one(TabbedContent).active} VerticalScroll", VerticalScroll)


def places_of(focused: Widget | None) -> list[Scope]:
    """Return the places of a widget and its ancestors, the innermost first."""
    nodes = focused.ancestors_with_self if focused is not None else ()
    classes = (kind for node in nodes for kind in type(node).__mro__)
    bound = (binding for kind in classes for binding in kind.__dict__.get("BINDINGS", ()))
    names = (binding.id for binding in bound if isinstance(binding, Binding))
    return list(dict.fromkeys(BY_NAME[name].scope for name in names if name in BY_NAME))


def drawn(sections: Sequence[Section], *, narrow: bool = False) -> Group:
    """Return sections as tables for a terminal; first columns are equally wide in tables with the same header.

    :param narrow: whether to omit the names for the configuration file
    """
    widths: dict[tuple[str, ...], int] = {}
    for section in sections:
        cells = [len(row[0].replace("`", "")) for row in section.rows]
        widths[section.header] = max([widths.get(section.header, 0), *cells])
    parts: list[RenderableType] = []
    for section in sections:
        if section.title:
            parts.append(Text(section.title.upper(), style="bold underline"))
        for text in section.text:
            parts += [_inline(text), Text()]
        if section.rows:
            left_out = narrow and section.header[-1] == NAME
            columns = len(section.header) - left_out
            parts += [_table(section, columns, min(widths[section.header], MOST_ALIGNED)), Text()]
    return Group(*parts)


def _table(section: Section, columns: int, width: int) -> Table:
    table = Table(box=None, pad_edge=False, show_header=any(section.header))
    least = (width, LEAST_PROSE)
    for index, title in enumerate(section.header[:columns]):
        room = least[index] if index < len(least) else None
        table.add_column(title, header_style="dim", overflow="fold", min_width=room)
    for row in section.rows:
        table.add_row(*map(_inline, row[:columns]))
    return table


def _inline(text: str) -> Text:
    """Return text with code between backticks in bold."""
    pieces = text.split("`")
    return Text.assemble(*((piece, "bold" if index % 2 else "") for index, piece in enumerate(pieces)))
