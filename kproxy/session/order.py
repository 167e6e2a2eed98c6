"""Orders of the list: a sort key for every exchange, as numbers.

Texts are ordered without regard to case; missing values are last in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.filters import table_columns
from captures.filters.context import Context
from captures.filters.field_values import FieldValues
from captures.filters.table_columns import NumberRecipe, TableColumns, TextRecipe, plain
from kproxy.session.access import Access
from kproxy.session.engine import Steps
from kproxy.session.published import Order

_MISSING = np.iinfo(np.int64).max
_STEP = 1000  # exchanges that are decoded at once


def ordered(order: Order, numbers: Int64s, access: Access, context: Context) -> Steps[Int64s]:
    """Return exchange numbers in an order; those with equal keys keep theirs.

    :param numbers: increasing
    :raises LookupError: for a column that cannot be ordered by
    """
    keys = yield from _keys(order.column, numbers, access, context)
    missing = keys == _MISSING
    if order.descending:
        keys = np.where(missing, _MISSING, -keys)
    yield
    return numbers[np.argsort(keys, kind="stable")]


def _keys(column: str, numbers: Int64s, access: Access, context: Context) -> Steps[Int64s]:
    rows = access.rows(numbers)
    capture = access.capture
    table = TableColumns(
        capture.table, capture.endpoints, rows=rows, numbers=numbers, start=context.start, names=capture.names
    )
    if column in _NUMBERS:
        values, present = table.numbers(_NUMBERS[column])
        keys = values.astype(np.int64)
        return keys if present is None else np.where(present, keys, _MISSING)
    if column in _TEXTS:
        codes, texts, _ = table.texts(_TEXTS[column])
        return _ranks(texts)[codes]
    if column in _MESSAGES:
        yield
        found = ExchangeColumns(capture, rows).flat(_MESSAGES[column]).astype(np.int64)
        return np.where(found == NO_VALUE, _MISSING, found)
    return (yield from _field_keys(column, numbers, access, context))


def _ranks(texts: Sequence[str | None]) -> Int64s:
    """Return the rank of each text by code; equal texts have equal ranks."""
    places = {text: index for index, text in enumerate(sorted({text.casefold() for text in texts if text}))}
    return np.array([places[text.casefold()] if text else _MISSING for text in texts] or [_MISSING], np.int64)


def _field_keys(name: str, numbers: Int64s, access: Access, context: Context) -> Steps[Int64s]:
    """Return keys by the first value of any field, for which every exchange has to be decoded."""
    field = FieldValues(name)
    values: list[object] = []
    for begin in range(0, len(numbers), _STEP):
        for exchange in access.exchanges(numbers[begin : begin + _STEP].tolist(), annotated=True):
            of = partial(field.of, exchange, context)
            nothing: list[object] = []
            found = access.capture.faults.contained(of, f"ordering by {name}", nothing, exchange.number)
            values.append(found[0] if found else None)
        yield
    if all(value is None or isinstance(value, int) for value in values):
        limit = _MISSING - 1
        keys = (_MISSING if value is None else min(max(int(value), -limit), limit) for value in values)  # type: ignore[call-overload]
        return np.fromiter(keys, np.int64, len(values))
    texts = [None if value is None else str(value) for value in values]
    return _ranks(texts)[np.arange(len(texts))]


_NUMBERS: Mapping[str, NumberRecipe] = {
    "number": table_columns.number,
    "time": table_columns.time,
    "latency": table_columns.latency,
    "version": table_columns.of_known_api("version"),
    "correlation_id": table_columns.correlation_id,
    "size": table_columns.size,
    **{name: plain(name) for name in ("connection", "request_size", "response_size", "flags")},
}
_TEXTS: Mapping[str, TextRecipe] = {
    "api": table_columns.api,
    "client_id": table_columns.client_id,
    "client": table_columns.client,
    "broker": table_columns.broker,
}
_MESSAGES: Mapping[str, str] = {
    "wait": "wait",
    "excess": "excess",
    "throttle": "throttle_time_ms",
    "records": "records",
}

COLUMNS: tuple[str, ...] = (*_NUMBERS, *_TEXTS, *_MESSAGES)
"""Columns to order by, besides every field of the filter language and every path into a message."""
