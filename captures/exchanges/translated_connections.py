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
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from functools import cache, cached_property
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from captures.request_log.bodies import BodyError
from dissectors.api_keys import ApiKey
from dissectors.budget import limit
from dissectors.headers import SIZE_BYTES
from dissectors.sides import SIDES, Side

if TYPE_CHECKING:
    from captures.exchanges.capture import Capture
    from captures.request_log.captured import LoggedExchange
    from captures.request_log.entries import Entry

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

_AMBIGUOUS = "several connections are alike"
_UNCERTAIN = "no captured connection with such requests is certain to be the same"

#: addresses of client and broker
Ends = tuple[str, str]
#: times and rows of captured requests, in the order of time
Rows = list[tuple[int, int]]
#: API, version, correlation ID, client ID
_Key = tuple[int, int, int, str | None]
#: digests of request and response; None for one that is not complete
_Contents = tuple[bytes | None, bytes | None]


def nearest(rows: Rows, time: int) -> int | None:
    """Return the index of the row that is nearest to a time in a log; None if clocks cannot differ by as much."""
    after = bisect_left(rows, (time, 0))
    near = range(max(after - 1, 0), min(after + 1, len(rows)))
    found = min(near, key=lambda at: abs(rows[at][0] - time), default=None)
    return found if found is None or abs(rows[found][0] - time) <= MOST_CLOCK_DIFFERENCE else None


