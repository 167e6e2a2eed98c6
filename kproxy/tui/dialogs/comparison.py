"""What came of one replayed request: the recorded and the new response beside each other, with what differs marked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from captures.meaning import words
from captures.time_format import milliseconds
from dissectors.printable import printable
from kproxy.text.tables import Column
from kproxy.tui.dialogs.base import Dialog
from kproxy.tui.live.replay import ReplayedExchange
from kproxy.tui.live.side_by_side import Line, Mark, side_by_side
from kproxy.tui.safe import plain
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row


def verdict(answered: ReplayedExchange) -> Cell:
    """Return what came of a request, in words."""
    outcome = answered.outcome
    if outcome.failure:
        return Cell(f"✗ {outcome.failure}", Role.ERROR)
    if not outcome.comparable:
        return Cell("- not compared", Role.MUTED)
    if outcome.differences:
        return Cell(f"≠ {words.counted(len(outcome.differences), 'difference')}", Role.WARNING)
    return Cell("= same", Role.SUCCESS)


def milliseconds_cell(latency: int | None) -> Cell:
    """Return a latency in ns as a number of ms; nothing for None."""
    return Cell("") if latency is None else Cell(milliseconds(latency), value=latency)


class Comparison(Dialog[None]):
    """Both responses beside each other, the cursor on the first difference.

    :param answered: what came of the request
    """

    DEFAULT_CSS = """
    Comparison {
        & > .box { width: 98%; height: 96%; }
        #verdict { height: auto; max-height: 6; margin-bottom: 1; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_difference", "next difference"),
        Binding("N", "previous_difference", "difference before"),
    ]

    def __init__(self, answered: ReplayedExchange) -> None:
        super().__init__()
        self._answered = answered
        self._places: list[int] = []

    def compose(self) -> ComposeResult:
        outcome = self._answered.outcome
        with Vertical(classes="box") as box:
            box.border_title = plain(f"exchange {outcome.number}: {outcome.api} {outcome.asked}".rstrip())
            box.border_subtitle = "n N: differences   escape: close"
            yield Static(Content("\n").join(_verdict_lines(self._answered)), id="verdict")
            yield RowTable(_LINES, empty="There is no response to show.")

    async def on_mount(self) -> None:
        table = self.query_one(RowTable)
        table.focus()
        shown = await asyncio.to_thread(side_by_side, self._answered)
        self._places = [place for place, line in enumerate(shown) if line.mark is Mark.DIFFERENT]
        table.set_rows([_line_row(place, line) for place, line in enumerate(shown)])
        if self._places:
            table.select(self._places[0])

    def action_next_difference(self) -> None:
        """Go to the next line that differs."""
        self._go(1)

    def action_previous_difference(self) -> None:
        """Go to the line before that differs."""
        self._go(-1)

    def _go(self, step: int) -> None:
        table = self.query_one(RowTable)
        row = table.selected
        if row is None or not self._places or not isinstance(row.key, int):
            return
        here = row.key
        beyond = [place for place in self._places[::step] if (place - here) * step > 0]
        table.select((beyond or self._places[::step])[0])


_LINES = [Column("field", least=20), Column(""), Column("recorded", least=20), Column("new", least=20)]
_ROLES = {Mark.SAME: Role.PLAIN, Mark.DIFFERENT: Role.WARNING, Mark.MAY_DIFFER: Role.MUTED}


def _line_row(place: int, line: Line) -> Row:
    role = _ROLES[line.mark]
    texts = (f"{'  ' * line.depth}{line.name}", line.mark.value, line.recorded, line.new)
    return Row(place, tuple(Cell(text, role) for text in texts))


def _verdict_lines(answered: ReplayedExchange) -> Iterator[Content]:
    outcome = answered.outcome
    cell = verdict(answered)
    yield Content.assemble(
        (printable(cell.text), "bold"), printable(f"   sent to {outcome.broker}" if outcome.broker else "")
    )
    version = f" as v{outcome.sent_version}" if outcome.sent_version != outcome.version else ""
    yield plain(f"recorded {milliseconds_cell(outcome.recorded_latency).text or '-'} ms  {outcome.recorded}")
    yield plain(f"new{version} {milliseconds_cell(outcome.latency).text or '-'} ms  {outcome.new}")
    if outcome.expected:
        yield plain(f"~ differs and has to: {', '.join(sorted(outcome.expected))}")
