"""The base of views that show the results of a fold: rows, and details of the row under the cursor.

Such a view declares its columns, how its fold is made, and how rows and details are made from the fold. All of these
run in the engine's thread; the event loop only passes the results to the widgets.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget

from captures.filters import Filter, compile_filter
from captures.filters.regex import TextRegex
from dissectors.printable import printable
from kproxy.session.access import Access
from kproxy.session.engine import ClosedError
from kproxy.session.folds import Activity, F, SessionFold
from kproxy.text.tables import Column
from kproxy.tui.room import shared
from kproxy.tui.views.base import Progress, View
from kproxy.tui.widgets.activity_chart import LEAST_HEIGHT, ActivityChart, ActivityPicture
from kproxy.tui.widgets.fact_text import BEHIND_LABEL, FactText, with_incident, with_references
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, role_of, text_of

if TYPE_CHECKING:
    from kproxy.session import Session

_BESIDE = 180
"""Columns from which details are placed beside the table."""
_PADDING = 1
"""Cells on both sides of the facts."""
_LEAST_LINES = 2
"""Lines that each part of the details gets before any gets more."""
_STYLES = {
    Role.PLAIN: "",
    Role.STRONG: "bold",
    Role.MUTED: "$foreground-muted",
    Role.SUCCESS: "$text-success",
    Role.WARNING: "$text-warning",
    Role.ERROR: "$text-error",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """Details of a row.

    :ivar title: of the row
    :ivar text: facts
    :ivar tables: rows of the tables below, one for each of :attr:`TableView.DETAILS`
    :ivar filter: selects the exchanges drawn over time, empty for all; None for what the row leads to
    :ivar marks: times highlighted in that chart, ns since the epoch
    """

    title: str
    text: Content
    tables: tuple[Sequence[Row], ...]
    filter: str | None = field(default=None, kw_only=True)
    marks: Sequence[int] = field(default=(), kw_only=True)


def facts(*lines: tuple[AnyCell, ...]) -> Content:
    """Return lines, each a label with cells joined by commas; lines without non-empty cells are omitted.

    A line with an empty label takes the whole width.
    """
    out: list[Content] = []
    for label, *values in lines:
        parts = [_styled(cell) for cell in values if text_of(cell)]
        if parts:
            head = f"{text_of(label)}{BEHIND_LABEL}" if label else ""
            out.append(Content.styled(head, _STYLES[Role.MUTED]) + Content(", ").join(parts))
    return Content("\n").join(out)


def _styled(cell: AnyCell) -> Content:
    text = with_references(Content.styled(printable(text_of(cell)), _STYLES[role_of(cell)]))
    return with_incident(text, cell.incident) if isinstance(cell, Cell) and cell.incident else text


class TableView(View, Generic[F]):
    """A table of a fold's results.

    :cvar COLUMNS: of the table
    :cvar DETAILS: the columns of each table of details
    :cvar THINGS: noun for the rows
    :cvar FOLD: name of the fold, for views that share one; by default that of the view
    :cvar EVERYTHING: whether all exchanges are counted, regardless of the filter
    :cvar WITHOUT: API keys of exchanges that are not counted
    :cvar FACTS: whether facts cover all exchanges, beside counts of the shown ones
    :cvar BESIDE: whether details are beside the table rather than below it, given enough room
    :cvar DRAWN: whether the exchanges of the selected row are drawn over time, given enough room
    """

    DEFAULT_CSS = """
    TableView {
        & > .rows { height: auto; max-height: 50%; min-height: 2; }
        & > .detail {
            height: 1fr;
            border-top: solid $primary;
            border-title-color: $foreground;
            border-title-style: bold;
            & > .text { height: auto; padding: 0 1; scrollbar-size-vertical: 1; }
            &.-text-only > .text { height: 1fr; }
            & > ActivityChart { display: none; }
            &.-drawn > ActivityChart { display: block; }
        }
        &.-beside {
            layout: horizontal;
            & > .rows { width: 13fr; height: 1fr; max-height: 100%; }
            & > .detail { width: 7fr; border-left: solid $primary; }
        }
    }
    """

    COLUMNS: ClassVar[Sequence[Column]]
    DETAILS: ClassVar[Sequence[Sequence[Column]]]
    THINGS: ClassVar[str]
    FOLD: ClassVar[str] = ""
    EVERYTHING: ClassVar[bool] = False
    WITHOUT: ClassVar[Collection[int]] = ()
    FACTS: ClassVar[bool] = False
    BESIDE: ClassVar[bool] = True
    DRAWN: ClassVar[bool] = True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        name = self.FOLD or self.view_name
        self._folding = session.fold(name, self.make, everything=self.EVERYTHING, without=self.WITHOUT)
        self._all = (
            session.fold(f"{name} of all", self.make, everything=True) if self.FACTS else self._folding
        )
        self._wanted: tuple[SessionFold[F], ...] = ()
        self._table = RowTable(self.COLUMNS, empty="", classes="rows")
        self._text = FactText()
        self._details = [RowTable(columns, empty="") for columns in self.DETAILS]
        self._chart = ActivityChart(session.zone)
        self._found: Detail | None = None
        self._sought: Hashable | None = None
        self._activity: tuple[tuple[str, Filter | None, bool, bool], Activity] | None = None
        self._text_pane = VerticalScroll(self._text, classes="text", can_focus=False, can_maximize=True)
        self._detail = Vertical(
            *self.pictures(), self._text_pane, *self._details, self._chart, classes="detail"
        )

    # ------------------------------------------------------------ for subclasses; in the engine's thread
    def make(self, access: Access) -> F:
        """Return an empty fold."""
        raise NotImplementedError

    def rows(self, fold: F, access: Access) -> Sequence[Row]:
        """Return the rows."""
        raise NotImplementedError

    def detail(self, fold: F, access: Access, key: Hashable) -> Detail | None:
        """Return details of a row, None if it is gone."""
        raise NotImplementedError

    @property
    def continues(self) -> bool:
        """Whether more exchanges may arrive, so that open requests may still be answered."""
        return self.session.live and not self.session.status.finished

    def field_of(self, row: Row) -> str:
        """Return the path of the row's field in the exchange that the row leads to; empty for none."""
        return ""

    def pictures(self) -> Iterable[Widget]:
        """Return widgets to place above the text of the details."""
        return ()

    def show_detail(self, found: Detail | None) -> None:
        """Show the details of the selected row."""
        self._detail.border_title = Content("" if found is None else printable(found.title))
        self._text.update(Content("") if found is None else found.text)
        for index, table in enumerate(self._details):
            rows = () if found is None else found.tables[index]
            table.set_rows(rows)
            table.display = bool(rows)
        self._detail.set_class(not any(table.display for table in self._details), "-text-only")
        self._found = found
        self.call_after_refresh(self.use_room)

    def parts(self) -> Iterator[tuple[Widget, int, int]]:
        """Yield the parts of the details from top to bottom, without the chart.

        Each comes with the lines that it gets before others get all they want, and with the lines that it wants.
        """
        width = self._detail.content_size.width - 2 * _PADDING
        lines = self._text.line_count(width)
        yield self._text_pane, min(lines, _LEAST_LINES), lines
        for table in self._details:
            if table.display:
                lines = table.line_count()
                yield table, min(lines, _LEAST_LINES), lines

    def use_room(self) -> None:
        """Share the lines among the parts of the details; draw the exchanges over time if enough are left."""
        height = self._detail.content_size.height
        parts, least, wants = zip(*self.parts(), strict=True)
        left = height - sum(wants) - (len(parts) - 1)
        drawn = self.DRAWN and self._found is not None and left >= LEAST_HEIGHT
        self._detail.set_class(drawn, "-drawn")
        more = shared([want - few for want, few in zip(wants, least, strict=True)], height - sum(least))
        given = [sum(each) for each in zip(least, more, strict=True)]
        if left >= 0:  # an empty line between two parts
            given[1:-1] = [lines + 1 for lines in given[1:-1]]
        if not drawn:
            given[-1] += max(height - sum(given), 0)
        only_text = len(parts) == 1
        for part, lines in zip(parts, given, strict=True):
            part.styles.height = None if only_text else lines
        row, found = self._table.selected, self._found
        if not drawn or row is None or found is None:
            return
        wanted = found.filter
        if wanted is None:
            wanted = row.leads_to if isinstance(row.leads_to, str) else ""
        status = self.session.status
        of = wanted, status.filter, status.marked_only, status.finished
        if self._activity is None or self._activity[0] != of:
            fitting = compile_filter(wanted) if wanted else None
            self._activity = of, Activity(self.session, fitting, everything=self.EVERYTHING)
            self._chart.show(None)
            self._draw(found)
        elif not any(each.group == "activity" and not each.is_finished for each in self.workers):
            self._draw(found)

    @work(exclusive=True, group="activity")
    async def _draw(self, found: Detail) -> None:
        assert self._activity is not None
        (wanted, *_), activity = self._activity
        with suppress(ClosedError):
            moments = await self.session.run(activity.renewed)
            status = self.session.status
            what = f"exchanges of {found.title}" if wanted else "all exchanges"
            picture = ActivityPicture(
                what, moments, status.begin, max(status.latest, status.begin), found.marks
            )
            self._chart.show(picture)

    @property
    def unfiltered(self) -> bool:
        """Whether everything is shown, including things without exchanges."""
        status = self.session.status
        return status.filter is None and not status.marked_only

    # ------------------------------------------------------------ lifetime
    def compose(self) -> ComposeResult:
        yield self._table
        yield self._detail

    @property
    def _counts(self) -> SessionFold[F]:
        """The fold of the shown exchanges."""
        return self._all if self.unfiltered else self._folding

    def all_of(self, access: Access) -> F:
        """Return the fold of all exchanges, for facts; in the engine's thread."""
        return self._all.fold(access)

    def _want(self, *foldings: SessionFold[F]) -> None:
        if foldings != self._wanted:
            before, self._wanted = self._wanted, foldings
            for folding in before:
                if folding not in foldings:
                    folding.want(False)
            for folding in foldings:
                if folding not in before:
                    folding.want(True)

    def on_shown(self) -> None:
        self._want(*dict.fromkeys((self._all, self._counts)))

    def on_hidden(self) -> None:
        self._sought = None
        self._want()

    def seek(self, key: Hashable) -> None:
        self._sought = None if self._table.select(key) else key

    def state(self) -> tuple[Hashable, ...]:
        return (self.session.status.version, self._folding.version, self._all.version)

    @property
    def counting(self) -> Progress | None:
        return Progress.of(*self._wanted) if self._wanted else None

    async def refresh_data(self) -> None:
        if self._wanted:  # the filter may have changed
            self._want(*dict.fromkeys((self._all, self._counts)))
        rows = await self._counts.read(self.rows)
        self._table.empty = self._nothing()
        self._table.set_rows(rows)
        if self._sought is not None and self._table.select(self._sought):
            self._sought = None
        await self._show_detail()

    def _nothing(self) -> str:
        """Return why there are no rows."""
        status, counting = self.session.status, self.counting
        shown = "" if self.unfiltered or self.EVERYTHING else " among what is shown"
        if shown and status.filter is not None:
            shown = f" among what matches the filter {status.filter.text} (c clears it)"
        if not self.session.live and (counting is not None or not status.finished):
            far = "the file is still being read" if counting is None else f"counted {counting.share:.0%}"
            return f"No {self.THINGS} so far{shown}: {far}."
        return f"No {self.THINGS}{' yet' * self.continues}{shown}."

    async def _show_detail(self) -> None:
        selected = self._table.selected
        found = None
        if selected is not None:
            key = selected.key
            found = await self._counts.read(lambda fold, access: self.detail(fold, access, key))
            if self._table.selected is None or self._table.selected.key != key:
                return  # moving the cursor has started another update
        self.show_detail(found)

    @work(exclusive=True, group="detail")
    async def _look_closer(self) -> None:
        try:
            await self._show_detail()
        except ClosedError:
            return  # the session is closing, and the screen with it
        except Exception as error:
            self.session.contain(error, f"the details of the view {self.view_name}")

    # ------------------------------------------------------------ input
    def on_resize(self, event: events.Resize) -> None:
        """Place the details beside or below the table."""
        self.set_class(self.BESIDE and event.size.width >= _BESIDE, "-beside")
        self.call_after_refresh(self.use_room)

    @on(RowTable.RowSelected)
    def _selected(self, message: RowTable.RowSelected) -> None:
        message.stop()
        if message.table is self._table:
            self._look_closer()

    @on(FactText.ReferenceEntered)
    def _reference_entered(self, message: FactText.ReferenceEntered) -> None:
        message.stop()
        if isinstance(message.reference, int):
            self.post_message(self.GoTo(message.reference))
        else:
            self.post_message(self.GoToIncident(message.reference))

    @on(RowTable.RowEntered)
    def _entered(self, message: RowTable.RowEntered) -> None:
        message.stop()
        row = message.table.selected
        if row is None or row.leads_to is None:
            return
        if isinstance(row.leads_to, int):
            self.post_message(self.GoTo(row.leads_to, self.field_of(row)))
        else:
            self.post_message(self.Narrow(row.leads_to))

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        focused = next((table for table in self._details if table.has_focus), self._table)
        return focused.search(pattern, forward=forward)
