"""Entries of request logs whose exchanges were captured as packets, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from dissectors.units import MS

if TYPE_CHECKING:
    from captures.request_log.entries import Entry
    from captures.request_log.frames import Frames


class LoggedExchange(NamedTuple):
    """An exchange as its entry has it.

    :ivar written: when the entry was written, in ns since the epoch
    :ivar frames: encodes request and response
    :ivar failed: called with the reason if it cannot be read
    """

    written: int
    entry: Entry
    frames: Callable[[], Frames]
    failed: Callable[[Exception], None]

    @property
    def time(self) -> int:
        """When the broker had read the request, in ns since the epoch."""
        return self.written - round(self.entry.total_time_ms * MS)

    @property
    def duration(self) -> int:
        """Time in ns from then until it began to send the response."""
        return round(self.entry.total_time_ms * MS) - round(self.entry.send_time_ms * MS)


class CapturedExchanges:
    """Captured exchanges that a request log may have, too.

    :ivar take: adds an entry to its captured exchange; returns whether there is one, or may be. It and `released` are
        set by the reader of the packets, which knows their exchanges before the log is read
    :ivar released: returns entries of which `take` can tell more now, in their order; called with whether the log has
        ended
    """

    def __init__(self) -> None:
        self.take: Callable[[LoggedExchange], bool] = lambda _logged: False
        self.released: Callable[[bool], list[LoggedExchange]] = lambda _ended: []
