"""What connections tell of settings: security, idle ones that the client closes, and attempts that fail."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from captures.analysis.attempts import Outcome, attempts, ended, ended_by_broker
from captures.analysis.client_identity import Introduction
from captures.analysis.clients.rhythm import Gaps, backoff, steady
from captures.analysis.clients.settings import Setting, Values
from captures.exchanges import Capture

_LEAST_IDLE = 30_000_000_000
"""ns; what is closed sooner may have been closed for something else."""
_GOES_ON = 1_000_000_000
_LONGEST_BACKOFF = 60_000_000_000
"""ns; later attempts to connect are no repetitions."""


@dataclass(slots=True)
class Links:
    """What the connections of one client tell.

    :ivar values: of ``security.protocol`` and ``sasl.mechanism``
    :ivar idle: how long connections were idle when the client closed them
    :ivar reconnects: how long after an attempt that was refused the next one came
    """

    values: dict[str, Values] = field(default_factory=dict)
    idle: Gaps = field(default_factory=Gaps)
    reconnects: Gaps = field(default_factory=Gaps)

    def secured(self, intro: Introduction, number: int, *, tls: bool) -> None:
        """Note what one connection shows of its security.

        :param number: of its first exchange
        """
        protocol = ("SASL_" if intro.mechanism else "") + ("SSL" if tls else "PLAINTEXT")
        self.values.setdefault("security.protocol", Values()).add(protocol, number)
        if intro.mechanism:
            self.values.setdefault("sasl.mechanism", Values()).add(intro.mechanism, number)

    def settings(self) -> Iterator[Setting]:
        """Yield what they come to."""
        for key, values in self.values.items():
            yield values.setting(key)
        idle = steady("connections.max.idle.ms", self.idle, 1, "for which connections were idle when closed")
        if idle is not None:
            yield idle
        again = backoff("reconnect.backoff.ms", self.reconnects, "refused connections are tried again")
        if again is not None:
            yield again


class Presence:
    """When a client was there.

    :param spans: first and last time at which anything was said on each of its connections, in ns since the epoch
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._first = [first for first, _ in ordered]
        self._until = list(accumulate((until for _, until in ordered), max))

    def spans(self, before: int, after: int) -> bool:
        """Tell whether a connection was there before one time and is still after another."""
        begun = bisect_left(self._first, before)
        return begun > 0 and self._until[begun - 1] > after


def idle_before_close(capture: Capture, connection: int, last: int, presence: Presence) -> int | None:
    """Return how long a connection was idle before its client closed it, in ns; None if that was not why it did.

    :param last: ns since the epoch, when anything was said on it last
    :param presence: of the client
    """
    end = ended(capture, connection)
    if end is None or ended_by_broker(capture, connection) is not None or end - last < _LEAST_IDLE:
        return None
    # a client that leaves closes all; one that goes on has another connection, before as after
    return end - last if presence.spans(last, end + _GOES_ON) else None


def failed_attempts(capture: Capture) -> Iterator[tuple[str, int]]:
    """Yield the host that tried to connect again after an attempt was refused, and how long after that, in ns."""
    tries: dict[tuple[str, str], list[tuple[int, bool]]] = defaultdict(list)
    for attempt in attempts(capture):
        host = attempt.client.rpartition(":")[0]
        tries[host, attempt.broker].append((attempt.time, attempt.outcome is Outcome.REFUSED))
    for (host, _), each in tries.items():
        for (before, refused), (after, _) in pairwise(sorted(each)):
            if refused and after - before <= _LONGEST_BACKOFF:
                yield host, after - before
