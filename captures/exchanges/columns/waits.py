"""The designed waits of many exchanges whose messages are equal except for their records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges.shapes import RecordTallies
from captures.meaning.exchange import Body
from captures.meaning.waits import (
    LEAST_WAIT_NS,
    THROTTLED,
    Read,
    least_bytes,
    longest_wait,
    throttle_ns,
)
from dissectors.api_keys import ApiKey

_NOTHING: Body = {}


def designed_waits(
    key: int,
    version: int,
    request: Body | None,
    response: Body,
    latency: Int64s,
    tallies: RecordTallies | None,
) -> Iterator[tuple[Int64s, Int64s, str]]:
    """Yield indexes of exchanges that waited by design, the waits in ns, and the reason: :func:`designed_wait_ns` of
    each.

    :param latency: of each exchange in ns, negative if there is none
    :param tallies: contents of their records fields, None if there are none
    """
    request = request or _NOTHING
    throttled = throttle_ns(response)
    for chosen, read in _reads(key, request, response, len(latency), tallies):
        if not chosen.any():
            continue
        limit, why = longest_wait(key, version, request, response, read)
        held = (throttled >= LEAST_WAIT_NS) & (throttled <= latency) & (throttled > limit)
        wait = np.minimum(np.where(held, throttled, limit), latency)
        waited = chosen & (latency >= LEAST_WAIT_NS) & (wait >= LEAST_WAIT_NS)
        for mask, reason in ((waited & ~held, why), (waited & held, THROTTLED)):
            found = np.flatnonzero(mask)
            if len(found):
                yield found, wait[found], reason


def _reads(
    key: int, request: Body, response: Body, count: int, tallies: RecordTallies | None
) -> Iterator[tuple[Bools, Read | None]]:
    """Yield masks of exchanges by the facts that end a poll: bytes read, and whether they were only just written."""
    if tallies is None:
        yield np.ones(count, np.bool_), None
        return
    least = least_bytes(request, response)
    last, end = tallies.last, tallies.high_watermark
    # ShareFetch responses have no high watermark
    new = (tallies.batches == 1) & ((key == ApiKey.SHARE_FETCH) | (last >= end) | (last == end - 1))
    at_the_end = ((tallies.size == 0) | new).all(1)
    enough = tallies.size.sum(1) >= least
    yield ~enough, (0, True)
    yield enough & at_the_end, (least, True)
    yield enough & ~at_the_end, (least, False)
