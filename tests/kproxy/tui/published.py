"""A session that publishes data from a test, without a capture or threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any

import numpy as np

from kproxy.session.published import HeldMessage, ShownExchanges, State, Status, Summary

BEGIN = 1_795_252_443_218_000_000  # 09:14:03.218 UTC
MS = 1_000_000
SECOND = 1_000_000_000


def summary(number: int, **changes: Any) -> Summary:
    """Return a line of the list."""
    made = Summary(
        number=number,
        time=BEGIN + number * MS,
        latency=900_000,
        wait=0,
        client="orders-svc-1",
        client_id="orders-svc-1",
        client_address="10.0.0.7:41078",
        broker="b1",
        api="Metadata v13",
        version=13,
        request="orders payments",
        response="3 brokers",
        text="",
        errors=(),
        request_size=72,
        response_size=412,
        state=State.OK,
        marked=False,
        comment="",
        connection=1,
        correlation_id=number,
    )
    return replace(made, **changes)


def held(number: int, **changes: Any) -> HeldMessage:
    """Return a held message."""
    made = HeldMessage(
        number=number,
        side="request",
        api="Produce",
        version=13,
        correlation_id=5,
        connection=3,
        client="10.0.0.7:41078",
        client_id="orders-svc-1",
        broker="b1",
        size=1_200,
        since=BEGIN,
        until=BEGIN + 30 * SECOND,
        waiting_behind=2,
    )
    return replace(made, **changes)


class PublishedSummaries:
    """Summaries that are available at once, or only after they were requested.

    :ivar wanted: the last request
    """

    def __init__(self, make: Callable[[int], Summary], *, at_once: bool = True) -> None:
        self.make = make
        self.at_once = at_once
        self.wanted: list[int] = []
        self.version = 0
        self._made: dict[int, Summary] = {}

    def get(self, number: int) -> Summary | None:
        """Return a line, None if it is not made yet."""
        if number not in self._made and self.at_once:
            self._made[number] = self.make(number)
        return self._made.get(number)

    def want(self, numbers: Sequence[int]) -> None:
        """Store the request."""
        self.wanted = list(numbers)

    def carry_out(self) -> None:
        """Create the requested lines."""
        self._made |= {number: self.make(number) for number in self.wanted}
        self.version += 1

    def renew(self) -> None:
        """Recreate all lines."""
        self._made.clear()
        self.version += 1


class PublishedSession:
    """The parts of a session that the list and others read."""

    def __init__(
        self,
        count: int = 0,
        make: Callable[[int], Summary] = summary,
        *,
        live: bool = False,
        at_once: bool = True,
    ) -> None:
        self.title = "orders.pcapng"
        self.live = live
        self.zone: tzinfo | None = UTC
        self.show_secrets = False
        self.held: tuple[HeldMessage, ...] = ()
        self.summaries = PublishedSummaries(make, at_once=at_once)
        self.status = Status()
        self.shown = ShownExchanges(0, 0)
        self.grow(count)

    def publish(self, **changes: Any) -> None:
        """Publish another status."""
        self.status = replace(self.status, version=self.status.version + 1, **changes)

    def grow(self, count: int) -> None:
        """Publish a total number of exchanges."""
        self.shown = ShownExchanges(self.shown.version + 1, count)
        self.publish(exchanges=count, shown=count, begin=BEGIN, latest=BEGIN + count * MS)

    def show(self, numbers: Sequence[int], *, rising: bool = True, **changes: Any) -> None:
        """Publish the content of the list."""
        self.shown = ShownExchanges(
            self.shown.version + 1, len(numbers), numbers=np.asarray(numbers, np.int64), rising=rising
        )
        self.publish(shown=len(numbers), **changes)
