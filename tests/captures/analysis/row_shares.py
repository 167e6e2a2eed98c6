"""Shares of time by single exchanges, for tests."""

from __future__ import annotations

from captures.analysis.throttling import Throttles
from captures.analysis.time_shares import TimeShares
from captures.exchanges import Capture, Exchange
from captures.meaning import Names


class RowShares(TimeShares):
    """The time shares of single exchanges, which need not be in a capture: the reference for columns."""

    def __init__(self, capture: Capture, names: Names) -> None:
        super().__init__(capture, names)
        self._throttles = Throttles()

    def add(self, exchange: Exchange) -> None:
        sums = self._sums[exchange.api]
        throttle = self._throttles.of(exchange)
        sums.note(throttle)
        latency = -1 if exchange.latency is None else max(exchange.latency, 0)
        values = (exchange.connection, exchange.time, -1, latency, exchange.wait, throttle.paused, 0, -1)
        place = self._append(*([value] for value in (list(self._sums).index(exchange.api), *values)))
        if exchange.wait and latency >= 0:
            sums.wait_reasons[exchange.wait_reason] += exchange.wait
        self._look_into(exchange, place)
