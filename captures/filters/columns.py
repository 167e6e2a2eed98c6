"""Filters on columns: what can be told of a million exchanges without decoding one.

A filter part is evaluated to two masks: rows where it *must* hold, and rows where it *may*. Where columns tell all,
the two are the same; where a body is needed, they tell what is certain without it: a Heartbeat has no topic, what was
not answered has no error, an excess is never more than the latency. ``and``, ``or`` and ``not`` combine the pairs, so
only rows that really depend on a body stay undecided.

Texts are asked once for each distinct value, and the answers are gathered by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from captures.exchanges import Capture, ExchangeTable, Flag
from captures.exchanges.table import NO_TIME
from captures.filters import binding, predicates
from captures.filters.context import Context
from captures.filters.fields import BODY_FLAGS, COLUMN_FLAGS, Field, Kind
from captures.filters.paths import Path
from captures.filters.predicates import ANY, Mask, Predicate
from captures.filters.values import split_endpoint
from captures.meaning.waits import LEAST_WAIT_NS
from dissectors.apis import NAMES, api_name

Ints = NDArray[Any]


class Texts(NamedTuple):
    """A column of texts: ``values[codes[row]]``; None is no value."""

    codes: Ints
    values: Sequence[str | None]


class Numbers(NamedTuple):
    """A column of integers, and where there is one; None means everywhere."""

    values: Ints
    present: Mask | None


class Columns(Protocol):
    """What filters ask of a table, whatever keeps it. All arrays have one element per row."""

    def __len__(self) -> int: ...

    def prepare(self, fields: Iterable[str]) -> None:
        """Take note of all the fields that will be asked for."""

    @property
    def start(self) -> int | None:
        """Time of the first exchange in ns since the epoch."""

    def numbers(self, name: str) -> Numbers:
        """Return the column of a field of kind number, duration, size or time."""

    def texts(self, name: str) -> Texts:
        """Return the column of a field of kind text, API, address or host."""

    def flags(self) -> Ints:
        """Return the column of :class:`captures.exchanges.Flag`."""

    def answered(self) -> Mask:
        """Return where there is a response."""

    def requested(self) -> Mask:
        """Return where there is a request."""


FLAG_FIELDS: Mapping[str, Flag] = {
    "unanswered": Flag.UNANSWERED,
    "no_response": Flag.NO_RESPONSE_EXPECTED,
    "orphan": Flag.ORPHAN,
    "sasl": Flag.SASL_TOKEN,
    "damaged": Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED,
    "request.damaged": Flag.REQUEST_DAMAGED,
    "response.damaged": Flag.RESPONSE_DAMAGED,
}
"""Fields that are flags of the table."""

_BLOCK = 4096
"""Rows that are read at a time: as much of the table as a processor's cache holds."""

_View = Callable[[str], Ints]
"""Name of a column of the table -> a block of it."""


def _latency(view: _View) -> tuple[Ints, Mask | None]:
    # what is not there has no time; sizes would tell the same, but they are two columns more to read
    end, answer = view("request_last"), view("response_first")
    return answer - end, (end != NO_TIME) & (answer != NO_TIME)


def _time(view: _View) -> tuple[Ints, Mask | None]:
    return np.where(view("request_size") > 0, view("request_first"), view("response_first")), None


def _size(view: _View) -> tuple[Ints, Mask | None]:
    # two frames of 1 GiB do not fit into 32 bits
    return view("request_size").astype(np.int64) + view("response_size"), None


def _api_code(view: _View) -> tuple[Ints, Mask | None]:
    keys = view("api_key")
    if len(keys) and keys.min() >= 0:
        return keys, None
    tokens = view("flags") & np.uint16(Flag.SASL_TOKEN) != 0
    return np.where(tokens, np.int16(-2), keys), None


def _known_api(name: str) -> Callable[[_View], tuple[Ints, Mask | None]]:
    return lambda view: (view(name), view("api_key") >= 0)


