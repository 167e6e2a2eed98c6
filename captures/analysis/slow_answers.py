"""Slow responses, without designed waits."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from captures.analysis.decision_columns import DecisionColumns
from captures.arrays import Bools, Int64s
from captures.exchanges import Exchange, ExchangeTable
from captures.meaning.exchange import number
from dissectors.api_keys import CONNECTING, GROUP_HEARTBEATS, ApiKey
from dissectors.units import SECOND

LEAST = SECOND
"""ns beyond designed waits from which a response is slow."""
_MOST = 10_000
"""Most responses that are kept of a capture, the first ones."""
AT_ONCE = GROUP_HEARTBEATS | CONNECTING | {
    ApiKey.FETCH, ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.HEARTBEAT, ApiKey.OFFSET_FETCH,
    ApiKey.LIST_OFFSETS, ApiKey.LEAVE_GROUP, ApiKey.DESCRIBE_CLUSTER,
}  # fmt: skip
"""APIs that a broker answers by itself; Fetch after its wait."""
NEEDED = AT_ONCE | {ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.INIT_PRODUCER_ID}
"""APIs whose exchanges are examined."""


class SlowAnswer(NamedTuple):
    """A slow response.

    :ivar time: time of the request
    :ivar end: time of the response
    :ivar excess: ns beyond its designed wait
    :ivar throttled: whether a quota delayed it, and thereby the ones after it on the connection
    """

    time: int
    end: int
    number: int
    connection: int
    broker: str
    key: int
    api: str
    excess: int
    throttled: bool = False


class SlowAnswers:
    """Collects slow responses; exchanges in any order, each once.

    :ivar found: the responses that were kept
    """

    def __init__(self) -> None:
        self.found: list[SlowAnswer] = []

    def add(self, exchange: Exchange) -> None:
        key, latency = exchange.api_key, exchange.latency
        if latency is None or latency < LEAST or key not in NEEDED or len(self.found) >= _MOST:
            return
        excess = latency - exchange.wait
        if excess >= LEAST:
            found = exchange.time, exchange.end, exchange.number, exchange.connection, exchange.broker
            throttled = number(exchange.response_body, "throttle_time_ms", 0) > 0
            self.found.append(SlowAnswer(*found, key, exchange.api, excess, throttled))

    def merge(self, other: SlowAnswers) -> None:
        """Add the responses found among other exchanges."""
        self.found = sorted((*self.found, *other.found), key=attrgetter("number"))[:_MOST]

    @staticmethod
    def possible(table: ExchangeTable, rows: Int64s) -> Bools:
        """Return a mask of the exchanges that may be slow, by their times alone."""
        asked, answered = (table.column(name)[rows] for name in ("request_last", "response_first"))
        of_api = np.isin(table.column("api_key")[rows], list(NEEDED))
        found: Bools = of_api & (asked >= 0) & (answered - asked >= LEAST)
        return found

    @staticmethod
    def deciding(rows: DecisionColumns) -> Bools:
        """Return a mask of the exchanges that may be slow; designed waits are subtracted when they are added."""
        return rows.of_api(NEEDED) & (rows.latency >= LEAST)
