"""The details of one exchange: the fields of request and response, the bytes, and explanations of a field.

Moving in a tree shows the bytes of the field; moving in the bytes selects the field. The arrangement depends on the
room: side by side, one below the other, or, if there is little, one tree at a time.
"""

from __future__ import annotations

import asyncio

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.events import DescendantFocus, Resize
from textual.widget import Widget
from textual.widgets import Static

from dissectors.printable import printable
from dissectors.sides import SIDES, Side
from kproxy.tui.detail.nodes import Detail, FieldNode, SideDetail
from kproxy.tui.detail.search import next_bytes, next_field
from kproxy.tui.search import Search
from kproxy.tui.widgets.byte_view import ByteView
from kproxy.tui.widgets.field_info import FieldInfo
from kproxy.tui.widgets.field_tree import FieldTree

_COLUMNS = 118
"""Cells from which both trees and the bytes fit side by side."""
_HIGH = 24
"""Lines from which the bytes fit below the trees."""
_BESIDE = 76
"""Cells from which the trees fit side by side above the bytes."""
_NARROW = 64
"""Cells below which nothing fits beside a tree."""
_EDGES = 2
"""Cells of a border with a scroll bar."""
_MOST_INFO = 8
"""Most lines about a field, with the border above them."""
_TREE = 39
"""Least cells of a tree."""
_LAYOUTS = ("columns", "below", "beside", "stacked", "accordion")


