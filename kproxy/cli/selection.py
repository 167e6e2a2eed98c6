"""What a command works on: exchanges by filter, time, connection, count; groups by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from captures.arrays import Bools, Int64s
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.filters import Filter


_MOST_NAMED = 20


def bounds(
    capture: Capture, begin: str | None, end: str | None, zone: tzinfo | None
) -> tuple[int | None, int | None]:
    """Return two times in ns since the epoch, parsed from text, None if not given."""
    if not (begin or end):
        return None, None
    from captures.filters.values import resolved

    first = int(capture.connections.first_time.min()) if len(capture.connections) else 0
    low, high = (resolved(each, first, zone) if each else None for each in (begin, end))
    return low, high


@dataclass(slots=True)
class ExchangeSelection:
    """A selection of a capture's exchanges.

    :param wanted: the filter, None for all
    :param begin: time before which nothing is selected, in the form of :data:`~kproxy.cli.options.Moment`
    :param end: time after which nothing is selected
    :param connections: IDs of connections, empty for all
    :param count: maximum number of exchanges
    :param since: ns since the epoch: in a growing capture, exchanges that began before only provide context
    :param apis: keys of APIs, empty for all
    """

    wanted: Filter | None = None
    begin: str | None = None
    end: str | None = None
    zone: tzinfo | None = None
    connections: tuple[int, ...] = ()
    count: int | None = None
    since: int | None = None
    apis: frozenset[int] = frozenset()

    def indexes(self, capture: Capture, reader: ExchangeReader) -> Int64s:
        """Return the indexes of the selected exchanges, for :meth:`ExchangeReader.exchange`, ascending.

        Bodies are decoded only if the filter needs them, by :attr:`Capture.jobs` processes.
        """

        if self.wanted is None:
            chosen = self.rows(capture)[capture.table.order()].nonzero()[0]
            return chosen[: self.count]
        return self.wanted.select(reader, among=self.rows(capture), most=self.count)

    def follow(
        self,
        capture: Capture,
        reader: ExchangeReader,
        pause: Callable[[], None],
        look: Callable[[Exchange], None] = lambda _: None,
    ) -> Iterator[Exchange]:
        """Yield the selected exchanges of a growing capture, each as soon as it is complete.

        :param reader: a live one
        :param pause: called whenever all available exchanges were yielded
        :param look: called with every exchange, selected or not
        """
        return islice(self._coming(capture, reader, pause, look), self.count)

    def _coming(
        self,
        capture: Capture,
        reader: ExchangeReader,
        pause: Callable[[], None],
        look: Callable[[Exchange], None],
    ) -> Iterator[Exchange]:
        from captures.filters.filter import LiveFilter

        wanted = LiveFilter(self.wanted, reader)
        for rows in capture.updates():
            low, high = self.bounds(capture)
            if self.since is not None:
                early = capture.table.began(rows) < self.since
                reader.pass_over(rows[early].tolist())
                rows = rows[~early]
            for exchange in reader.take(rows.tolist()):
                look(exchange)
                fits = wanted.fits(exchange)  # evaluated on all: it learns from them
                if self.apis and exchange.api_key not in self.apis:
                    continue
                if self.connections and exchange.connection not in self.connections:
                    continue
                if fits and (low is None or exchange.time >= low) and (high is None or exchange.time <= high):
                    yield exchange
            pause()

    def bounds(self, capture: Capture) -> tuple[int | None, int | None]:
        return bounds(capture, self.begin, self.end, self.zone)

    def rows(self, capture: Capture) -> Bools:
        """Return a mask over the rows of the table, in table order; the filter is not applied."""
        import numpy as np

        table = capture.table
        mask = np.ones(len(table), np.bool_)
        time = table.began(slice(None))
        low, high = self.bounds(capture)
        if low is not None:
            mask &= time >= low
        if high is not None:
            mask &= time <= high
        if self.connections:
            mask &= np.isin(table.column("connection"), self.connections)
        if self.apis:
            mask &= np.isin(table.column("api_key"), sorted(self.apis))
        return mask


def chosen(names: Sequence[str], patterns: Sequence[str], what: str = "group") -> set[str]:
    """Return the names selected by name or pattern; all names if `patterns` is empty.

    :param what: kind of thing named, for the error
    :raises click.UsageError: if one matches nothing
    """
    found: set[str] = set() if patterns else set(names)
    for each in patterns:
        # a group may be named orders-[1], which is then not a pattern
        fitting = {each} & set(names) or {name for name in names if fnmatchcase(name, each)}
        if not fitting:
            raise click.UsageError(f"no {what} {each!r} in the capture; {there_are(names)}")
        found |= fitting
    return found


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a group of a growing capture is selected, when its other groups are not known yet."""
    return not patterns or any(name == each or fnmatchcase(name, each) for each in patterns)


def there_are(names: Sequence[str]) -> str:
    """Return which names exist, for a user who asked for another one."""
    if not names:
        return "there is none at all"
    rest = len(names) - _MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names[:_MOST_NAMED]))}{more}"
