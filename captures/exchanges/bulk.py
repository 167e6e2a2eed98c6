"""Framing and pairing of many connections at once, for streams that are in order and speak plain Kafka.

This is the fast way through; :mod:`captures.exchanges.single` is the thorough one. A connection is handled here from
its handshake on, as long as nothing is out of the ordinary: every frame's size and header are plausible, and the
n-th response carries the correlation ID of the n-th request that expects one. At the first sign of anything else (a
gap, an impossible size, raw SASL tokens ahead, a correlation ID out of step) the block's frames of that connection are
discarded again, and the connection is handed over with the requests that still wait for their response.

Both ways give the same exchanges; a property test holds them to it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from captures.exchanges.table import ExchangeTable, Flag
from captures.packets import SegmentBlock
from dissectors.conversation.pairing import MAX_SILENT
from dissectors.conversation.plausible import produce_acks

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: bytes of an unfinished frame that are kept from block to block: room for the header and the prefix of a Produce
HEAD_BYTES = 1 << 16

#: bytes past the payload that fixed-size gathers may touch
PADDING = 64

MIN_REQUEST = 8
MIN_RESPONSE = 4
SASL_HANDSHAKE = 17
PRODUCE = 0

_SIZE = struct.Struct(">i").unpack_from
_REQUEST_HEAD = np.dtype(
    [("size", ">i4"), ("key", ">i2"), ("version", ">i2"), ("correlation_id", ">i4"), ("client_id", ">i2")]
)
_RESPONSE_HEAD = np.dtype([("size", ">i4"), ("correlation_id", ">i4")])


class Carry(NamedTuple):
    """The beginning of a frame whose end has not come yet.

    :ivar head: its first bytes, at most :data:`HEAD_BYTES`
    :ivar have: how many of its bytes have been seen
    """

    head: bytes
    have: int
    position: int
    packet: int
    time: int


@dataclass(slots=True)
class _Frames:
    """Frames found in one block. ``head`` is where the frame's first bytes lie in the block's bytes."""

    head: Int64s
    stream: Int64s
    position: Int64s
    size: Int64s
    first: Int64s
    last: Int64s
    packet: Int64s

    def select(self, rows: Any) -> _Frames:
        """Return some of the frames."""
        return _Frames(*(getattr(self, name)[rows] for name in self.__slots__))


class _Stream(NamedTuple):
    """Where a stream stood before a block: its unfinished frame, and the position of the next byte to come."""

    carry: Carry | None
    end: int


class Handover(NamedTuple):
    """A connection that changes from one way to the other, and where it stands.

    :ivar waiting: table rows of the requests without a response, in order
    :ivar positions: where the next frame of each direction (0 and 1) begins
    :ivar carries: the beginning of that frame, as far as it was seen, or None
    :ivar silent: table rows of the latest requests that need no response, in order
    :ivar latest: table rows of the latest request and of the latest one answered, -1 if there is none
    """

    connection: int
    waiting: list[int]
    positions: tuple[int, int]
    carries: tuple[Carry | None, Carry | None]
    silent: list[int]
    latest: tuple[int, int]


@dataclass(slots=True)
class _Heads:
    """Parsed request headers, a column each, and which connections look wrong."""

    key: NDArray[np.int16]
    version: NDArray[np.int16]
    correlation_id: NDArray[np.int32]
    client_id: Int64s
    expects: Bools
    odd: Bools


@dataclass(slots=True)
class _Waiting:
    """Requests that expect a response, all connections, sorted by connection, in order within each."""

    connection: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    row: Int64s = field(default_factory=lambda: np.empty(0, np.int64))


class BulkPairing:
    """Frames and pairs the ordinary connections of a capture, block by block, into an exchange table.

    :param limits: API key -> (lowest, highest) request version, for the plausibility of headers
    :param max_frame: largest frame size believed, in bytes
    """

    def __init__(self, table: ExchangeTable, limits: dict[int, tuple[int, int]], max_frame: int) -> None:
        self._table = table
        self._max_frame = max_frame
        self._highest = np.full(max(limits) + 2, -1, np.int64)  # the last entry stands for unknown keys
        for key, (_, last) in limits.items():
            self._highest[key] = last
        self._client_direction = np.zeros(0, np.int64)
        self._latest = np.zeros((0, 2), np.int64)
        self._carries: dict[int, Carry] = {}
        self._ends: dict[int, int] = {}
        self._waiting = _Waiting()
        self._silent: dict[int, list[int]] = {}

    def admit(self, connection: int) -> None:
        """Take a connection from its first byte on; direction 0 is the client's."""
        self._know(connection, 0)

    def take_over(self, handover: Handover, client_direction: int) -> None:
        """Go on with a connection that the thorough way has brought in step."""
        self._know(handover.connection, client_direction)
        for direction in (0, 1):
            stream = 2 * handover.connection + direction
            carry = handover.carries[direction]
            self._ends[stream] = handover.positions[direction] + (carry.have if carry else 0)
            if carry is not None:
                self._carries[stream] = carry
        self._latest[handover.connection] = handover.latest
        if handover.silent:
            self._silent[handover.connection] = handover.silent
        connection = np.append(
            self._waiting.connection, np.full(len(handover.waiting), handover.connection, np.int64)
        )
        order = np.argsort(connection, kind="stable")
        row = np.append(self._waiting.row, np.array(handover.waiting, np.int64))
        self._waiting = _Waiting(connection[order], row[order])

    def _know(self, connection: int, client_direction: int) -> None:
        missing = connection + 1 - len(self._client_direction)
        if missing > 0:
            more = np.zeros(max(missing, len(self._client_direction)), np.int64)
            self._client_direction = np.append(self._client_direction, more)
            self._latest = np.append(self._latest, np.zeros((len(more), 2), np.int64), 0)
        self._client_direction[connection] = client_direction
        self._latest[connection] = -1

    def feed(self, block: SegmentBlock, data: bytes, starts: Int64s, rows: Bools) -> list[Handover]:
        """Take the segments of a block that belong to connections handled here.

        :param data: the payload of the block with at least :data:`PADDING` bytes behind it
        :param starts: where in it each segment begins
        :param rows: which rows of the block: of a stream all, none, or those from some row on
        :returns: connections that turned out not to be ordinary; nothing of this block was kept of them
        """
        heads: list[bytes] = [data]
        before: dict[int, _Stream] = {}
        frames, broken = self._split(block, rows, data, starts, heads, before)
        buffer = b"".join(heads) if len(heads) > 1 else data
        connection = frames.stream >> 1
        is_request = frames.stream & 1 == self._client_direction[connection]
        requests, responses = frames.select(is_request), frames.select(~is_request)
        parsed = self._parse_requests(buffer, requests)
        broken |= set((requests.stream[parsed.odd] >> 1).tolist())
        broken |= self._out_of_step(buffer, requests, parsed, responses)
        handovers = self._hand_over(broken, before)
        if broken:
            kept = ~np.isin(connection, np.fromiter(broken, np.int64))
            kept_requests = kept[is_request]
            requests, responses = requests.select(kept_requests), responses.select(kept[~is_request])
            parsed = _Heads(*(getattr(parsed, name)[kept_requests] for name in parsed.__slots__))
        self._commit(requests, parsed, responses)
        return handovers

    def finish(self) -> tuple[list[int], list[Handover]]:
        """End of the capture.

        :returns: rows still waiting for a response, and the connections with an unfinished frame, which are left to
            the thorough way
        """
        handovers = self._hand_over({stream >> 1 for stream in self._carries}, {})
        return self._waiting.row.tolist(), handovers

    def waiting(self, connection: int) -> Int64s:
        """Return the rows of a connection's requests that wait for a response."""
        rows: Int64s = self._waiting.row[self._waiting.connection == connection]
        return rows

    # ------------------------------------------------------------ frames
    def _split(
        self,
        block: SegmentBlock,
        rows: Bools,
        data: bytes,
        starts: Int64s,
        heads: list[bytes],
        before: dict[int, _Stream],
    ) -> tuple[_Frames, set[int]]:
        """Cut the streams into frames. Frames begun in earlier blocks get their head appended to ``heads``."""
        picked = np.flatnonzero(rows)
        streams = block.stream[picked]
        first = picked[np.flatnonzero(np.diff(streams, prepend=-1))]
        last = np.append(picked[np.flatnonzero(np.diff(streams))], picked[-1:])
        offsets: list[int] = []
        crossed: list[tuple[int, int, int, int, int, int, int]] = []
        broken: set[int] = set()
        appended = len(data)
        for low, high in zip(first.tolist(), last.tolist(), strict=True):
            stream = int(block.stream[low])
            at, end = int(starts[low]), int(starts[high] + block.length[high])
            carry = self._carries.pop(stream, None)
            before[stream] = _Stream(carry, int(block.position[low]))
            self._ends[stream] = int(block.position[high] + block.length[high])
            if carry is not None:
                seen = end - at
                head, at = self._complete(carry, data, at, end)
                if len(head) >= 4 and not self._plausible(_SIZE(head)[0], stream):
                    broken.add(stream >> 1)
                    continue
                if at < 0:  # still unfinished
                    self._carries[stream] = carry._replace(head=head, have=carry.have + seen)
                    continue
                size = _SIZE(head)[0] + 4
                ends = int(np.searchsorted(starts, at - 1, "right")) - 1
                last_time = int(block.time[ends])
                crossed.append((appended, stream, carry.position, size, carry.time, last_time, carry.packet))
                heads.append(head[:HEAD_BYTES] + bytes(PADDING))
                appended += len(heads[-1])
            before_count = len(offsets)
            at = self._cut(data, at, end, self._least(stream), offsets)
            if at < 0:
                broken.add(stream >> 1)
                del offsets[before_count:]
            elif at < end:
                row = int(np.searchsorted(starts, at, "right")) - 1
                inside = at - int(starts[row])
                self._carries[stream] = Carry(
                    data[at : min(end, at + HEAD_BYTES)],
                    end - at,
                    int(block.position[row]) + inside,
                    int(block.number[row]),
                    int(block.time[row]),
                )
        return self._frames(block, data, starts, offsets, crossed), broken

    def _plausible(self, size: int, stream: int) -> bool:
        return self._least(stream) <= size <= self._max_frame

    def _least(self, stream: int) -> int:
        return MIN_REQUEST if stream & 1 == self._client_direction[stream >> 1] else MIN_RESPONSE

    @staticmethod
    def _complete(carry: Carry, data: bytes, at: int, end: int) -> tuple[bytes, int]:
        """Add a stream's next bytes to an unfinished frame; return its head, and where it ends or -1."""
        head = carry.head
        if len(head) < HEAD_BYTES:
            head += data[at : min(end, at + HEAD_BYTES - len(head))]
        if len(head) < 4:
            return head, -1
        stop = at + _SIZE(head)[0] + 4 - carry.have
        return (head, stop) if at <= stop <= end else (head, -1)

    def _cut(self, data: bytes, at: int, end: int, least: int, offsets: list[int]) -> int:
        """Append the offsets of whole frames; return where the rest begins, or -1 for an impossible size."""
        add, most, size_at = offsets.append, self._max_frame, _SIZE
        while at + 4 <= end:
            size = size_at(data, at)[0]
            if not least <= size <= most:
                return -1
            after = at + 4 + size
            if after > end:
                break
            add(at)
            at = after
        return at

    @staticmethod
    def _frames(
        block: SegmentBlock,
        data: bytes,
        starts: Int64s,
        offsets: list[int],
        crossed: list[tuple[int, int, int, int, int, int, int]],
    ) -> _Frames:
        head = np.array(offsets, np.int64)
        size = _gather(data, np.dtype(">i4"), head).astype(np.int64) + 4
        row = np.searchsorted(starts, head, "right") - 1
        ends = np.searchsorted(starts, head + size - 1, "right") - 1
        inside = head - starts[row]
        found = _Frames(
            head,
            block.stream[row],
            block.position[row] + inside,
            size,
            block.time[row],
            block.time[ends],
            block.number[row],
        )
        if not crossed:
            return found
        extra = np.array(crossed, np.int64).T
        columns = [
            np.concatenate((more, getattr(found, name)))
            for name, more in zip(_Frames.__slots__, extra, strict=True)
        ]
        frames = _Frames(*columns)
        return frames.select(np.lexsort((frames.position, frames.stream)))

    # ------------------------------------------------------------ headers
    def _parse_requests(self, buffer: bytes, requests: _Frames) -> _Heads:
        head = _gather(buffer, _REQUEST_HEAD, requests.head)
        key = head["key"].astype(np.int64)
        version = head["version"].astype(np.int16)
        known = np.where((key >= 0) & (key < len(self._highest) - 1), key, len(self._highest) - 1)
        length = head["client_id"].astype(np.int64)
        odd = (version < 0) | (version > self._highest[known])
        odd |= (length < -1) | (length + 10 > requests.size - 4)
        odd |= (key == SASL_HANDSHAKE) & (version == 0)  # raw tokens will follow
        number = self._table.client_number
        begins = (requests.head + 14).tolist()
        client_id = np.array(
            [
                number(buffer[begin : begin + size] if size >= 0 else None) if not wrong else -1
                for begin, size, wrong in zip(begins, length.tolist(), odd.tolist(), strict=True)
            ],
            np.int64,
        )
        expects = np.ones(len(head), np.bool_)
        produce = np.flatnonzero((key == PRODUCE) & ~odd)
        body = requests.head[produce] + 14 + np.maximum(length[produce], 0)
        ends = requests.head[produce] + np.minimum(requests.size[produce], HEAD_BYTES)
        expects[produce] = _expects_answer(buffer, requests.head[produce], body, ends, version[produce])
        return _Heads(
            head["key"].astype(np.int16),
            version,
            head["correlation_id"].astype(np.int32),
            client_id,
            expects,
            odd,
        )

    # ------------------------------------------------------------ pairs
    def _expected(self, requests: _Frames, parsed: _Heads) -> tuple[Int64s, NDArray[np.int32], Int64s]:
        """Requests that expect a response, from earlier blocks and this one, by connection and in order.

        :returns: connection, correlation ID, and index into this block's requests or ``-1 - row`` of the table
        """
        new = np.flatnonzero(parsed.expects)
        old = self._waiting
        connection = np.concatenate((old.connection, requests.stream[new] >> 1))
        correlation_id = np.concatenate(
            (self._table.column("correlation_id")[old.row], parsed.correlation_id[new])
        )
        which = np.concatenate((-1 - old.row, new))
        order = np.argsort(connection, kind="stable")
        return connection[order], correlation_id[order], which[order]

    def _out_of_step(self, buffer: bytes, requests: _Frames, parsed: _Heads, responses: _Frames) -> set[int]:
        """Connections whose responses do not carry the correlation IDs of their requests, in order."""
        connection, expected_id, _ = self._expected(requests, parsed)
        answering = responses.stream >> 1
        place = _nth_of(connection, answering)
        unasked = place < 0
        correlation_id = _gather(buffer, _RESPONSE_HEAD, responses.head)["correlation_id"]
        wrong = unasked.copy()
        asked = ~unasked
        wrong[asked] = expected_id[place[asked]] != correlation_id[asked]
        return set(answering[wrong].tolist())

    def _commit(self, requests: _Frames, parsed: _Heads, responses: _Frames) -> None:
        """Write the block's rows, and the responses into theirs."""
        table = self._table
        added = table.append(len(requests.head))
        table.set(
            added,
            connection=requests.stream >> 1,
            client_id=parsed.client_id,
            api_key=parsed.key,
            version=parsed.version,
            flags=np.where(parsed.expects, 0, Flag.NO_RESPONSE_EXPECTED),
            correlation_id=parsed.correlation_id,
            request_position=requests.position,
            request_size=requests.size,
            request_first=requests.first,
            request_last=requests.last,
            packet=requests.packet,
        )
        for request in np.flatnonzero(~parsed.expects).tolist():
            silent = self._silent.setdefault(int(requests.stream[request]) >> 1, [])
            silent.append(added.start + request)
            if len(silent) > 2 * MAX_SILENT:
                del silent[:-MAX_SILENT]
        connection, _, which = self._expected(requests, parsed)
        rows = np.where(which < 0, -1 - which, which + added.start)
        place = _nth_of(connection, responses.stream >> 1)
        # of several of one connection, the last counts
        self._latest[requests.stream >> 1, 0] = np.arange(added.start, added.stop)
        self._latest[responses.stream >> 1, 1] = rows[place]
        table.set(
            rows[place],
            response_position=responses.position,
            response_size=responses.size,
            response_first=responses.first,
            response_last=responses.last,
        )
        left = np.ones(len(rows), np.bool_)
        left[place] = False
        self._waiting = _Waiting(connection[left], rows[left])

    def _hand_over(self, broken: set[int], before: dict[int, _Stream]) -> list[Handover]:
        handovers = []
        for connection in sorted(broken):
            at_ends = []
            for stream in (2 * connection, 2 * connection + 1):
                now = _Stream(self._carries.pop(stream, None), self._ends.pop(stream, 0))
                at_ends.append(before.get(stream, now))
            positions = [end if carry is None else carry.position for carry, end in at_ends]
            waiting = self.waiting(connection).tolist()
            handovers.append(
                Handover(
                    connection,
                    waiting,
                    (positions[0], positions[1]),
                    (at_ends[0].carry, at_ends[1].carry),
                    self._silent.pop(connection, [])[-MAX_SILENT:],
                    (int(self._latest[connection, 0]), int(self._latest[connection, 1])),
                )
            )
        if broken:
            kept = ~np.isin(self._waiting.connection, np.fromiter(broken, np.int64))
            self._waiting = _Waiting(self._waiting.connection[kept], self._waiting.row[kept])
        return handovers

    def hand_over(self, connections: set[int]) -> list[Handover]:
        """Give up connections for a reason seen elsewhere, before their segments of a block are fed."""
        return self._hand_over(connections, {})


