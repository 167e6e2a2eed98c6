"""Selection of batches to examine where examining all would cost too much, and facts about the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import RowGroups
from captures.arrays import Bools, Int64s
from dissectors.api_keys import ApiKey
from dissectors.codec import Codec

_FIRST = 16
_FIRST_BY_ID = 13
"""First version of Produce with topic IDs instead of names (KIP-516)."""


def worth_a_look(count: int) -> bool:
    """Return whether batch number `count` (from 1) is a sample: the first 16, then fewer (32nd, 64th, 128th ...)."""
    return count <= _FIRST or not count & (count - 1)


class FlowKey(NamedTuple):
    """The key by which record data is distinguished."""

    client: str
    topic: str
    codec: Codec


class Flow(msgspec.Struct, frozen=True, eq=False):
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

    def passed(self, begin: int, until: int | None) -> Flow:
        """Return the elements from index `begin` up to the exchange with number `until`, or all if None."""
        end = None if until is None else int(np.searchsorted(self.numbers, until))
        columns = (self.numbers, self.rows, self.times, self.sizes, self.batches)
        return Flow(*(column[begin:end] for column in columns))

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


class SampledFlows:
    """The flows of which a rule sees only samples.

    :param chosen: returns whether a flow with a codec is sampled; other flows are not shown at all
    """

    def __init__(self, chosen: Callable[[Codec, Flow], bool]) -> None:
        self._chosen = chosen
        self._known: dict[FlowKey, Flow] = {}

    def deciding(self, rows: DecisionColumns, *, by_batch: bool) -> Bools | None:
        """Return a mask of the samples, and of evidence of produced data; None if all exchanges have to be shown.

        :param by_batch: whether batches are counted, rather than elements
        """
        flows = _produced_flows(rows)
        if flows is None:
            return None
        found = rows.evidence_of(rows.of_api({ApiKey.PRODUCE}))
        self._known = {key: flow for key, flow in flows.items() if self._chosen(key.codec, flow)}
        for flow in self._known.values():
            counts = flow.batches if by_batch else np.ones_like(flow.batches)
            found[flow.sampled(np.cumsum(counts), counts)] = True
        return found

    def passed(self, key: FlowKey, begin: int, until: int | None = None) -> Flow | None:
        """Return the skipped part of a flow, as :meth:`Flow.passed` does; None if everything is shown."""
        flow = self._known.get(key)
        return None if flow is None else flow.passed(begin, until)


def _produced_flows(rows: DecisionColumns) -> dict[FlowKey, Flow] | None:
    """Return the produced data by flow; None if columns lack what rules would count.

    That is the case if codecs or topics cannot be distinguished, kproxy intervened, or exchanges are missing.
    """
    sent = rows.produced
    there = np.flatnonzero(sent.batches)
    produces = rows.of_api({ApiKey.PRODUCE})
    if not rows.whole or (sent.codec[there] < 0).any() or not rows.untouched[produces].all():
        return None
    if rows.named_meanwhile(rows.of_version(_by_id)):
        return None
    numbers, times = rows.numbers, rows.columns.flat("time")
    assert numbers is not None, "a whole capture has them"
    keys = (sent.client, sent.topic, sent.codec)
    flows = {}
    for group in RowGroups(*(key[there] for key in keys)) if len(there) else ():
        at = there[group]
        client, topic, codec = (int(key[at[0]]) for key in keys)
        in_rows = sent.rows[at]
        named = FlowKey(sent.clients[client], sent.topics[topic], Codec(codec))
        flows[named] = Flow(numbers[in_rows], in_rows, times[in_rows], sent.size[at], sent.batches[at])
    return flows
