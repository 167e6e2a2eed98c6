"""Settings from connections: security, idle connections that the client closes, and failed attempts."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

import msgspec

from captures.analysis.attempts import Outcome, attempts, ended, ended_by_broker
from captures.analysis.client_identity import Introduction
from captures.analysis.clients.request_timing import Gaps, backoff, steady
from captures.analysis.clients.settings import Setting, Values
from captures.exchanges import Capture

_LEAST_IDLE = 30_000_000_000
"""ns; connections closed sooner may have been closed for another reason."""
_GOES_ON = 1_000_000_000
_LONGEST_BACKOFF = 60_000_000_000
"""ns; later attempts to connect are not retries."""


class Links(msgspec.Struct):
    """Facts about the connections of one client.

    :ivar values: values of ``security.protocol`` and ``sasl.mechanism``
    :ivar idle: idle times of connections that the client closed
    :ivar reconnects: times between a refused attempt and the next one
    """

    values: dict[str, Values] = {}
    idle: Gaps = msgspec.field(default_factory=Gaps)
    reconnects: Gaps = msgspec.field(default_factory=Gaps)

    def secured(self, intro: Introduction, number: int, *, tls: bool) -> None:
        """Add the security of one connection.

        :param number: number of its first exchange
        """
        protocol = ("SASL_" if intro.mechanism else "") + ("SSL" if tls else "PLAINTEXT")
        self.values.setdefault("security.protocol", Values()).add(protocol, number)
        if intro.mechanism:
            self.values.setdefault("sasl.mechanism", Values()).add(intro.mechanism, number)

    def settings(self) -> Iterator[Setting]:
        """Yield the settings that follow."""
        for key, values in self.values.items():
            yield values.setting(key)
        what = "for which connections were idle when closed"
        yield from steady("connections.max.idle.ms", self.idle, what, least=1)
        yield from backoff("reconnect.backoff.ms", self.reconnects, "refused connections are tried again")


class ActiveTimes:
    """The times in which a client was active.

    :param spans: first and last activity on each of its connections, in ns since the epoch
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._first = [first for first, _ in ordered]
        self._until = list(accumulate((until for _, until in ordered), max))

    def spans(self, before: int, after: int) -> bool:
        """Return whether one connection was active before `before` and still after `after`."""
        begun = bisect_left(self._first, before)
        return begun > 0 and self._until[begun - 1] > after


def idle_before_close(capture: Capture, connection: int, last: int, presence: ActiveTimes) -> int | None:
    """Return how long a connection was idle before its client closed it, in ns; None if that was not the reason.

    :param last: last activity on it, ns since the epoch
    :param presence: presence of the client
    """
    end = ended(capture, connection)
    if end is None or ended_by_broker(capture, connection) is not None or end - last < _LEAST_IDLE:
        return None
    # a client that leaves closes all connections; one that stays has another, before and after
    return end - last if presence.spans(last, end + _GOES_ON) else None


def failed_attempts(capture: Capture) -> Iterator[tuple[str, int]]:
    """Yield the host and the time in ns between a refused attempt to connect and the next one."""
    tries: dict[tuple[str, str], list[tuple[int, bool]]] = defaultdict(list)
    for attempt in attempts(capture):
        host = attempt.client.rpartition(":")[0]
        tries[host, attempt.broker].append((attempt.time, attempt.outcome is Outcome.REFUSED))
    for (host, _), each in tries.items():
        for (before, refused), (after, _) in pairwise(sorted(each)):
            if refused and after - before <= _LONGEST_BACKOFF:
                yield host, after - before
