"""Rows of single exchanges: the tables of exchanges, their partitions, record batches and records.

This is the inner loop of writing tables. Rows are gathered as tuples and converted to Arrow columns together; the
columns that all rows of an exchange share are gathered once per exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange
from captures.exchanges.notes import Note
from captures.export.arrow import record_batch
from captures.export.columns import COLUMNS as EXPORTED
from captures.faults import RAISED, Faults
from captures.filters import TableColumns, table_columns
from captures.filters.table_columns import NumberRecipe, TextRecipe
from captures.interventions import UNTOUCHED
from captures.meaning import Names
from captures.meaning.mentions import group_paths, groups_in
from captures.tables.batch_rows import BATCH_COLUMNS, RECORD_COLUMNS, batch_rows, record_rows
from captures.tables.columns import Column, Needs
from captures.tables.partition_rows import COLUMNS as PARTITION_COLUMNS
from captures.tables.partition_rows import FieldBatches, PartitionContent, PartitionRows
from captures.tables.schema import PER_EXCHANGE, TABLES, arrow_type, doing, needs_of, schema
from dissectors.annotate import Annotations, Annotator
from dissectors.apis import api_name
from dissectors.budget import Budget, LimitReached, message_budget
from dissectors.frames import Body, Problem
from dissectors.session_context import SessionContext
from dissectors.sides import Side
from dissectors.units import US

if TYPE_CHECKING:
    import pyarrow as pa


MANY = 4096
"""Exchanges after which the rows should be taken."""
MUCH = 32 << 20
"""Bytes of records, and of bodies as text, after which the rows should be taken."""

RECORDS_AT_ONCE = 64 << 10
"""Most record rows kept as Python objects, which take several times the memory of columns."""

_AS_TEXT = 2
"""Approximate growth of bodies as JSON."""
_BEHIND = {
    "topic_partitions": PARTITION_COLUMNS,
    "record_batches": BATCH_COLUMNS,
    "records": RECORD_COLUMNS,
}
"""Table -> its own columns; those before them are the same for all rows of an exchange."""
_PARTITIONS, _EXCHANGES = doing("topic_partitions"), doing("exchanges")
_COMMON = ("run", "number", "time", "time_ns", "connection", "api", "api_key")
_OF_PARTITIONS = frozenset({"topics", "records", "batches", "record_bytes"})
"""Columns of the table ``exchanges`` that need the contents of partitions."""
_ATTRIBUTES = {
    "latency_ns": "latency",
    "designed_wait_ns": "wait",
    "kproxy_time_ns": "kproxy_time",
    "client": "client",
    "broker": "broker",
    "client_id": "client_id",
    "version": "version",
    "correlation_id": "correlation_id",
    "request_size": "request_size",
    "response_size": "response_size",
}
"""Columns that are plain attributes of an exchange."""
_SUMMARIES = frozenset({"request_summary", "response_summary"})
_AT_LEAST_TWO = ("number", "number")
"""Extra attributes: an attrgetter with fewer than two does not return a tuple."""

_exported: Mapping[str, Callable[[Exchange], Any]] = {column.name: column.value for column in EXPORTED}


def wants_summary(tables: Iterable[str], columns: Mapping[str, Sequence[str]]) -> bool:
    """Return whether summaries of exchanges are needed, which take as long as decoding.

    :param tables: names of tables
    :param columns: table -> names of its columns; tables that are not listed have their default columns
    """
    chosen = columns.get("exchanges")
    return "exchanges" in tables and (chosen is None or bool(_SUMMARIES & set(chosen)))


class ExchangeTables:
    """Gathers the rows of exchanges for the tables of :data:`~captures.tables.schema.PER_EXCHANGE`.

    :param chosen: names of tables; others than per-exchange tables are skipped
    :param names: returns the name of a topic ID; it must know all names of the capture before the first exchange is
        added, so that rows do not depend on the order
    :param run: number of the run into the folder
    :param columns: table -> names of its columns; tables that are not listed have their default columns
    :param faults: collects internal errors that leave out rows or values; by default they are raised
    :raises ValueError: for a column that a table does not have
    """

    def __init__(
        self,
        chosen: Iterable[str],
        *,
        names: Names,
        run: int,
        columns: Mapping[str, Sequence[str]] | None = None,
        faults: Faults = RAISED,
    ) -> None:
        wanted = set(chosen)
        self.tables = tuple(name for name in PER_EXCHANGE if name in wanted)
        self._run = run
        self._faults = faults
        self._columns = {name: TABLES[name].choose((columns or {}).get(name)) for name in self.tables}
        self._schemas = {
            name: schema(name, [column.name for column in self._columns[name]]) for name in self.tables
        }
        self._partitions = PartitionRows(names)
        own = {column.name for column in self._columns.get("exchanges", ())} - set(_COMMON)
        # three kinds of columns, each gathered in the fastest way, because this runs for every exchange
        attributes = [name for name in _ATTRIBUTES if name in own]
        values = [name for name in _exported if name in own and name not in (*_ATTRIBUTES, *_OWN)]
        more = [name for name in _OWN if name in own]
        self._exchange_columns = (*attributes, *values, *more)
        self._attributes = attrgetter(*[_ATTRIBUTES[name] for name in attributes], *_AT_LEAST_TWO)
        self._values = [_exported[name] for name in values]
        self._more = [_OWN[name] for name in more]
        self._shown = bool({"request", "response"} & set(own))
        self._look = bool(set(self.tables) - {"exchanges"}) or bool(_OF_PARTITIONS & set(own))
        self._annotator = Annotator(SessionContext())
        self._clear()

    @property
    def needs(self) -> Needs:
        """Parts of exchanges to read: bodies, unless the columns of the exchange table suffice."""
        if set(self.tables) - {"exchanges"}:
            return Needs.BODIES
        least = needs_of(self._columns.get("exchanges", ()))
        return least if least is Needs.HEADER else Needs.BODIES

    def __len__(self) -> int:
        """Return the number of exchanges added since the rows were last taken."""
        return len(self._common)

    @property
    def full(self) -> bool:
        """Whether the rows should be taken now to bound memory."""
        return len(self._common) >= MANY or self._size >= MUCH

    def add(self, exchange: Exchange) -> None:
        """Gather the rows of one exchange.

        Values that cannot be made because of an internal error are null, rows are left out; the error is noted.

        :param exchange: decoded with ``annotate=False``; number and connection as they are to be written
        """
        at = len(self._common)
        key = exchange.api_key
        api = exchange.api if key is None else _api_of(key)
        self._common.append((exchange.number, exchange.time, exchange.connection, api, key))
        try:
            content = self._partitions.of(exchange) if self._look else None
        except Exception as error:
            self._faults.note(error, _PARTITIONS, exchange.number)
            content = None
        if (
            content is not None and content.sent and key is not None
        ):  # first, because it finds exceeded limits
            self._add_batches(exchange, content, key, at)
        if self._exchange_columns:
            self._add_cells(exchange, content)
        if content is None:
            return
        for row in content.rows if "topic_partitions" in self._schemas else ():
            self._rows["topic_partitions"].append(row)
            self._of["topic_partitions"].append(at)

    def _add_cells(self, exchange: Exchange, content: PartitionContent | None) -> None:
        """Gather the row of the table ``exchanges``."""
        if self._shown:
            # bodies that could not be annotated are left out: they may contain secrets
            blank = replace(exchange, request=None, response=None)
            shown = partial(self._as_shown, exchange)
            exchange = self._faults.contained(shown, _EXCHANGES, blank, exchange.number)
            self._size += _AS_TEXT * (exchange.request_size + exchange.response_size)
        self._attributes_of.append(self._attributes(exchange))
        try:
            values = [value(exchange) for value in self._values]
            more = [make(exchange, content) for make in self._more]
        except Exception:
            made, number = self._faults.contained, exchange.number
            values = [made(partial(value, exchange), _EXCHANGES, None, number) for value in self._values]
            more = [made(partial(make, exchange, content), _EXCHANGES, None, number) for make in self._more]
        self._values_of.append(values)
        self._more_of.append(more)

    def _add_batches(self, exchange: Exchange, content: PartitionContent, key: int, at: int) -> None:
        if "record_batches" in self._schemas:
            rows, of = self._rows["record_batches"], self._of["record_batches"]
            for sent in content.sent:
                before = len(rows)
                try:
                    rows.extend(batch_rows(sent, key))
                except Exception as error:
                    self._faults.note(error, doing("record_batches"), exchange.number)
                of.extend([at] * (len(rows) - before))
        if "records" in self._schemas:
            budgets: dict[Side, Budget] = {"request": message_budget(), "response": message_budget()}
            for sent in content.sent:
                self._add_records(exchange, sent, key, at, budgets[sent.side])

    def _add_records(self, exchange: Exchange, sent: FieldBatches, key: int, at: int, budget: Budget) -> None:
        beyond: list[LimitReached] = []
        made = self._faults.contained_items(
            record_rows(sent, key, budget, beyond), doing("records"), exchange.number
        )
        while some := list(islice(made, RECORDS_AT_ONCE)):
            rows, of = self._rows["records"], self._of["records"]
            rows.extend(some)
            of.extend([at] * len(some))
            self._size += sum(map(_size, some))
            if len(rows) >= RECORDS_AT_ONCE:
                self._packed.append(self._batch("records", self._common_arrays()))
                self._rows["records"], self._of["records"] = [], []
        if beyond:
            first, more = beyond[0], len(beyond) - 1
            reason = f"records: {first.reason}" + (f"; {more:,} more batches are beyond it" if more else "")
            exchange.problems.append((sent.side, Problem(-1, "", reason, first.limit)))

    def _as_shown(self, exchange: Exchange) -> Exchange:
        """Return a copy of an exchange with annotated bodies as in ``read --json``; the original stays unchanged."""
        notes = Annotations()
        asked = exchange.request
        request = self._show(exchange.request, "request", notes, None)
        response = self._show(exchange.response, "response", notes, asked.value if asked else None)
        return replace(exchange, request=request, response=response)

    def _show(
        self, body: Body | None, side: Side, notes: Annotations, request: dict[str, Any] | None
    ) -> Body | None:
        if body is None or body.value is None:
            return body
        copied = replace(body, value=_copied(body.value))
        self._annotator.annotate(copied, side, notes, request=request)
        return copied

    # ------------------------------------------------------------ handing out
    def take(self) -> dict[str, pa.RecordBatch]:
        """Return the rows gathered since the last call, by table; tables without rows are missing."""
        made: dict[str, pa.RecordBatch] = {}
        if self._common:
            common = self._common_arrays()
            for name in self.tables:
                if name == "exchanges":
                    made[name] = self._exchange_batch(common)
                elif name == "records" and self._packed:
                    made[name] = self._joined_records(common)
                elif self._of[name]:
                    made[name] = self._batch(name, common)
        self._clear()
        return made

    def _clear(self) -> None:
        self._common: list[tuple[int, int, int, str, int | None]] = []
        self._attributes_of: list[tuple[Any, ...]] = []
        self._values_of: list[list[Any]] = []
        self._more_of: list[list[Any]] = []
        self._rows: dict[str, list[Any]] = {name: [] for name in _BEHIND}
        self._of: dict[str, list[int]] = {name: [] for name in _BEHIND}
        self._packed: list[pa.RecordBatch] = []
        self._size = 0

    def _common_arrays(self) -> dict[str, pa.Array]:
        import pyarrow as pa

        number, time, connection, name, key = zip(*self._common, strict=True)
        moments = np.array(time, np.int64)
        return {
            "run": pa.array(np.full(len(number), self._run, np.int32)),
            "number": pa.array(number, pa.int64()),
            "time": timestamps(moments),
            "time_ns": pa.array(moments),
            "connection": pa.array(connection, pa.int32()),
            "api": pa.array(name, pa.string()),
            "api_key": pa.array(key, pa.int16()),
        }

    def _exchange_batch(self, common: Mapping[str, pa.Array]) -> pa.RecordBatch:
        made = self._schemas["exchanges"]
        gathered = (
            *list(zip(*self._attributes_of, strict=True))[: -len(_AT_LEAST_TWO)],
            *zip(*self._values_of, strict=True),
            *zip(*self._more_of, strict=True),
        )
        values = dict(zip(self._exchange_columns, gathered, strict=True))
        columns = [common[field.name] if field.name in common else values[field.name] for field in made]
        return record_batch(made, columns, self._numbers(), self._faults, _EXCHANGES)

    def _batch(self, name: str, common: Mapping[str, pa.Array]) -> pa.RecordBatch:
        import pyarrow as pa

        made = self._schemas[name]
        of = np.array(self._of[name], np.int64)
        values = dict(zip(_BEHIND[name], zip(*self._rows[name], strict=True), strict=True))
        columns = (
            common[field.name].take(pa.array(of)) if field.name in _COMMON else values[field.name]
            for field in made
        )
        numbers = self._numbers()
        return record_batch(
            made, columns, [numbers[each] for each in self._of[name]], self._faults, doing(name)
        )

    def _joined_records(self, common: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the records that were already packed, and those added since."""
        import pyarrow as pa

        parts = [*self._packed, *([self._batch("records", common)] if self._of["records"] else [])]
        (joined,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
        return joined

    def _numbers(self) -> list[int]:
        return [number for number, *_ in self._common]


_api_of = lru_cache(maxsize=256)(api_name)


def _size(row: tuple[Any, ...]) -> int:
    key, value = row[_KEY], row[_VALUE]
    return 100 + (len(key) if key else 0) + (len(value) if value else 0)


_KEY, _VALUE = RECORD_COLUMNS.index("key"), RECORD_COLUMNS.index("value")


def _copied(value: Any) -> Any:
    """Return a copy of a decoded body that may be modified; bytes and numbers are shared."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


# ---------------------------------------------------------------- columns of exchanges
_Maker = Callable[[Exchange, PartitionContent | None], Any]


def _groups(exchange: Exchange, _: PartitionContent | None) -> list[str]:
    key = exchange.api_key
    if key is None:
        return []
    asked, answered = (
        _groups_of(key, exchange.request, "request"),
        _groups_of(key, exchange.response, "response"),
    )
    return list(dict.fromkeys([*asked, *answered])) if asked and answered else asked or answered


def _groups_of(key: int, body: Body | None, side: Side) -> list[str]:
    if body is None or body.version is None or not _names_groups(key, body.version, side):
        return []
    return groups_in(key, body.version, body.value, side)


@lru_cache(maxsize=2048)
def _names_groups(key: int, version: int, side: Side) -> bool:
    return bool(group_paths(key, version, side))


def _throttle(exchange: Exchange, _: PartitionContent | None) -> int | None:
    throttle = exchange.response_body.get("throttle_time_ms")
    return throttle if isinstance(throttle, int) else None


def _total(index: int) -> _Maker:
    def total(_: Exchange, content: PartitionContent | None) -> int | None:
        return None if content is None or content.totals is None else content.totals[index]

    return total


def _errors(exchange: Exchange, _: PartitionContent | None) -> list[str]:
    return _exported["errors"](exchange) if exchange.errors else []


def _expected(exchange: Exchange, _: PartitionContent | None) -> list[str]:
    return list(dict.fromkeys([error.name for error in exchange.expected])) if exchange.expected else []


def _problems(exchange: Exchange, _: PartitionContent | None) -> list[dict[str, Any]]:
    if not exchange.problems:
        return []
    return [
        {"side": side, "offset": problem.offset, "path": problem.path, "reason": problem.reason}
        for side, problem in exchange.problems
    ]


def _flags(exchange: Exchange, _: PartitionContent | None) -> list[str]:
    # most have none, and this check takes a tenth of the time
    special = exchange.flag or exchange.errors or exchange.wait or exchange.problems
    if special or exchange.interventions is not UNTOUCHED or exchange.annotations.problems:
        return exchange.flags
    guessed = any(body is not None and body.guess for body in (exchange.request, exchange.response))
    return exchange.flags if guessed else []


_OWN: Mapping[str, _Maker] = {
    "flags": _flags,
    "errors": _errors,
    "wait_reason": lambda exchange, _: exchange.wait_reason or None,
    "expected_errors": _expected,
    "error_count": lambda exchange, _: len(exchange.errors) - len(exchange.expected),
    "topics": lambda _, content: [] if content is None else content.topics,
    "groups": _groups,
    "records": _total(0),
    "batches": _total(1),
    "record_bytes": _total(2),
    "throttle_time_ms": _throttle,
    "answered": lambda exchange, _: exchange.response_size > 0,
    "problems": _problems,
}
"""Columns that an export does not have, or that are faster to compute here."""


# ---------------------------------------------------------------- without decoding
def timestamps(moments: Int64s) -> pa.Array:
    """Return ns since the epoch as timestamps in microseconds, truncated."""
    import pyarrow as pa

    return pa.array(moments // US).view(pa.timestamp("us", "UTC"))


def header_batch(
    capture: Capture,
    rows: Int64s,
    numbers: Int64s,
    connections: Int64s,
    run: int,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatch:
    """Return rows of the table ``exchanges`` made from the exchange table alone, without decoding.

    :param capture: with ``table``, ``endpoints``, ``names`` and ``notes``
    :param rows: rows of its exchange table
    :param numbers: numbers of these exchanges, as they are to be written
    :param connections: connections of these exchanges, as they are to be written
    :param columns: names of columns; None for all default columns that need only the header
    :raises ValueError: for an unknown column, or one that needs bodies
    """
    import pyarrow as pa

    chosen = _of_header(columns)
    rows = np.asarray(rows, np.int64)
    of_table = TableColumns(capture.table, capture.endpoints, rows=rows)
    given = {
        "run": pa.array(np.full(len(rows), run, np.int32)),
        "number": pa.array(np.asarray(numbers, np.int64)),
        "connection": pa.array(np.asarray(connections, np.int32)),
    }
    arrays = [
        given[each.name] if each.name in given else _header_column(capture, of_table, rows, each)
        for each in chosen
    ]
    return pa.record_batch(arrays, schema=schema("exchanges", [column.name for column in chosen]))


def _of_header(columns: Sequence[str] | None) -> tuple[Column, ...]:
    table = TABLES["exchanges"]
    if columns is None:
        return tuple(column for column in table.usual if column.needs is Needs.HEADER)
    chosen = table.choose(columns)
    deep = [column.name for column in chosen if column.needs is not Needs.HEADER]
    if deep:
        raise ValueError(f"{', '.join(deep)} need decoding")
    return chosen


_NUMBERS: Mapping[str, NumberRecipe] = {
    "time_ns": table_columns.time,
    "latency_ns": table_columns.latency,
    "api_key": table_columns.api_key,
    "version": table_columns.of_known_api("version"),
    "correlation_id": table_columns.correlation_id,
}
_TEXTS: Mapping[str, TextRecipe] = {"api": table_columns.api, "client_id": table_columns.client_id}
_NOTED: Mapping[str, Callable[[Note], Any]] = {
    "marked": lambda note: note.marked,
    "comment": lambda note: note.comment or None,
}
_ENDS = ("client", "broker")


def _header_column(capture: Capture, columns: TableColumns, rows: Int64s, column: Column) -> pa.Array:
    """Return one column of the table ``exchanges``, made from those of the exchange table.

    :param columns: of the same rows
    """
    import pyarrow as pa

    name, kind = column.name, arrow_type(column.type)
    end, _, named = name.partition("_")
    if name == "time":
        return timestamps(columns.numbers(table_columns.time).values)
    if name == "answered":
        return pa.array(table_columns.answered(columns))
    if name in _NUMBERS:
        values, there = columns.numbers(_NUMBERS[name])
        return pa.array(values, kind, mask=None if there is None else ~there)
    if name in _TEXTS:
        codes, texts, _ = columns.texts(_TEXTS[name])
        return pa.array(texts, kind).take(pa.array(codes % len(texts)))  # codes may be negative
    if name in _NOTED:
        notes, note_key, nothing = capture.notes.all(), _NOTED[name], Note()
        noted = [notes.get(row, nothing) for row in rows.tolist()] if notes else [nothing] * len(rows)
        return pa.array(map(note_key, noted), kind)
    if end in _ENDS:
        distinct, which = np.unique(columns.view("connection"), return_inverse=True)
        ends = [capture.endpoints(each)[_ENDS.index(end)] for each in distinct.tolist()]
        texts = [next(iter(capture.names.of(each)), None) for each in ends] if named else ends
        return pa.array(texts, kind).take(pa.array(which))
    return pa.array(columns.view(name), kind)
