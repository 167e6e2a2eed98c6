"""A compiled filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from datetime import tzinfo
from typing import NamedTuple

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.parallel import in_processes, shares_of
from captures.exchanges.projected_reader import ProjectedExchanges
from captures.faults import Faults
from captures.filters import binding, bodies, grammar
from captures.filters.columns import compile_columns, fields_of, needs_bodies
from captures.filters.context import NO_CONTEXT, Context
from captures.filters.errors import FilterError, did_you_mean
from captures.filters.fields import Field
from captures.filters.groups import INFERRING, GroupInference
from captures.filters.nodes import Compare, Name, OneOf, Value, leaves
from captures.filters.paths import Path
from captures.filters.predicates import Mask
from captures.filters.table_columns import TableColumns
from dissectors.budget import LimitReached

_WORTH_COLUMNS = 512
"""Exchanges from which on columns of their messages are faster than decoding them one by one."""
FILTERING = "the filter"
"""Name of the activity in reports of internal errors."""


class FilterMasks(NamedTuple):
    """The decision of columns about every row.

    :ivar matches: the row matches, for certain
    :ivar undecided: its bodies have to be tested (:meth:`Filter.match`); never set together with ``matches``
    """

    matches: Mask
    undecided: Mask


class Candidates(NamedTuple):
    """Exchanges that may match.

    :ivar indexes: indexes for :meth:`ExchangeReader.exchange`, ascending
    :ivar sure: whether they match for certain; bodies decide on the others
    """

    indexes: Int64s
    sure: Mask
    context: Context

    def shares(self, reader: ExchangeReader) -> list[Candidates]:
        """Split them into shares of about equal work."""
        ends = np.cumsum([len(share) for share in shares_of(reader, self.indexes)])[:-1]
        parts = zip(np.split(self.indexes, ends), np.split(self.sure, ends), strict=True)
        return [Candidates(indexes, sure, self.context) for indexes, sure in parts if len(indexes)]


class Filter:
    """A filter, compiled for columns and for decoded exchanges. It keeps no state between calls.

    :ivar text: as written
    :ivar expanded: the same in the main grammar, without short forms
    :ivar message_columns: columns of the messages (:data:`captures.exchanges.columns.COLUMNS`, and paths) that decide
        it, or a part of it
    :ivar needs_bodies: whether columns alone may leave rows undecided
    :ivar needs_groups: whether it tests groups, which are inferred better with :attr:`Context.groups`
    :ivar undecided: number of exchanges left undecided because of a limit, by its name
    """

    def __init__(self, text: str, zone: tzinfo | None = None) -> None:
        tree = grammar.parse(text)
        self.bound = binding.bind(tree, text, zone)
        """Its tests of fields, and how they are joined."""
        self._zone = zone
        self.text = text
        self.expanded = grammar.render(tree)
        self.needs_bodies = needs_bodies(self.bound)
        fields = list(fields_of(self.bound))
        self.needs_groups = any(isinstance(field, Field) and field.mentions == "group" for field in fields)
        self.message_columns = {name for field in fields for name in _columns_of(field)}
        self._needs = _needs(self.bound)
        self._columns = compile_columns(self.bound)
        self._match = bodies.compile_bodies(self.bound)
        self.undecided: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Filter {self.expanded}>"

    def __reduce__(self) -> tuple[Callable[..., Filter], tuple[str, tzinfo | None]]:
        # generated functions cannot be pickled; the text can
        return Filter, (self.text, self._zone)

    def match_strictly(self, exchange: Exchange, context: Context = NO_CONTEXT) -> bool:
        """Return whether an exchange matches.

        :raises LimitReached: if that is undecided because of a limit
        :raises ValueError: if the filter needs the start of the capture and the context lacks it
        """
        fits = self._match(exchange, context)
        beyond = exchange.problems and _limit_beyond(exchange)
        if beyond and self.needs_bodies:
            raise LimitReached(beyond, "decoding it")
        return fits

    def match(self, exchange: Exchange, context: Context = NO_CONTEXT) -> bool:
        """Return whether an exchange matches. One that a limit leaves undecided does not match, and is counted.

        :raises ValueError: as :meth:`match_strictly`
        """
        try:
            return self.match_strictly(exchange, context)
        except LimitReached as reached:
            self.undecided[reached.limit] += 1
            return False

    def fits(self, exchange: Exchange, context: Context, faults: Faults) -> bool:
        """Return whether an exchange of a capture matches; one for which this fails does not, and `faults` records the
        error.
        """
        try:
            return self.match(exchange, context)
        except Exception as error:
            faults.note(error, FILTERING, exchange.number)
            return False

    def mask(self, columns: TableColumns, context: Context = NO_CONTEXT) -> FilterMasks:
        """Return the decision of columns about every row."""
        if columns.messages is not None:
            columns.messages.prepare(self.message_columns)
        must, may = self._columns(columns, context)
        return FilterMasks(must, np.zeros(len(must), np.bool_) if must is may else may & ~must)

    def select(
        self,
        reader: ExchangeReader,
        context: Context | None = None,
        among: Mask | None = None,
        most: int | None = None,
    ) -> Int64s:
        """Return the indexes of the matching exchanges of a capture, in the order of their numbers.

        Bodies are decoded only where columns leave it undecided.

        :param context: from :func:`context_of` if None
        :param among: mask of the table rows to consider, all if None
        :param most: maximum number of matches
        """
        candidates = self.candidates(reader, context, among)
        found: list[Int64s] = [np.empty(0, np.int64)]
        count = 0
        with closing(self._select(reader, candidates)) as parts:
            for part in parts:
                found.append(part)
                count += len(part)
                if most is not None and count >= most:
                    break
        return np.concatenate(found)[:most]

    def exchanges(self, reader: ExchangeReader, context: Context | None = None) -> Iterator[Exchange]:
        """Yield the matching exchanges of a capture, each decoded once."""
        for indexes, sure, known in self.candidates(reader, context).shares(reader):
            if self._needs is None:
                decoded = zip(reader.several(indexes.tolist()), sure.tolist(), strict=True)
                faults = reader.capture.faults
                yield from (each for each, certain in decoded if certain or self.fits(each, known, faults))
            else:
                yield from reader.several(self._fitting(reader, Candidates(indexes, sure, known)).tolist())

    def candidates(
        self, reader: ExchangeReader, context: Context | None = None, among: Mask | None = None
    ) -> Candidates:
        """Return the exchanges of a capture that may match according to columns.

        :param context: from :func:`context_of` if None
        :param among: mask of the table rows to consider, all if None
        """
        if context is None:
            context = context_of(reader, self)
        matches, undecided = self.mask(TableColumns.of(reader.capture), context)
        if among is not None:
            matches, undecided = matches & among, undecided & among
        order = reader.capture.table.order()
        sure, undecided = matches[order], undecided[order]
        possible = np.flatnonzero(sure | undecided)
        return Candidates(possible, sure[possible], context)

    def _select(self, reader: ExchangeReader, candidates: Candidates) -> Generator[Int64s, None, None]:
        """Yield the indexes of the matching candidates, share by share, using several processes."""

        def work(share: Candidates) -> Iterator[tuple[Int64s, Counter[str]]]:
            before, self.undecided = self.undecided, Counter()
            found = self._fitting(reader, share)
            undecided, self.undecided = self.undecided, before
            yield found, undecided

        with closing(in_processes(reader.capture, candidates.shares(reader), work)) as shares:
            for found, undecided in shares:
                self.undecided += undecided
                yield found

    def _fitting(self, reader: ExchangeReader, candidates: Candidates) -> Int64s:
        indexes, sure, context = candidates
        decided = list(self.decide(reader, indexes[~sure], context))
        return indexes[sure | np.isin(indexes, decided)]

    def mask_of(
        self,
        reader: ExchangeReader,
        indexes: Int64s,
        context: Context,
        messages: ExchangeColumns | None = None,
    ) -> FilterMasks:
        """Return the decision of columns about the exchanges at `indexes`, such as new ones.

        :param indexes: ascending, as for :meth:`ExchangeReader.exchange`
        :param messages: columns of the messages of exactly these exchanges
        """
        capture = reader.capture
        columns = TableColumns(
            capture.table,
            capture.endpoints,
            rows=reader.rows[indexes],
            numbers=indexes + reader.first,
            start=context.start,
            names=capture.names,
            messages=messages,
            upstream_of=capture.upstream_of,
        )
        return self.mask(columns, context)

    def decide(self, reader: ExchangeReader, undecided: Int64s, context: Context) -> Iterator[int]:
        """Yield the matching indexes among those that columns of the table leave undecided, in any order."""
        if self.message_columns and len(undecided) >= _WORTH_COLUMNS:
            messages = ExchangeColumns(reader.capture, reader.rows[undecided], cached=False)
            matches, rest = self.mask_of(reader, undecided, context, messages)
            if not self.message_columns.isdisjoint(("topics", "partition_topics")):
                # the names of IDs are those known up to each exchange
                by_id = messages.topics_by_id()
                matches, rest = matches & ~by_id, rest | by_id
            yield from undecided[matches].tolist()
            undecided = undecided[rest]
        read: Iterator[tuple[int, Exchange]]
        if self._needs is None:
            read = zip(undecided.tolist(), reader.several(undecided.tolist()), strict=True)
        else:
            read = ProjectedExchanges(reader, self._needs).read(undecided)
        for index, exchange in read:
            if self.fits(exchange, context, reader.capture.faults):
                yield index


def _columns_of(field: Field | Path) -> Sequence[str]:
    """Return the columns of the messages that decide a test of a field."""
    if isinstance(field, Field):
        return field.column.messages
    return (field.need,) if field.in_columns else ()


def _needs(bound: binding.Bound) -> frozenset[str] | None:
    """Return the parts of bodies that a filter needs; None if it needs a full decode."""
    needs: set[str] = set()
    for field in fields_of(bound):
        if isinstance(field, Path):
            if not field.projectable:
                return None
            needs.add(field.need)
        elif field.column.needs is None:
            return None
        else:
            needs |= field.column.needs
    return frozenset(needs)


def compile_filter(text: str, zone: tzinfo | None = None) -> Filter:
    """Return the compiled filter of a text; an empty one matches everything.

    :param zone: zone of times without one; None is the local zone
    :raises FilterError: at the character where it stops making sense
    """
    return Filter(text, zone)


def unknown_cluster(wanted: Filter, names: Collection[str]) -> FilterError | None:
    """Return the error of a filter that compares with the name of a cluster that does not exist, None if it does not.

    :param names: those of all clusters; empty ones do not count
    """
    known = [name for name in names if name]
    for leaf in leaves(grammar.parse(wanted.text)):
        match leaf:
            case Compare(Name("cluster"), "==", value):
                values: tuple[Value, ...] = (value,)
            case OneOf(Name("cluster"), values):
                pass
            case _:
                continue
        for each in values:
            if each.text not in known:
                there = f"there are {', '.join(known)}" if known else "no cluster has a name here"
                hint = did_you_mean(each.text, known) or there
                return FilterError(
                    f"there is no cluster {each.text}", wanted.text, each.position, each.length, hint
                )
    return None


def context_of(reader: ExchangeReader, wanted: Filter | None = None) -> Context:
    """Return the context of a capture: topic names, start, and the groups if the filter tests them."""
    from captures.filters.groups import GroupInference  # imported only if groups are tested

    groups = GroupInference.learn(reader) if wanted is None or wanted.needs_groups else None
    columns = TableColumns.of(reader.capture)
    noted, done = reader.capture.notes.all(), reader.capture.notes.all_interventions()
    numbers = columns.exchange_numbers() if noted or done else ()
    return Context(
        reader.knowledge.topic_name,
        groups,
        columns.start,
        {"marked": {int(numbers[row]) for row, note in noted.items() if note.marked}},
        {int(numbers[row]): note.comment for row, note in noted.items() if note.comment},
        {int(numbers[row]): each for row, each in done.items()},
    )


def _limit_beyond(exchange: Exchange) -> str:
    """Return the name of the limit because of which a body was not decoded, empty if both were decoded."""
    bodies = (exchange.request, exchange.response)
    problems = (
        problem for body in bodies if body is not None and body.beyond_limit for problem in body.problems
    )
    return next((problem.limit for problem in problems if problem.limit), "")


class LiveFilter:
    """Decides on each exchange as it arrives, by what is known until then.

    :param wanted: the filter, None lets all pass
    :param reader: decodes the exchanges
    """

    def __init__(self, wanted: Filter | None, reader: ExchangeReader) -> None:
        self._wanted = wanted
        self._faults = reader.capture.faults
        self._groups: GroupInference | None = None
        self._marked: set[int] = set()
        self._comments: dict[int, str] = {}
        self._context = Context(
            reader.knowledge.topic_name, selections={"marked": self._marked}, comments=self._comments
        )
        if wanted is not None and wanted.needs_groups:
            self._groups = self._context.groups = GroupInference(reader.knowledge.topic_name)

    def fits(self, exchange: Exchange) -> bool:
        """Return whether an exchange matches; to be called for all of them, in the order in which they complete."""
        if self._wanted is None:
            return True
        if self._context.start is None:
            self._context.start = exchange.time
        if exchange.note.marked:
            self._marked.add(exchange.number)
        if exchange.note.comment:
            self._comments[exchange.number] = exchange.note.comment
        if self._groups is not None:
            try:
                self._groups.observe(exchange)
            except Exception as error:
                self._faults.note(error, INFERRING, exchange.number)
        return self._wanted.fits(exchange, self._context, self._faults)
