"""The columns that filters ask of a table: read from the exchange table, made of several of its columns, or texts.

Texts are asked once for each distinct value, and the answers are gathered by row; hence :class:`Texts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from captures.exchanges import Capture, ExchangeTable, Flag
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.table import NO_TIME
from captures.filters.predicates import Mask
from captures.filters.values import split_endpoint
from captures.names.names import Names, with_port
from dissectors.apis import NAMES, api_name

Ints = NDArray[Any]


class Texts(NamedTuple):
    """A column of texts: ``values[codes[row]]``; None is no value.

    :ivar others: what stands beside values of which one has to fit, by code: names of an address
    """

    codes: Ints
    values: Sequence[str | None]
    others: Mapping[int, Sequence[str]] = {}


class Numbers(NamedTuple):
    """A column of integers, and where there is one; None means everywhere."""

    values: Ints
    present: Mask | None


class Columns(Protocol):
    """What filters ask of a table, whatever keeps it. All arrays have one element per row."""

    def __len__(self) -> int: ...

    def prepare(self, fields: Iterable[str]) -> None:
        """Take note of all the fields that will be asked for."""

    def messages(self) -> ExchangeColumns | None:
        """Return the columns of the messages, None if there are none."""

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


MESSAGE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "excess": ("wait",),
    "wait": ("wait",),
    "waited": ("wait",),
    "error": ("error_codes",),
    "error.any": ("error_codes", "expected_error_codes"),
    "expected": ("expected_error_codes",),
    "throttle": ("throttle_time_ms",),
    "topic": ("topics",),
    "partition": ("partitions",),
    "topic_partition": ("partitions", "partition_topics"),
    "group": ("groups", "replica_id"),
    "group.inferred": ("groups", "replica_id"),
    "member": ("members",),
    "records": ("records",),
    "batches": ("batches",),
    "records.size": ("record_bytes",),
}
"""Fields that columns of the messages decide (:data:`captures.exchanges.columns.COLUMNS`), and these."""


def message_columns(fields: Iterable[str]) -> set[str]:
    """Return the columns of the messages that some fields need."""
    return {column for field in fields for column in MESSAGE_COLUMNS.get(field, ())}


FLAG_FIELDS: Mapping[str, Flag] = {
    "unanswered": Flag.UNANSWERED,
    "no_response": Flag.NO_RESPONSE_EXPECTED,
    "orphan": Flag.ORPHAN,
    "sasl": Flag.SASL_TOKEN,
    "damaged": Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED,
    "request.damaged": Flag.REQUEST_DAMAGED,
    "response.damaged": Flag.RESPONSE_DAMAGED,
    "conflicting": Flag.CONFLICTING,
    "resynchronised": Flag.RESYNCHRONISED,
}
"""Fields that are flags of the table."""

_View = Callable[[str], Ints]
"""Name of a column of the table -> the rows of it that are looked at."""


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


class TableColumns:
    """The columns of an exchange table; each is made when it is first asked for, and kept.

    They are those of the table itself where that is possible: what becomes of its rows later may be seen or not.

    :param table: the table; rows that are added later are not seen
    :param endpoints: connection -> client and broker as ``host:port``
    :param rows: the rows to look at, such as ``slice(1000, 2000)`` for new ones; all if None
    :param numbers: numbers of these rows; made by ordering the table if None and needed
    :param start: time of the first exchange; that of the table if None
    :param names: names of addresses
    :param messages: columns of the messages of just these rows, in their order; without them what messages say stays
        undecided
    """

    def __init__(
        self,
        table: ExchangeTable,
        endpoints: Callable[[int], tuple[str, str]],
        *,
        rows: slice | NDArray[np.int64] | None = None,
        numbers: NDArray[np.int64] | None = None,
        start: int | None = None,
        names: Names | None = None,
        messages: ExchangeColumns | None = None,
    ) -> None:
        self._table = table
        self._endpoints = endpoints
        self._names = Names() if names is None else names
        self._messages = messages
        self._rows = slice(0, len(table)) if rows is None else rows
        self._size = len(table.column("flags")[self._rows])
        self._numbers = numbers
        self._start = start
        self._read: dict[str, Ints] = {}
        self._made: dict[str, Numbers] = {}
        self._texts: dict[str, Texts] = {}

    @classmethod
    def of(cls, capture: Capture, messages: ExchangeColumns | None = None) -> TableColumns:
        """Return the columns of a capture.

        :param messages: those of the messages too, of the same capture; theirs are the rows that are looked at
        """
        rows = None if messages is None else messages.rows
        if rows is not None and np.array_equal(rows, np.arange(len(capture.table))):
            rows = None
        return cls(capture.table, capture.endpoints, names=capture.names, rows=rows, messages=messages)

    def __len__(self) -> int:
        return self._size

    @property
    def start(self) -> int | None:
        """Time of the first exchange in ns since the epoch."""
        if self._start is None and len(self._table):
            self._start = int(_time(self._table.column)[0].min())
        return self._start

    def prepare(self, fields: Iterable[str]) -> None:
        if self._messages is not None:
            self._messages.prepare(message_columns(fields))

    def messages(self) -> ExchangeColumns | None:
        return self._messages

    # ------------------------------------------------------------ numbers
    def _view(self, name: str) -> Ints:
        """Return some rows of a column of the table, without a copy where they are side by side."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self._table.column(name)[self._rows]
        return found

    def numbers(self, name: str) -> Numbers:
        found = self._made.get(name)
        if found is None:
            made = (self._numbered(), None) if name == "number" else _RECIPES[name](self._view)
            found = self._made[name] = Numbers(*made)
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
                codes, whole, _ = self.texts(name.removesuffix(".host"))
                return Texts(codes, [split_endpoint(text or "")[0] for text in whole], self._named(whole))
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
        named = {
            code: [with_port(each, values[code] or "") for each in names]
            for code, names in self._named(values).items()
        }
        return Texts(connections, values, named)

    def _named(self, ends: Sequence[str | None]) -> dict[int, tuple[str, ...]]:
        """Return the names of endpoints that have any, by index."""
        return {code: names for code, end in enumerate(ends) if end and (names := self._names.of(end))}
