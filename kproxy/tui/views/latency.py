"""Latency: its distribution by API, broker or client, and its course over time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from captures.analysis.latency import Dimension, Distribution, LatencyStats, Measure, OverTime
from captures.arrays import Int64s
from captures.exchanges.columns import ExchangeColumns
from captures.filters.regex import TextRegex
from captures.time_format import latency
from kproxy.text.tables import Column
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.views.base import Progress, View
from kproxy.tui.widgets.latency_map import LatencyMap, Picture
from kproxy.tui.widgets.latency_scale import Scale, fitting
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row, counted

if TYPE_CHECKING:
    from kproxy.session import Access, Session


_STRIP = 40
_BLOCKS = " ▁▂▃▄▅▆▇█"
_OTHER_COLUMNS = 66  # cells; the rest is for the strip


@dataclass(frozen=True, slots=True)
class _LatencyCounts:
    """Data read from the fold.

    :ivar groups: the first contains all exchanges
    :ivar chosen: the one to draw
    :ivar left_out: what is not counted, in words
    """

    groups: list[Distribution]
    chosen: Distribution
    over_time: OverTime
    left_out: str


class LatencyFold(LatencyStats):
    """The latencies of the shown exchanges."""

    TAKEN = ("wait",)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        self.add_columns(columns, access.plain, indexes)
        yield len(columns)


class LatencyView(View):
    """A table of APIs, brokers or clients, and below it a picture of the latencies of the selected one.

    Enter narrows the filter to exactly the exchanges counted in the selection.
    """

    view_name = "latency"

    DEFAULT_CSS = """
    LatencyView > RowTable { height: auto; min-height: 3; max-height: 40%; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.LATENCY)]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._folding = session.fold("latency", lambda _: LatencyFold())
        self._dimension = Dimension.API
        self._measure = Measure.EXCESS
        self._counted: _LatencyCounts | None = None

    def compose(self) -> ComposeResult:
        yield RowTable(_columns(self._dimension, ""), empty="None of the exchanges shown has a latency.")
        yield LatencyMap(self.session.zone)

    @property
    def _table(self) -> RowTable:
        return self.query_one(RowTable)

    @property
    def _map(self) -> LatencyMap:
        return self.query_one(LatencyMap)

    # ------------------------------------------------------------ counting
    def on_shown(self) -> None:
        self._folding.want(True)

    def on_hidden(self) -> None:
        self._folding.want(False)

    def state(self) -> tuple[Hashable, ...]:
        return (self.session.status.version, self._folding.version)

    @property
    def counting(self) -> Progress | None:
        return Progress.of(self._folding)

    async def refresh_data(self) -> None:
        dimension, measure, selected = self._dimension, self._measure, self._selected

        def look(fold: LatencyStats, _: Access) -> _LatencyCounts:
            groups = fold.distributions(dimension, measure)
            chosen = next((group for group in groups if _key(group) == selected), groups[0])
            over_time = fold.over_time(dimension, measure, chosen.label, chosen.condition)
            return _LatencyCounts(groups, chosen, over_time, _left_out(fold, measure))

        self._counted = await self._folding.read(look)
        self._show()

    @property
    def _selected(self) -> object:
        row = self._table.selected
        return None if row is None else row.key

    def _show(self) -> None:
        found = self._counted
        if found is None:
            return
        room = min(max(self.size.width - _OTHER_COLUMNS, 0), _STRIP)
        scale = fitting(found.groups[0].counts, room)
        table = self._table
        table.columns = _columns(self._dimension, "" if scale is None else _axis(scale))
        table.set_rows([_row(group, scale) for group in found.groups] if found.groups[0].count else [])
        self._map.show(
            Picture(self._title(found), self._measure, found.chosen, found.over_time, found.left_out)
        )

    def _title(self, found: _LatencyCounts) -> str:
        return (
            f"{self._dimension.value} {found.chosen.label}" if found.chosen.condition else found.chosen.label
        )

    def on_resize(self) -> None:
        """Fit the strips to the new width."""
        self._show()

    @on(RowTable.RowSelected)
    def _choose(self) -> None:
        if self._counted is not None and _key(self._counted.chosen) != self._selected:
            self._renew()

    def _renew(self) -> None:
        self.run_worker(self.renew(), group="latency", exclusive=True)

    # ------------------------------------------------------------ drilling down
    @on(RowTable.RowEntered)
    def _enter_group(self, event: RowTable.RowEntered) -> None:
        assert isinstance(event.key, tuple)
        condition = event.key[1]
        if condition:
            self.post_message(self.Narrow(condition))
        else:
            self.notify("This row has no filter: choose another one.")

    @on(LatencyMap.Entered)
    def _enter_range(self, event: LatencyMap.Entered) -> None:
        self.post_message(self.Narrow(event.condition))

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        return self._table.search(pattern, forward=forward)

    # ------------------------------------------------------------ keys
    def action_move(self, rows: int, slices: int) -> None:
        self._map.move(rows, slices)

    def action_latency_enter(self) -> None:
        self._map.enter()

    def action_latency_lines(self) -> None:
        self._map.toggle_lines()

    def action_latency_longest(self) -> None:
        """Go to the slowest exchange of the row."""
        found = self._counted
        chosen = None if found is None else next((g for g in found.groups if _key(g) == self._selected), None)
        if chosen is not None and chosen.slowest:
            self.post_message(self.GoTo(chosen.slowest))

    def action_latency_by(self) -> None:
        """Switch to the next dimension."""
        every = list(Dimension)
        self._dimension = every[(every.index(self._dimension) + 1) % len(every)]
        self._renew()

    def action_latency_waiting(self) -> None:
        """Switch to the other measure."""
        self._measure = Measure.MEASURED if self._measure is Measure.EXCESS else Measure.EXCESS
        self._renew()