def _correlation_id(view: _View) -> tuple[Ints, Mask | None]:
    return view("correlation_id"), view("flags") & np.uint16(Flag.SASL_TOKEN) == 0


def _there(name: str) -> Callable[[_View], tuple[Ints, Mask | None]]:
    return lambda view: (view(name) > 0, None)


def _plain(name: str) -> Callable[[_View], tuple[Ints, Mask | None]]:
    return lambda view: (view(name), None)


_RECIPES: Mapping[str, Callable[[_View], tuple[Ints, Mask | None]]] = {
    "latency": _latency,
    "time": _time,
    "size": _size,
    "api": _api_code,
    "api.key": _known_api("api_key"),
    "version": _known_api("version"),
    "correlation_id": _correlation_id,
    "request": _there("request_size"),
    "response": _there("response_size"),
    "request.size": _plain("request_size"),
    "response.size": _plain("response_size"),
    **{name: _plain(name) for name in ("connection", "client_id", "flags")},
}
"""Columns that are made of those of the table, row by row."""

_MADE_OF = {
    **{f"{end}{part}": "connection" for end in ("client", "broker") for part in ("", ".host", ".port")},
    **dict.fromkeys(FLAG_FIELDS, "flags"),
}
"""Fields whose values lie behind the column of another name."""


class TableColumns:
    """The columns of an exchange table; each is made when it is first asked for, and kept.

    :param table: the table as it is now; rows that are added later are not seen
    :param endpoints: connection -> client and broker as ``host:port``
    :param rows: the rows to look at, such as ``slice(1000, 2000)`` for new ones; all if None
    :param numbers: numbers of these rows; made by ordering the table if None and needed
    :param start: time of the first exchange; that of the table if None
    """

    def __init__(
        self,
        table: ExchangeTable,
        endpoints: Callable[[int], tuple[str, str]],
        *,
        rows: slice | NDArray[np.int64] | None = None,
        numbers: NDArray[np.int64] | None = None,
        start: int | None = None,
    ) -> None:
        self._table = table
        self._endpoints = endpoints
        self._rows = slice(0, len(table)) if rows is None else rows
        self._size = len(table.column("flags")[self._rows])
        self._numbers = numbers
        self._start = start
        self._made: dict[str, Numbers] = {}
        self._texts: dict[str, Texts] = {}

    @classmethod
    def of(cls, capture: Capture) -> TableColumns:
        """Return the columns of a capture."""
        return cls(capture.table, capture.endpoints)

    def __len__(self) -> int:
        return self._size

    @property
    def start(self) -> int | None:
        """Time of the first exchange in ns since the epoch."""
        if self._start is None and len(self._table):
            self._start = int(_time(self._table.column)[0].min())
        return self._start

    # ------------------------------------------------------------ numbers
    def prepare(self, fields: Iterable[str]) -> None:
        """Make the columns of some fields, all in one pass over the rows of the table."""
        names = {_MADE_OF.get(field, field) for field in fields}
        wanted = [name for name in sorted(names - self._made.keys()) if name in _RECIPES]
        if not wanted:
            return
        # a row is some 80 bytes: while a block of them is in the cache, everything is made of it
        nothing = self._view(0, 0)
        made = {name: Numbers(*map(self._like, _RECIPES[name](nothing))) for name in wanted}
        for begin in range(0, self._size, _BLOCK):
            end = begin + _BLOCK
            view = self._view(begin, end)
            for name, (values, present) in made.items():
                block, there = _RECIPES[name](view)
                values[begin:end] = block
                if present is not None:
                    present[begin:end] = there
        self._made.update(made)

    def _view(self, begin: int, end: int) -> _View:
        read: dict[str, Ints] = {}

        def view(name: str) -> Ints:
            found = read.get(name)
            if found is None:
                column, rows = self._table.column(name), self._rows
                block = column[rows][begin:end] if isinstance(rows, slice) else column[rows[begin:end]]
                found = read[name] = np.ascontiguousarray(block)
            return found

        return view

    def _like(self, block: Ints | None) -> Any:
        return None if block is None else np.empty(self._size, block.dtype)

    def numbers(self, name: str) -> Numbers:
        found = self._made.get(name)
        if found is None:
            if name == "number":
                self._made[name] = Numbers(self._numbered(), None)
            else:
                self.prepare([name])
            found = self._made[name]
        return found

    def flags(self) -> Ints:
        return self.numbers("flags").values

    def answered(self) -> Mask:
        return self.numbers("response").values

    def requested(self) -> Mask:
        return self.numbers("request").values

    def _numbered(self) -> Ints:
        if self._numbers is not None:
            return self._numbers
        numbers = np.empty(len(self._table), np.int64)
        numbers[self._table.order()] = np.arange(1, len(self._table) + 1)
        return np.asarray(numbers[self._rows])

    # ------------------------------------------------------------ texts
    def texts(self, name: str) -> Texts:
        found = self._texts.get(name)
        if found is None:
            found = self._texts[name] = self._make_texts(name)
        return found

    def _make_texts(self, name: str) -> Texts:
        match name:
            case "api":
                return self._apis()
            case "client_id":
                # -1, no client ID known, is the last element
                return Texts(self.numbers(name).values, [*self._table.client_ids, None])
            case "client.host" | "broker.host":
                codes, whole = self.texts(name.removesuffix(".host"))
                return Texts(codes, [split_endpoint(text or "")[0] for text in whole])
            case _:
                assert name in ("client", "broker"), name
                return self._ends(name)

    def _apis(self) -> Texts:
        codes = self.numbers("api").values
        # -2 and -1 count from the end
        values: list[str | None] = [*NAMES, "SaslToken", "unknown"]
        if codes.max(initial=0) < len(NAMES):
            return Texts(codes, values)
        known, codes = np.unique(codes, return_inverse=True)
        return Texts(codes, [api_name(code) if code >= 0 else values[code] for code in known.tolist()])

    def _ends(self, name: str) -> Texts:
        connections = self.numbers("connection").values
        # connections are numbered from 0, so their number is the code
        met = np.zeros(int(connections.max(initial=-1)) + 1, np.bool_)
        met[connections] = True
        values: list[str | None] = [None] * len(met)
        side = 0 if name == "client" else 1
        for connection in np.flatnonzero(met).tolist():
            values[connection] = self._endpoints(connection)[side]
        return Texts(connections, values)


