"""Captured exchanges that a broker's request log has, too.

A captured exchange gets what the broker measured. If the packets lack its response or its request, it gets that from
the log: the bytes are kept beside the capture, at positions of the stream that no packet reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from captures.arrays import distinct_values
from captures.exchanges.table import NO_ANSWER_SEEN, NO_TIME, Flag
from captures.exchanges.translated_connections import Ends, Rows, TranslatedConnections, nearest
from dissectors.sides import SIDES, Side

if TYPE_CHECKING:
    from captures.exchanges.capture import Capture
    from captures.interventions import BrokerLog
    from captures.request_log.captured import LoggedExchange

BEYOND_PACKETS = 1 << 46
"""Position in a stream from which on frames of a log are kept; no connection transfers as many bytes."""
_UNKNOWN_API = -1
_SETTLED_BY: dict[Side, Flag] = {
    "request": Flag.ORPHAN | Flag.REQUEST_DAMAGED,
    "response": NO_ANSWER_SEEN | Flag.RESPONSE_DAMAGED,
}
"""Flags that no longer hold once an exchange has a frame of the log."""

#: ends of the connection, API, correlation ID -> captured exchanges
_Rows = dict[tuple[Ends, int, int], Rows]


class _KeptFrame(NamedTuple):
    """A frame of a log, of which the packets lack something.

    :ivar offset: where its bytes are kept
    :ivar left_out: bytes of the original frame beyond these
    """

    offset: int
    size: int
    left_out: int


class _Lacking(NamedTuple):
    """A captured exchange of which the packets lack something.

    :ivar frames: what the log has of it
    :ivar duration: ns from the end of the request to the beginning of the response
    :ivar order: where the captured frames are in their streams
    """

    row: int
    measured: BrokerLog
    frames: dict[Side, _KeptFrame]
    duration: int
    order: tuple[int, int]


class LoggedExchanges:
    """Matches the entries of request logs with the exchanges of a capture, whose packets were all read before.

    :ivar translated: connections of the log between other addresses than captured ones
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self.translated = TranslatedConnections(capture)
        connections = distinct_values(capture.table.column("connection")).tolist()
        self._ends = {capture.endpoints(each) for each in connections}
        self._taken: set[Ends] = set()
        self._rows = self._captured()
        self._lacking: list[_Lacking] = []
        self._beyond: dict[int, int] = {}

    def take(self, logged: LoggedExchange) -> bool:
        """Add an entry to its exchange; return whether that was captured, or may have been between other addresses.

        Clocks may differ: of several exchanges with the same correlation ID on a connection, the nearest is taken.

        :raises BodyError: if the packets lack a frame, and that of the log cannot be encoded
        :raises EntryError: if the connection of the entry is invalid
        """
        header = logged.entry.request_header
        ends = self.translated.ends.get(logged.entry.connection) or logged.entry.ends
        for api_key, time in (
            (header.request_api_key, logged.time),
            (_UNKNOWN_API, logged.time + logged.duration),
        ):
            rows = self._rows.get((ends, api_key, header.correlation_id), [])
            found = nearest(rows, time)
            if found is not None:
                self._taken.add(ends)
                self._add(rows.pop(found)[1], logged)
                return True
        if ends in self._ends:
            self._taken.add(ends)
            return False
        return self.translated.hold(logged)

    def released(self, *, ended: bool) -> list[LoggedExchange]:
        """Return entries that :meth:`take` has kept, to be taken again: whose they are is now known.

        :param ended: whether all entries were taken; before, entries are released only if too many are kept
        """
        return self.translated.resolve(self._taken) if ended or self.translated.full else []

    def complete(self) -> None:
        """Give exchanges the frames that the packets lack, once it is certain that they do."""
        table = self._capture.table
        latest = dict[tuple[int, Side], int]()
        self._lacking.sort(key=lambda each: each.order)
        for row, measured, frames, duration, _ in self._lacking:
            values = table.row(row)
            answer_due = values["response_size"] == 0 and bool(values["flags"] & NO_ANSWER_SEEN)
            sent = values["request_last"] + duration
            if "response" in frames and (
                self._ended_before(values["connection"], sent)
                if answer_due
                else values["flags"] & Flag.UNANSWERED or not values["flags"] & Flag.RESPONSE_DAMAGED
            ):
                del frames["response"]
            elif answer_due and "response" not in frames:
                values["flags"] = values["flags"] & ~NO_ANSWER_SEEN | Flag.NOT_RECORDED
            for side, frame in frames.items():
                values |= self._placed(values["connection"], side, frame)
                if not values[f"{side}_first"] > NO_TIME:
                    time = sent if side == "response" else values["response_first"] - duration
                    # a broker reads and answers the requests of a connection in their order
                    time = max(time, latest.get((values["connection"], side), time))
                    latest[values["connection"], side] = time
                    values |= dict.fromkeys((f"{side}_first", f"{side}_last"), time)
                values["flags"] &= ~_SETTLED_BY[side]
                changes = {f"{side}_added": True, f"{side}_left_out": frame.left_out}
                measured = replace(measured, **changes)
            table.set(row, **values)
            table.broker_logs.add_captured(row, measured)
        self._lacking.clear()

    def _placed(self, connection: int, side: Side, frame: _KeptFrame) -> dict[str, int]:
        """Put a frame into its stream, beyond all packets; return its columns."""
        stream = self._capture.client_stream(connection) ^ (side == "response")
        position = self._beyond.get(stream, BEYOND_PACKETS)
        self._beyond[stream] = position + frame.size
        begin, offset, size = (np.array([each]) for each in (position, frame.offset, frame.size))
        self._capture.decryption.index_of(connection).put(stream, (begin, offset, size))
        return {f"{side}_position": position, f"{side}_size": frame.size}

    def _captured(self) -> _Rows:
        found: _Rows = {}
        table = self._capture.table
        names = "connection", "api_key", "correlation_id", "flags", "request_last", "response_first"
        columns = (table.column(name).tolist() for name in names)
        for row, (connection, api_key, correlation_id, flags, asked, answered) in enumerate(
            zip(*columns, strict=True)
        ):
            if api_key == _UNKNOWN_API and not flags & Flag.ORPHAN:  # a SASL token
                continue
            key = self._capture.endpoints(connection), api_key, correlation_id
            found.setdefault(key, []).append((answered if asked == NO_TIME else asked, row))
        for each in found.values():
            each.sort()
        return found

    def _add(self, row: int, logged: LoggedExchange) -> None:
        capture, measured = self._capture, logged.entry.broker_log(captured=True)
        values = capture.table.row(row)
        damaged = {"request": Flag.REQUEST_DAMAGED, "response": Flag.RESPONSE_DAMAGED}
        lacking = [side for side in SIDES if not values[f"{side}_size"] or values["flags"] & damaged[side]]
        if not lacking:
            capture.table.broker_logs.add_captured(row, measured)
            return
        encoded, frames = logged.frames(), dict[Side, _KeptFrame]()
        for side in lacking:
            frame, left_out = getattr(encoded, side), getattr(encoded, f"{side}_left_out")
            # what was captured of a damaged frame has records; a log's frame has none
            if frame and not (left_out and values[f"{side}_size"]):
                frames[side] = _KeptFrame(capture.source.keep(frame), len(frame), left_out)
        if not values["request_size"]:
            header = logged.entry.request_header
            capture.table.set(
                row,
                api_key=header.request_api_key,
                version=header.request_api_version,
                client_id=capture.table.number_of_text(header.client_id),
            )
        order = values["request_position"], values["response_position"]
        self._lacking.append(_Lacking(row, measured, frames, logged.duration, order))

    def _ended_before(self, connection: int, time: int) -> bool:
        """Return whether packets show that a response sent at `time` did not reach the client.

        They do if the connection was reset by then, or if all that the broker sent was captured, up to its end. A
        client that has closed its side may still get responses.
        """
        streams, broker = self._capture.connections.streams, self._capture.client_stream(connection) ^ 1
        if any(NO_TIME < end <= time for end in streams.reset_time[[broker, broker ^ 1]].tolist()):
            return True
        whole = streams.syn_seen[broker] and not (streams.lost[broker] or streams.cut[broker])
        return bool(whole and streams.fin_position[broker] == streams.end[broker])
