"""The slow path: one connection at a time, through the sans-I/O conversation, for everything out of the ordinary.

Connections take it that began before the capture, lost bytes, use raw SASL or a protocol other than Kafka, or that
:mod:`captures.exchanges.bulk` gave up. Their segments are fed to a :class:`~dissectors.conversation.Conversation` in
the order of capture, and its events become rows of the exchange table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator

import msgspec
import numpy as np

from captures.arrays import Int64s
from captures.exchanges.bulk import Handover
from captures.exchanges.frame_cutter import HEAD_BYTES, PartialFrame
from captures.exchanges.pieces import Piece, RoleFinder, UnreadSegments
from captures.exchanges.table import ExchangeTable, Flag
from captures.packets import GapCause, SegmentIndex
from dissectors.conversation import (
    Conversation,
    ForeignProtocol,
    Frame,
    FrameExchange,
    Outcome,
    RequestFrame,
    RequestSeen,
    SaslToken,
    Side,
    SkippedBytes,
    State,
)
from dissectors.conversation.pairing import MAX_SILENT, NOT_NEEDED

SIDES = (Side.CLIENT, Side.BROKER)

#: pieces after which a return to the fast path is tried first; the number doubles after each failure
_FIRST_LOOK = 4
_LARGEST_STEP = 16

#: pieces before the next gap from which on the change pays
_WORTH_IT = 24

_MARKS_KEPT = 4096


class Skip(msgspec.Struct, frozen=True):
    """Bytes of a stream that belong to no frame.

    :ivar stream: the stream
    :ivar position: position of the first byte
    :ivar size: number of bytes
    :ivar reason: why, in words
    :ivar at_end: the stream ended inside a frame; nothing was lost
    """

    stream: int
    position: int
    size: int
    reason: str
    at_end: bool = False


class _Marks:
    """Capture times and packets of a stream, by position."""

    __slots__ = ("_packets", "_positions", "_times")

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._times: list[int] = []
        self._packets: list[int] = []

    def add(self, piece: Piece) -> None:
        """Add the start of a piece; the pieces of a stream arrive in order."""
        self._positions.append(piece.position)
        self._times.append(piece.time)
        self._packets.append(piece.packet)

    def find(self, position: int) -> tuple[int, int]:
        """Return capture time and packet number of the byte at ``position``."""
        at = max(bisect_right(self._positions, position) - 1, 0)
        return self._times[at], self._packets[at]

    def since(self, position: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return positions, times and packets from the piece with the byte at ``position`` on."""
        at = max(bisect_right(self._positions, position) - 1, 0)
        columns = self._positions, self._times, self._packets
        one, two, three = (np.array(column[at:], np.int64) for column in columns)
        return one, two, three

    def forget(self, before: int) -> None:
        """Drop pieces before a position, which are no longer needed."""
        at = bisect_right(self._positions, before) - 1
        if at > _MARKS_KEPT:
            del self._positions[:at], self._times[:at], self._packets[:at]


