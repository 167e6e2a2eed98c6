"""Entries as packets: connections between the endpoints of the entries, at their times.

A broker writes an entry when the response is sent, so entries with long durations are late. Packets are sorted by time,
as far as entries may be waited for.

The time of an entry is that of the log line, mostly in milliseconds, while its durations are in microseconds. A broker
reads no further request of a connection before it has answered the one before, so an entry that would begin before the
previous one of its connection has ended is shifted within the inaccuracy of the line's time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from captures.export.pcapng_writer import Packet
from captures.export.segments import MAX_SEGMENT, Conversation
from captures.interventions import as_comment
from captures.request_log.captured import CapturedExchanges, LoggedExchange
from captures.request_log.entries import Entry, EntryError
from captures.request_log.frames import frames_of
from dissectors.budget import limit
from dissectors.units import SECOND

_INEXACT = 2_000_000
"""Nanoseconds by which an entry may be shifted: the milliseconds of two lines."""
_LONGEST_WAIT = 900 * SECOND
"""Longest duration in ns of an entry that is still sorted in; a group's members have 5 minutes to join."""
_HELD = 256
"""Bytes that a waiting frame takes besides its own and its comment's."""


class _Connection:
    """A connection: its packets, and the positions of its streams."""

    def __init__(self, ends: tuple[str, str], number: int) -> None:
        self.conversation = Conversation(*ends, number)
        self.positions = [0, 0]
        self.latest = [0, 0]
        self.end = 0


class RequestLogPackets:
    """Converts entries to packets.

    :param captured: exchanges that need no packets of the log
    """

    def __init__(self, captured: CapturedExchanges | None = None) -> None:
        self._captured = captured
        self._connections: dict[str, _Connection] = {}
        self._waiting: list[tuple[int, int, _Connection, int, bytes, str]] = []
        self._bytes = self._count = self._latest = 0

    def add(self, time: int, entry: Entry, failed: Callable[[Exception], None]) -> None:
        """Add an entry.

        :param time: when it was written, in ns since the epoch
        :param failed: called with the reason if its bodies cannot be encoded, or its connection is invalid; perhaps
            later, by :meth:`release`
        """
        self._add(LoggedExchange(time, entry, lambda: frames_of(entry), failed))

    def release(self, *, ended: bool) -> None:
        """Add entries that had to wait for later ones to be matched with captured exchanges.

        :param ended: whether no more entries follow
        """
        for logged in () if self._captured is None else self._captured.released(ended):
            self._add(logged)

    def _add(self, logged: LoggedExchange) -> None:
        try:
            taken = self._captured is not None and self._captured.take(logged)
            if not taken and not logged.entry.arrived_before_log:
                self._put(logged.written, logged.entry)
        except Exception as error:
            if not logged.entry.arrived_before_log:
                logged.failed(error)

    def _put(self, time: int, entry: Entry) -> None:
        total = round(entry.total_time_ms * 1e6)
        frames = frames_of(entry)
        comment = entry.broker_log(
            request_left_out=frames.request_left_out, response_left_out=frames.response_left_out
        )
        connection = self._connections.get(entry.connection)
        fresh = connection is None
        if connection is None:
            try:
                connection = _Connection(entry.ends, len(self._connections))
            except (ValueError, OverflowError) as error:
                raise EntryError(f"a connection {entry.connection!r}: {error}") from None
            self._connections[entry.connection] = connection
        late = connection.end - (time - total)
        if 0 < late <= _INEXACT:
            time += late
        start = max(time - total, connection.latest[0])
        answered = max(time - comment.send, start, connection.latest[1])
        connection.end, connection.latest = time, [start, answered]
        self._latest = max(self._latest, time)
        if fresh:  # half a handshake: it identifies the client, and shows no round trip
            self._push(start, connection, 1, b"", "")
        self._push(start, connection, 0, frames.request, as_comment(comment))
        if frames.response:
            self._push(answered, connection, 1, frames.response, "")

    def ready(self, *, all_of_them: bool) -> Iterator[Packet]:
        """Yield the packets that no later entry can precede.

        :param all_of_them: do not wait, as the log ends here or is read while it grows
        """
        most = limit("log_waiting_bytes")
        while self._waiting and (
            all_of_them or self._bytes > most or self._waiting[0][0] < self._latest - _LONGEST_WAIT
        ):
            time, _, connection, side, frame, comment = heapq.heappop(self._waiting)
            self._bytes -= len(frame) + len(comment) + _HELD
            yield from _packets(time, connection, side, frame, comment)

    def _push(self, time: int, connection: _Connection, side: int, frame: bytes, comment: str) -> None:
        self._count += 1
        self._bytes += len(frame) + len(comment) + _HELD
        heapq.heappush(self._waiting, (time, self._count, connection, side, frame, comment))


def _packets(time: int, connection: _Connection, side: int, frame: bytes, comment: str) -> Iterator[Packet]:
    conversation = connection.conversation
    if not frame:
        yield Packet(0, time, conversation.handshake()[1])
    for begin in range(0, len(frame), MAX_SEGMENT):
        part = frame[begin : begin + MAX_SEGMENT]
        data = conversation.segment(
            side, connection.positions[side], part, push=begin + len(part) == len(frame)
        )
        connection.positions[side] += len(part)
        yield Packet(0, time, data, 0, comment)
        comment = ""
