"""Quotas at work: who was throttled, on which API, and for how long.

Brokers before 2.0 hold the answer back for the time they tell; later ones answer at once and read nothing from the
connection until the time is over (KIP-219). Which of the two it was shows in the latency. A request that a client sends
into such a pause waits for its end: that is no work of the broker, and nothing in its own messages tells of it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from captures.analysis.introductions import ConnectionKey, client_name, connection_key
from captures.exchanges import Exchange, rfc3339

_MS = 1_000_000


@dataclass(slots=True)
class ThrottleRow:
    """The throttling of one client on one API.

    :ivar client: ID, or address without one
    :ivar responses: of this client on this API, throttled or not
    :ivar throttled: responses with a throttle time
    :ivar held: those of them that the broker held back; after the others it paused the connection
    :ivar paused: exchanges that waited for the end of a pause, throttled themselves or not
    :ivar paused_total: ns that these waited
    :ivar total_ms: of all throttle times told
    :ivar max_ms: the longest
    :ivar first: ns since the epoch, request time of the first throttled exchange; None if it was only paused
    :ivar last: of the last
    :ivar first_number: number of the first throttled exchange
    """

    client: str
    api: str
    responses: int = 0
    throttled: int = 0
    held: int = 0
    paused: int = 0
    paused_total: int = 0
    total_ms: int = 0
    max_ms: int = 0
    first: int | None = None
    last: int | None = None
    first_number: int | None = None
    brokers: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/json-stats.md``."""
        shape: dict[str, Any] = asdict(self)
        shape["paused_total_ns"] = shape.pop("paused_total")
        for name in ("first", "last"):
            shape[name] = None if shape[name] is None else rfc3339(shape[name])
        return shape


class Throttle(NamedTuple):
    """What quotas did to one exchange.

    :ivar told: ns of throttle time in the response
    :ivar held: the response was held back for it
    :ivar paused: ns of the latency in which the connection was paused because of an earlier response
    """

    told: int = 0
    held: bool = False
    paused: int = 0


class Throttles:
    """Follows the pauses of connections; exchanges have to come in the order of their numbers."""

    def __init__(self) -> None:
        self._until: dict[ConnectionKey, int] = {}

    def of(self, exchange: Exchange) -> Throttle:
        """Return what quotas did to the next exchange."""
        response, latency = exchange.response, exchange.latency
        told = ((response.value or {}).get("throttle_time_ms") or 0) * _MS if response is not None else 0
        if latency is None or (not told and not self._until):
            return Throttle(max(told, 0))
        key = connection_key(exchange)
        until = self._until.get(key, 0)
        paused = min(max(until - exchange.time, 0), latency)
        if told <= 0:
            return Throttle(0, False, paused)
        held = latency - paused >= told
        if not held:
            self._until[key] = max(until, exchange.time + latency + told)
        return Throttle(told, held, paused)


class ThrottleStats:
    """Collects throttle times by client and API."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], ThrottleRow] = {}
        self._throttles = Throttles()

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        response = exchange.response
        if response is None or not response.value:
            return
        key = client_name(exchange), exchange.api
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = ThrottleRow(*key)
        row.responses += 1
        throttle = self._throttles.of(exchange)
        if throttle.paused:
            row.paused += 1
            row.paused_total += throttle.paused
        if not throttle.told:
            return
        if not row.throttled:
            row.first, row.first_number = exchange.time, exchange.number
        told = throttle.told // _MS
        row.throttled += 1
        row.held += throttle.held
        row.total_ms += told
        row.max_ms = max(row.max_ms, told)
        row.last = max(row.last or 0, exchange.time)
        if exchange.broker not in row.brokers:
            row.brokers.append(exchange.broker)

    def result(self) -> list[ThrottleRow]:
        """Return who was throttled or paused, the longest in total first."""
        rows = [row for row in self._rows.values() if row.throttled or row.paused]
        return sorted(rows, key=lambda row: (-row.total_ms, row.client, row.api))

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rows as plain values."""
        return [row.to_json() for row in self.result()]