class DetailPane(Widget):
    """Both trees, the bytes, and the lines about a field."""

    DEFAULT_CSS = """
    DetailPane {
        layout: horizontal;
        & #about { dock: top; height: auto; max-height: 4; padding: 0 1; background: $panel; }
        &.flat #about { max-height: 1; }
        & #trees { layout: horizontal; width: 1fr; height: 1fr; }
        & #octets { layout: vertical; width: 1fr; height: 1fr; }
        & FieldTree, & ByteView {
            width: 1fr;
            height: 1fr;
            border-top: solid $panel;
            border-title-color: $text-muted;
            &:focus { border-top: solid $primary; border-title-color: $primary; border-title-style: bold; }
        }
        & #response, & #octets { border-left: solid $panel; }
        &.below { layout: vertical; }
        &.below #trees { height: 3fr; }
        &.below #octets { height: 2fr; border-left: none; }
        &.below #trees, &.stacked #trees { layout: vertical; }
        &.below #response, &.stacked #response { border-left: none; }
        &.beside #trees { layout: horizontal; }
        &.beside #response { border-left: solid $panel; }
        &.accordion FieldTree { height: 1; }
        &.accordion FieldTree.current { height: 1fr; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._detail: Detail | None = None
        self._wished: Side = "response"
        """The side that was looked at last; shown where there is one."""
        self._sought: tuple[int, str] | None = None
        """Number of an exchange, and the path of the field that the cursor is put on once that is shown."""

    def compose(self) -> ComposeResult:
        yield Static(id="about", markup=False)
        with Container(id="trees"):
            yield FieldTree("request", id="request")
            yield FieldTree("response", id="response")
        with Container(id="octets"):
            yield ByteView()
            yield FieldInfo()

    def on_mount(self) -> None:
        self.show(self._detail)

    # ------------------------------------------------------------ content
    @property
    def detail(self) -> Detail | None:
        return self._detail

    def show(self, detail: Detail | None) -> None:
        """Show an exchange; None for nothing."""
        self._detail = detail
        for side in SIDES:
            tree = self.tree_of(side)
            shown = None if detail is None else detail.of(side)
            tree.border_title = Content(side)
            tree.show(shown, "" if detail is None else detail.api)
        about = () if detail is None else detail.about
        lines = self.query_one("#about", Static)
        lines.display = bool(about)
        text, width = Content("\n".join(map(printable, about))), lines.size.width
        # a layout of the screen is slow, and only needed if the height changes
        lines.update(text, layout=width <= 0 or text.get_height({}, width) != lines.size.height)
        self._use(self.side)
        self._seek()

    def tree_of(self, side: Side) -> FieldTree:
        return self.query_one(f"#{side}", FieldTree)

    @property
    def bytes(self) -> ByteView:
        return self.query_one(ByteView)

    @property
    def side(self) -> Side:
        """The side whose bytes are shown: the last one used, if it exists."""
        if self._detail is None or self._detail.of(self._wished).root is not None:
            return self._wished
        other: Side = "request" if self._wished == "response" else "response"
        return other if self._detail.of(other).root is not None else self._wished

    @property
    def selected_field(self) -> FieldNode | None:
        """The field under the cursor, None if the line is not a field."""
        node = self.tree_of(self.side).selected
        return node if node is not None and node.path and node.parent is not None else None

    def seek(self, number: int, path: str) -> None:
        """Move the cursor to a field of an exchange as soon as that is shown.

        :param path: ``request.topic_data[0].name``; if it does not exist, its nearest existing ancestor is used
        """
        self._sought = number, path
        self._seek()

    def _seek(self) -> None:
        if self._sought is None or self._detail is None or self._sought[0] != self._detail.number:
            return
        path, self._sought = self._sought[1], None
        side: Side = "request" if path.partition(".")[0] == "request" else "response"
        nodes = self._detail.of(side).nodes
        while path and path not in nodes:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        if not path:
            return
        focused = self.tree_of(self.side).has_focus
        self._wished = side
        self.tree_of(side).select(nodes[path])
        self._use(side)
        if focused:
            self.focus_fields()

    def focus_fields(self) -> None:
        """Focus the tree of the last side used."""
        self.tree_of(self.side).focus()

    # ------------------------------------------------------------ room
    def on_resize(self, event: Resize) -> None:
        """Arrange the parts for the new size."""
        width, height = event.size
        self.set_class(height < _HIGH // 2, "flat")
        for name in _LAYOUTS:
            self.remove_class(name)
        octets = self.query_one("#octets")
        octets.styles.width = None
        if width >= _COLUMNS:
            self.add_class("columns")
            octets.styles.width = self.bytes.widest(width - 2 * _TREE - _EDGES) + _EDGES
        elif height >= _HIGH or width < _NARROW:
            self.add_class("below")
            self.set_class(width >= _BESIDE, "beside")
            self.set_class(height < _HIGH, "accordion")
        else:
            self.add_class("stacked", "accordion")
            octets.styles.width = self.bytes.widest(width - _TREE - _EDGES) + _EDGES
        room = height * 2 // 5 if self.has_class("below") else height
        self.query_one(FieldInfo).styles.height = max(min(room // 3, _MOST_INFO), 2)

    # ------------------------------------------------------------ fields and bytes
    def _side_detail(self, side: Side) -> SideDetail | None:
        return None if self._detail is None else self._detail.of(side)

    def _use(self, side: Side) -> None:
        for each in SIDES:
            self.tree_of(each).set_class(each == side, "current")
        self.bytes.show(self._side_detail(side))
        self._show_field(self.tree_of(side).selected)

    def _show_field(self, node: FieldNode | None) -> None:
        """Show the bytes of a field, and its explanation."""
        if node is not None:
            everything = node.parent is None
            self.bytes.select(node.buffer, node.start, node.start if everything else node.end)
        self._explain(node)

    def _explain(self, node: FieldNode | None) -> None:
        detail = self._side_detail(self.side)
        self.query_one(FieldInfo).show(detail, node)

    @on(DescendantFocus)
    def _focused(self, event: DescendantFocus) -> None:
        if isinstance(event.widget, FieldTree) and event.widget.side != self._wished:
            self._wished = event.widget.side
            self._use(self.side)

    @on(FieldTree.FieldSelected)
    def _field_selected(self, message: FieldTree.FieldSelected) -> None:
        message.stop()
        if message.tree.side != self.side:
            self._wished = message.tree.side
            self._use(self.side)
        if (
            message.node is message.tree.selected
        ):  # otherwise the message is from before another exchange was shown
            self._show_field(message.node)

    @on(FieldTree.ShowBytes)
    def _show_bytes(self, message: FieldTree.ShowBytes) -> None:
        message.stop()
        self.bytes.focus()

    @on(ByteView.ByteSelected)
    def _byte_selected(self, message: ByteView.ByteSelected) -> None:
        message.stop()
        detail = self._side_detail(self.side)
        node = None if detail is None else detail.at(message.buffer, message.offset)
        if node is None or message.offset != self.bytes.cursor:
            return
        self.tree_of(self.side).select(node)
        part = node.parent is not None and node.buffer == message.buffer
        start, end = (node.start, node.end) if part else (0, 0)
        self.bytes.select(message.buffer, start, end, cursor=message.offset)
        self._explain(node)

    @on(ByteView.ShowField)
    def _show_tree(self, message: ByteView.ShowField) -> None:
        message.stop()
        self.focus_fields()

    # ------------------------------------------------------------ search
    async def search(self, search: Search, *, forward: bool) -> bool:
        """Move to the next match, in the bytes if focused, else in the trees; return whether there is one."""
        return await (self._search_bytes if self.bytes.has_focus else self._search_trees)(
            search, forward=forward
        )

    async def _search_trees(self, search: Search, *, forward: bool) -> bool:
        detail, side = self._detail, self.side
        if detail is None:
            return False
        sides = [detail.of(side), *(detail.of(each) for each in SIDES if each != side)]
        selected = self.tree_of(side).selected
        found = await asyncio.to_thread(next_field, search, sides, selected, forward=forward)
        if found is None or detail is not self._detail:
            return False
        where, node = found
        self._wished = where.side
        if where.side != side:
            self._use(where.side)
            if self.tree_of(side).has_focus:
                self.tree_of(where.side).focus()
        self.tree_of(where.side).select(node)
        self._show_field(node)
        return True

    async def _search_bytes(self, search: Search, *, forward: bool) -> bool:
        detail, view = self._side_detail(self.side), self.bytes
        if detail is None:
            return False
        found = await asyncio.to_thread(
            next_bytes, search, detail, view.buffer_index, view.cursor, forward=forward
        )
        if found is None or detail is not self._side_detail(self.side):
            return False
        node = detail.at(found.buffer, found.start)
        if node is not None:
            self.tree_of(self.side).select(node)
            self._explain(node)
        view.select(found.buffer, found.start, found.end)
        return True
