"""The columns that filters test: read from the exchange table, derived from several of its columns, or texts.

Texts are tested once for each distinct value, and the answers are gathered by row; hence :class:`Texts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Int64s
from captures.exchanges import Capture, ExchangeTable, Flag
from captures.exchanges.columns import ExchangeColumns
from captures.filters.predicates import Mask
from captures.filters.values import split_endpoint
from captures.interventions import NO_UPSTREAM, UpstreamBroker
from captures.names.names import Names, with_port
from dissectors.apis import NAMES, api_name
from dissectors.sides import SIDES, Side

Ints = NDArray[Any]


class Texts(NamedTuple):
    """A column of texts: ``values[codes[row]]``; None means no value.

    :ivar others: alternatives to values, by code, of which one has to match: names of an address
    """

    codes: Ints
    values: Sequence[str | None]
    others: Mapping[int, Sequence[str]] = {}


class Numbers(NamedTuple):
    """A column of integers, and a mask of the rows that have one; None means all."""

    values: Ints
    present: Mask | None


class TableColumns:
    """The columns of an exchange table; each is created on first use and cached.

    They are views of the table if possible: later changes of its rows may or may not be visible.

    :param table: the table; rows added later are not seen
    :param endpoints: connection -> client and broker as ``host:port``
    :param rows: the rows to test, such as ``slice(1000, 2000)`` for new ones; all if None
    :param numbers: numbers of these rows; obtained by ordering the table if None and needed
    :param start: time of the first exchange; that of the table if None
    :param names: names of addresses
    :param messages: columns of the messages of exactly these rows, in their order; without them tests of messages stay
        undecided
    :param upstream_of: connection -> its broker, as kproxy's proxy has recorded it
    """

    def __init__(
        self,
        table: ExchangeTable,
        endpoints: Callable[[int], tuple[str, str]],
        *,
        rows: slice | Int64s | None = None,
        numbers: Int64s | None = None,
        start: int | None = None,
        names: Names | None = None,
        messages: ExchangeColumns | None = None,
        upstream_of: Callable[[int], UpstreamBroker] = lambda _: NO_UPSTREAM,
    ) -> None:
        self.table = table
        self._endpoints = endpoints
        self._names = Names() if names is None else names
        self.messages = messages
        self._upstream_of = upstream_of
        self.rows = slice(0, len(table)) if rows is None else rows
        self._size = len(table.column("flags")[self.rows])
        self._numbers = numbers
        self._start = start
        self._read: dict[str, Ints] = {}
        self._numbers_made: dict[NumberRecipe, Numbers] = {}
        self._texts_made: dict[TextRecipe, Texts] = {}

    @classmethod
    def of(cls, capture: Capture, messages: ExchangeColumns | None = None) -> TableColumns:
        """Return the columns of a capture.

        :param messages: columns of the messages of the same capture; their rows are used
        """
        rows = None if messages is None else messages.rows
        if rows is not None and np.array_equal(rows, np.arange(len(capture.table))):
            rows = None
        return cls(
            capture.table,
            capture.endpoints,
            names=capture.names,
            rows=rows,
            messages=messages,
            upstream_of=capture.upstream_of,
        )

    def __len__(self) -> int:
        return self._size

    @property
    def start(self) -> int | None:
        """Time of the first exchange in ns since the epoch."""
        if self._start is None and len(self.table):
            whole = TableColumns(self.table, self._endpoints)
            self._start = int(whole.numbers(time).values.min())
        return self._start

    def view(self, name: str) -> Ints:
        """Return the rows of a table column, without a copy if they are contiguous."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self.table.column(name)[self.rows]
        return found

    def numbers(self, recipe: NumberRecipe) -> Numbers:
        found = self._numbers_made.get(recipe)
        if found is None:
            found = self._numbers_made[recipe] = recipe(self)
        return found

    def texts(self, recipe: TextRecipe) -> Texts:
        found = self._texts_made.get(recipe)
        if found is None:
            found = self._texts_made[recipe] = recipe(self)
        return found

    def flags(self, wanted: Flag) -> Mask:
        """Return a mask of the rows with one of the flags."""
        found: Mask = self.view("flags") & np.uint16(wanted) != 0
        return found

    def exchange_numbers(self) -> Ints:
        """Return the numbers of the exchanges in the capture."""
        if self._numbers is None:
            self._numbers = np.asarray(self.table.numbers()[self.rows])
        return self._numbers

    # ------------------------------------------------------------ texts
    def ends(self, side: int) -> Texts:
        """Return the addresses of clients (0) or brokers (1), with their names."""
        connections = self.view("connection")
        # connections are numbered from 0, so their number is the code
        present = np.zeros(int(connections.max(initial=-1)) + 1, np.bool_)
        present[connections] = True
        values: list[str | None] = [None] * len(present)
        for connection in np.flatnonzero(present).tolist():
            values[connection] = self._endpoints(connection)[side]
        named = {
            code: [with_port(each, values[code] or "") for each in names]
            for code, names in self.names_of(values).items()
        }
        return Texts(connections, values, named)

    def upstreams(self) -> list[UpstreamBroker]:
        """Return the broker of each connection up to the last one of these rows."""
        count = int(self.view("connection").max(initial=-1)) + 1
        return [self._upstream_of(connection) for connection in range(count)]

    def names_of(self, ends: Sequence[str | None]) -> dict[int, tuple[str, ...]]:
        """Return the names of endpoints that have any, by index."""
        return {code: names for code, end in enumerate(ends) if end and (names := self._names.of(end))}


