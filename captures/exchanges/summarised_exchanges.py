"""Exchanges with their summaries, but without the fields of their bodies, for lines and tables of exchanges.

Equal messages are decoded and summarised once (:mod:`captures.exchanges.shapes`, :mod:`captures.meaning.templates`).
All other exchanges are decoded by the :class:`ExchangeReader`, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges.columns.waits import designed_waits
from captures.exchanges.exchange import Exchange, ExchangeReader
from captures.exchanges.exchange_block import ExchangeBlock
from captures.exchanges.notes import NO_NOTE
from captures.exchanges.projected_reader import PROBLEMS, Part, Parts, ProjectedReader, body_of
from captures.interventions import UNTOUCHED
from captures.meaning import Names, ResponseError, errors_in, expected_errors
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
        self._parties: dict[int, Exchange] = {}

    def several(self, indexes: Sequence[int]) -> Iterator[Exchange]:
        """Yield the exchanges at increasing `indexes`, as :meth:`ExchangeReader.several` does."""
        for block in self.blocks(indexes):
            yield from block.exchanges()

    def blocks(self, indexes: Sequence[int]) -> Iterator[ExchangeBlock]:
        """Yield the exchanges at increasing `indexes`, some thousands at a time."""
        rows = self._reader.rows[np.asarray(indexes, np.int64)]
        begin = 0
        while begin < len(rows):
            block = self._projected.next_block(rows[begin:])
            yield self._block(indexes[begin : begin + len(block)], block)
            begin += len(block)

    def _block(self, indexes: Sequence[int], rows: Int64s) -> ExchangeBlock:
        reader = self._reader
        block = ExchangeBlock(reader, indexes, rows, self._parties)
        group_of: dict[int, tuple[_Group, int]] = {}
        filled = np.zeros(len(rows), np.bool_)
        chosen = np.flatnonzero(self._plain(rows))
        latencies, _ = reader.capture.table.latency(rows)
        for at, parts in self._projected.groups(rows[chosen], alone=False):
            members = chosen[np.atleast_1d(at)]
            group = self._group(parts, latencies[members])
            if group is None:
                continue
            if group.depends_on_names:  # exchanges in between may reveal them
                group_of |= {member: (group, index) for index, member in enumerate(members.tolist())}
            else:
                group.fill(block, members, range(len(members)), reader)
                filled[members] = True
        others = reader.several(
            [indexes[at] for at in np.flatnonzero(~filled).tolist() if at not in group_of]
        )
        for at in np.flatnonzero(~filled).tolist():
            if at not in group_of:
                block.put(at, next(others))
                continue
            reader.learn(indexes[at])
            group, index = group_of[at]
            filled[at] = group.pair.prepare(reader.knowledge.topic_name)
            if filled[at]:
                group.fill(block, np.array([at]), range(index, index + 1), reader)
            else:
                block.put(at, reader.exchange(indexes[at]))
        self._annotate(block, rows, np.flatnonzero(filled))
        return block

    def _annotate(self, block: ExchangeBlock, rows: Int64s, filled: Int64s) -> None:
        """Add notes, and rewritten addresses, to exchanges that were not read one by one."""
        notes = self._reader.capture.notes
        if not notes:
            return
        for at, row in zip(filled.tolist(), rows[filled].tolist(), strict=True):
            note, done = notes.of(row), notes.interventions(row)
            if note or done:
                block.set_kind(at, replace(block.kinds[block.kind[at]], note=note, interventions=done))

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
            for indexes, waits, why in found:
                group.waits |= {
                    at: (ns, why) for at, ns in zip(indexes.tolist(), waits.tolist(), strict=True)
                }
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
        self.errors: list[ResponseError] = []
        self.expected: list[ResponseError] = []
        self.template: SummaryTemplate | None = None
        self._alone = False
        self._examples: dict[bool, Exchange] = {}

    def example(self, bare: Callable[[], Exchange], *, waited: bool) -> Exchange:
        """Return an exchange with everything that all with this pair have in common.

        :param bare: returns one of them
        """
        if waited not in self._examples:
            self._examples[waited] = made = bare()
            made.request, made.response = self.bodies
            made.errors, made.expected = self.errors, self.expected
            made.note, made.interventions, made.wait = NO_NOTE, UNTOUCHED, int(waited)
        return self._examples[waited]

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
        self.pair = pair
        self._inserted = inserted
        self._count = count
        self._template: SummaryTemplate | None = None
        self._texts: list[tuple[str, str]] = []
        self.waits: dict[int, tuple[int, str]] = {}

    @property
    def depends_on_names(self) -> bool:
        """Whether the summaries contain names of topic IDs."""
        return self.pair.template is None or self.pair.template.depends_on_names

    def fill(self, block: ExchangeBlock, members: Int64s, positions: range, reader: ExchangeReader) -> None:
        """Set exchanges of a block.

        :param members: their indexes in the block
        :param positions: their indexes in the group
        """
        template, names = self.pair.template, reader.knowledge.topic_name
        assert template is not None, "it was prepared"
        if self._template is not template:
            self._template, self._texts = template, template.texts(self._inserted, self._count)
        requests, responses = block.summary
        indexes = members.tolist()
        for at, index in zip(indexes, positions, strict=True):
            requests[at], responses[at] = self._texts[index]
        if template.by_latency:
            for at in indexes:
                latency = block.latency[at]
                responses[at] = template.response(-1 if latency is None else latency, names)
        bare = partial(reader.bare, block.number[indexes[0]] - reader.first)
        block.set_kind(members, self.pair.example(bare, waited=False))
        if self.waits:
            for at, index in zip(indexes, positions, strict=True):
                if index in self.waits:
                    block.wait[at], block.wait_reason[at] = self.waits[index]
                    block.set_kind(at, self.pair.example(bare, waited=True))


def _inserted(part: Part) -> InsertedValues:
    numbers = () if part.numbers is None else part.numbers.tolist()
    if part.tallies is None:
        return InsertedValues(numbers)
    tallies = part.tallies
    columns = (column.sum(1).tolist() for column in (tallies.records, tallies.markers, tallies.size))
    return InsertedValues(numbers, list(zip(*columns, strict=True)))