def _gather(buffer: bytes, dtype: np.dtype[Any], at: Int64s) -> NDArray[Any]:
    """Read a fixed-size structure at each of many byte offsets."""
    count = max(len(buffer) - dtype.itemsize + 1, 0)
    return np.ndarray((count,), dtype, buffer, 0, (1,))[at]


def _expects_answer(
    buffer: bytes, head: Int64s, body: Int64s, ends: Int64s, version: NDArray[np.int16]
) -> Bools:
    """Whether Produce requests ask for a response (acks is not 0).

    :param head: where the frames begin; ``body``: what follows client_id; ``ends``: as far as they may be read
    """
    # v9+: tag section, compact transactional_id; v3-v8: classic one; before: none (ProduceRequest.json)
    flexible, classic = version >= 9, (version >= 3) & (version < 9)
    reach = len(buffer) - PADDING
    byte, short = np.dtype("u1"), np.dtype(">i2")
    tags = np.where(flexible, _gather(buffer, byte, np.minimum(body, reach)), 0)
    compact = np.where(flexible, _gather(buffer, byte, np.minimum(body + 1, reach)).astype(np.int64), 0)
    plain = np.where(classic, _gather(buffer, short, np.minimum(body, reach)).astype(np.int64), 0)
    at = body + np.where(
        flexible, 2 + np.maximum(compact - 1, 0), np.where(classic, 2 + np.maximum(plain, 0), 0)
    )
    expects: Bools = _gather(buffer, short, np.minimum(at, reach)) != 0
    # tagged header fields, long IDs and cut frames are rare enough for the thorough reading
    for row in np.flatnonzero((tags > 0) | (compact > 127) | (at + 2 > ends)).tolist():
        payload = buffer[int(head[row]) + 4 : int(ends[row])]
        expects[row] = produce_acks(payload, int(version[row])) != 0
    return expects


def _nth_of(groups: Int64s, members: Int64s) -> Int64s:
    """For the n-th member of a group, the index of that group's n-th entry in ``groups``, or -1.

    ``groups`` is sorted; ``members`` has the members of each group in order, groups in any order.
    """
    order = np.argsort(members, kind="stable")
    by_group = members[order]
    is_first = np.diff(by_group, prepend=-1) != 0
    begin = np.flatnonzero(is_first)
    rank = np.arange(len(by_group)) - np.repeat(begin, np.diff(np.append(begin, len(by_group))))
    low = np.searchsorted(groups, by_group, "left")
    high = np.searchsorted(groups, by_group, "right")
    place = np.where(low + rank < high, low + rank, -1)
    result = np.empty(len(members), np.int64)
    result[order] = place
    return result