NumberRecipe: TypeAlias = Callable[[TableColumns], Numbers]
"""Creates a column of numbers; it is also the column's cache key."""
TextRecipe: TypeAlias = Callable[[TableColumns], Texts]
"""Creates a column of texts; it is also the column's cache key."""


# ---------------------------------------------------------------- numbers
@cache
def plain(name: str) -> NumberRecipe:
    """Return the recipe of a column of the table."""
    return lambda columns: Numbers(columns.view(name), None)


@cache
def side_size(side: Side) -> NumberRecipe:
    """Return the recipe of the bytes that one side has sent."""
    return lambda columns: Numbers(columns.table.sizes(side, columns.rows), None)


@cache
def broker_time(name: str) -> NumberRecipe:
    """Return the recipe of a time measured by brokers, in ns; it is present if their logs contain it."""
    return lambda columns: Numbers(*columns.table.broker_log_column(name, columns.rows))


@cache
def of_known_api(name: str) -> NumberRecipe:
    """Return the recipe of a column that has values only if the API is known."""
    return lambda columns: Numbers(columns.view(name), columns.view("api_key") >= 0)


api_key = of_known_api("api_key")


def number(columns: TableColumns) -> Numbers:
    """Return the numbers of the exchanges in the capture."""
    return Numbers(columns.exchange_numbers(), None)


def latency(columns: TableColumns) -> Numbers:
    """Return latencies in ns."""
    return Numbers(*columns.table.latency(columns.rows))


def time(columns: TableColumns) -> Numbers:
    """Return the start times of the exchanges, in ns since the epoch."""
    return Numbers(columns.table.began(columns.rows), None)


def size(columns: TableColumns) -> Numbers:
    """Return the bytes of request and response."""
    # two frames of 1 GiB do not fit into 32 bits
    request, response = (columns.table.sizes(side, columns.rows) for side in SIDES)
    return Numbers(request + response, None)


def correlation_id(columns: TableColumns) -> Numbers:
    """Return correlation IDs; SASL tokens have none."""
    return Numbers(columns.view("correlation_id"), ~columns.flags(Flag.SASL_TOKEN))


def broker_id(columns: TableColumns) -> Numbers:
    """Return node IDs of brokers, where known."""
    found = [each.node_id for each in columns.upstreams()]
    connections = columns.view("connection")
    ids = np.array([-1 if each is None else each for each in found], np.int64)[connections]
    return Numbers(ids, np.array([each is not None for each in found], np.bool_)[connections])


def requested(columns: TableColumns) -> Mask:
    """Return a mask of the rows with a request."""
    return np.asarray(columns.view("request_size") > 0)


def answered(columns: TableColumns) -> Mask:
    """Return a mask of the rows with a response."""
    return np.asarray(columns.view("response_size") > 0)


# ---------------------------------------------------------------- texts
def api(columns: TableColumns) -> Texts:
    """Return names of APIs."""
    codes = columns.view("api_key")
    if len(codes) and codes.min() < 0:
        codes = np.where(columns.flags(Flag.SASL_TOKEN), np.int16(-2), codes)
    # -2 and -1 count from the end
    values: list[str | None] = [*NAMES, "SaslToken", "unknown"]
    if codes.max(initial=0) < len(NAMES):
        return Texts(codes, values)
    known, codes = np.unique(codes, return_inverse=True)
    return Texts(codes, [api_name(code) if code >= 0 else values[code] for code in known.tolist()])


def client_id(columns: TableColumns) -> Texts:
    """Return client IDs."""
    # -1, no client ID known, is the last element
    return Texts(columns.view("client_id"), [*columns.table.client_ids, None])


def client(columns: TableColumns) -> Texts:
    """Return addresses of clients, with their names."""
    return columns.ends(0)


def broker(columns: TableColumns) -> Texts:
    """Return addresses of brokers, with their names."""
    return columns.ends(1)


def cluster(columns: TableColumns) -> Texts:
    """Return the names of brokers' clusters."""
    names = [each.cluster or None for each in columns.upstreams()]
    return Texts(columns.view("connection"), names)


@cache
def host(end: TextRecipe) -> TextRecipe:
    """Return the recipe of addresses without ports."""

    def hosts(columns: TableColumns) -> Texts:
        codes, whole, _ = columns.texts(end)
        return Texts(codes, [split_endpoint(text or "")[0] for text in whole], columns.names_of(whole))

    return hosts