class Bounds(NamedTuple):
    """Where a part must hold, and where it may."""

    must: Mask
    may: Mask


Part = Callable[[Columns, Context], Bounds]
"""A compiled part of a filter."""


def compile_columns(bound: binding.Bound) -> Part:
    """Return a function that evaluates a filter on columns."""
    match bound:
        case binding.Always():
            return lambda columns, _: _decided(np.ones(len(columns), np.bool_))
        case binding.Selected(selection):
            return lambda columns, context: _decided(_selected(columns, context, selection))
        case binding.Inverse(item):
            inner = compile_columns(item)
            return lambda columns, context: _inverted(inner(columns, context))
        case binding.AllOf(items):
            return _combined(np.logical_and, items)
        case binding.AnyOf(items):
            return _combined(np.logical_or, items)
        case binding.Test(field, predicate):
            return _path(field) if isinstance(field, Path) else _test(field, predicate)


def _decided(mask: Mask) -> Bounds:
    return Bounds(mask, mask)


def _inverted(bounds: Bounds) -> Bounds:
    if bounds.must is bounds.may:
        return _decided(~bounds.must)
    return Bounds(~bounds.may, ~bounds.must)


def _combined(operation: Any, items: Sequence[binding.Bound]) -> Part:
    parts = [compile_columns(item) for item in items]

    def joined(one: Bounds, other: Bounds) -> Bounds:
        must = operation(one.must, other.must)
        if one.must is one.may and other.must is other.may:
            return _decided(must)
        return Bounds(must, operation(one.may, other.may))

    def evaluate(columns: Columns, context: Context) -> Bounds:
        return reduce(joined, (part(columns, context) for part in parts))

    return evaluate