class SingleConnection:
    """Feeds one connection to a conversation and writes its events into the table.

    :param limits: API key -> (lowest, highest) request version
    :param client_known: whether direction 0 is the client's; otherwise the bytes decide
    :param whole: whether both directions were captured from their first byte on
    :ivar client_direction: the direction of the requests
    :ivar skipped: bytes that belong to no frame
    :ivar foreign: the protocol that the connection uses instead of Kafka, or empty
    """

    def __init__(
        self,
        connection: int,
        table: ExchangeTable,
        index: SegmentIndex,
        limits: dict[int, tuple[int, int]],
        *,
        client_known: bool,
        whole: bool,
    ) -> None:
        self.connection = connection
        self.client_direction = 0
        self.skipped: list[Skip] = []
        self.foreign = ""
        self._table = table
        self._index = index
        self._limits = limits
        self.whole = whole
        self._conversation: Conversation | None = None
        self._role: RoleFinder | None = None if client_known else RoleFinder(limits)
        self._waiting: list[Piece] = []
        self._marks: tuple[_Marks, ...] = ()
        self._rows: dict[int, int] = {}
        self._silent: dict[int, int] = {}
        """Rows of the latest requests that need no response, by correlation ID."""
        self._latest = [-1, -1]
        """Rows of the latest request and of the latest answered one."""
        self._token_row = -1
        self._searching: list[Side] = []
        """Sides whose latest bytes belong to no frame."""
        self._with_bulk = False
        self._at_rest: Handover | None = None
        """State of a conversation that was dropped because nothing is open in it."""
        if client_known:
            self._begin(0)

    # ------------------------------------------------------------ in
    def stand_by(self, client_direction: int) -> None:
        """Leave the connection on the fast path, where it is already, until that gives it up."""
        self.client_direction = client_direction
        self._forget_all()
        self._with_bulk = True

    @property
    def is_open(self) -> bool:
        """Whether something remains to be reported when the connection ends."""
        return not self._with_bulk and self._at_rest is None

    def adopt(self, handover: Handover) -> None:
        """Continue where the fast path stopped: with requests in flight, and unfinished frames of both directions."""
        self._with_bulk, self._at_rest, self._role = False, None, None
        self._marks = (_Marks(), _Marks())
        in_flight = [self._request_of(row) for row in handover.waiting]
        self._rows = dict(zip((frame.start for frame in in_flight), handover.waiting, strict=True))
        self._latest = list(handover.latest)
        self._conversation = Conversation(self._limits)
        if any(handover.positions):  # otherwise nothing was read yet, and it may not be Kafka
            by_side = handover.positions[:: -1 if self.client_direction else 1]
            correlation_id = self._table.column("correlation_id")
            silent = correlation_id[handover.silent].tolist()
            self._silent = dict(zip(silent, handover.silent, strict=True))
            latest, answered = handover.latest
            texts = [self._table.client_ids[number] for number in handover.client_ids]
            self._conversation.resume(
                (by_side[0], by_side[1]),
                in_flight,
                silent=silent,
                latest=self._request_of(latest) if latest >= 0 else None,
                last_answer=int(correlation_id[answered]) if answered >= 0 else None,
                client_ids=[text for text in texts if text is not None],
            )
        for direction, carry in enumerate(handover.carries):
            if carry is not None:  # bytes that the fast path has seen but not kept are read again
                for piece in self._reread(direction, carry):
                    self._receive(piece)

    def _request_of(self, row: int) -> RequestFrame:
        """Return the request in a row of the table, without its payload."""
        known = self._table.row(row)
        return RequestFrame(
            start=known["request_position"],
            end=known["request_position"] + known["request_size"],
            payload=b"",
            correlation_id=known["correlation_id"],
            api_key=known["api_key"],
            api_version=known["version"],
            client_id=self._table.client_ids[known["client_id"]],
        )

    def _reread(self, direction: int, carry: PartialFrame) -> Iterator[Piece]:
        """Yield bytes that were seen before, packet by packet, with their capture times and packets.

        What looked like one unfinished frame may turn out to be none, or to contain others.
        """
        stream, index = 2 * self.connection + direction, self._index
        marked, times, packets = (np.concatenate(columns) for columns in zip(*carry.marks, strict=True))
        found = index.pieces(stream, carry.position, carry.position + carry.have)
        for position, offset, length in zip(*(column.tolist() for column in found), strict=True):
            data = index.source.read_or_zeros(offset, length)
            mark = int(np.searchsorted(marked, position, "right")) - 1
            yield Piece(direction, position, int(times[mark]), int(packets[mark]), data)

    def feed(self, rest: UnreadSegments, *, to_the_end: bool = False) -> Handover | None:
        """Process what is left of this connection in a block, or as much of it as is out of the ordinary.

        :param to_the_end: process all of it
        :returns: the state of the connection once it is ordinary again, with the unread rest left in the block;
            otherwise None
        """
        pieces = rest.take(self.connection)
        if self._at_rest is not None:
            latest, silent = (self._latest[0], self._latest[1]), list(self._silent.values())
            self.adopt(self._at_rest._replace(silent=silent, latest=latest))
        if self._role is not None:
            role = next((role for role in map(self._role.add, pieces) if role is not None), None)
            if role is None:
                self._waiting.extend(pieces)
                return None
            for piece in self._begin(role):
                self._receive(piece)
        next_look = step = _FIRST_LOOK
        for at, piece in enumerate(pieces):
            self._receive(piece)
            if to_the_end or at < next_look:
                continue
            ahead = bisect_right(pieces.holes, at)
            # there should be enough before the next gap for the change to pay
            if ahead < len(pieces.holes) and (not ahead or pieces.holes[ahead] - at < _WORTH_IT):
                continue
            handover = self._hand_back()
            if handover is not None:
                pieces.leave(at + 1)
                return handover
            step = min(2 * step, _LARGEST_STEP)
            next_look = at + step
        self._rest()
        return None

    def _rest(self) -> None:
        """Drop the conversation if nothing is open in it: thousands of connections may send no more."""
        standing = self._handover()
        if standing is not None and not standing.waiting and standing.carries == (None, None):
            self._at_rest = standing
            self._conversation, self._marks = None, ()

    def _hand_back(self) -> Handover | None:
        """Return the connection to the fast path if that may continue it, with its state."""
        standing = self._handover()
        if standing is not None:
            self._forget_all()
            self._with_bulk = True
        return standing

    def _handover(self) -> Handover | None:
        """Return the state of the connection if another reader may continue it."""
        assert self._conversation is not None
        standing = self._conversation.checkpoint()
        if standing is None or any(request.start not in self._rows for request in standing.in_flight):
            return None
        carries: list[PartialFrame | None] = [None, None]
        for side, unread in enumerate(standing.unread):
            direction = side ^ self.client_direction
            if unread:
                position = standing.positions[side]
                time, packet = self._marks[direction].find(position)
                marks = (self._marks[direction].since(position),)
                carries[direction] = PartialFrame(
                    unread[:HEAD_BYTES], len(unread), position, packet, time, marks
                )
        by_direction = standing.positions[:: -1 if self.client_direction else 1]
        return Handover(
            self.connection,
            [self._rows[request.start] for request in standing.in_flight],
            (by_direction[0], by_direction[1]),
            (carries[0], carries[1]),
            list(self._silent.values()),
            (self._latest[0], self._latest[1]),
            [self._table.client_number(text.encode()) for text in standing.client_ids],
        )

    def renumber(self, rows: Int64s) -> None:
        """Translate rows of the table to their new indexes, -1 for dropped rows."""
        self._rows = {start: int(rows[row]) for start, row in self._rows.items() if rows[row] >= 0}
        self._silent = {key: int(rows[row]) for key, row in self._silent.items() if rows[row] >= 0}
        self._latest = [int(rows[row]) if row >= 0 else -1 for row in self._latest]
        self._token_row = int(rows[self._token_row]) if self._token_row >= 0 else -1

    def _forget_all(self) -> None:
        """Drop the state of the conversation: the reader that continues the connection reports its end."""
        self._conversation = self._role = None
        self._marks = ()
        self._rows, self._silent, self._latest, self._token_row = {}, {}, [-1, -1], -1

    def finish(self, reason: str) -> None:
        """Finish: requests in flight stay unanswered.

        :param reason: why no more data arrives, in words
        """
        if self._role is not None:
            for piece in self._begin(self._role.settle()):
                self._receive(piece)
        assert self._conversation is not None
        in_step = {side for side in SIDES if self._conversation.state(side) is not State.LOST}
        self._conversation.finish(reason)
        self._take_events(in_step)

    def _begin(self, client_direction: int) -> list[Piece]:
        """Start the conversation, with known roles; return the pieces that waited for that."""
        self.client_direction, self._role = client_direction, None
        self._marks = (_Marks(), _Marks())
        self._conversation = Conversation(self._limits, midstream=not self.whole)
        waiting, self._waiting = self._waiting, []
        return waiting

    def _receive(self, piece: Piece) -> None:
        assert self._conversation is not None
        side = SIDES[piece.direction ^ self.client_direction]
        if piece.data is None:
            self._conversation.gap(side, piece.missing or None, GapCause(piece.cause).label)
        else:
            self._marks[piece.direction].add(piece)
            self._conversation.receive(side, piece.data)
        self._take_events()

    # ------------------------------------------------------------ out
    def _take_events(self, ending: Container[Side] = ()) -> None:
        """Write events to the table.

        :param ending: sides whose remaining bytes are cut off, not skipped
        """
        assert self._conversation is not None
        for event in self._conversation.events():
            if isinstance(event, RequestSeen):
                self._request(event.request)
            elif isinstance(event, FrameExchange):
                self._exchange(event)
            elif isinstance(event, SaslToken):
                self._token(event)
            elif isinstance(event, SkippedBytes):
                stream = self._stream(event.side)
                size, at_end = event.end - event.start, event.side in ending
                self.skipped.append(Skip(stream, event.start, size, event.reason, at_end))
                if not at_end and event.side not in self._searching:
                    self._searching.append(event.side)
            elif isinstance(event, ForeignProtocol) and not self.foreign:
                self.foreign = f"{event.guess}: {event.evidence}" if event.evidence else event.guess

    def _stream(self, side: Side) -> int:
        return 2 * self.connection + (self.client_direction ^ (side is Side.BROKER))

    def _request(self, frame: RequestFrame) -> int:
        client_id = None if frame.client_id is None else frame.client_id.encode()
        row = self._table.add(
            connection=self.connection,
            client_id=self._table.client_number(client_id),
            api_key=frame.api_key,
            version=frame.api_version,
            correlation_id=frame.correlation_id,
            flags=Flag.REQUEST_DAMAGED if frame.damage else 0,
            **self._place(frame, Side.CLIENT, "request"),
            packet=self._found(Side.CLIENT, frame.start)[1],
        )
        self._note_search(row, Side.CLIENT)
        self._rows[frame.start] = self._latest[0] = row
        return row

    def _exchange(self, event: FrameExchange) -> None:
        flags = _FLAGS[event.outcome]
        response = event.response
        if event.request is not None:
            row = self._rows.pop(event.request.start, -1)
            if row < 0:
                row = self._request(event.request)
            if event.outcome is Outcome.NO_RESPONSE_EXPECTED:
                self._needs_no_response(event.request.correlation_id, row)
        elif response is not None and response.correlation_id in self._silent and event.note == NOT_NEEDED:
            row = self._silent.pop(response.correlation_id)
            flags = Flag(0)
        else:
            row = self._table.add(connection=self.connection)
        if response is not None:
            if response.damage:
                flags |= Flag.RESPONSE_DAMAGED
            self._table.set(row, **self._place(response, Side.BROKER, "response"))
            self._note_search(row, Side.BROKER)
            self._latest[1] = row
            if flags & Flag.ORPHAN:
                packet = self._found(Side.BROKER, response.start)[1]
                self._table.set(row, correlation_id=response.correlation_id, packet=packet)
        self._table.mark(row, flags)

    def _needs_no_response(self, correlation_id: int, row: int) -> None:
        """Keep a request in case it is answered all the same, as some brokers do (noida 0.2)."""
        self._silent.pop(correlation_id, None)
        self._silent[correlation_id] = row
        if len(self._silent) > MAX_SILENT:
            del self._silent[next(iter(self._silent))]

    def _token(self, event: SaslToken) -> None:
        name = "request" if event.side is Side.CLIENT else "response"
        if event.side is Side.CLIENT or self._token_row < 0:
            packet = self._found(event.side, event.start)[1]
            row = self._table.add(connection=self.connection, flags=Flag.SASL_TOKEN, packet=packet)
        else:
            row = self._token_row
        self._table.set(row, **self._place(event, event.side, name))
        self._note_search(row, event.side)
        self._token_row = row if event.side is Side.CLIENT else -1

    def _note_search(self, row: int, side: Side) -> None:
        """Mark the first frame after bytes that belong to none: it was found by the looks of its header."""
        if side in self._searching:
            self._searching.remove(side)
            self._table.mark(row, Flag.RESYNCHRONISED)

    def _place(self, frame: Frame | SaslToken, side: Side, name: str) -> dict[str, int]:
        place = {
            f"{name}_position": frame.start,
            f"{name}_size": frame.end - frame.start,
            f"{name}_first": self._found(side, frame.start)[0],
            f"{name}_last": self._found(side, frame.end - 1)[0],
        }
        # the frames of a side arrive in stream order
        self._marks[self.client_direction ^ (side is Side.BROKER)].forget(frame.start)
        return place

    def _found(self, side: Side, position: int) -> tuple[int, int]:
        return self._marks[self.client_direction ^ (side is Side.BROKER)].find(position)


_FLAGS = {
    Outcome.ANSWERED: Flag(0),
    Outcome.NO_RESPONSE_EXPECTED: Flag.NO_RESPONSE_EXPECTED,
    Outcome.UNANSWERED: Flag.UNANSWERED,
    Outcome.NOT_RECORDED: Flag.NOT_RECORDED,
    Outcome.ORPHAN_RESPONSE: Flag.ORPHAN,
}
