"""The fields of a request or response, as a tree that is drawn line by line.

The user's folds apply to the same fields in every exchange of the API, and the cursor stays on the same field, so that
moving down the list keeps the same thing in view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click, Resize
from textual.message import Message
from textual.strip import Strip

from dissectors.printable import printable
from dissectors.sides import Side
from kproxy.text.cells import cut, width
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.detail.filter_names import filter_field
from kproxy.tui.detail.folds import Fold, FoldedLines, Line
from kproxy.tui.detail.lines import Class, pieces
from kproxy.tui.detail.nodes import FieldNode, SideDetail
from kproxy.tui.widgets.cursor_lines import CursorLines
from kproxy.tui.widgets.selectable import SelectableLines

_INDENT = 2
_FOLDED, _UNFOLDED, _LEAF = "▸ ", "▾ ", "  "


class FieldTree(SelectableLines, CursorLines, can_focus=True):
    """The tree of one side.

    :param side: the side
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TREE)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "field-tree--cursor",
        *(f"field-tree--{each}" for each in Class),
    }
    """One for each :class:`~kproxy.tui.detail.lines.Class` of text, and the line of the cursor."""
    DEFAULT_CSS = """
    FieldTree {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        & > .field-tree--name { color: $text-primary; }
        & > .field-tree--text { color: $text-success; }
        & > .field-tree--data { color: $text-secondary; }
        & > .field-tree--note { color: $text-accent; }
        & > .field-tree--error { color: $text-error; text-style: bold; }
        & > .field-tree--change { color: $text-warning; }
        & > .field-tree--comment { color: $text-warning; text-style: italic; }
        & > .field-tree--muted { color: $text-muted; }
        & > .field-tree--cursor { background: $block-cursor-blurred-background; text-style: bold; }
        &:focus > .field-tree--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """

    @dataclass
    class FieldSelected(Message):
        """Another field was selected, by key or mouse.

        :ivar node: the field
        """

        tree: FieldTree
        node: FieldNode

    class ShowBytes(Message):
        """A request to show the bytes of the selected field."""

    @dataclass
    class AddColumn(Message):
        """A request to show a field as a column of the list.

        :ivar field: its name in filters: ``client_id``, ``request.topics.name``
        """

        field: str

    @dataclass
    class StepExchange(Message):
        """A request to show another exchange.

        :ivar step: 1 for the next, -1 for the previous
        """

        step: int

    def __init__(self, side: Side, *, id: str | None = None) -> None:  # noqa: A002  # as Textual calls it
        super().__init__(id=id)
        self.side: Side = side
        self._detail: SideDetail | None = None
        self._api = ""
        self._wished: dict[str, dict[str, Fold]] = {}
        self._fields: dict[str, str] = {}
        """Path of the field that the cursor was last put on, by API."""
        self._folding: FoldedLines | None = None

    # ------------------------------------------------------------ content
    def show(self, detail: SideDetail | None, api: str = "") -> None:
        """Show a side of an exchange; None for nothing.

        :param api: exchanges of the same API share folds and cursor
        """
        self._detail, self._api = detail, api
        self._folding = None if detail is None else FoldedLines(detail, self._wished.setdefault(api, {}))
        self.cursor = self._line_near(self._fields.get(api, ""))
        self.measure()
        self.show_cursor()
        self.refresh()

    @property
    def lines(self) -> list[Line]:
        return [] if self._folding is None else self._folding.lines

    @property
    def cursor_lines(self) -> int:
        return len(self.lines)

    @property
    def selected(self) -> FieldNode | None:
        """The field under the cursor."""
        return self.lines[self.cursor].node if self.cursor < len(self.lines) else None

    def select(self, node: FieldNode) -> None:
        """Move the cursor to a field, and unfold its ancestors; posts no message."""
        if self._folding is None:
            return
        before = len(self.lines)
        at = self._folding.reveal(node)
        if len(self.lines) != before:
            self.measure()
            self.refresh()
        self._fields[self._api] = node.path
        self.put_cursor(at)

    def _line_near(self, path: str) -> int:
        """Return the line of a field, after unfolding its ancestors; if missing, of its nearest visible ancestor."""
        if self._folding is None or self._detail is None:
            return 0
        if path in self._detail.nodes:
            return self._folding.reveal(self._detail.nodes[path])
        while path:
            node = self._detail.nodes.get(path)
            if node is not None:
                at = self._folding.line_of(node)
                if at is not None:
                    return at
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return 0

    # ------------------------------------------------------------ drawing
    def line_count(self) -> int:
        return max(len(self.lines), 1)

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        if y >= self.line_count():
            return Strip.blank(self.scrollable_content_region.width, self.rich_style)
        strip = self.drawn(y)
        if y == self.cursor and self.lines:
            style = self.get_component_rich_style("field-tree--cursor")
            strip = Strip(Segment.apply_style(list(strip), post_style=style), strip.cell_length)
        return self.selectable(strip, y)

    def segments(self, y: int) -> list[Segment]:
        """Return the text of a line, cut to the width of the tree."""
        room = self.scrollable_content_region.width
        if not self.lines:
            absent = self._detail.absent if self._detail is not None else ""
            return [Segment(cut(printable(absent), room), self._style(Class.MUTED))]
        line = self.lines[y]
        pad = " " * (_INDENT * max(line.depth - 1, 0))
        if line.more:
            return [Segment(f"{pad}{_FOLDED}… {line.more:,} more", self._style(Class.MUTED))]
        folded = self._is_folded(line.node)
        sign = _LEAF
        if line.node.below:
            sign = _FOLDED if folded else _UNFOLDED
        found = []
        for text, kind in [(f"{pad}{sign}", Class.MUTED), *pieces(line.node, folded=folded)]:
            shown = cut(printable(text), room)
            found.append(Segment(shown, self._style(kind)))
            room -= width(shown)
            if room <= 0:
                break
        return found

    def _style(self, kind: Class) -> Style:
        return self.get_component_rich_style(f"field-tree--{kind}")

    def _is_folded(self, node: FieldNode) -> bool:
        return self._folding is None or self._folding.fold_of(node) is Fold.FOLDED

    def _on_resize(self, event: Resize) -> None:
        self.measure()
        self.show_cursor()

    # ------------------------------------------------------------ moving
    def move_to(self, line: int) -> None:
        """Move the cursor to a line, and post :class:`FieldSelected`."""
        if not self.lines:
            return
        moved = self.put_cursor(line)
        node = self.lines[self.cursor].node
        if node.path:
            self._fields[self._api] = node.path
        if moved:
            self.post_message(self.FieldSelected(self, node))

    def action_move_page(self, pages: int) -> None:
        """Move the cursor by pages, which overlap by one line."""
        self.move_to(self.cursor + pages * max(self.page - 1, 1))

    def action_step_exchange(self, step: int) -> None:
        """Request the exchange `step` rows further."""
        self.post_message(self.StepExchange(step))

    # ------------------------------------------------------------ folding
    def _fold(self, node: FieldNode, fold: Fold) -> None:
        if self._folding is not None:
            self._folding.wish(node, fold)
            self.measure()
            self.refresh()

    def _line(self) -> Line | None:
        return self.lines[self.cursor] if self.cursor < len(self.lines) else None

    def action_tree_enter(self) -> None:
        line = self._line()
        if line is None:
            return
        if line.more:
            self._fold(line.node, Fold.OPEN)
        elif line.node.below:
            self._fold(line.node, Fold.OPEN if self._is_folded(line.node) else Fold.FOLDED)
        else:
            self.post_message(self.ShowBytes())

    def action_tree_unfold(self) -> None:
        line = self._line()
        if line is None:
            return
        if line.more or (line.node.below and self._is_folded(line.node)):
            self._fold(line.node, Fold.OPEN)
        elif line.node.below:
            self.move_to(self.cursor + 1)

    def action_tree_fold(self) -> None:
        line = self._line()
        if line is None or self._folding is None:
            return
        node = line.node
        if node.below and not line.more and not self._is_folded(node):
            self._fold(node, Fold.FOLDED)
            return
        outer = node if line.more else node.parent
        at = None if outer is None else self._folding.line_of(outer)
        if at is not None:
            self.move_to(at)

    def action_tree_unfold_all(self) -> None:
        line = self._line()
        if line is not None and line.node.below:
            self._fold(line.node, Fold.DEEP)

    def action_tree_column(self) -> None:
        node = self.selected
        field = None if node is None else filter_field(node)
        if field is None:
            self.notify("This field cannot be a column.", severity="warning")
        else:
            self.post_message(self.AddColumn(field))

    # ------------------------------------------------------------ mouse
    def on_click(self, event: Click) -> None:
        """Select a line; unfold or fold it by a click on its sign, or by a double click."""
        event.prevent_default()  # Textual would select all text at a second click
        offset, y = event.get_content_offset(self), self.line_of_click(event)
        if offset is None or y is None or self.text_selection is not None:
            return
        event.stop()
        line = self.lines[y]
        begin = _INDENT * max(line.depth - 1, 0)
        self.move_to(y)
        on_sign = event.chain > 1 or begin <= offset.x < begin + len(_FOLDED)
        if line.more or (line.node.below and on_sign):
            self.action_tree_enter()
