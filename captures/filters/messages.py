"""Filters on the columns of messages: errors, topics, groups, waits ... of a million exchanges at once.

Each field gets a decider: columns and context -> rows where the test holds, and, if they are more, rows where it may.
Numbers are compared by the column. Of texts and error codes each distinct one is asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from captures.exchanges.columns import NO_VALUE, ExchangeColumns, Ragged
from captures.filters import predicates
from captures.filters.context import Context
from captures.filters.groups import INFERRED
from captures.filters.predicates import ANY, Mask, Predicate
from captures.filters.table_columns import Columns

Decision: TypeAlias = tuple[Mask, Mask | None]
"""Rows where a test holds; those where it may, None if they are the same."""

Decider = Callable[[Columns, Context], Decision]

_Make: TypeAlias = Callable[[ExchangeColumns, Columns, Context, Predicate], Decision]

_MS = 1_000_000
_MOST_PAIRS = 1 << 24
"""Of topics and partitions, for a table with a place for each."""
_HOLDS_ANYWAY = Predicate("True")


def decider(field: str, predicate: Predicate) -> Decider:
    """Return what decides a test of a field of :data:`captures.filters.table_columns.MESSAGE_COLUMNS`."""
    make = _DECIDERS[field]

    def decide(columns: Columns, context: Context) -> Decision:
        found = columns.messages()
        assert found is not None, "the caller has looked"
        return make(found, columns, context, predicate)

    return decide


# ---------------------------------------------------------------- one value a row
def _number(column: str, factor: int = 1) -> _Make:
    def decide(found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate) -> Decision:
        return _compared(found.flat(column), predicate, factor), None

    return decide


def _compared(values: NDArray[np.int64], predicate: Predicate, factor: int = 1) -> Mask:
    """Compare numbers; those that are not there fit nothing."""
    there: Mask = values != NO_VALUE
    if predicate is ANY:
        return there
    assert predicate.intervals is not None, "numbers are asked for intervals"
    # what is asked of the number times the factor is asked of the number itself
    intervals = [
        (None if low is None else -(-low // factor), None if high is None else high // factor)
        for low, high in predicate.intervals
    ]
    found: Mask = predicates.mask(values, intervals) & there
    return found


def _waited(found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate) -> Decision:
    return found.flat("wait") > 0, None


# ---------------------------------------------------------------- errors
def _errors(*names: str) -> _Make:
    def decide(found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate) -> Decision:
        fits = np.zeros(len(found), np.bool_)
        for name in names:
            ragged = found.ragged(name)
            fits |= ragged.any(_of_each(ragged.values, predicate))
        return fits, None

    return decide


def _of_each(values: NDArray[Any], predicate: Predicate) -> Mask:
    """Ask each distinct number once."""
    if predicate.intervals is not None:
        return predicates.mask(values, predicate.intervals)
    distinct, inverse = np.unique(values, return_inverse=True)
    answers = np.fromiter(map(predicate.holds, distinct.tolist()), np.bool_, len(distinct))
    return np.asarray(answers[inverse])


def _expected(found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate) -> Decision:
    return found.ragged("expected_error_codes").filled, None


# ---------------------------------------------------------------- texts
def _texts(column: str) -> _Make:
    def decide(found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate) -> Decision:
        ragged = found.ragged(column)
        return ragged.any(_answers(found.texts(column), predicate)[ragged.values]), None

    return decide


def _answers(texts: Iterable[str | None], predicate: Predicate) -> Mask:
    return np.array([text is not None and predicate.holds(text) for text in texts], np.bool_)


def _partitions(found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate) -> Decision:
    ragged = found.ragged("partitions")
    return ragged.any(_of_each(ragged.values, predicate)), None


def _topic_partitions(
    found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate
) -> Decision:
    partitions, topics = found.ragged("partitions"), found.ragged("partition_topics")
    names = found.texts("topics")
    width = int(partitions.values.max(initial=-1)) + 1
    if not width:
        return np.zeros(len(found), np.bool_), None
    if len(names) * width > _MOST_PAIRS or partitions.values.min() < 0:
        return partitions.any(_of_pairs(topics.values, partitions.values, names, predicate)), None
    pairs = topics.values * np.int32(width) + partitions.values
    met = np.zeros(len(names) * width, np.bool_)
    met[pairs] = True
    which = np.flatnonzero(met)
    met[which] = _answers((f"{names[pair // width]}-{pair % width}" for pair in which.tolist()), predicate)
    return partitions.any(met[pairs]), None


def _of_pairs(
    topics: NDArray[np.int32],
    partitions: NDArray[np.int32],
    names: Sequence[str | None],
    predicate: Predicate,
) -> Mask:
    """Ask each distinct topic with its partition once, whatever their numbers are."""
    pairs = (topics.astype(np.int64) << 32) + partitions
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    which = zip(topics[first].tolist(), partitions[first].tolist(), strict=True)
    answers = _answers((f"{names[topic]}-{number}" for topic, number in which), predicate)
    return np.asarray(answers[inverse])


# ---------------------------------------------------------------- groups
def _groups(found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate) -> Decision:
    """The groups that are named, or the one that is inferred; where only the message can tell, it stays open."""
    ragged = found.ragged("groups")
    fits = ragged.any(_answers(found.texts("groups"), predicate)[ragged.values])
    if context.groups is None:
        return fits, None
    inferred, undecided = _inferred(found, ragged, columns, context, predicate)
    fits |= inferred
    return fits, (fits | undecided if undecided.any() else None)


def _group_inferred(
    found: ExchangeColumns, columns: Columns, context: Context, predicate: Predicate
) -> Decision:
    if context.groups is None:
        return np.zeros(len(found), np.bool_), None
    inferred, undecided = _inferred(found, found.ragged("groups"), columns, context, _HOLDS_ANYWAY)
    return inferred, (inferred | undecided if undecided.any() else None)


def _inferred(
    found: ExchangeColumns, named: Ragged, columns: Columns, context: Context, predicate: Predicate
) -> tuple[Mask, Mask]:
    """Return where an inferred group fits, and where the partitions of the Fetch have to tell which it is."""
    assert context.groups is not None
    keys = columns.numbers("api.key").values
    asked = np.logical_or.reduce([keys == key for key in INFERRED])
    rows = np.flatnonzero(asked & ~named.filled & (found.flat("replica_id") < 0))
    candidates = context.groups.candidates_of(columns, rows)
    fits = [len(groups) == 1 and predicate.holds(next(iter(groups))) for groups in candidates.values]
    contested = [len(groups) > 1 for groups in candidates.values]
    inferred, undecided = np.zeros((2, len(found)), np.bool_)
    inferred[rows] = np.array(fits, np.bool_)[candidates.codes]
    undecided[rows] = np.array(contested, np.bool_)[candidates.codes]
    return inferred, undecided


_DECIDERS: dict[str, _Make] = {
    "excess": _number("excess"),
    "wait": _number("wait"),
    "waited": _waited,
    "error": _errors("error_codes"),
    "error.any": _errors("error_codes", "expected_error_codes"),
    "expected": _expected,
    "throttle": _number("throttle_time_ms", _MS),
    "topic": _texts("topics"),
    "partition": _partitions,
    "topic_partition": _topic_partitions,
    "group": _groups,
    "group.inferred": _group_inferred,
    "member": _texts("members"),
    "records": _number("records"),
    "batches": _number("batches"),
    "records.size": _number("record_bytes"),
}
