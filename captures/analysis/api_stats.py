"""Statistics per API and version: counts, bytes, times and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from captures.analysis.exchange_groups import Counts, ExchangeGroup, api_grouping, apis_of, exchange_groups
from captures.analysis.percentiles import Percentiles, Times
from captures.analysis.throttling import Throttles, paused
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.meaning.waits import LEAST_WAIT_NS

_TOGETHER = 1024
"""Exchanges whose times are added together."""
PAUSED = "connection paused by a quota (KIP-219)"


class ApiVersion(NamedTuple):
    """An API in one version; the version is None for raw SASL tokens and orphan responses."""

    api: str
    version: int | None


@dataclass(slots=True, kw_only=True)
class ApiRow(Counts):
    """The figures of one API in one version.

    :ivar version: as announced by requests
    :ivar intervened: exchanges in which kproxy intervened. Errors that kproxy made are not in ``errors``, and time in
        kproxy is not in the times
    :ivar latency: last byte of the request to first byte of the response, of all answered exchanges
    :ivar broker_time: latency without designed waits. Exchanges that only waited are left out: their messages do not
        show how long the broker worked
    :ivar waited: designed waits, of the exchanges that waited; includes pauses of throttled connections
    :ivar wait_reasons: number of waits by reason
    """

    JSON = (
        "api api_key version exchanges unanswered no_response_expected not_recorded request_bytes response_bytes "
        "errors expected_errors problems=undecoded intervened latency broker_time waited wait_reasons"
    )

    api: str
    api_key: int | None
    version: int | None
    latency: Percentiles | None
    broker_time: Percentiles | None
    waited: Percentiles | None
    wait_reasons: dict[str, int]


@dataclass(slots=True, kw_only=True)
class _Sums(Counts):
    api_key: int | None
    latency: Times = field(default_factory=Times)
    broker_time: Times = field(default_factory=Times)
    waited: Times = field(default_factory=Times)
    wait_reasons: Counter[str] = field(default_factory=Counter)


class ApiStats:
    """Counts exchanges by API and version."""

    def __init__(self) -> None:
        self._sums: dict[ApiVersion, _Sums] = {}
        self._throttles = Throttles()
        self._waiting: dict[ApiVersion, list[tuple[int, int, int, str]]] = {}
        """Times not yet added by :meth:`_time`: an array per exchange would cost six times as much as the rest."""
        self._room = _TOGETHER

    def add(self, exchange: Exchange) -> None:
        """Count one exchange; exchanges must arrive in the order of their numbers."""
        self.count(ExchangeGroup.of(exchange))
        paused = self._throttles.of(exchange).paused
        if exchange.latency is not None:
            known = ApiVersion(exchange.api, exchange.version)
            times = exchange.latency, exchange.wait, paused, exchange.wait_reason
            self._waiting.setdefault(known, []).append(times)
            self._room -= 1
            if not self._room:
                self._take_times()

    def _take_times(self) -> None:
        """Add the times of exchanges that arrived one by one."""
        for known, times in self._waiting.items():
            *figures, reasons = zip(*times, strict=True)
            latency, wait, pause = np.array(figures, np.int64)
            self._time(known.api, known.version, latency, wait, pause, list(reasons))
        self._waiting, self._room = {}, _TOGETHER

    def add_columns(
        self,
        columns: ExchangeColumns,
        *,
        bodies: bool = True,
        groups: Iterable[ExchangeGroup] | None = None,
    ) -> None:
        """Count exchanges.

        :param columns: columns of a whole capture, or a part of it, in the order of exchange numbers
        :param bodies: whether to decode messages; otherwise errors and problems are not counted, and waits are not
            separated from work
        :param groups: the exchanges in groups, if there are any already
        """
        for group in exchange_groups(columns, bodies=bodies) if groups is None else groups:
            self.count(group)
        latency = columns.flat("latency")
        grouping = api_grouping(columns)
        pauses = paused(columns) if bodies else np.zeros(0, np.int64)
        for rows, (api, _, version) in zip(grouping, apis_of(columns, grouping.first), strict=True):
            answered = rows[latency[rows] != NO_VALUE]
            if not bodies:
                self._of(api, None, version).latency.extend(latency[answered])
                continue
            codes, texts = columns.flat("wait_reason")[answered], columns.texts("wait_reason")
            reasons = [texts[code] or "" if code >= 0 else "" for code in codes.tolist()]
            wait, pause = columns.flat("wait")[answered], pauses[answered]
            self._time(api, version, latency[answered], wait, pause, reasons)

    def count(self, group: ExchangeGroup) -> None:
        """Count exchanges, without their times."""
        self._of(group.api, group.api_key, group.version).include(group)

    def _time(
        self, api: str, version: int | None, latency: Int64s, wait: Int64s, pause: Int64s, reasons: list[str]
    ) -> None:
        """Add the times of answered exchanges.

        :param pause: ns for which the connection was paused
        """
        sums = self._of(api, None, version)
        sums.latency.extend(latency)
        halted = pause >= np.maximum(wait, LEAST_WAIT_NS)
        wait = np.where(halted, pause, wait)
        waited = np.flatnonzero(wait)
        sums.waited.extend(wait[waited])
        sums.wait_reasons.update(PAUSED if halted[row] else reasons[row] for row in waited.tolist())
        worked = (wait < latency) | (wait == 0)
        sums.broker_time.extend((latency - wait)[worked])

    def result(self) -> list[ApiRow]:
        """Return the figures, the most frequent API and version first."""
        self._take_times()
        rows = [
            ApiRow(
                api=known.api,
                api_key=sums.api_key,
                version=known.version,
                latency=sums.latency.percentiles(),
                broker_time=sums.broker_time.percentiles(),
                waited=sums.waited.percentiles(),
                wait_reasons=dict(sums.wait_reasons.most_common()),
            )
            for known, sums in self._sums.items()
        ]
        for row, sums in zip(rows, self._sums.values(), strict=True):
            row.include(sums)
        return sorted(rows, key=lambda row: (-row.exchanges, row.api, row.version or 0))

    def _of(self, api: str, key: int | None, version: int | None) -> _Sums:
        known = ApiVersion(api, version)
        sums = self._sums.get(known)
        if sums is None:
            sums = self._sums[known] = _Sums(api_key=key)
        return sums
