"""Filters on columns: decided for a million exchanges without decoding any.

A filter is evaluated to the two masks of :class:`captures.filters.field_columns.Bounds`. ``and``, ``or`` and ``not``
combine the pairs, so only rows that really depend on a body stay undecided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from captures.filters import binding, nodes, table_columns
from captures.filters.context import Context
from captures.filters.field_columns import Bounds, DecidedBy, Part, decided, possible, selected, values_match
from captures.filters.fields import Field
from captures.filters.paths import Path
from captures.filters.predicates import Predicate
from captures.filters.table_columns import TableColumns


def compile_columns(bound: binding.Bound) -> Part:
    """Return a function that evaluates a filter on columns."""
    match bound:
        case nodes.MatchAll():
            return lambda columns, _: decided(np.ones(len(columns), np.bool_))
        case binding.Selection(selection):
            return lambda columns, context: decided(selected(columns, context, selection))
        case nodes.Not(item):
            inner = compile_columns(item)
            return lambda columns, context: _inverted(inner(columns, context))
        case nodes.And(items):
            return _combined(np.logical_and, items)
        case nodes.Or(items):
            return _combined(np.logical_or, items)
        case binding.Test(field, predicate):
            if isinstance(field, Path):
                return _path(field, predicate)
            return field.column.part(field, predicate)


def _inverted(bounds: Bounds) -> Bounds:
    if bounds.must is bounds.may:
        return decided(~bounds.must)
    return Bounds(~bounds.may, ~bounds.must)


def _combined(operation: Any, items: Sequence[binding.Bound]) -> Part:
    parts = [compile_columns(item) for item in items]

    def joined(one: Bounds, other: Bounds) -> Bounds:
        must = operation(one.must, other.must)
        if one.must is one.may and other.must is other.may:
            return decided(must)
        return Bounds(must, operation(one.may, other.may))

    def evaluate(columns: TableColumns, context: Context) -> Bounds:
        return reduce(joined, (part(columns, context) for part in parts))

    return evaluate


def needs_bodies(bound: binding.Bound) -> bool:
    """Return whether columns may leave some exchanges undecided."""
    return any(
        isinstance(field, Path) or field.column.source is not DecidedBy.TABLE for field in fields_of(bound)
    )


def fields_of(bound: binding.Bound) -> Iterator[Field | Path]:
    """Yield the field of every test."""
    return (leaf.field for leaf in nodes.leaves(bound) if isinstance(leaf, binding.Test))


def _path(path: Path, predicate: Predicate) -> Part:
    there = table_columns.requested if path.side == "request" else table_columns.answered

    def evaluate(columns: TableColumns, _: Context) -> Bounds:
        if columns.messages is None or not path.in_columns:
            return possible(columns, path.apis, there(columns))
        return decided(values_match(columns.messages.path(path.need), predicate))

    return evaluate
