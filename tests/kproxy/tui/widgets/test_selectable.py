"""Text selected with the mouse, whatever the width of its characters."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from textual.geometry import Offset, Size
from textual.selection import SELECT_ALL, Selection
from textual.strip import Strip

from kproxy.tui.widgets.selectable import SelectableLines
from tests.kproxy.tui.widgets.panes import One

LINES = ["first line", "漢字 two", "third", "fourth"]


class Lines(SelectableLines):
    """Some lines."""

    def on_mount(self) -> None:
        self.virtual_size = Size(20, len(LINES))

    def line_text(self, y: int) -> str:
        return LINES[y]

    def line_count(self) -> int:
        return len(LINES)

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        return self.selectable(Strip([Segment(LINES[y])]), y) if y < len(LINES) else Strip.blank(20)


async def test_the_text_between_two_places() -> None:
    app = One(Lines())
    async with app.run_test(size=(20, 4)):
        lines = app.query_one(Lines)
        for start, end, text in (
            (Offset(6, 0), Offset(2, 1), "line\n漢字"),
            (Offset(1, 2), Offset(3, 2), "hi"),
            (None, Offset(3, 0), "fir"),
            (Offset(2, 3), None, "urth"),
        ):
            assert lines.get_selection(Selection(start, end)) == (text, "\n")
        assert lines.get_selection(SELECT_ALL) == ("\n".join(LINES), "\n")


@pytest.mark.slow
async def test_what_is_selected_is_marked_at_its_cells() -> None:
    app = One(Lines())
    async with app.run_test(size=(20, 4)) as pilot:
        lines = app.query_one(Lines)
        await pilot.mouse_down(Lines, offset=(0, 1))
        await pilot.hover(Lines, offset=(5, 1))
        await pilot.mouse_up(Lines, offset=(5, 1))
        await pilot.pause()
        assert app.screen.get_selected_text() == "漢字 t"
        style = app.screen.get_component_rich_style("screen--selection")
        marked = [text for text, look, _ in lines.render_line(1) if look and look.bgcolor == style.bgcolor]
        assert "".join(marked) == "漢字 t"
        assert lines.render_line(1).text == LINES[1]
