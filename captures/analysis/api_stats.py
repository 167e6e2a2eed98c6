"""Per API and version: how often, how much, how fast, and how many went wrong.

Two ways in, which count the same: :meth:`ApiStats.add` takes exchanges with their bodies; :meth:`ApiStats.add_columns`
takes rows of an exchange table at once and leaves the bodies alone, which are what tells errors and waits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from captures.analysis.percentiles import Percentiles, Times
from captures.analysis.throttling import Throttles
from captures.exchanges import Exchange, ExchangeTable, Flag
from captures.meaning.waits import LEAST_WAIT_NS
from dissectors.apis import api_name

SASL_TOKEN = "SaslToken"  # noqa: S105  # a name
UNKNOWN = "unknown"
PAUSED = "connection paused by a quota (KIP-219)"


class ApiVersion(NamedTuple):
    """An API in one version; the version is None for raw SASL tokens and orphan responses."""

    api: str
    version: int | None


@dataclass(frozen=True, slots=True)
class ApiRow:
    """The figures of one API in one version.

    :ivar version: as announced by requests
    :ivar request_bytes: with size fields, as all bytes here
    :ivar errors: exchanges with an error that is no part of a normal conversation
    :ivar expected_errors: exchanges with none but errors that are
    :ivar problems: exchanges of which something could not be decoded (:func:`undecoded`)
    :ivar latency: last byte of the request to first byte of the response, of all that were answered
    :ivar broker_time: the same without what was waited by design. Exchanges that did nothing but wait are left out:
        their messages do not tell how long the broker worked
    :ivar waited: what was waited by design, of the exchanges that waited; pauses of a throttled connection included
    :ivar wait_reasons: why, and how often
    """

    api: str
    api_key: int | None
    version: int | None
    exchanges: int
    unanswered: int
    no_response_expected: int
    request_bytes: int
    response_bytes: int
    errors: int
    expected_errors: int
    problems: int
    latency: Percentiles | None
    broker_time: Percentiles | None
    waited: Percentiles | None
    wait_reasons: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/json-stats.md``."""
        shape = {name: getattr(self, name) for name in self.__slots__}
        for name in ("latency", "broker_time", "waited"):
            shape[name] = shape[name].to_json() if shape[name] else None
        return shape


@dataclass(slots=True)
class _Sums:
    api_key: int | None
    exchanges: int = 0
    unanswered: int = 0
    no_response_expected: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    errors: int = 0
    expected_errors: int = 0
    problems: int = 0
    latency: Times = field(default_factory=Times)
    broker_time: Times = field(default_factory=Times)
    waited: Times = field(default_factory=Times)
    wait_reasons: Counter[str] = field(default_factory=Counter)


def undecoded(exchange: Exchange) -> bool:
    """Tell whether a frame that is there was not decoded, or not all of it because of a limit.

    A response that the end cut off counts as unanswered instead, and one without its request as an orphan.
    """
    if Flag.ORPHAN in exchange.flag:
        return False
    if Flag.UNANSWERED in exchange.flag:
        return any(side == "request" for side, _ in exchange.problems)
    return bool(exchange.problems or exchange.limits)


class ApiStats:
    """Counts exchanges by API and version."""

    def __init__(self) -> None:
        self._sums: dict[ApiVersion, _Sums] = {}
        self._throttles = Throttles()

    def add(self, exchange: Exchange) -> None:
        """Count one exchange; they have to come in the order of their numbers."""
        sums = self._of(exchange.api, exchange.api_key, exchange.version)
        flag = exchange.flag
        sums.exchanges += 1
        sums.unanswered += Flag.UNANSWERED in flag
        sums.no_response_expected += Flag.NO_RESPONSE_EXPECTED in flag
        sums.request_bytes += exchange.request_size
        sums.response_bytes += exchange.response_size
        sums.problems += undecoded(exchange)
        if len(exchange.errors) > len(exchange.expected):
            sums.errors += 1
        elif exchange.errors:
            sums.expected_errors += 1
        if exchange.latency is None:
            return
        sums.latency.add(exchange.latency)
        wait, reason = exchange.wait, exchange.wait_reason
        paused = self._throttles.of(exchange).paused
        if paused >= max(wait, LEAST_WAIT_NS):
            wait, reason = paused, PAUSED
        if wait:
            sums.waited.add(wait)
            sums.wait_reasons[reason] += 1
        if wait < exchange.latency or not wait:
            sums.broker_time.add(exchange.latency - wait)

    def add_columns(self, table: ExchangeTable, rows: NDArray[np.int64]) -> None:
        """Count rows of a table, by its columns only: no errors, no problems, and no wait is told from work.

        :param rows: indexes
        """
        column = {
            name: table.column(name)[rows]
            for name in (
                "api_key",
                "version",
                "flags",
                "request_size",
                "response_size",
                "request_last",
                "response_first",
            )
        }
        latency = column["response_first"] - column["request_last"]
        answered = (column["request_size"] > 0) & (column["response_size"] > 0)
        token = (column["flags"] & Flag.SASL_TOKEN) != 0
        # key and version are 16 bits each, signed; tokens have neither
        kind = (
            column["api_key"].astype(np.int64) << 17
            | (column["version"].astype(np.int64) & 0xFFFF) << 1
            | token
        )
        for value in np.unique(kind).tolist():
            chosen = kind == value
            at = int(np.argmax(chosen))
            key, version = int(column["api_key"][at]), int(column["version"][at])
            known = key >= 0
            name = SASL_TOKEN if token[at] else api_name(key) if known else UNKNOWN
            sums = self._of(name, key if known else None, version if known else None)
            flags = column["flags"][chosen]
            sums.exchanges += int(chosen.sum())
            sums.unanswered += int(np.count_nonzero(flags & Flag.UNANSWERED))
            sums.no_response_expected += int(np.count_nonzero(flags & Flag.NO_RESPONSE_EXPECTED))
            sums.request_bytes += int(column["request_size"][chosen].sum(dtype=np.int64))
            sums.response_bytes += int(column["response_size"][chosen].sum(dtype=np.int64))
            sums.latency.extend(latency[chosen & answered])

    def result(self) -> list[ApiRow]:
        """Return the figures, the most frequent API and version first."""
        rows = [
            ApiRow(
                api=known.api,
                api_key=sums.api_key,
                version=known.version,
                exchanges=sums.exchanges,
                unanswered=sums.unanswered,
                no_response_expected=sums.no_response_expected,
                request_bytes=sums.request_bytes,
                response_bytes=sums.response_bytes,
                errors=sums.errors,
                expected_errors=sums.expected_errors,
                problems=sums.problems,
                latency=sums.latency.percentiles(),
                broker_time=sums.broker_time.percentiles(),
                waited=sums.waited.percentiles(),
                wait_reasons=dict(sums.wait_reasons.most_common()),
            )
            for known, sums in self._sums.items()
        ]
        return sorted(rows, key=lambda row: (-row.exchanges, row.api, row.version or 0))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as plain values."""
        return [row.to_json() for row in self.result()]

    def _of(self, api: str, key: int | None, version: int | None) -> _Sums:
        known = ApiVersion(api, version)
        sums = self._sums.get(known)
        if sums is None:
            sums = self._sums[known] = _Sums(key)
        return sums
