"""A compiled filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import tzinfo
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from captures.exchanges import Exchange, ExchangeReader
from captures.filters import binding, bodies, grammar
from captures.filters.columns import (
    Columns,
    TableColumns,
    column_fields,
    compile_columns,
    fields_of,
    needs_bodies,
)
from captures.filters.context import NO_CONTEXT, Context
from captures.filters.fields import Field, Kind
from captures.filters.predicates import Mask


class Masks(NamedTuple):
    """What columns tell about every row.

    :ivar matches: the row fits, for certain
    :ivar undecided: its bodies have to be looked at (:meth:`Filter.match`); never where ``matches``
    """

    matches: Mask
    undecided: Mask


class Filter:
    """A filter, compiled for columns and for decoded exchanges. It keeps nothing between calls.

    :ivar text: as written
    :ivar expanded: the same in the main grammar, without short forms
    :ivar needs_bodies: whether columns alone may leave rows undecided
    :ivar needs_groups: whether it asks for groups, which are inferred better with :attr:`Context.groups`
    :ivar needs_start: whether it has times that count from the beginning of the capture
    """

    def __init__(self, text: str, zone: tzinfo | None = None) -> None:
        tree = grammar.parse(text)
        self._bound = binding.bind(tree, text, zone)
        self._zone = zone
        self.text = text
        self.expanded = grammar.render(tree)
        self.needs_bodies = needs_bodies(self._bound)
        fields = [field for field in fields_of(self._bound) if isinstance(field, Field)]
        self.needs_groups = any(field.mentions == "group" for field in fields)
        self.needs_start = any(field.kind is Kind.TIME for field in fields)
        self._asked = frozenset(column_fields(self._bound))
        self._columns = compile_columns(self._bound)
        self._match = bodies.compile_bodies(self._bound)

    def __repr__(self) -> str:
        return f"<Filter {self.expanded}>"

    def __reduce__(self) -> tuple[Callable[..., Filter], tuple[str, tzinfo | None]]:
        # generated functions cannot be sent to another process; the text can
        return Filter, (self.text, self._zone)

    @property
    def source(self) -> str:
        """The Python source that :meth:`match` runs."""
        return bodies.generated_source(self._bound)

    def match(self, exchange: Exchange, context: Context = NO_CONTEXT) -> bool:
        """Tell whether an exchange fits.

        :raises ValueError: if the filter needs the beginning of the capture and the context does not tell it
        """
        return self._match(exchange, context)

    def mask(self, columns: Columns, context: Context = NO_CONTEXT) -> Masks:
        """Return what columns tell about every row."""
        columns.prepare(self._asked)
        must, may = self._columns(columns, context)
        return Masks(must, np.zeros(len(must), np.bool_) if must is may else may & ~must)

    def select(self, reader: ExchangeReader, context: Context | None = None) -> NDArray[np.int64]:
        """Return the indexes of the exchanges of a capture that fit, in the order of their numbers.

        Bodies are decoded only where columns leave it undecided.

        :param context: as :func:`context_of` makes it, if None
        """
        return np.fromiter((index for index, _ in self._walk(reader, context)), np.int64)

    def exchanges(self, reader: ExchangeReader, context: Context | None = None) -> Iterator[Exchange]:
        """Yield the exchanges of a capture that fit."""
        for index, exchange in self._walk(reader, context):
            yield reader.exchange(index) if exchange is None else exchange

    def _walk(self, reader: ExchangeReader, context: Context | None) -> Iterator[tuple[int, Exchange | None]]:
        if context is None:
            context = context_of(reader, self)
        columns = TableColumns.of(reader.capture)
        order = reader.capture.table.order()
        matches, undecided = self.mask(columns, context)
        wanted = matches[order]
        possible = wanted | undecided[order]
        for index in np.flatnonzero(possible).tolist():
            if wanted[index]:
                yield index, None
                continue
            exchange = reader.exchange(index)
            if self._match(exchange, context):
                yield index, exchange


def compile_filter(text: str, zone: tzinfo | None = None) -> Filter:
    """Return the filter that a text means; an empty one holds for everything.

    :param zone: zone of times that state none; None is the local one
    :raises FilterError: at the character where it stops making sense
    """
    return Filter(text, zone)


def context_of(reader: ExchangeReader, wanted: Filter | None = None) -> Context:
    """Return the context of a capture: topic names, beginning, and the groups if the filter asks for them."""
    from captures.filters.groups import GroupInference  # only where groups are asked for

    groups = GroupInference.learn(reader) if wanted is None or wanted.needs_groups else None
    return Context(reader.knowledge.topic_name, groups, TableColumns.of(reader.capture).start)
