"""Errors by API and code: their meaning, the clients that got them, and what those did next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.error_recovery import ErrorRecovery, RecoveryRow, may_follow_error
from captures.analysis.error_stats import ErrorRow, ErrorStats
from captures.analysis.exchange_groups import COUNTED
from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.time_format import span
from dissectors.error_codes import BY_CODE
from kproxy.session.access import Access
from kproxy.text.tables import Column
from kproxy.tui.views.findings import EVIDENCE, evidence_rows
from kproxy.tui.views.table_view import Detail, TableView, facts
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted, moment, numbered

_Key = tuple[str, int, bool]
"""API, code, and whether it was expected."""


class ErrorsFold:
    """The figures of errors, and their sequels."""

    TAKEN = COUNTED

    def __init__(self, capture: Capture) -> None:
        self.stats = ErrorStats()
        self._aftermath = ErrorRecovery(capture)
        self._sequels: dict[_Key, list[RecoveryRow]] | None = None

    def add(self, exchange: Exchange) -> None:
        self._sequels = None
        self.stats.add(exchange)
        self._aftermath.add(exchange)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        reader, rows = access.plain, DecisionColumns(columns)
        for exchange in reader.several(indexes[rows.erroneous | may_follow_error(rows)].tolist()):
            self.add(exchange)
            yield exchange.number - reader.first

    def sequels(self) -> dict[_Key, list[RecoveryRow]]:
        """Return the sequels by error, the most frequent first."""
        if self._sequels is None:
            self._sequels = defaultdict(list)
            for row in self._aftermath.result():
                self._sequels[row.api, row.code, False].append(row)
        return self._sequels


class Errors(TableView[ErrorsFold]):
    """One row per error of an API; meaning and sequels of the selected one."""

    view_name = "errors"
    THINGS = "errors"
    FACTS = True
    COLUMNS = (
        Column("error"),
        Column("API"),
        Column("count", right=True),
        Column("times", right=True, rank=5),
        Column("first", right=True, rank=1),
        Column("at", rank=4),
        Column("last", right=True, rank=7),
        Column("at", rank=6),
        Column("clients", least=10, rank=2),
        Column("then the client", least=16, rank=3),
        Column("message", least=16, rank=8),
    )
    DETAILS = (
        (
            Column("what the client did next", least=24, wraps=True),
            Column("times", right=True),
            Column("after", right=True, rank=1),
            Column("at most", right=True, rank=2),
            Column("first", right=True),
        ),
        (Column("who got it", least=16), Column("responses", right=True)),
        EVIDENCE,
    )

    def make(self, access: Access) -> ErrorsFold:
        return ErrorsFold(access.capture)

    def rows(self, fold: ErrorsFold, access: Access) -> Sequence[Row]:
        sequels = self.all_of(access).sequels()
        return [self._row(row, sequels.get(_key(row), [])) for row in fold.stats.result()]

    def _row(self, row: ErrorRow, sequels: Sequence[RecoveryRow]) -> Row:
        zone, role = self.session.zone, Role.MUTED if row.expected else Role.ERROR
        cells: tuple[AnyCell, ...] = (
            Cell(f"{row.name}{' (expected)' if row.expected else ''}", role),
            row.api,
            counted(row.exchanges),
            counted(row.count) if row.count > row.exchanges else Cell("", value=row.count),
            numbered(row.first),
            moment(row.first_time, zone),
            numbered(row.last),
            moment(row.last_time, zone),
            words.some(row.clients),
            _steps(sequels[0]) if sequels else "",
            words.clipped(row.message or "", 200),
        )
        return Row(_key(row), cells, leads_to=_filter(row))

    def detail(self, fold: ErrorsFold, access: Access, key: Hashable) -> Detail | None:
        row = next((row for row in fold.stats.result() if _key(row) == key), None)
        if row is None:
            return None
        sequels, known = self.all_of(access).sequels().get(_key(row), []), BY_CODE.get(row.code)
        text = facts(
            ("", known.advice if known else "Kafka has no error of this code."),
            (
                "",
                Cell(f"Part of a normal conversation here. {row.reason}", Role.SUCCESS)
                if row.expected
                else "",
            ),
            (
                "code",
                f"{row.code}",
                "clients may retry" if known and known.retriable else "",
                _since(row.code),
            ),
            ("message", words.clipped(row.message or "", 400)),
            (
                "",
                Cell(
                    "" if self.unfiltered else "What came next covers all exchanges, whatever the filter.",
                    Role.MUTED,
                ),
            ),
        )
        who = [
            Row(client, (client, counted(count)), leads_to=f"({_filter(row)}) and {of_client(client)}")
            for client, count in sorted(row.clients.items(), key=lambda item: (-item[1], item[0]))
        ]
        ends = evidence_rows(access, sorted({row.first, row.last}), self.session.zone)
        return Detail(f"{row.name} in {row.api}", text, ([_sequel(each) for each in sequels], who, ends))


def _key(row: ErrorRow) -> _Key:
    return row.api, row.code, row.expected


def _filter(row: ErrorRow) -> str:
    """Return a filter for the exchanges with an error; by its code, because unknown codes have no names."""
    api = f"api == {quoted(row.api)}"
    if row.expected:
        return f"{api} and error.any == {row.code} and not error == {row.code}"
    return f"{api} and error == {row.code}"


def _since(code: int) -> str:
    known = BY_CODE.get(code)
    return f"since Kafka {known.since}" if known else ""


def _steps(row: RecoveryRow) -> str:
    return " → ".join(row.steps)


def _sequel(row: RecoveryRow) -> Row:
    delay = row.delay
    cells: tuple[AnyCell, ...] = (
        _steps(row),
        counted(row.count),
        Cell(span(delay.p50), value=delay.p50) if delay else "",
        Cell(span(delay.max), value=delay.max) if delay and row.count > 1 else "",
        numbered(row.first),
    )
    return Row(row.steps, cells, leads_to=row.first)
