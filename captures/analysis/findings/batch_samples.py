"""Rules that examine samples of batches, as examining all would cost too much, and facts about the others."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import ClassVar, NamedTuple

import numpy as np

from captures.analysis.decision_columns import DecisionColumns, of_own_keys
from captures.analysis.exchange_groups import RowGroups
from captures.analysis.findings.common import NO_PRODUCE
from captures.analysis.findings.finding import Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule
from captures.arrays import Bools, Int64s
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from dissectors.api_keys import ApiKey
from dissectors.codec import Codec

_FIRST = 16
_FIRST_BY_ID = 13
"""First version of Produce with topic IDs instead of names (KIP-516)."""


def worth_a_look(count: int) -> bool:
    """Return whether batch number `count` (from 1) is a sample: the first 16, then fewer (32nd, 64th, 128th ...)."""
    return count <= _FIRST or not count & (count - 1)


class FlowTotals(NamedTuple):
    """Numbers of a flow's elements and batches, and their bytes."""

    elements: int
    batches: int
    size: int


_NOTHING = FlowTotals(0, 0, 0)


class CountedElements(NamedTuple):
    """Consecutive elements of a flow that are counted instead of shown.

    :ivar last: number of the last exchange
    :ivar seen: an occurrence for each element
    :ivar size: bytes
    """

    last: int
    seen: Occurrences
    size: int
    batches: int


class FlowKey(NamedTuple):
    """The key by which record data is distinguished."""

    client: str
    topic: str
    codec: Codec


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """Record data that a client produces to a topic with one codec, an element for each partition of a request.

    :ivar numbers: exchange numbers
    :ivar rows: exchange rows in the columns
    :ivar times: exchange times, ns since the epoch
    :ivar sizes: bytes
    :ivar batches: numbers of batches
    """

    numbers: Int64s
    rows: Int64s
    times: Int64s
    sizes: Int64s
    batches: Int64s

    @property
    def totals(self) -> FlowTotals:
        """The numbers of elements, batches and bytes."""
        return FlowTotals(len(self.numbers), int(self.batches.sum()), int(self.sizes.sum()))

    def counted(self, shown: Bools) -> Iterator[CountedElements]:
        """Yield each run of elements that are not `shown`."""
        edges = np.flatnonzero(np.diff(shown, prepend=True, append=True)).tolist()
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            run = slice(begin, end)
            seen = Occurrences()
            seen.note_all(self.numbers[run], self.times[run])
            yield CountedElements(
                int(self.numbers[end - 1]), seen, int(self.sizes[run].sum()), int(self.batches[run].sum())
            )

    def sampled(self, ordinals: Int64s, counts: Int64s) -> Int64s:
        """Return the rows of the samples.

        :param ordinals: ordinal of the last counted item in each element, from 1
        :param counts: number of counted items in each element
        """
        least = np.maximum(ordinals - counts + 1, 1)
        power = 1 << (np.frexp(ordinals)[1].astype(np.int64) - 1)  # the largest that is not beyond
        found: Int64s = self.rows[(least <= _FIRST) | (power >= least)]
        return found


def _by_id(key: int, version: int) -> bool:
    return key == ApiKey.PRODUCE and version >= _FIRST_BY_ID


