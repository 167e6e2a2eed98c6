"""Bytes in hexadecimal and as text, drawn line by line, so that even a frame of a hundred megabytes scrolls smoothly.

The width is independent of the bytes: only printable ASCII is shown as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.content import Content
from textual.events import Click, Resize
from textual.message import Message
from textual.strip import Strip

from kproxy.tui import safe
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.detail.lines import Class, byte_class
from kproxy.tui.detail.nodes import ByteBuffer, SideDetail
from kproxy.tui.widgets.selectable import SelectableLines

_PER_LINE = (32, 16, 8, 4)
_MASKED = "**"
_DIGITS = tuple(f"{byte:02x}" for byte in range(256))
_TEXT = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in range(256))


class _Runs:
    """Text that is merged into as few segments as its styles allow.

    :ivar length: number of characters
    """

    def __init__(self) -> None:
        self._runs: list[tuple[list[str], Style]] = []
        self.length = 0

    def add(self, text: str, style: Style) -> None:
        self.length += len(text)
        if self._runs and self._runs[-1][1] == style:
            self._runs[-1][0].append(text)
        else:
            self._runs.append(([text], style))

    def segments(self) -> Iterator[Segment]:
        return (Segment("".join(parts), style) for parts, style in self._runs)


class ByteView(SelectableLines, can_focus=True):
    """The bytes of one side: those of the frame, and those decompressed from it.

    Brackets enclose the bytes of the selected field. A bar before a byte marks the start of a TCP segment.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.BYTES)]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "byte-view--offset",
        "byte-view--cursor",
        "byte-view--field",
        "byte-view--sign",
        *(f"byte-view--{each}" for each in Class),
    }
    """Offsets, the byte under the cursor, the bytes of the selected field, the signs around them; and the classes of
    bytes, :class:`~kproxy.tui.detail.lines.Class`."""
    DEFAULT_CSS = """
    ByteView {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        & > .byte-view--offset { color: $text-muted; }
        & > .byte-view--muted { color: $text-muted; }
        & > .byte-view--structure { color: $text-muted; }
        & > .byte-view--text { color: $text-success; }
        & > .byte-view--data { color: $text-secondary; }
        & > .byte-view--error { color: $text-error; }
        & > .byte-view--sign { color: $accent; text-style: bold; }
        & > .byte-view--field { background: $block-cursor-blurred-background; text-style: bold; }
        & > .byte-view--cursor { text-style: reverse; }
        &:focus > .byte-view--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """

    @dataclass
    class ByteSelected(Message):
        """Another byte was selected, by key or mouse.

        :ivar buffer: index of its byte buffer
        :ivar offset: its offset in the buffer
        """

        buffer: int
        offset: int

    class ShowField(Message):
        """A request to show the field of the byte in the tree."""

    def __init__(self) -> None:
        super().__init__()
        self._detail: SideDetail | None = None
        self._buffer = 0
        self._cursor = 0
        self._field = (0, 0)

    # ------------------------------------------------------------ content
    def show(self, detail: SideDetail | None) -> None:
        """Show the bytes of a side of an exchange, from the start; None for nothing."""
        self._detail = detail
        self._use(0)

    @property
    def buffer(self) -> ByteBuffer | None:
        buffers = () if self._detail is None else self._detail.buffers
        return buffers[self._buffer] if self._buffer < len(buffers) else None

    @property
    def buffer_index(self) -> int:
        return self._buffer

    @property
    def cursor(self) -> int:
        """Offset of the selected byte."""
        return self._cursor

    @property
    def field(self) -> tuple[int, int]:
        """Start and end of the bytes in brackets."""
        return self._field

    def select(self, buffer: int, start: int, end: int, *, cursor: int | None = None) -> None:
        """Put the bytes of a field in brackets, and scroll to them; posts no message.

        :param cursor: the byte to select, the first of the field if None
        """
        if buffer != self._buffer:
            self._use(buffer)
        self._draw_marked()
        self._field = start, end
        self._cursor = min(start if cursor is None else cursor, max(self._count - 1, 0))
        self._draw_marked()
        self._scroll_to_cursor(end)

    def _draw_marked(self) -> None:
        """Redraw the lines of the selected byte and field."""
        count, height = self.per_line, max(self.size.height, 1)
        first, end = self._field
        for begin, stop in ((self._cursor, self._cursor + 1), (first, end + 1)):
            top = max(begin // count, self.scroll_offset.y)
            self.refresh_lines(top, max(min(-(-stop // count) - top, height), 0))

    def _use(self, buffer: int) -> None:
        self._buffer, self._cursor, self._field = buffer, 0, (0, 0)
        self.measure()
        self._show_title()
        self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def _show_title(self) -> None:
        """Show in the border which bytes are shown, and how many other buffers exist."""
        shown, side = self.buffer, self._detail
        if shown is None or side is None:
            self.border_title = Content("bytes")
            return
        parts = [f"bytes of {side.side}"]
        if len(side.buffers) > 1:
            parts.append(f"{shown.name} ({self._buffer + 1} of {len(side.buffers)}, [ and ])")
        if len(shown.segments) > 1:
            parts.append(f"{len(shown.segments):,} segments")
        self.border_title = safe.plain("  ".join(parts))

    # ------------------------------------------------------------ places
    @property
    def _count(self) -> int:
        return 0 if self.buffer is None else len(self.buffer.data)

    @property
    def _digits(self) -> int:
        return max(4, len(f"{max(self._count - 1, 0):x}"))

    def widest(self, room: int) -> int:
        """Return the width of lines with as many bytes as fit into `room` cells."""
        return max((self._width(count) for count in _PER_LINE if self._width(count) <= room), default=room)

    def _width(self, count: int) -> int:
        """Return the width in cells of a line with `count` bytes."""
        return self._digits + 1 + self._hex_width(count) + 1 + count

    @staticmethod
    def _hex_width(count: int) -> int:
        return 3 * count + 1 + (count - 1) // 8

    @property
    def per_line(self) -> int:
        """Bytes per line: the most of 4, 8, 16 and 32 that fit."""
        return next(
            (count for count in _PER_LINE if self._width(count) <= self.scrollable_content_region.width),
            _PER_LINE[-1],
        )

    def _hex_column(self, index: int) -> int:
        """Return the cell of the first digit of the byte at `index` in a line."""
        return self._digits + 2 + 3 * index + index // 8

    def _byte_at(self, x: int, y: int) -> int | None:
        """Return the offset of the byte at a cell, None if there is none."""
        count = self.per_line
        text = x - self._digits - 2 - self._hex_width(count)
        if 0 <= text < count:
            index = text
        else:
            index = next((each for each in range(count) if 0 <= x - self._hex_column(each) < 3), -1)
        offset = y * count + index
        return offset if index >= 0 and offset < self._count else None

    # ------------------------------------------------------------ drawing
    def line_count(self) -> int:
        shown = self.buffer
        if shown is None:
            return 1
        return -(-len(shown.data) // self.per_line) + (shown.missing > 0)

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        if y >= self.line_count():
            return Strip.blank(self.scrollable_content_region.width, self.rich_style)
        count = self.per_line
        under = self._cursor if y == self._cursor // count else -1
        first, last = self._field
        marked = max(first, y * count), min(last, (y + 1) * count)
        shown = marked if marked[0] <= marked[1] and first < last else None
        return self.selectable(self.drawn(y, under, shown), y)

    def segments(self, y: int) -> list[Segment]:
        shown, count = self.buffer, self.per_line
        if shown is None:
            return [Segment("")]
        begin, end = y * count, min((y + 1) * count, len(shown.data))
        if begin >= end:
            return [Segment(f"… {shown.missing:,} bytes were not captured", self._style(Class.MUTED))]
        styles = self._styles(begin, end)
        first, last = self._field
        sign, mark, plain = self._style("sign"), self._style("field"), self.rich_style
        hexadecimal, text = _Runs(), _Runs()
        for index, offset in enumerate(range(begin, end)):
            before = self._sign(offset, begin)
            if index and index % 8 == 0:
                hexadecimal.add(" ", mark if first < offset < last else plain)
            # spaces between bytes of the field are highlighted too
            inside = mark if first < offset < last and index else plain
            hexadecimal.add(before, inside if before == " " else sign)
            masked = shown.is_masked(offset)
            hexadecimal.add(_MASKED if masked else _DIGITS[shown.data[offset]], styles[index])
            text.add("*" if masked else _TEXT[shown.data[offset]], styles[index])
        hexadecimal.add("]" if self._field[0] < end == self._field[1] else " ", sign)
        hexadecimal.add(" " * (self._hex_width(count) + 1 - hexadecimal.length), plain)
        offset_text = f"{begin:0{self._digits}x} "
        return [Segment(offset_text, self._style("offset")), *hexadecimal.segments(), *text.segments()]

    def _sign(self, offset: int, begin: int) -> str:
        """Return the character before a byte."""
        first, end = self._field
        if first < end and offset == first:
            return "["
        if first < end and offset == end and offset > begin:
            return "]"
        return "|" if self.buffer is not None and offset and self.buffer.begins_segment(offset) else " "

    def _styles(self, begin: int, end: int) -> list[Style]:
        """Return the styles of bytes, by the fields that contain them."""
        found: list[Style] = []
        offset = begin
        while offset < end and self._detail is not None:
            node, after = self._detail.run(self._buffer, offset)
            after = min(max(after, offset + 1), end)
            found += [self._style(byte_class(node))] * (after - offset)
            offset = after
        first, last = self._field
        mark = self.get_component_rich_style("byte-view--field")
        mark = Style(bgcolor=mark.bgcolor, bold=mark.bold)
        for at in range(max(first, begin), min(last, end)):
            found[at - begin] += mark
        if begin <= self._cursor < end:
            found[self._cursor - begin] += self.get_component_rich_style("byte-view--cursor", partial=True)
        return found

    def _style(self, kind: str) -> Style:
        return self.get_component_rich_style(f"byte-view--{kind}")

    def _on_resize(self, event: Resize) -> None:
        self.measure()
        self._scroll_to_cursor(self._cursor)

    def _scroll_to_cursor(self, end: int) -> None:
        """Scroll to the selected byte, and to the bytes up to `end` as far as they fit."""
        count, height = self.per_line, max(self.size.height, 1)
        line, last = self._cursor // count, max(end - 1, self._cursor) // count
        top = self.scroll_offset.y
        if line < top:
            self.scroll_to(y=line, animate=False, force=True)
        elif last >= top + height:
            self.scroll_to(y=min(line, last - height + 1), animate=False, force=True)

    # ------------------------------------------------------------ moving
    def move_to(self, offset: int) -> None:
        """Select a byte, and post :class:`ByteSelected`."""
        offset = min(max(offset, 0), max(self._count - 1, 0))
        if self._count:
            self._draw_marked()
            self._cursor = offset
            self._draw_marked()
            self._scroll_to_cursor(offset)
            self.post_message(self.ByteSelected(self._buffer, offset))

    def action_move_bytes(self, count: int) -> None:
        self.move_to(self._cursor + count)

    def action_move(self, lines: int) -> None:
        """Move down by lines, up if negative; not at all if there are not so many."""
        offset = self._cursor + lines * self.per_line
        if 0 <= offset < self._count:
            self.move_to(offset)

    def action_move_page(self, pages: int) -> None:
        self.action_move_bytes(pages * max(self.size.height - 1, 1) * self.per_line)

    def action_move_to_first(self) -> None:
        self.move_to(0)

    def action_move_to_last(self) -> None:
        self.move_to(self._count - 1)

    def action_bytes_enter(self) -> None:
        self.post_message(self.ShowField())

    def action_step_buffer(self, step: int) -> None:
        count = 0 if self._detail is None else len(self._detail.buffers)
        if count > 1:
            self._use((self._buffer + step) % count)
            self.post_message(self.ByteSelected(self._buffer, 0))

    def on_click(self, event: Click) -> None:
        """Select the clicked byte; on the border, switch to the next buffer."""
        event.prevent_default()  # Textual would select all text at a second click
        offset = event.get_content_offset(self)
        if offset is None:
            if event.y == 0:
                self.action_step_buffer(1)
            return
        if self.text_selection is not None:  # the click ended a selection
            return
        at = self._byte_at(offset.x, offset.y + self.scroll_offset.y)
        if at is not None:
            event.stop()
            self.move_to(at)
