"""Request logs read as pcapng."""

from __future__ import annotations

import heapq
import io
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from captures.export.pcapng_writer import PcapngWriter
from captures.faults import described
from captures.packets.feeds import POLL, PolledFileFeed
from captures.request_log.bodies import BodyError
from captures.request_log.captured import CapturedExchanges
from captures.request_log.entries import Entry, EntryError, entry_of
from captures.request_log.lines import IncompleteEntry, LogLineReader
from captures.request_log.packets import RequestLogPackets
from dissectors.budget import limit, shown

if TYPE_CHECKING:
    from captures.packets.feeds import Feed, StopSignal

INTERFACE = "kafka.request.logger"
"""Name of the interface of a request log's packets."""

_CHUNK = 1 << 18
_LONGEST_REASON = 300  # characters


class RequestLogFeed:
    """The pcapng form of request logs; the logs of several brokers, or rotated files, are merged.

    :param logs: their bytes, by path; the path may be empty if there is one
    :param live: whether they still grow, so that packets do not wait for later entries
    :param captured: exchanges that need no packets of the log
    :param stop: ends the polling of several that still grow
    """

    def __init__(
        self,
        logs: Mapping[str, Feed],
        *,
        live: bool = False,
        captured: CapturedExchanges | None = None,
        stop: StopSignal | None = None,
    ) -> None:
        self._logs = [_Log(path, feed) for path, feed in logs.items()]
        self._stop = stop
        self._live = live or stop is not None
        self._packets = RequestLogPackets(captured)
        self._ended = False
        self._output = io.BytesIO()
        self._writer = PcapngWriter(self._output)
        self._writer.interface(name=INTERFACE, description="request log of a broker", snapshot_length=0)
        self._ready = memoryview(self._output.getvalue())

    def match(self, captured: CapturedExchanges) -> None:
        """Match the exchanges with captured ones; nothing was read yet."""
        self._packets = RequestLogPackets(captured)

    @property
    def damage(self) -> str:
        """Why a log ended early, and how many entries could not be read."""
        return "; ".join(filter(None, (log.damage for log in self._logs)))

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of the pcapng."""
        while not self._ready and not self._ended:
            self._more()
        part, self._ready = self._ready[:size], self._ready[size:]
        return bytes(part)

    def consumed(self) -> float | None:
        shares = [log.feed.consumed() for log in self._logs]
        return None if None in shares else sum(share for share in shares if share is not None) / len(shares)

    def _more(self) -> None:
        """Read more of the logs, up to the earliest of their latest times."""
        for log in self._logs:
            log.fill()
        reading = [log for log in self._logs if not log.ended]
        if self._stop is not None and reading and all(log.waiting for log in reading):
            self._stop.sleep(POLL)
        known = min((log.latest for log in reading if not log.waiting), default=None)
        self._output.seek(0)
        self._output.truncate()
        for time, entry, line, log in heapq.merge(
            *(log.take(known) for log in self._logs), key=itemgetter(0)
        ):
            self._packets.add(time, entry, partial(log.fail, line))
            # after each entry, so that the order does not depend on the chunk size
            self._writer.write_packets(self._packets.ready(all_of_them=False))
        self._ended = all(log.ended for log in self._logs)
        self._packets.release(ended=self._ended)
        self._writer.write_packets(self._packets.ready(all_of_them=self._ended or self._live))
        self._ready = memoryview(self._output.getvalue())


def _reason(error: Exception) -> str:
    """Return why a line was left out: it is no complete entry of its layout, or it triggered an internal error."""
    if isinstance(error, (EntryError, BodyError)):
        return str(error)
    return f"an internal error in kproxy: {described(error)}"


class _Log:
    """One log: its entries, and the entries that could not be read.

    :param path: where it is, for messages
    :ivar feed: its bytes
    :ivar latest: time of the latest entry, ns since the epoch
    :ivar waiting: whether all that was written was read, and more may follow
    :ivar ended: whether all of it was read
    """

    def __init__(self, path: str, feed: Feed) -> None:
        self.feed = feed
        self.latest = 0
        self.ended = self.waiting = False
        self._name = f"the request log {path}".rstrip()
        self._lines = LogLineReader()
        self._entries: deque[tuple[int, Entry, int]] = deque()
        self._pieces: list[bytes] = []
        self._held = 0
        self._line = 0
        self._first_lost = (0, "")
        self._lost = 0

    @property
    def damage(self) -> str:
        """Why it ended early, and how many of its entries could not be read."""
        unreadable = ""
        if self._lost:
            others = f", and {self._lost - 1:,} more" if self._lost > 1 else ""
            line, reason = self._first_lost
            unreadable = f"entries of {self._name} that could not be read: line {line:,}: {reason}{others}"
        return "; ".join(filter(None, (self.feed.damage, unreadable)))

    def fill(self) -> None:
        """Read a chunk, unless there are entries that were not taken."""
        if self._entries or self.ended:
            return
        data = self.feed.read(_CHUNK)
        self.waiting = isinstance(self.feed, PolledFileFeed) and self.feed.waiting
        if self.waiting:
            return
        self.ended = not data
        whole, newline, rest = data.rpartition(b"\n")
        if data and not newline:  # pieces of a line are joined only once
            self._held += len(data)
            if self._held <= limit("log_line_bytes"):
                self._pieces.append(data)
            elif self._pieces:
                self._pieces.clear()
                self.lose(self._line + 1, f"it would go over the limit {shown('log_line_bytes')}")
            return
        lines = b"".join((*self._pieces, whole)).split(b"\n")
        if self._held > limit("log_line_bytes"):
            lines[0] = b""  # the rest of a line that was lost
        self._pieces, self._held = [rest], len(rest)
        for line in lines:
            self._line += 1
            if line:
                self._read(line)

    def take(self, until: int | None) -> Iterator[tuple[int, Entry, int, _Log]]:
        """Yield entries up to time `until`, all if None: time, entry, line number."""
        while self._entries and (until is None or self._entries[0][0] <= until):
            yield *self._entries.popleft(), self

    def fail(self, line: int, error: Exception) -> None:
        """Count an entry that could not be read because of an error."""
        self.lose(line, _reason(error))

    def lose(self, line: int, reason: str) -> None:
        """Count an entry that could not be read."""
        if not self._lost or line < self._first_lost[0]:  # encoding may fail for earlier lines
            self._first_lost = line, reason[:_LONGEST_REASON]
        self._lost += 1

    def _read(self, line: bytes) -> None:
        found = self._lines.read(line)
        if isinstance(found, IncompleteEntry):
            self.lose(self._line, found.reason)
        elif found is not None and found.time is None:
            self.lose(self._line, "no time stands on the line")
        elif found is not None and found.time is not None:
            try:
                entry = entry_of(found.text)
            except Exception as error:
                self.fail(self._line, error)
                return
            self._entries.append((found.time, entry, self._line))
            self.latest = max(self.latest, found.time)
