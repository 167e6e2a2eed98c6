"""Exchanges with their summaries, but without their bodies, for lines and tables of exchanges.

Equal messages are decoded and summarised once (:mod:`captures.exchanges.shapes`, :mod:`captures.meaning.templates`).
All other exchanges are decoded by the :class:`ExchangeReader`, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges.columns.waits import designed_waits
from captures.exchanges.exchange import Exchange, ExchangeReader
from captures.exchanges.projected_reader import PROBLEMS, Part, Parts, ProjectedReader, body_of
from captures.meaning import ErrorFound, Names, errors_in, expected_errors
from captures.meaning.templates import InsertedValues, SummaryTemplate
from captures.meaning.waits import LEAST_WAIT_NS
from dissectors.session_context import OBSERVED_APIS

_NEEDS = frozenset({PROBLEMS, "summaries", "errors"})
_MOST_KEPT = 8192
"""Most pairs of a request and a response that are kept for equal ones."""


class SummarisedExchanges:
    """Yields exchanges like a reader that summarises and does not annotate, but with bodies without fields.

    :param reader: numbers the exchanges, and has the session context
    :param waits: also compute their designed waits, which are 0 otherwise
    """

    def __init__(self, reader: ExchangeReader, *, waits: bool) -> None:
        self._reader = reader
        self._waits = waits
        needs = _NEEDS | {"waits"} if waits else _NEEDS
        self._projected = ProjectedReader(reader.capture, lambda _: needs)
        self._pairs: dict[tuple[int, int], _Pair] = {}

    def several(self, indexes: Sequence[int]) -> Iterator[Exchange]:
        """Yield the exchanges at increasing `indexes`, as :meth:`ExchangeReader.several` does."""
        rows = self._reader.rows[np.asarray(indexes, np.int64)]
        begin = 0
        while begin < len(rows):
            block = self._projected.next_block(rows[begin:])
            yield from self._block(indexes[begin : begin + len(block)], block)
            begin += len(block)

    def _block(self, indexes: Sequence[int], rows: Int64s) -> Iterator[Exchange]:
        plain = self._plain(rows)
        group_of: list[tuple[_Group, int] | None] = [None] * len(rows)
        chosen = np.flatnonzero(plain)
        latencies, _ = self._reader.capture.table.latency(rows)
        for at, parts in self._projected.groups(rows[chosen], alone=False):
            members = chosen[np.atleast_1d(at)]
            group = self._group(parts, latencies[members])
            if group is not None:
                for place, member in enumerate(members.tolist()):
                    group_of[member] = group, place
        places = list(zip(indexes, group_of, strict=True))
        others = self._reader.several([index for index, found in places if found is None])
        bares = self._reader.bares([index for index, found in places if found is not None])
        names = self._reader.knowledge.topic_name
        for index, found in places:
            if found is None:
                yield next(others)
                continue
            self._reader.learn(index)
            bare = next(bares)
            yield bare if found[0].fill(bare, found[1], names) else self._reader.exchange(index)

    def _plain(self, rows: Int64s) -> Bools:
        """Return a mask of the exchanges that may equal others, and add nothing to the session context."""
        capture = self._reader.capture
        table = capture.table
        found: Bools = (table.column("flags")[rows] == 0) & (table.column("api_key")[rows] >= 0)
        for side in ("request", "response"):
            found &= table.column(f"{side}_size")[rows] > 0
        found &= ~np.isin(table.column("api_key")[rows], list(OBSERVED_APIS))
        found &= ~np.isin(rows, list(capture.notes.intervened()))
        return found & (len(capture.notes.broker_logs) == 0)

    def _group(self, parts: Parts, latency: Int64s) -> _Group | None:
        """Return exchanges with the same parts, None if they have to be read one by one."""
        request, response = parts.request, parts.response
        if request is None or response is None:
            return None
        key = id(request.value), id(response.value)
        if key not in self._pairs:
            if len(self._pairs) >= _MOST_KEPT:
                self._pairs.clear()
            self._pairs[key] = _Pair(parts.key, request, response)
        pair = self._pairs[key]
        if not pair.prepare(self._reader.knowledge.topic_name):
            return None
        group = _Group(pair, (_inserted(request), _inserted(response)), len(latency))
        if self._waits and latency.max() >= LEAST_WAIT_NS:
            found = designed_waits(
                parts.key, pair.version, request.value, response.value or {}, latency, response.tallies
            )
            for places, waits, why in found:
                group.waits |= {at: (ns, why) for at, ns in zip(places.tolist(), waits.tolist(), strict=True)}
        return group


class _Pair:
    """A request and a response that many exchanges share.

    :ivar bodies: their bodies, without fields
    """

    def __init__(self, key: int, request: Part, response: Part) -> None:
        self._key, self._asked = key, request.asked
        self._values = request.value or {}, response.value or {}  # kept, because pairs are keyed by ids
        self.version = response.asked if response.version is None else response.version
        self.bodies = body_of(key, request._replace(value={})), body_of(key, response._replace(value={}))
        self.errors: list[ErrorFound] = []
        self.expected: list[ErrorFound] = []
        self.template: SummaryTemplate | None = None
        self._alone = False

    def prepare(self, names: Names) -> bool:
        """Make the template, or remake it if topic names have changed; return whether there is one."""
        if self._alone or (self.template is not None and self.template.current(names)):
            return not self._alone
        request, response = self._values
        try:
            self.errors = errors_in(self._key, self.version, response)
            self.expected = expected_errors(self._key, self._asked, request, response, self.errors)
            self.template = SummaryTemplate(
                self._key, self._asked, self.version, self._values, self.errors, names
            )
        except Exception:
            self._alone = True  # the reader will repeat the error and record it
        return not self._alone


class _Group:
    """Exchanges of a block with the same pair.

    :ivar waits: ns and reason of designed waits, by index in the group
    """

    def __init__(self, pair: _Pair, inserted: tuple[InsertedValues, InsertedValues], count: int) -> None:
        self._pair = pair
        self._inserted = inserted
        self._count = count
        self._template: SummaryTemplate | None = None
        self._texts: list[tuple[str, str]] = []
        self.waits: dict[int, tuple[int, str]] = {}

    def fill(self, made: Exchange, place: int, names: Names) -> bool:
        """Fill in what an exchange shares with others; return whether that was possible."""
        pair = self._pair
        template = pair.template if pair.prepare(names) else None
        if template is None:
            return False
        if self._template is not template:
            self._template, self._texts = template, template.texts(self._inserted, self._count)
        made.request, made.response = pair.bodies
        made.errors, made.expected = pair.errors, pair.expected
        made.summary = self._texts[place]
        if template.by_latency:
            latency = -1 if made.latency is None else made.latency
            made.summary = made.summary[0], template.response(latency, names)
        if place in self.waits:
            made.wait, made.wait_reason = self.waits[place]
        return True


def _inserted(part: Part) -> InsertedValues:
    numbers = () if part.numbers is None else part.numbers.tolist()
    if part.tallies is None:
        return InsertedValues(numbers)
    tallies = part.tallies
    columns = (column.sum(1).tolist() for column in (tallies.records, tallies.markers, tallies.size))
    return InsertedValues(numbers, list(zip(*columns, strict=True)))