class SamplingRule(Rule):
    """A rule that sees only samples of flows; the other elements are counted by columns.

    :cvar by_batch: whether batches are counted to select samples, rather than elements
    """

    needs = Lack.RECORDS
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.PRODUCE})
    by_batch: ClassVar[bool]
    unseen = NO_PRODUCE

    _counted: dict[FlowKey, deque[CountedElements]] = {}

    def samples(self, codec: Codec, flow: FlowTotals) -> bool:
        """Return whether a flow with a codec is sampled; other flows are not shown at all."""
        raise NotImplementedError

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        if rows.ever("produced data that cannot be counted", _uncountable(rows)):
            return None
        flows = _produced_flows(rows)
        before, totals = rows.merged(
            "produced data by flow",
            (rows.part, {key: flow.totals for key, flow in flows.items()}),
            _running_totals,
            _of_part,
        )
        found = rows.earliest("produced data", rows.evidence_of(rows.of_api({ApiKey.PRODUCE})))
        sampled = [(key, flow) for key, flow in flows.items() if self.samples(key.codec, totals[key])]
        for key, flow in sampled:
            counts = flow.batches if self.by_batch else np.ones_like(flow.batches)
            earlier = before[rows.part][key]
            ordinals = (earlier.batches if self.by_batch else earlier.elements) + np.cumsum(counts)
            found[flow.sampled(ordinals, counts)] = True
        self._counted = {key: deque(flow.counted(found[flow.rows])) for key, flow in sampled}
        return found

    def counted(self) -> dict[str, dict[FlowKey, deque[CountedElements]]]:
        found: dict[str, dict[FlowKey, deque[CountedElements]]] = {}
        for key, elements in self._counted.items():
            found.setdefault(key.client, {})[key] = elements
        return found

    def merge(self, counted: Mapping[str, Mapping[FlowKey, deque[CountedElements]]]) -> None:
        for flows in counted.values():
            for key, elements in flows.items():
                self._counted.setdefault(key, deque()).extend(elements)

    def add(self, exchange: Exchange) -> None:
        self.saw_any = True

    def counted_before(self, key: FlowKey, number: float = math.inf) -> Iterator[CountedElements]:
        """Yield the counted elements of a flow before exchange `number` that were not returned yet."""
        elements = self._counted.get(key, deque())
        while elements and elements[0].last < number:
            yield elements.popleft()


_RunningTotals = tuple[dict[int | None, dict[FlowKey, FlowTotals]], dict[FlowKey, FlowTotals]]


def _running_totals(parts: Sequence[tuple[int | None, Mapping[FlowKey, FlowTotals]]]) -> _RunningTotals:
    """Return the totals of each flow before each part, as far as the part has it, and those of all parts."""
    before, totals = {}, dict[FlowKey, FlowTotals]()
    for part, flows in parts:
        before[part] = {key: totals.get(key, _NOTHING) for key in flows}
        totals |= {key: FlowTotals(*map(add, before[part][key], flow)) for key, flow in flows.items()}
    return before, totals


def _of_part(merged: _RunningTotals, own: tuple[int | None, Mapping[FlowKey, FlowTotals]]) -> _RunningTotals:
    """Return the totals of the flows that a part has, of :func:`_running_totals`."""
    (before, totals), (part, flows) = merged, own
    return {part: before[part]}, of_own_keys(totals, flows)


def _uncountable(rows: DecisionColumns) -> Bools:
    """Return a mask of the Produce exchanges that columns cannot assign to flows.

    Their codec or topic is unknown, or kproxy intervened.
    """
    sent = rows.produced
    produces = rows.of_api({ApiKey.PRODUCE})
    found = produces & ~rows.untouched
    found[sent.rows[(sent.batches > 0) & (sent.codec < 0)]] = True
    by_id = rows.of_version(_by_id)
    # parts of a capture are read with the names of all of it
    return found | by_id if rows.part is None and rows.named_meanwhile(by_id) else found


def _produced_flows(rows: DecisionColumns) -> dict[FlowKey, Flow]:
    """Return the produced data by flow."""
    sent = rows.produced
    there = np.flatnonzero(sent.batches)
    numbers, times = rows.numbers, rows.columns.flat("time")
    assert numbers is not None, "samples are selected by number"
    keys = (sent.client, sent.topic, sent.codec)
    flows = {}
    for group in RowGroups(*(key[there] for key in keys)) if len(there) else ():
        at = there[group]
        client, topic, codec = (int(key[at[0]]) for key in keys)
        in_rows = sent.rows[at]
        named = FlowKey(sent.clients[client], sent.topics[topic], Codec(codec))
        flows[named] = Flow(numbers[in_rows], in_rows, times[in_rows], sent.size[at], sent.batches[at])
    return flows
