"""Two responses side by side, field by field, with differences marked: recorded and replayed, or both recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from datetime import tzinfo
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from captures.meaning import words
from captures.time_format import clock, milliseconds
from dissectors.printable import printable
from kproxy.replay.differences import NAMES
from kproxy.session.response_pairs import ResponsePair
from kproxy.text.tables import Column
from kproxy.tui.dialogs.base import Box, Dialog
from kproxy.tui.live.replay import ReplayedExchange
from kproxy.tui.live.side_by_side import Line, Mark, field_lines, side_by_side
from kproxy.tui.safe import plain
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row


def verdict(answered: ReplayedExchange) -> Cell:
    """Return the result of a replayed request in words."""
    outcome = answered.outcome
    if outcome.failure:
        return Cell(f"✗ {outcome.failure}", Role.ERROR)
    if not outcome.comparable:
        return Cell("- not compared", Role.MUTED)
    if outcome.differences:
        return Cell(f"≠ {words.counted(len(outcome.differences), 'difference')}", Role.WARNING)
    return Cell("= same", Role.SUCCESS)


def milliseconds_cell(latency: int | None) -> Cell:
    """Return a latency in ns as a number of ms; an empty cell for None."""
    return Cell("") if latency is None else Cell(milliseconds(latency), value=latency)


class FieldComparison(Dialog[None]):
    """Two responses side by side, with the cursor on the first difference.

    :param heading: of the box
    :param about: lines above the fields
    :param titles: headings of the columns of the first and the second response
    :param make: returns the lines; called in another thread
    """

    DEFAULT_CSS = """
    FieldComparison {
        & > .box { width: 98%; height: 96%; }
        #verdict { height: auto; max-height: 6; margin-bottom: 1; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_difference", "next difference"),
        Binding("N", "previous_difference", "difference before"),
        Binding("q", "dismiss", "close"),
    ]

    def __init__(
        self,
        heading: str,
        about: Iterable[Content],
        titles: tuple[str, str],
        make: Callable[[], list[Line]],
    ) -> None:
        super().__init__()
        self._heading = heading
        self._about = list(about)
        self._titles = titles
        self._make = make
        self._places: list[int] = []

    def compose(self) -> ComposeResult:
        one, other = self._titles
        with Box(self._heading, "n N: differences   q: close"):
            yield Static(Content("\n").join(self._about), id="verdict")
            yield RowTable(
                [Column("field", least=20), Column(""), Column(one, least=20), Column(other, least=20)],
                empty="There is no response to show.",
            )

    async def on_mount(self) -> None:
        table = self.query_one(RowTable)
        table.focus()
        shown = await asyncio.to_thread(self._make)
        self._places = [index for index, line in enumerate(shown) if line.mark is Mark.DIFFERENT]
        table.set_rows([_line_row(index, line) for index, line in enumerate(shown)])
        if self._places:
            table.select(self._places[0])

    def action_next_difference(self) -> None:
        self._go(1)

    def action_previous_difference(self) -> None:
        self._go(-1)

    def _go(self, step: int) -> None:
        table = self.query_one(RowTable)
        row = table.selected
        if row is None or not self._places or not isinstance(row.key, int):
            return
        here = row.key
        beyond = [index for index in self._places[::step] if (index - here) * step > 0]
        table.select((beyond or self._places[::step])[0])


def replayed_comparison(answered: ReplayedExchange) -> FieldComparison:
    """Return the dialog for the recorded and the new response to a replayed request."""
    outcome = answered.outcome
    heading = f"exchange {outcome.number}: {outcome.api} {outcome.asked}".rstrip()
    lines = partial(side_by_side, answered)
    return FieldComparison(heading, _verdict_lines(answered), ("recorded", "new"), lines)


def recorded_comparison(pair: ResponsePair, zone: tzinfo | None) -> FieldComparison:
    """Return the dialog for two recorded responses.

    :param zone: time zone; None for local time
    """
    first, second = pair.first, pair.second
    count = words.counted(len(pair.found), "difference") if pair.found else "no difference"
    about = [
        plain(f"#{each.number} at {clock(each.time, zone)}  {each.shown_client} from {each.shown_broker}")
        for each in (first, second)
    ]
    return FieldComparison(
        f"{first.api}: {count}",
        about,
        (f"#{first.number}", f"#{second.number}"),
        partial(field_lines, first.response, second.response, pair.found, NAMES),
    )


_ROLES = {Mark.SAME: Role.PLAIN, Mark.DIFFERENT: Role.WARNING, Mark.MAY_DIFFER: Role.MUTED}


def _line_row(index: int, line: Line) -> Row:
    role = _ROLES[line.mark]
    texts = (f"{'  ' * line.depth}{line.name}", line.mark.value, line.recorded, line.new)
    return Row(index, tuple(Cell(text, role) for text in texts))


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
