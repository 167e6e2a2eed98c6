"""Lines with a cursor: one is selected, and stays in sight as it moves. Trees, tables and diagrams are made of such."""

from __future__ import annotations

from textual import events
from textual.scroll_view import ScrollView


class CursorLines(ScrollView):
    """A scroll view of lines, below some that stay where they are.

    :cvar HEADER: lines that stay
    :ivar cursor: index of the selected line, 0 too if there are none
    """

    HEADER = 0

    cursor = 0

    @property
    def cursor_lines(self) -> int:
        """How many lines the cursor may be on."""
        raise NotImplementedError

    @property
    def page(self) -> int:
        """Lines that are seen at a time."""
        return max(self.scrollable_content_region.height - self.HEADER, 1)

    def put_cursor(self, line: int) -> bool:
        """Put the cursor on a line, or on the nearest that exists, and bring it into sight; return whether it moved."""
        before, self.cursor = self.cursor, max(min(line, self.cursor_lines - 1), 0)
        self.show_cursor()
        for each in {before, self.cursor}:
            self.refresh_line(each + self.HEADER)
        return before != self.cursor

    def move_to(self, line: int) -> None:
        """Move the cursor to a line, as by key."""
        self.put_cursor(line)

    def move(self, lines: int) -> None:
        """Move the cursor down, or up where it is negative."""
        self.move_to(self.cursor + lines)

    def move_page(self, pages: int) -> None:
        """Move it by pages."""
        self.move_to(self.cursor + pages * self.page)

    def move_to_end(self, *, last: bool) -> None:
        """Move it to the first line, or to the last."""
        self.move_to(self.cursor_lines - 1 if last else 0)

    def show_cursor(self) -> None:
        """Bring the cursor into sight, scrolling as little as will do, and leave no room below the last line."""
        before, page = self.scroll_offset.y, self.page
        top = min(before, max(self.cursor_lines - page, 0))
        top = max(min(top, self.cursor), self.cursor - page + 1)
        if top != before:
            self.scroll_to(y=top, animate=False, force=True)

    def line_of_click(self, event: events.Click) -> int | None:
        """Return the line that was clicked, None if there is none."""
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.HEADER:
            return None
        line = self.scroll_offset.y + offset.y - self.HEADER
        return line if line < self.cursor_lines else None