# ---------------------------------------------------------------- rows
def _left_out(fold: LatencyStats, measure: Measure) -> str:
    parts = [f"{fold.unmeasured:,} without an answer"] if fold.unmeasured else []
    if measure is Measure.EXCESS and fold.only_waited:
        parts.append(f"{fold.only_waited:,} that only waited")
    return f"left out: {', '.join(parts)}" if parts else ""


def _key(group: Distribution) -> tuple[str, str]:
    return group.label, group.condition


def _columns(dimension: Dimension, axis: str) -> tuple[Column, ...]:
    return (
        Column(dimension.value, least=22),
        Column("count", right=True),
        Column("p50", right=True),
        Column("p95", right=True, rank=3),
        Column("p99", right=True),
        Column("longest", right=True),
        Column(axis, rank=2),
    )


def _row(group: Distribution, scale: Scale | None) -> Row:
    times = (group.p50, group.p95, group.p99, group.max)
    return Row(
        _key(group),
        (
            Cell(group.label, Role.PLAIN if group.condition else Role.MUTED),
            counted(group.count),
            *(Cell(latency(time), Role.PLAIN, time) for time in times),
            Cell("" if scale is None else _strip(group, scale), Role.PLAIN, group.p50),
        ),
    )


def _strip(group: Distribution, scale: Scale) -> str:
    """Return the distribution as one line of block characters."""
    counts = scale.counts(group.counts)
    most = max(int(counts.max()), 1)
    steps = len(_BLOCKS) - 1
    # rounded up, so that every non-zero count is visible
    return "".join(_BLOCKS[-(-count * steps // most)] for count in counts.tolist())


def _axis(scale: Scale) -> str:
    """Return the axis of a strip: labels of the decades, as far as they fit."""
    text = ""
    for index, span in enumerate(scale.ranges):
        if span.low is not None and str(span.low).strip("0") == "1" and index >= len(text):
            text = f"{text:<{index}}{span.label.replace(' ', '')} "
    return text.rstrip()
