"""Connections of a request log whose addresses were translated between client and broker.

A log names the ends that the broker sees: behind address translation or a load balancer these differ from the captured
ones. Such connections are matched as a whole, when all of the log was read: API, version, correlation ID and client ID
of their exchanges must be equal, the requests and responses byte by byte as far as both are complete, within the time
that both cover. One of the frames must contain what a broker gives to one client only: a member ID, a producer ID or
the ID of a fetch session. Without it, one of several clients that do the same may be captured and another one logged. A
connection that matches several ones is not matched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from captures.request_log.bodies import BodyError
from dissectors.api_keys import ApiKey
from dissectors.budget import limit
from dissectors.headers import SIZE_BYTES
from dissectors.sides import SIDES

if TYPE_CHECKING:
    from captures.exchanges.capture import Capture
    from captures.request_log.captured import LoggedExchange

MOST_CLOCK_DIFFERENCE = 60_000_000_000
"""Most ns between a captured request and its entry in a broker's request log."""
_MOST_JITTER = 500_000_000
"""Most ns by which the differences of the clocks may vary on a connection."""
_LEAST = 3
"""Least number of exchanges by which a connection is recognised."""
_OWN_ID = re.compile(
    r"(?:member_?id|producer_?id|session_?id)['\"]?[:=] ?['\"]?(?!(?:0|-1|None|null)?[,'\"}])[^,'\"}]",
    re.IGNORECASE,
)
"""An ID that a broker gives to one client, in the fields of a request or response in either form of the log."""
_GIVES_ID = frozenset({
    ApiKey.JOIN_GROUP, ApiKey.INIT_PRODUCER_ID, ApiKey.FETCH, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT,
})  # fmt: skip
"""APIs whose responses give one; others, such as DescribeGroups, name those of other clients."""
_ENTRY_BYTES = 4096
"""Bytes that a held entry takes, roughly."""

#: API, version, correlation ID, client ID
_Key = tuple[int, int, int, str | None]


class _Request(NamedTuple):
    """A captured request."""

    time: int
    connection: int
    row: int