class TranslatedConnections:
    """Holds the entries of connections that may have been translated.

    :ivar ends: the captured ends of the connections that were matched, by their names in the log
    :ivar unmatched: number of entries of other connections that have captured requests, by the reason
    """

    def __init__(self, capture: Capture) -> None:
        self.ends: dict[str, Ends] = {}
        self.unmatched: Counter[str] = Counter()
        self._capture = capture
        self._captured = len(capture.table)
        self._held: dict[str, list[LoggedExchange]] = {}
        self._count = 0
        self._before: dict[str, int] = {}
        """Time of the last entry of a connection before those that are held."""
        self._reasons: dict[str, str] = {}
        self._captured_contents: dict[int, _Contents] = {}
        self._indexes: dict[tuple[_Key, Side], defaultdict[bytes | None, set[Ends]]] = {}

    def hold(self, logged: LoggedExchange) -> bool:
        """Keep an entry until :meth:`resolve`, if captured requests look like it; return whether it was kept."""
        if logged.entry.is_forwarded:  # captured as an Envelope, with a header of its own
            return False
        name = logged.entry.connection
        if name in self._reasons:
            self.unmatched[self._reasons[name]] += 1
            return False
        held = self._held.get(name)
        if held is None:
            alike = self._requests.get(_key(logged.entry), {}).items()
            if name in self.ends or not any(
                self._may_be_of(logged.entry, ends) and nearest(rows, logged.time) is not None
                for ends, rows in alike
            ):
                self._before[name] = logged.time
                return False
            held = self._held[name] = []
        held.append(logged)
        self._count += 1
        return True

    @property
    def full(self) -> bool:
        """Whether held entries take as much memory as waiting ones may."""
        return self._count * _ENTRY_BYTES > limit("log_waiting_bytes")

    def resolve(self, taken: set[Ends]) -> list[LoggedExchange]:
        """Match the held connections; return their entries.

        :param taken: ends that a log has
        """
        matches = {name: self._matches(name, taken) for name in self._held}
        claimed = Counter(chain.from_iterable(matches.values()))
        for name, found in matches.items():
            if len(found) == 1 and claimed[found[0]] == 1:
                self.ends[name] = found[0]
            else:
                self._reasons[name] = _AMBIGUOUS if found else _UNCERTAIN
        held = sorted(chain.from_iterable(self._held.values()), key=lambda each: each.written)
        self._held, self._count = {}, 0
        return held

    @cached_property
    def _requests(self) -> dict[_Key, dict[Ends, Rows]]:
        """The captured requests by what the log has of them."""
        requests: defaultdict[_Key, dict[Ends, Rows]] = defaultdict(dict)
        table = self._capture.table
        names = "connection", "api_key", "version", "correlation_id", "client_id", "request_last"
        columns = (table.column(name)[: self._captured].tolist() for name in names)
        for row, (connection, api, version, correlation, client, time) in enumerate(
            zip(*columns, strict=True)
        ):
            if time >= 0 and api >= 0:
                key = api, version, correlation, table.client_ids[client] if client >= 0 else None
                requests[key].setdefault(self._capture.endpoints(connection), []).append((time, row))
        for each in requests.values():
            for rows in each.values():
                rows.sort()
        return dict(requests)

    @cached_property
    def _rows(self) -> dict[Ends, Rows]:
        """The captured requests by the ends of their connections."""
        found: defaultdict[Ends, Rows] = defaultdict(list)
        for each in self._requests.values():
            for ends, rows in each.items():
                found[ends] += rows
        return dict(found)

    @cached_property
    def _brokers(self) -> set[str]:
        return {broker for _, broker in self._rows}

    def _may_be_of(self, entry: Entry, ends: Ends) -> bool:
        """Return whether captured ends may be those of an entry: with the same broker, if that was captured."""
        broker = entry.ends[1]
        return ends[1] == broker or broker not in self._brokers

    def _matches(self, name: str, taken: set[Ends]) -> list[Ends]:
        """Return the captured ends that a held connection may have."""
        entries = self._held[name]
        own = [at for at, each in enumerate(entries) if _has_own_id(each.entry)]
        contents = cache(lambda at: _logged_contents(entries[at]))
        equal = set(chain.from_iterable(self._equal_ends(entries[at].entry, contents(at)) for at in own))
        return [ends for ends in equal - taken if self._match(name, own, ends, contents)]

    def _equal_ends(self, entry: Entry, contents: _Contents | None) -> list[Ends]:
        """Return the captured ends with an exchange that equals an entry. They are few, whatever the number of clients
        that send requests with the same header.
        """
        key = _key(entry)
        if contents is None or key not in self._requests:
            return []
        equal: list[tuple[Collection[Ends], Collection[Ends]]] = [
            (by_content.get(content, ()), by_content.get(None, ()))
            for side, content in zip(SIDES, contents, strict=True)
            if content is not None and (by_content := self._by_content(key, side))
        ]
        first, *others = sorted(equal, key=lambda each: sum(map(len, each))) or [(self._requests[key], ())]
        return [
            ends
            for ends in chain(*first)
            if self._may_be_of(entry, ends) and all(ends in these or ends in those for these, those in others)
        ]

    def _match(
        self, name: str, own: list[int], ends: Ends, contents: Callable[[int], _Contents | None]
    ) -> bool:
        """Return whether a held connection is certain to be that between some captured ends.

        :param own: indexes of entries with an ID that the broker gave to this client only
        :param contents: returns the contents of an entry; None if its frames cannot be encoded
        """
        entries, rows, ahead = self._held[name], dict[int, int](), list[int]()
        left = dict[_Key, Rows]()
        for at, entry in enumerate(entries):
            key = _key(entry.entry)
            if key not in left:
                left[key] = list(self._requests.get(key, {}).get(ends, ()))
            index = nearest(left[key], entry.time)
            if index is not None:
                time, rows[at] = left[key].pop(index)
                ahead.append(time - entry.time)
        if len(rows) < _LEAST or max(ahead) - min(ahead) > _MOST_JITTER:
            return False
        offset = int(np.median(ahead))
        times = [time for time, _ in self._rows[ends]]
        before = self._before.get(name)
        begin = max((entries[0].time if before is None else before) + offset, min(times))
        end = min(entries[-1].time + offset, max(times))
        if before is not None and before + offset >= begin:
            return False
        inside = {at for at, entry in enumerate(entries) if begin <= entry.time + offset <= end}
        captured = {row for time, row in self._rows[ends] if begin <= time <= end}
        return (
            captured <= set(rows.values())
            and inside <= rows.keys()
            and any(at in rows for at in own)
            and all(_are_equal(contents(at), self._contents(row)) for at, row in rows.items())
        )

    def _by_content(self, key: _Key, side: Side) -> dict[bytes | None, set[Ends]]:
        """Return the captured ends by the contents of their frames of an API and correlation ID."""
        if (key, side) not in self._indexes:
            index = self._indexes[key, side] = defaultdict(set)
            at = SIDES.index(side)
            for ends, rows in self._requests[key].items():
                for _, row in rows:
                    index[self._contents(row)[at]].add(ends)
        return self._indexes[key, side]

    def _contents(self, row: int) -> _Contents:
        """Return the contents of a captured exchange."""
        if row not in self._captured_contents:
            values = self._capture.table.row(row)
            request, response = (
                self._capture.frame(
                    values["connection"], side, values[f"{side}_position"], values[f"{side}_size"]
                )
                for side in SIDES
            )
            self._captured_contents[row] = (
                _digest(request.payload) if request is not None and request.complete else None,
                _digest(response.payload) if response is not None and response.complete else None,
            )
        return self._captured_contents[row]


def _logged_contents(logged: LoggedExchange) -> _Contents | None:
    """Return the contents of an entry; None if it cannot be encoded."""
    if logged.entry.arrived_before_log:
        return None, None
    try:
        frames = logged.frames()
    except BodyError:
        return None
    return (
        None if frames.request_left_out else _digest(frames.request[SIZE_BYTES:]),
        None if frames.response_left_out or not frames.response else _digest(frames.response[SIZE_BYTES:]),
    )


def _digest(payload: bytes | memoryview) -> bytes:
    return blake2b(payload, digest_size=16).digest()


def _are_equal(logged: _Contents | None, captured: _Contents) -> bool:
    """Return whether the complete frames of an entry are those that were captured."""
    return logged is not None and all(
        one is None or other is None or one == other for one, other in zip(logged, captured, strict=True)
    )


def _key(entry: Entry) -> _Key:
    header = entry.request_header
    return header.request_api_key, header.request_api_version, header.correlation_id, header.client_id


def _has_own_id(entry: Entry) -> bool:
    """Return whether an entry has an ID that the broker gave to this client only, and can be compared."""
    if entry.arrived_before_log:
        return False
    given = entry.response if entry.request_header.request_api_key in _GIVES_ID else None
    return any(_OWN_ID.search(str(body)) for body in (entry.request, given) if body)
