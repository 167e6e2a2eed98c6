"""Entries of request logs whose exchanges were captured as packets, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from captures.interventions import BrokerLog


class Place(NamedTuple):
    """What identifies the exchange of an entry among captured ones.

    :ivar ends: client and broker
    :ivar time: when the broker had read the request, in ns since the epoch
    """

    ends: tuple[str, str]
    api_key: int
    correlation_id: int
    time: int


class CapturedExchanges:
    """Captured exchanges that a request log may have, too.

    :ivar take: takes over the measurements of an entry; returns whether its exchange was captured. It is set by the
        reader of the packets, which knows their exchanges before the log is read
    """

    def __init__(self) -> None:
        self.take: Callable[[Place, BrokerLog], bool] = lambda _place, _log: False