def column_fields(bound: binding.Bound) -> Iterator[str]:
    """Yield the fields of the table that evaluation asks for."""
    for field in fields_of(bound):
        if isinstance(field, Path):
            yield from ("api.key", field.side)
        elif field.column:
            yield field.name
        elif field.name in _BY_LATENCY:
            yield "latency"
        else:
            yield from ("api.key", "response", "flags")


_BY_LATENCY = ("excess", "wait", "waited")


def needs_bodies(bound: binding.Bound) -> bool:
    """Tell whether there may be exchanges for which columns do not decide."""
    return any(isinstance(field, Path) or not field.column for field in fields_of(bound))


def fields_of(bound: binding.Bound) -> Iterator[Field | Path]:
    """Yield the field of every test."""
    match bound:
        case binding.Test(field):
            yield field
        case binding.Inverse(item):
            yield from fields_of(item)
        case binding.AllOf(items) | binding.AnyOf(items):
            for item in items:
                yield from fields_of(item)


# ---------------------------------------------------------------- single tests
def _path(path: Path) -> Part:
    keys = path.apis

    def evaluate(columns: Columns, _: Context) -> Bounds:
        there = columns.requested() if path.side == "request" else columns.answered()
        return _possible(columns, keys, there)

    return evaluate


def _possible(columns: Columns, keys: frozenset[int] | None, there: Mask | None) -> Bounds:
    """Rows that may have a value; none must."""
    may = np.ones(len(columns), np.bool_) if there is None else there
    if keys is not None:
        may = may & _among(columns.numbers("api.key").values, keys)
    return Bounds(np.zeros(len(columns), np.bool_), may)


def _among(column: Ints, keys: frozenset[int]) -> Mask:
    """Where a column of API keys holds one of these; a key beyond the known ones has no body that could be read."""
    table = np.zeros(len(NAMES) + 2, np.bool_)
    table[[key for key in keys if key < len(NAMES)]] = True
    if len(column) and (column.min() < -1 or column.max() >= len(NAMES)):
        column = np.where((column >= 0) & (column < len(NAMES)), column, -1)
    return table[column]


def _test(field: Field, predicate: Predicate) -> Part:
    if field.name == "flags":
        return _flags(predicate)
    if field.name == "excess":
        return _excess(predicate)
    if field.name in _BY_LATENCY:
        return _wait(predicate)
    if not field.column:
        return _undecided(field)
    if field.kind is Kind.BOOL:
        return lambda columns, context: _decided(_truth(columns, context, field.name))
    if field.name == "comment":
        return lambda columns, context: _decided(_comments(columns, context, predicate))
    if field.name.endswith(".port"):
        end = field.name.removesuffix(".port")
        return lambda columns, _: _decided(_ports(columns.texts(end), predicate))
    if field.kind in _TEXTUAL:
        return lambda columns, _: _decided(_texts(columns.texts(field.name), predicate))
    return lambda columns, context: _decided(_numbers(columns, context, field.name, predicate))


_TEXTUAL = (Kind.TEXT, Kind.API, Kind.ADDRESS, Kind.HOST)


def _undecided(field: Field) -> Part:
    def evaluate(columns: Columns, _: Context) -> Bounds:
        return _possible(columns, field.possible_apis(), columns.answered() if field.response else None)

    return evaluate


