"""Filters on columns: what can be told of a million exchanges without decoding one.

A filter part is evaluated to two masks: rows where it *must* hold, and rows where it *may*. Where columns tell all,
the two are the same; where a body is needed, they tell what is certain without it: a Heartbeat has no topic, what was
not answered has no error, an excess is never more than the latency. ``and``, ``or`` and ``not`` combine the pairs, so
only rows that really depend on a body stay undecided. Where there are columns of the messages too
(:mod:`captures.exchanges.columns`), these decide what they hold (:mod:`captures.filters.messages`).

Texts are asked once for each distinct value, and the answers are gathered by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from captures.exchanges import Flag
from captures.filters import binding, messages, predicates
from captures.filters.context import Context
from captures.filters.fields import BODY_FLAGS, COLUMN_FLAGS, INTERVENTION_FIELDS, Field, Kind
from captures.filters.paths import Path
from captures.filters.predicates import ANY, Mask, Predicate
from captures.filters.table_columns import FLAG_FIELDS, MESSAGE_COLUMNS, Columns, Ints, Texts
from captures.filters.values import split_endpoint
from captures.interventions import Interventions
from captures.meaning.waits import LEAST_WAIT_NS
from dissectors.apis import NAMES


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
    """Columns of the messages decide where there are any, else columns of the table tell what can be told."""
    without = _of_table(field, predicate)
    if field.name not in MESSAGE_COLUMNS:
        return without
    decide = messages.decider(field.name, predicate)

    def evaluate(columns: Columns, context: Context) -> Bounds:
        if columns.messages() is None:
            return without(columns, context)
        must, may = decide(columns, context)
        return Bounds(must, must if may is None else may)

    return evaluate


def _of_table(field: Field, predicate: Predicate) -> Part:
    if field.name == "flags":
        return _flags(predicate)
    if field.name == "excess":
        return _excess(predicate)
    if field.name in ("wait", "waited"):
        return _wait(predicate)
    if field.name in INTERVENTION_FIELDS:
        values = INTERVENTION_FIELDS[field.name]
        return lambda columns, context: _decided(_done(columns, context, values, predicate))
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
    return _gathered(column.codes, column.values, predicate, column.others)


def _gathered(
    codes: Ints, values: Sequence[Any], predicate: Predicate, others: Mapping[int, Sequence[str]] = {}
) -> Mask:
    answers = np.fromiter(
        (value is not None and predicate.holds(value) for value in values), np.bool_, len(values)
    )
    for code, names in others.items():
        answers[code] |= any(map(predicate.holds, names))
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
    return _numbered(columns, [number for number, text in context.comments.items() if predicate.holds(text)])


def _done(
    columns: Columns, context: Context, values: Callable[[Interventions], Any], predicate: Predicate
) -> Mask:
    """Ask what the proxy did; one of several values that fits is enough."""

    def fits(value: Any) -> bool:
        if isinstance(value, tuple):
            return any(map(predicate.holds, value))
        return value is not None and value is not False and predicate.holds(value)

    return _numbered(
        columns, [number for number, done in context.interventions.items() if fits(values(done))]
    )


def _numbered(columns: Columns, numbers: Sequence[int]) -> Mask:
    if not numbers:
        return np.zeros(len(columns), np.bool_)
    return np.isin(columns.numbers("number").values, np.array(numbers, np.int64))


def _flags(predicate: Predicate) -> Part:
    """Flags of the table decide where one of them fits, and what the proxy did; bodies may add others."""
    fitting = reduce(
        lambda one, other: one | other,
        (flag for name, flag in COLUMN_FLAGS.items() if predicate.holds(name)),
        Flag(0),
    )
    others = any(map(predicate.holds, BODY_FLAGS))

    def evaluate(columns: Columns, context: Context) -> Bounds:
        must = columns.flags() & np.uint16(fitting) != 0
        if context.interventions:
            must = must | _done(columns, context, lambda done: tuple(done.flags), predicate)
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
