"""Which batches are looked into where looking into all of them would cost too much, and what is known of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import RowGroups
from captures.arrays import Int64s
from dissectors.api_keys import ApiKey
from dissectors.codec import Codec

_FIRST = 16
_FIRST_BY_ID = 13
"""Version of Produce from which on topics are given by their IDs (KIP-516)."""


def worth_a_look(count: int) -> bool:
    """Tell whether the batch of this number (from 1) is one: the first 16, then ever fewer (32nd, 64th, 128th ...)."""
    return count <= _FIRST or not count & (count - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """Record data that a client produces to a topic with one codec, an element for each partition of a request.

    :ivar numbers: of the exchanges
    :ivar rows: of the exchanges, in the columns
    :ivar times: of the exchanges, ns since the epoch
    :ivar sizes: bytes
    :ivar batches: how many
    """

    client: str
    topic: str
    codec: Codec
    numbers: Int64s
    rows: Int64s
    times: Int64s
    sizes: Int64s
    batches: Int64s

    def sampled(self, ordinals: Int64s, counts: Int64s) -> Int64s:
        """Return the rows of what is worth a look.

        :param ordinals: of the last thing in each element, from 1
        :param counts: how many there are in each
        """
        least = np.maximum(ordinals - counts + 1, 1)
        power = 1 << (np.frexp(ordinals)[1].astype(np.int64) - 1)  # the largest that is not beyond
        found: Int64s = self.rows[(least <= _FIRST) | (power >= least)]
        return found


def _by_id(key: int, version: int) -> bool:
    return key == ApiKey.PRODUCE and version >= _FIRST_BY_ID


def produced_flows(rows: DecisionColumns) -> list[Flow] | None:
    """Return what is produced, by flow; None where columns do not tell what rules would count.

    That is where codecs or topics cannot be told apart, kproxy intervened, or not all exchanges are there.
    """
    sent = rows.produced
    there = np.flatnonzero(sent.batches)
    mine = rows.of_api({ApiKey.PRODUCE})
    if rows.numbers is None or (sent.codec[there] < 0).any() or not rows.untouched[mine].all():
        return None
    if rows.named_meanwhile(rows.of_version(_by_id)):
        return None
    times = rows.columns.flat("time")
    keys = (sent.client, sent.topic, sent.codec)
    flows = []
    for group in RowGroups(*(key[there] for key in keys)) if len(there) else ():
        at = there[group]
        client, topic, codec = (int(key[at[0]]) for key in keys)
        in_rows = sent.rows[at]
        flow = Flow(
            sent.clients[client],
            sent.topics[topic],
            Codec(codec),
            rows.numbers[in_rows],
            in_rows,
            times[in_rows],
            sent.size[at],
            sent.batches[at],
        )
        flows.append(flow)
    return flows
