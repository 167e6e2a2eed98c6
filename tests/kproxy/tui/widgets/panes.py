"""Small applications with the widgets of the details."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.message import Message
from textual.widget import Widget

from kproxy.tui.detail import Detail
from kproxy.tui.widgets.byte_view import ByteView
from kproxy.tui.widgets.detail_pane import DetailPane
from kproxy.tui.widgets.field_tree import FieldTree


class One(App[None]):
    """One widget, and its messages."""

    AUTO_FOCUS = None

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        """Show it."""
        yield self.widget

    def on_field_tree_field_selected(self, message: FieldTree.FieldSelected) -> None:
        """Store the message."""
        self.told.append(message)

    on_field_tree_show_bytes = on_field_tree_add_column = on_field_tree_step_exchange = (
        on_field_tree_field_selected
    )
    on_byte_view_byte_selected = on_byte_view_show_field = on_field_tree_field_selected


class Details(One):
    """The whole pane."""

    def __init__(self, detail: Detail | None) -> None:
        super().__init__(DetailPane())
        self.detail = detail

    def on_mount(self) -> None:
        """Show the exchange."""
        self.animation_level = "none"
        self.pane.show(self.detail)

    @property
    def pane(self) -> DetailPane:
        """The pane."""
        return self.query_one(DetailPane)


def lines(widget: FieldTree | ByteView) -> list[str]:
    """Return the text of a widget, line by line."""
    return [widget.line_text(y).rstrip() for y in range(widget.line_count())]


def drawn(widget: FieldTree | ByteView) -> list[str]:
    """Return the drawing of a widget, line by line."""
    return [widget.render_line(y).text for y in range(widget.size.height)]