def _numbers(columns: Columns, context: Context, name: str, predicate: Predicate) -> Mask:
    if not len(columns):
        # an empty table has no beginning, which times may need
        return np.zeros(0, np.bool_)
    intervals = predicate.intervals_at(_start(columns, context))
    assert intervals is not None, "numbers are asked for intervals"
    values, present = columns.numbers(name)
    if predicate is ANY:
        return np.ones(len(columns), np.bool_) if present is None else present
    found = predicates.mask(values, intervals)
    if present is not None:
        found &= present
    return found


def _start(columns: Columns, context: Context) -> int | None:
    return columns.start if context.start is None else context.start


def _ports(column: Texts, predicate: Predicate) -> Mask:
    ports = [None if end is None else split_endpoint(end)[1] for end in column.values]
    return _gathered(column.codes, ports, predicate)


def _texts(column: Texts, predicate: Predicate) -> Mask:
    return _gathered(column.codes, column.values, predicate)


def _gathered(codes: Ints, values: Sequence[Any], predicate: Predicate) -> Mask:
    answers = np.fromiter(
        (value is not None and predicate.holds(value) for value in values), np.bool_, len(values)
    )
    found: Mask = answers[codes]
    return found


def _truth(columns: Columns, context: Context, name: str) -> Mask:
    match name:
        case "marked":
            return _selected(columns, context, "marked")
        case "request":
            return columns.requested()
        case "response":
            return columns.answered()
        case _:
            found: Mask = columns.flags() & np.uint16(FLAG_FIELDS[name]) != 0
            return found


def _selected(columns: Columns, context: Context, selection: str) -> Mask:
    wanted = context.selections.get(selection, ())
    if not wanted:
        return np.zeros(len(columns), np.bool_)
    return np.isin(columns.numbers("number").values, np.fromiter(wanted, np.int64, len(wanted)))


def _comments(columns: Columns, context: Context, predicate: Predicate) -> Mask:
    fitting = [number for number, text in context.comments.items() if predicate.holds(text)]
    if not fitting:
        return np.zeros(len(columns), np.bool_)
    return np.isin(columns.numbers("number").values, np.array(fitting, np.int64))


def _flags(predicate: Predicate) -> Part:
    """Flags of the table decide where one of them fits; bodies may add others."""
    fitting = reduce(
        lambda one, other: one | other,
        (flag for name, flag in COLUMN_FLAGS.items() if predicate.holds(name)),
        Flag(0),
    )
    others = any(map(predicate.holds, BODY_FLAGS))

    def evaluate(columns: Columns, _: Context) -> Bounds:
        must = columns.flags() & np.uint16(fitting) != 0
        return Bounds(must, np.ones(len(columns), np.bool_)) if others else _decided(must)

    return evaluate


def _wait(predicate: Predicate) -> Part:
    """Waiting, which is 0 where the latency is too short for it, or where there is none."""
    without = predicate.holds(0)

    def evaluate(columns: Columns, _: Context) -> Bounds:
        latency, answered = columns.numbers("latency")
        may = latency >= LEAST_WAIT_NS
        if answered is not None:
            may &= answered
        return Bounds(~may, np.ones(len(columns), np.bool_)) if without else Bounds(np.zeros_like(may), may)

    return evaluate


def _excess(predicate: Predicate) -> Part:
    """An excess is the latency less a wait of unknown length, so it lies between 0 and the latency."""
    intervals = predicate.intervals
    assert intervals is not None, "a duration is asked for intervals"

    def evaluate(columns: Columns, _: Context) -> Bounds:
        latency, answered = columns.numbers("latency")
        there = np.ones(len(columns), np.bool_) if answered is None else answered
        # a wait that short is not called one
        sure = latency < LEAST_WAIT_NS
        may = predicates.mask(latency, [(low, None) for low, _ in intervals]) & there
        may &= ~sure | predicates.mask(latency, intervals)
        below = [(low, high) for low, high in intervals if low is None or low <= 0]
        must = predicates.mask(latency, [(None, high) for _, high in below]) & ~sure
        must |= sure & predicates.mask(latency, intervals)
        return Bounds(must & there, may)

    return evaluate
