"""Entries of request logs whose exchanges were captured as packets, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from captures.interventions import BrokerLog
    from captures.request_log.entries import Entry
    from captures.request_log.frames import Frames


class LoggedExchange(NamedTuple):
    """An exchange as its entry has it.

    :ivar entry: when it was written, in ns since the epoch, and the entry
    :ivar connection: its name in the log
    :ivar ends: client and broker
    :ivar client_id: client ID in the request
    :ivar time: when the broker had read the request, in ns since the epoch
    :ivar duration: ns from then until it began to send the response
    :ivar measured: what the broker measured
    :ivar frames: encodes request and response
    """

    entry: tuple[int, Entry]
    connection: str
    ends: tuple[str, str]
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    time: int
    duration: int
    measured: BrokerLog
    frames: Callable[[], Frames]


class CapturedExchanges:
    """Captured exchanges that a request log may have, too.

    :ivar take: adds an entry to its captured exchange; returns whether there is one, or may be. It and `released` are
        set by the reader of the packets, which knows their exchanges before the log is read
    :ivar released: returns taken entries that are not those of captured exchanges after all; called with whether the
        log has ended
    """

    def __init__(self) -> None:
        self.take: Callable[[LoggedExchange], bool] = lambda _logged: False
        self.released: Callable[[bool], list[LoggedExchange]] = lambda _ended: []
