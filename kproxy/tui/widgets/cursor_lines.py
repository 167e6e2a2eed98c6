"""The base of trees, tables and diagrams: lines with a cursor, which stays in sight as it moves."""

from __future__ import annotations

from textual import events
from textual.scroll_view import ScrollView

from kproxy.tui.widgets.line_styles import DrawnLines


class CursorLines(ScrollView, DrawnLines):
    """A scroll view of lines below fixed header lines.

    :cvar HEADER: number of header lines
    :ivar cursor: index of the selected line, 0 too if there are none
    """

    HEADER = 0

    cursor = 0

    @property
    def cursor_lines(self) -> int:
        """Number of lines that the cursor can be on."""
        raise NotImplementedError

    def top_of(self, line: int) -> int:
        """Return how many screen lines are above a line; more than its index if lines above it are wrapped."""
        return line

    def line_at(self, y: int) -> int:
        """Return the index of the line on screen line `y`, counted from the first line."""
        return y

    @property
    def page(self) -> int:
        """Number of visible lines."""
        return max(self.scrollable_content_region.height - self.HEADER, 1)

    def put_cursor(self, line: int) -> bool:
        """Move the cursor to a line, or to the nearest that exists, and scroll to it; return whether it moved."""
        before, self.cursor = self.cursor, max(min(line, self.cursor_lines - 1), 0)
        self.show_cursor()
        for each in {before, self.cursor}:
            for y in range(self.top_of(each), self.top_of(each + 1)):
                self.refresh_line(y + self.HEADER)
        return before != self.cursor

    def move_to(self, line: int) -> None:
        """Move the cursor to a line on behalf of the user."""
        self.put_cursor(line)

    def action_move(self, lines: int) -> None:
        """Move the cursor down by `lines`, up if negative."""
        self.move_to(self.cursor + lines)

    def action_move_page(self, pages: int) -> None:
        """Move the cursor down by pages, up if negative."""
        line = self.line_at(self.top_of(self.cursor) + pages * self.page)
        self.move_to(max(line, self.cursor + 1) if pages > 0 else line)  # a line may be higher than a page

    def action_move_to_first(self) -> None:
        self.move_to(0)

    def action_move_to_last(self) -> None:
        self.move_to(self.cursor_lines - 1)

    def show_cursor(self) -> None:
        """Scroll the cursor into sight, as little as possible, without leaving room below the last line."""
        before, page = self.scroll_offset.y, self.page
        top = min(before, max(self.top_of(self.cursor_lines) - page, 0))
        top = min(max(top, self.top_of(self.cursor + 1) - page), self.top_of(self.cursor))
        if top != before:
            self.scroll_to(y=top, animate=False, force=True)

    def line_of_click(self, event: events.Click) -> int | None:
        """Return the index of the clicked line, None if there is none."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.HEADER:
            return None
        line = self.line_at(self.scroll_offset.y + offset.y - self.HEADER)
        return line if line < self.cursor_lines else None