class TranslatedConnections:
    """Holds the entries of connections that may have been translated.

    :ivar ambiguous: entries of connections that match several captured ones, or are one of several that match one
    :ivar uncertain: entries of connections of which captured ones have requests, but too few or not the same
    :ivar matched: connections that were matched
    """

    def __init__(self, capture: Capture) -> None:
        self.ambiguous = self.uncertain = self.matched = 0
        self._capture = capture
        self._requests: defaultdict[_Key, list[_Request]] = defaultdict(list)
        self._rows: defaultdict[int, list[_Request]] = defaultdict(list)
        self._held: dict[str, list[LoggedExchange]] = {}
        self._count = 0
        self._passed: set[str] = set()
        table = capture.table
        names = "connection", "api_key", "version", "correlation_id", "client_id", "request_last"
        columns = (table.column(name).tolist() for name in names)
        for row, (connection, api, version, correlation, client, time) in enumerate(
            zip(*columns, strict=True)
        ):
            if time >= 0 and api >= 0:
                found = _Request(time, connection, row)
                client_id = table.client_ids[client] if client >= 0 else None
                self._requests[api, version, correlation, client_id].append(found)
                self._rows[connection].append(found)
        brokers = {capture.endpoints(connection)[1] for connection in self._rows}
        self._brokers = brokers

    def hold(self, logged: LoggedExchange) -> bool:
        """Keep an entry until :meth:`resolve`, if captured requests look like it; return whether it was kept."""
        held = self._held.get(logged.connection)
        if held is None:
            if logged.connection in self._passed or not any(self._alike(logged)):
                self._passed.add(logged.connection)
                return False
            held = self._held[logged.connection] = []
        held.append(logged)
        self._count += 1
        return True

    @property
    def full(self) -> bool:
        """Whether held entries take as much memory as waiting ones may."""
        return self._count * _ENTRY_BYTES > limit("log_waiting_bytes")

    def resolve(self, taken: set[int]) -> tuple[list[tuple[int, LoggedExchange]], list[LoggedExchange]]:
        """Return the entries that belong to captured exchanges, with the rows of these, and all others.

        :param taken: connections whose ends a log has
        """
        matches = {
            name: {
                connection: rows
                for connection in {each.connection for entry in entries for each in self._alike(entry)}
                if connection not in taken and (rows := self._match(entries, connection))
            }
            for name, entries in self._held.items()
        }
        claimed = defaultdict[int, int](int)
        for found in matches.values():
            for connection in found:
                claimed[connection] += 1
        sure, rest = list[tuple[int, "LoggedExchange"]](), list["LoggedExchange"]()
        for name, entries in self._held.items():
            found = matches[name]
            if len(found) == 1 and all(claimed[connection] == 1 for connection in found):
                [rows] = found.values()
                self.matched += 1
                sure += [(rows[at], entry) for at, entry in enumerate(entries) if at in rows]
                rest += [entry for at, entry in enumerate(entries) if at not in rows]
                continue
            self.ambiguous += len(entries) if found else 0
            self.uncertain += 0 if found else len(entries)
            rest += entries
        self._passed |= self._held.keys()
        self._held, self._count = {}, 0
        return sure, rest

    def _alike(self, logged: LoggedExchange) -> Iterator[_Request]:
        """Yield captured requests with the same header at about the same time, of the same broker if it was seen."""
        key = logged.api_key, logged.version, logged.correlation_id, logged.client_id
        for each in self._requests.get(key, ()):
            broker = self._capture.endpoints(each.connection)[1]
            if abs(each.time - logged.time) <= MOST_CLOCK_DIFFERENCE and (
                broker == logged.ends[1] or logged.ends[1] not in self._brokers
            ):
                yield each

    def _match(self, entries: list[LoggedExchange], connection: int) -> dict[int, int]:
        """Return the rows of a connection by the index of their entries; empty if it is not that of the entries."""
        rows = dict[int, int]()
        used, ahead = set[int](), list[int]()
        for at, entry in enumerate(entries):
            own = [each for each in self._alike(entry) if each.connection == connection]
            own = [each for each in own if each.row not in used]
            if own:
                nearest = min(own, key=lambda each: abs(each.time - entry.time))
                rows[at] = nearest.row
                used.add(nearest.row)
                ahead.append(nearest.time - entry.time)
        if len(rows) < _LEAST or max(ahead) - min(ahead) > _MOST_JITTER:
            return {}
        offset = int(np.median(ahead))
        times = [each.time for each in self._rows[connection]]
        begin = max(entries[0].time + offset, min(times))
        end = min(entries[-1].time + offset, max(times))
        inside = [at for at, entry in enumerate(entries) if begin <= entry.time + offset <= end]
        captured = [each for each in self._rows[connection] if begin <= each.time <= end]
        if not used.issuperset(each.row for each in captured) or not rows.keys() >= set(inside):
            return {}
        if not any(_has_own_id(entries[at]) for at in rows):
            return {}
        return rows if all(self._equal(entries[at], row) for at, row in rows.items()) else {}

    def _equal(self, entry: LoggedExchange, row: int) -> bool:
        """Return whether the complete frames of an entry are those that were captured."""
        try:
            encoded = entry.frames()
        except BodyError:
            return False
        values = self._capture.table.row(row)
        for side in SIDES:
            frame = getattr(encoded, side)
            captured = self._capture.frame(
                values["connection"], side, values[f"{side}_position"], values[f"{side}_size"]
            )
            whole = captured is not None and captured.complete and frame
            if whole and not getattr(encoded, f"{side}_left_out"):
                assert captured is not None
                if frame[SIZE_BYTES:] != captured.payload:
                    return False
        return True


def _has_own_id(logged: LoggedExchange) -> bool:
    """Return whether an entry has an ID that the broker gave to this client only."""
    _, entry = logged.entry
    given = entry.response if logged.api_key in _GIVES_ID else None
    return any(_OWN_ID.search(str(body)) for body in (entry.request, given) if body)
