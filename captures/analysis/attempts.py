"""Attempts to connect and their outcomes, as TCP shows them before any byte of Kafka."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from enum import Enum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from captures.exchanges import Capture

PATIENCE = 1_000_000_000
"""ns after which a SYN counts as unanswered; a SYN is first retransmitted after that time (RFC 6298)."""


class Outcome(Enum):
    """The outcome of an attempt to connect."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """Answered by a RST: no process listens there."""
    SILENT = "no answer"
    """No reply: the address is wrong, the host is down, or a firewall drops packets."""


class Attempt(NamedTuple):
    """One attempt.

    :ivar time: time of the SYN, ns since the epoch
    :ivar client: ``host:port``
    :ivar broker: ``host:port``
    """

    connection: int
    time: int
    client: str
    broker: str
    outcome: Outcome


def attempts(capture: Capture, wanted: Collection[Outcome] = tuple(Outcome)) -> Iterator[Attempt]:
    """Yield the attempts to connect whose SYN was captured, ordered by connection.

    If packets of only one side were captured, no attempt is ``SILENT``: an answer would not have been seen.

    :param wanted: yield only these outcomes; few are fast
    """
    connections = capture.connections
    streams, size = connections.streams, len(connections)
    both = np.arange(size) * 2
    packets, accepted, resets = (
        column[both + 1] for column in (streams.packets, streams.syn_seen, streams.reset_time)
    )
    refused = ~accepted & (resets >= 0) & (streams.end[both + 1] == 0)
    waited = capture.observed_until(np.arange(size)) - connections.syn_time >= PATIENCE
    silent = (packets == 0) & waited & bool(np.any(packets > 0))
    begun = connections.syn_time >= 0
    which = {Outcome.ACCEPTED: accepted, Outcome.REFUSED: refused, Outcome.SILENT: silent}
    asked_for = np.any([which[outcome] for outcome in wanted], axis=0)
    for connection in np.flatnonzero(begun & asked_for).tolist():
        outcome = next(outcome for outcome in wanted if which[outcome][connection])
        client, broker = capture.endpoints(connection)
        yield Attempt(connection, int(connections.syn_time[connection]), client, broker, outcome)


class Acceptances:
    """Times at which brokers accepted connections. A growing capture is read once, at the first query."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def next(self, broker: str, after: int) -> int | None:
        """Return the first time after `after` at which a broker accepted a connection; None if none was captured."""
        times = self._by_broker.get(broker, [])
        index = bisect_right(times, after)
        return times[index] if index < len(times) else None

    @cached_property
    def _by_broker(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for attempt in attempts(self._capture, (Outcome.ACCEPTED,)):
            found.setdefault(attempt.broker, []).append(attempt.time)
        for times in found.values():
            times.sort()
        return found


def ended_by_brokers(capture: Capture) -> Iterator[tuple[int, int]]:
    """Yield the connections that brokers ended first, and when, in ns since the epoch."""
    connections, streams = capture.connections, capture.connections.streams
    never = np.iinfo(np.int64).max
    fins, resets = (np.where(times >= 0, times, never) for times in (streams.fin_time, streams.reset_time))
    ends = np.minimum(fins, resets).reshape(-1, 2)
    # direction 0 is the client's if the SYN was captured; for other connections the capture knows
    likely = (ends[:, 1] < ends[:, 0]) | (~connections.client_known & (ends < never).any(axis=1))
    for connection in np.flatnonzero(likely).tolist():
        time = ended_by_broker(capture, connection)
        if time is not None:
            yield connection, time


def ended_by_broker(capture: Capture, connection: int) -> int | None:
    """Return when the broker ended a connection, in ns since the epoch.

    None if it is open, or the client was first, or kproxy ended it for a rule or a user.
    """
    end = None if connection in capture.notes.ended_connections else ending(capture, connection)
    return end.time if end is not None and end.by_broker else None


def ended(capture: Capture, connection: int) -> int | None:
    """Return when either side ended a connection, in ns since the epoch; None if it is open."""
    end = ending(capture, connection)
    return None if end is None else end.time


class Ending(NamedTuple):
    """The first FIN or RST of a connection; of several at that time a client's, then a FIN.

    :ivar time: ns since the epoch
    :ivar by_broker: whether the broker sent it
    :ivar reset: whether it was an RST
    """

    time: int
    by_broker: bool
    reset: bool


def ending(capture: Capture, connection: int) -> Ending | None:
    """Return how a connection ended; None if it is open."""
    if connection >= len(capture.connections):
        return None
    streams, client = capture.connections.streams, capture.client_stream(connection)
    ends = [
        Ending(int(times[stream]), stream != client, reset)
        for stream in (client, client ^ 1)
        for times, reset in ((streams.fin_time, False), (streams.reset_time, True))
    ]
    return min((end for end in ends if end.time >= 0), default=None)
