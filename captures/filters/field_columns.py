"""How columns decide on a field: columns of the exchange table, or those of the messages if available.

A decision is two masks: rows where a test *must* hold, and rows where it *may*. If columns decide completely, the two
are equal; if a body is needed, they state what is certain without it: a Heartbeat has no topic, an unanswered exchange
has no error, an excess is never more than the latency.

Numbers are compared by column. Of texts and error codes each distinct one is tested once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from captures.arrays import Int32s, Int64s
from captures.exchanges import Flag
from captures.exchanges.columns import NO_VALUE, ExchangeColumns, RaggedArray
from captures.exchanges.columns.builders import PathValues
from captures.filters import predicates, table_columns
from captures.filters.context import Context
from captures.filters.groups import INFERRED, GroupInference
from captures.filters.predicates import ANY, Mask, Predicate
from captures.filters.table_columns import Ints, NumberRecipe, TableColumns, TextRecipe
from captures.meaning.waits import LEAST_WAIT_NS
from dissectors.apis import NAMES

_MOST_PAIRS = 1 << 24
"""Maximum number of topic partitions for a lookup table with an entry for each."""
_ALWAYS = Predicate("True")


class Bounds(NamedTuple):
    """Masks of the rows where a part of a filter must hold, and where it may."""

    must: Mask
    may: Mask


Part: TypeAlias = Callable[[TableColumns, Context], Bounds]
"""A compiled part of a filter."""


def decided(mask: Mask) -> Bounds:
    """Return the bounds of a test that columns decide completely."""
    return Bounds(mask, mask)


def possible(columns: TableColumns, keys: frozenset[int] | None, there: Mask | None) -> Bounds:
    """Return bounds within which nothing must hold.

    :param keys: keys of the APIs whose exchanges may have a value, None for all
    :param there: rows that have the message in question, None for all
    """
    may = np.ones(len(columns), np.bool_) if there is None else there
    if keys is not None:
        may = may & _among(columns.view("api_key"), keys)
    return Bounds(np.zeros(len(columns), np.bool_), may)


def _among(column: Ints, keys: frozenset[int]) -> Mask:
    """Return a mask of the rows with one of these API keys; keys beyond the known ones have no readable body."""
    table = np.zeros(len(NAMES) + 2, np.bool_)
    table[[key for key in keys if key < len(NAMES)]] = True
    if len(column) and (column.min() < -1 or column.max() >= len(NAMES)):
        column = np.where((column >= 0) & (column < len(NAMES)), column, -1)
    return table[column]


def selected(columns: TableColumns, context: Context, selection: str) -> Mask:
    """Return the rows of a selection."""
    return _numbered(columns, list(context.selections.get(selection, ())))


def _numbered(columns: TableColumns, numbers: Sequence[int]) -> Mask:
    if not numbers:
        return np.zeros(len(columns), np.bool_)
    return np.isin(columns.exchange_numbers(), np.array(numbers, np.int64))


# ---------------------------------------------------------------- kinds of columns
class DecidedBy(StrEnum):
    """What decides on a field, fastest first."""

    TABLE = "table"
    """Columns of the exchange table: nothing is decoded."""
    MESSAGES = "messages"
    """Columns of the messages if available; otherwise some fields of each message are decoded."""
    BODIES = "bodies"
    """Some fields of each message, or all of them, are decoded."""


class FieldPresence(Protocol):
    """Which exchanges can have a value of a field."""

    @property
    def response(self) -> bool:
        """Whether only exchanges with a response have one."""

    def possible_apis(self) -> frozenset[int] | None:
        """Return the keys of the APIs whose exchanges may have one, None for all."""


class Column(msgspec.Struct, frozen=True):
    """How a field is decided.

    :ivar part: compiles a test for columns
    :ivar needs: parts to decode where columns do not decide (:data:`captures.exchanges.projected_reader.NEEDS`); None
        is everything: the results of annotation, and the content of records, whose secrets it masks
    :ivar messages: columns of the messages that decide (:data:`captures.exchanges.columns.COLUMNS`)
    """

    source: DecidedBy
    part: Callable[[FieldPresence, Predicate], Part]
    needs: frozenset[str] | None = frozenset()
    messages: tuple[str, ...] = ()


def _undecided(field: FieldPresence, predicate: Predicate) -> Part:
    apis, answered = field.possible_apis(), table_columns.answered
    return lambda columns, _: possible(columns, apis, answered(columns) if field.response else None)


DECODED = Column(DecidedBy.BODIES, _undecided, None)
"""The column of a field that is decided by decoding whole messages."""


def decoded(*needs: str) -> Column:
    """Return the column of a field that is decided by decoding some fields of the messages."""
    return Column(DecidedBy.BODIES, _undecided, frozenset(needs))


def _of_table(mask: Callable[[TableColumns, Context, Predicate], Mask]) -> Column:
    def part(field: FieldPresence, predicate: Predicate) -> Part:
        return lambda columns, context: decided(mask(columns, context, predicate))

    return Column(DecidedBy.TABLE, part)


def numbers(recipe: NumberRecipe) -> Column:
    """Return the column of a field that is a number of the table."""

    def mask(columns: TableColumns, context: Context, predicate: Predicate) -> Mask:
        if not len(columns):
            # an empty table has no start, which times may need
            return np.zeros(0, np.bool_)
        intervals = predicate.intervals_at(columns.start if context.start is None else context.start)
        assert intervals is not None, "numbers are asked for intervals"
        values, present = columns.numbers(recipe)
        if predicate is ANY:
            return np.ones(len(columns), np.bool_) if present is None else present
        found = predicates.mask(values, intervals)
        if present is not None:
            found &= present
        return found

    return _of_table(mask)


def texts(recipe: TextRecipe, value: Callable[[str], Any] | None = None) -> Column:
    """Return the column of a field that is a text of the table.

    :param value: converts each text to the tested value; None tests the text itself and its other names
    """

    def mask(columns: TableColumns, context: Context, predicate: Predicate) -> Mask:
        codes, whole, others = columns.texts(recipe)
        if value is not None:
            return _tested((None if text is None else value(text) for text in whole), predicate)[codes]
        answers = _tested(whole, predicate)
        for code, names in others.items():
            answers[code] |= any(map(predicate.holds, names))
        return answers[codes]

    return _of_table(mask)


def truth(recipe: Callable[[TableColumns], Mask]) -> Column:
    """Return the column of a yes-or-no field, tested for yes."""
    return _of_table(lambda columns, context, predicate: recipe(columns))


MARKED = _of_table(lambda columns, context, predicate: selected(columns, context, "marked"))
"""The column of marked exchanges."""


def by_number(known: Callable[[Context], Mapping[int, Any]], value: Callable[[Any], Any]) -> Column:
    """Return the column of data that few exchanges have: comments, and interventions of kproxy's proxy.

    :param known: context -> number of the exchange -> data
    :param value: data -> value, or tuple of values of which one has to match; None and False are no value
    """

    def mask(columns: TableColumns, context: Context, predicate: Predicate) -> Mask:
        def fits(value: Any) -> bool:
            if isinstance(value, tuple):
                return any(map(predicate.holds, value))
            return value is not None and value is not False and predicate.holds(value)

        return _numbered(columns, [number for number, each in known(context).items() if fits(value_of(each))])

    value_of = value
    return _of_table(mask)


def flags(of_table: Mapping[str, Flag], of_bodies: Sequence[str]) -> Column:
    """Return the column of flag names: those of the table, of interventions, and those that bodies add.

    :param of_table: flags of the table by name
    :param of_bodies: names of flags that only bodies reveal
    """
    interventions = by_number(lambda context: context.interventions, lambda done: tuple(done.flags))

    def part(field: FieldPresence, predicate: Predicate) -> Part:
        wanted = (flag for name, flag in of_table.items() if predicate.holds(name))
        fitting = reduce(lambda one, other: one | other, wanted, Flag(0))
        others = any(map(predicate.holds, of_bodies))
        intervened = interventions.part(field, predicate)

        def evaluate(columns: TableColumns, context: Context) -> Bounds:
            must = columns.flags(fitting)
            if context.interventions:
                must = must | intervened(columns, context).must
            return Bounds(must, np.ones(len(columns), np.bool_)) if others else decided(must)

        return evaluate

    return Column(DecidedBy.BODIES, part, None)


# ---------------------------------------------------------------- columns of messages
Decision: TypeAlias = tuple[Mask, Mask | None]
"""Masks of rows where a test holds, and where it may; None if they are equal."""


class MessageRows(NamedTuple):
    """Rows whose messages are read into columns."""

    messages: ExchangeColumns
    table: TableColumns
    context: Context


Decide: TypeAlias = Callable[[MessageRows, Predicate], Decision]


def messages(
    names: Iterable[str],
    decide: Decide,
    needs: Iterable[str],
    without: Callable[[Predicate], Part] | None = None,
) -> Column:
    """Return the column of a field that columns of the messages decide if available.

    :param without: part that the table alone decides; None bounds the rows that may have a value
    """

    def part(field: FieldPresence, predicate: Predicate) -> Part:
        of_table = _undecided(field, predicate) if without is None else without(predicate)

        def evaluate(columns: TableColumns, context: Context) -> Bounds:
            found = columns.messages
            if found is None:
                return of_table(columns, context)
            must, may = decide(MessageRows(found, columns, context), predicate)
            return Bounds(must, must if may is None else may)

        return evaluate

    return Column(DecidedBy.MESSAGES, part, frozenset(needs), tuple(names))


# ---------------------------------------------------------------- one value a row
def message_number(
    name: str,
    *needs: str,
    of: tuple[str, ...] = (),
    factor: int = 1,
    without: Callable[[Predicate], Part] | None = None,
) -> Column:
    """Return the column of a field that is a number of the messages.

    :param of: the columns that it is derived from, if any
    """

    def decide(rows: MessageRows, predicate: Predicate) -> Decision:
        return _compared(rows.messages.flat(name), predicate, factor), None

    return messages(of or (name,), decide, needs, without)


def _compared(values: Int64s, predicate: Predicate, factor: int = 1) -> Mask:
    """Compare numbers; missing ones match nothing."""
    there: Mask = values != NO_VALUE
    if predicate is ANY:
        return there
    assert predicate.intervals is not None, "numbers are asked for intervals"
    # divide the bounds by the factor instead of multiplying the numbers
    intervals = [
        (None if low is None else -(-low // factor), None if high is None else high // factor)
        for low, high in predicate.intervals
    ]
    found: Mask = predicates.mask(values, intervals) & there
    return found


def _without_wait(predicate: Predicate) -> Part:
    """Bound the wait by the table: it is 0 if the latency is too short for one, or if there is no latency."""
    without = predicate.holds(0)

    def evaluate(columns: TableColumns, _: Context) -> Bounds:
        latency, answered = columns.numbers(table_columns.latency)
        may = latency >= LEAST_WAIT_NS
        if answered is not None:
            may &= answered
        return Bounds(~may, np.ones(len(columns), np.bool_)) if without else Bounds(np.zeros_like(may), may)

    return evaluate


def _without_excess(predicate: Predicate) -> Part:
    """Bound the excess by the table: it is the latency minus an unknown wait, so it lies between 0 and the latency."""
    intervals = predicate.intervals
    assert intervals is not None, "a duration is asked for intervals"

    def evaluate(columns: TableColumns, _: Context) -> Bounds:
        latency, answered = columns.numbers(table_columns.latency)
        there = np.ones(len(columns), np.bool_) if answered is None else answered
        # such a short wait does not count as one
        sure = latency < LEAST_WAIT_NS
        may = predicates.mask(latency, [(low, None) for low, _ in intervals]) & there
        may &= ~sure | predicates.mask(latency, intervals)
        below = [(low, high) for low, high in intervals if low is None or low <= 0]
        must = predicates.mask(latency, [(None, high) for _, high in below]) & ~sure
        must |= sure & predicates.mask(latency, intervals)
        return Bounds(must & there, may)

    return evaluate


EXCESS = message_number("excess", "waits", of=("wait",), without=_without_excess)
WAIT = message_number("wait", "waits", without=_without_wait)
WAITED = messages(
    ("wait",), lambda rows, _: (rows.messages.flat("wait") > 0, None), ("waits",), _without_wait
)


# ---------------------------------------------------------------- several values a row
def message_numbers(need: str, *names: str) -> Column:
    """Return the column of a field that has numbers of the messages, such as error codes."""

    def decide(rows: MessageRows, predicate: Predicate) -> Decision:
        found = [rows.messages.ragged(name) for name in names]
        return np.logical_or.reduce(
            [each.any(_test_distinct(each.values, predicate)) for each in found]
        ), None

    return messages(names, decide, (need,))


def _test_distinct(values: NDArray[Any], predicate: Predicate) -> Mask:
    if predicate.intervals is not None:
        return predicates.mask(values, predicate.intervals)
    distinct, inverse = np.unique(values, return_inverse=True)
    answers = np.fromiter(map(predicate.holds, distinct.tolist()), np.bool_, len(distinct))
    return np.asarray(answers[inverse])


def values_match(found: PathValues, predicate: Predicate) -> Mask:
    """Return a mask of the rows with a matching value of a path."""
    numbers, others = found.column("numbers"), found.column("values")
    assert isinstance(numbers, RaggedArray)
    assert isinstance(others, RaggedArray)
    fits = _tested(found.texts, predicate)[others.values]
    return numbers.any(_test_distinct(numbers.values, predicate)) | others.any(fits)


# ---------------------------------------------------------------- texts
def message_texts(name: str, need: str) -> Column:
    """Return the column of a field that has texts of the messages."""

    def decide(rows: MessageRows, predicate: Predicate) -> Decision:
        ragged = rows.messages.ragged(name)
        return ragged.any(_tested(rows.messages.texts(name), predicate)[ragged.values]), None

    return messages((name,), decide, (need,))


def _tested(values: Iterable[Any], predicate: Predicate) -> Mask:
    return np.array([value is not None and predicate.holds(value) for value in values], np.bool_)


def _topic_partitions(rows: MessageRows, predicate: Predicate) -> Decision:
    found = rows.messages
    partitions, topics = found.ragged("partitions"), found.ragged("partition_topics")
    names = found.texts("topics")
    width = int(partitions.values.max(initial=-1)) + 1
    if not width:
        return np.zeros(len(found), np.bool_), None
    if len(names) * width > _MOST_PAIRS or partitions.values.min() < 0:
        return partitions.any(_test_pairs(topics.values, partitions.values, names, predicate)), None
    pairs = topics.values * np.int32(width) + partitions.values
    present = np.zeros(len(names) * width, np.bool_)
    present[pairs] = True
    which = np.flatnonzero(present)
    present[which] = _tested((f"{names[pair // width]}-{pair % width}" for pair in which.tolist()), predicate)
    return partitions.any(present[pairs]), None


def _test_pairs(
    topics: Int32s,
    partitions: Int32s,
    names: Sequence[str | None],
    predicate: Predicate,
) -> Mask:
    """Test each distinct topic partition once, whatever the numbers are."""
    pairs = (topics.astype(np.int64) << 32) + partitions
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    which = zip(topics[first].tolist(), partitions[first].tolist(), strict=True)
    answers = _tested((f"{names[topic]}-{number}" for topic, number in which), predicate)
    return np.asarray(answers[inverse])


# ---------------------------------------------------------------- groups
def _groups(rows: MessageRows, predicate: Predicate) -> Decision:
    """Test the named groups, or the inferred one; rows that only the message can decide stay undecided."""
    ragged = rows.messages.ragged("groups")
    fits = ragged.any(_tested(rows.messages.texts("groups"), predicate)[ragged.values])
    if rows.context.groups is None:
        return fits, None
    inferred, undecided = _inferred(rows, rows.context.groups, predicate)
    fits |= inferred
    return fits, (fits | undecided if undecided.any() else None)


def _group_inferred(rows: MessageRows, _: Predicate) -> Decision:
    if rows.context.groups is None:
        return np.zeros(len(rows.messages), np.bool_), None
    inferred, undecided = _inferred(rows, rows.context.groups, _ALWAYS)
    return inferred, (inferred | undecided if undecided.any() else None)


def _inferred(rows: MessageRows, groups: GroupInference, predicate: Predicate) -> tuple[Mask, Mask]:
    """Return masks of rows whose inferred group matches, and of rows whose group depends on a Fetch's partitions."""
    found, keys = rows.messages, rows.table.view("api_key")
    asked = np.logical_or.reduce([keys == key for key in INFERRED])
    without = np.flatnonzero(asked & ~found.ragged("groups").filled & (found.flat("replica_id") < 0))
    candidates = groups.candidates_of(rows.table, without)
    fits = [len(each) == 1 and predicate.holds(next(iter(each))) for each in candidates.values]
    contested = [len(each) > 1 for each in candidates.values]
    inferred, undecided = np.zeros((2, len(found)), np.bool_)
    inferred[without] = np.array(fits, np.bool_)[candidates.codes]
    undecided[without] = np.array(contested, np.bool_)[candidates.codes]
    return inferred, undecided


EXPECTED = messages(
    ("expected_error_codes",),
    lambda rows, _: (rows.messages.ragged("expected_error_codes").filled, None),
    ("errors",),
)
TOPIC_PARTITIONS = messages(("partitions", "partition_topics"), _topic_partitions, ("topics",))
GROUPS = messages(("groups", "replica_id"), _groups, ("groups", "topics", "replica"))
GROUP_INFERRED = messages(("groups", "replica_id"), _group_inferred, ("groups", "topics", "replica"))
