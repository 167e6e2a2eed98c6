"""The fast path: framing and pairing of many connections at once, for streams that are in order and speak plain Kafka.

The slow path is :mod:`captures.exchanges.single`. A connection takes the fast path from its handshake on, as long as
every frame's size and header are plausible, and the n-th response carries the correlation ID of the n-th request that
expects one. At the first sign of anything else (a gap, an impossible size, upcoming raw SASL tokens, a correlation ID
out of step) this block's frames of the connection are discarded, and the connection is handed over to the slow path
with its requests in flight.

A connection whose first client ID is not text may be anything and starts on the slow path; once it is in step, any
client ID will do (the rule is in :mod:`dissectors.conversation.plausible`).

Both paths give the same exchanges; a property test checks it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools, Int32s, Int64s, distinct_values
from captures.exchanges.frame_cutter import FrameCutter, Frames, PartialFrame, PositionsBefore, StreamPosition
from captures.exchanges.table import ExchangeTable, Flag
from captures.packets import Memory, SegmentBlock
from dissectors.api_keys import ApiKey
from dissectors.conversation.client import MAX_CLIENT_IDS
from dissectors.conversation.pairing import MAX_SILENT
from dissectors.conversation.plausible import is_text, produce_acks
from dissectors.headers import SIZE_BYTES

MIN_REQUEST = 8
MIN_RESPONSE = 4

_REQUEST_HEAD = np.dtype(
    [("size", ">i4"), ("key", ">i2"), ("version", ">i2"), ("correlation_id", ">i4"), ("client_id", ">i2")]
)
_RESPONSE_HEAD = np.dtype([("size", ">i4"), ("correlation_id", ">i4")])
_BYTE, _SHORT = np.dtype("u1"), np.dtype(">i2")

_UNKNOWN = 1 << 16
"""``acks`` of a Produce request that is not complete enough to read it; other values are int16."""

_LONG_CLIENT_ID = 64
_CLIENT_ID = np.dtype([("name", f"S{_LONG_CLIENT_ID}"), ("length", np.int32), ("number", np.int32)])


class Handover(NamedTuple):
    """The state of a connection that changes between the paths.

    :ivar waiting: table rows of the requests without a response, in order
    :ivar positions: where the next frame of each direction (0 and 1) begins
    :ivar carries: the part of that frame that was seen, or None
    :ivar silent: table rows of the latest requests that need no response, in order
    :ivar latest: table rows of the latest request and of the latest answered one, -1 if there is none
    :ivar client_ids: numbers of the first client IDs, in order, at most
        :data:`~dissectors.conversation.client.MAX_CLIENT_IDS`
    """

    connection: int
    waiting: list[int]
    positions: tuple[int, int]
    carries: tuple[PartialFrame | None, PartialFrame | None]
    silent: list[int]
    latest: tuple[int, int]
    client_ids: list[int]


class _Heads(msgspec.Struct):
    """Parsed request headers as columns.

    :ivar expects: whether a response is expected
    :ivar odd: whether the header is implausible
    """

    key: NDArray[np.int16]
    version: NDArray[np.int16]
    correlation_id: Int32s
    client_id: Int64s
    expects: Bools
    odd: Bools


class _PendingRequests(msgspec.Struct):
    """Requests of all connections that expect a response, sorted by connection, in order within each."""

    connection: Int64s = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    row: Int64s = msgspec.field(default_factory=lambda: np.empty(0, np.int64))


class BulkPairing:
    """Frames and pairs ordinary connections of a capture, block by block, into an exchange table.

    :param limits: API key -> (lowest, highest) request version, for the plausibility of headers
    :param max_frame: largest plausible frame size, in bytes
    """

    def __init__(self, table: ExchangeTable, limits: dict[int, tuple[int, int]], max_frame: int) -> None:
        self._table = table
        self._highest = np.full(max(limits) + 2, -1, np.int64)  # the last entry stands for unknown keys
        for key, (_, last) in limits.items():
            self._highest[key] = last
        self._client_direction = np.zeros(0, np.int64)
        self._latest = np.zeros((0, 2), np.int64)
        self._client_ids_known = np.zeros(0, _CLIENT_ID)
        self._first_client_id = np.zeros(0, np.int64)
        self._more_client_ids: dict[int, list[int]] = {}
        """Client IDs after the first one; few connections have several."""
        self._framing = FrameCutter(self._least, max_frame)
        self._waiting = _PendingRequests()
        self._silent: dict[int, list[int]] = {}

    def admit(self, connection: int) -> None:
        """Accept a connection from its first byte on; direction 0 is the client's."""
        self._know(connection, 0)
        for stream in (2 * connection, 2 * connection + 1):
            self._framing.begin(stream, 0, None)

    def take_over(self, handovers: Sequence[tuple[Handover, int]]) -> None:
        """Continue with connections that the slow path has brought in step.

        :param handovers: each with the direction of the client
        """
        for handover, client_direction in handovers:
            self._resume(handover, client_direction)
        waiting = [row for handover, _ in handovers for row in handover.waiting]
        if not waiting:
            return
        of = [handover.connection for handover, _ in handovers for _ in handover.waiting]
        connection = np.append(self._waiting.connection, np.array(of, np.int64))
        order = np.argsort(connection, kind="stable")
        row = np.append(self._waiting.row, np.array(waiting, np.int64))
        self._waiting = _PendingRequests(connection[order], row[order])

    def _resume(self, handover: Handover, client_direction: int) -> None:
        self._know(handover.connection, client_direction)
        for direction in (0, 1):
            stream = 2 * handover.connection + direction
            self._framing.begin(stream, handover.positions[direction], handover.carries[direction])
        self._latest[handover.connection] = handover.latest
        if handover.silent:
            self._silent[handover.connection] = handover.silent
        if handover.client_ids:
            self._first_client_id[handover.connection], *more = handover.client_ids
            if more:
                self._more_client_ids[handover.connection] = more

    def _know(self, connection: int, client_direction: int) -> None:
        missing = connection + 1 - len(self._client_direction)
        if missing > 0:
            more = np.zeros(max(missing, len(self._client_direction)), np.int64)
            self._client_direction = np.append(self._client_direction, more)
            self._latest = np.append(self._latest, np.zeros((len(more), 2), np.int64), 0)
            self._client_ids_known = np.append(self._client_ids_known, np.zeros(len(more), _CLIENT_ID))
            self._first_client_id = np.append(self._first_client_id, np.zeros(len(more), np.int64))
        self._client_direction[connection] = client_direction
        self._latest[connection] = self._first_client_id[connection] = -1
        self._more_client_ids.pop(connection, None)

    def feed(self, block: SegmentBlock, memory: Memory, indexes: Int64s, rows: Bools) -> list[Handover]:
        """Process the segments of a block that belong to connections of the fast path.

        :param memory: the payload of the block
        :param indexes: where each segment begins in it
        :param rows: mask over the block's rows: all rows of a stream, none, or those from some row on
        :returns: connections that turned out not to be ordinary; nothing of them in this block was kept
        """
        frames, impossible, before = self._framing.split(block, rows, indexes, memory)
        broken = {stream >> 1 for stream in impossible}
        connection = frames.stream >> 1
        is_request = frames.stream & 1 == self._client_direction[connection]
        requests, responses = frames.select(is_request), frames.select(~is_request)
        parsed = self._parse_requests(memory, requests)
        broken |= set((requests.stream[parsed.odd] >> 1).tolist())
        broken |= self._out_of_step(memory, requests, parsed, responses)
        handovers = self._hand_over(broken, before)
        if broken:
            kept = ~np.isin(connection, np.fromiter(broken, np.int64))
            kept_requests = kept[is_request]
            requests, responses = requests.select(kept_requests), responses.select(kept[~is_request])
            parsed = _Heads(*(getattr(parsed, name)[kept_requests] for name in parsed.__struct_fields__))
        self._commit(requests, parsed, responses)
        return handovers

    def finish(self) -> tuple[list[int], list[Handover]]:
        """Finish at the end of the capture.

        :returns: rows still waiting for a response, and the connections with an unfinished frame, which the slow path
            gets
        """
        handovers = self._hand_over({stream >> 1 for stream in self._framing.unfinished})
        return self._waiting.row.tolist(), handovers

    def renumber(self, rows: Int64s) -> None:
        """Translate rows of the table to their new indexes, -1 for dropped rows."""
        row = rows[self._waiting.row]
        kept = row >= 0
        self._waiting = _PendingRequests(self._waiting.connection[kept], row[kept])
        self._latest = np.where(self._latest >= 0, rows[self._latest], -1)
        silent = {
            connection: [row for row in rows[mine].tolist() if row >= 0]
            for connection, mine in self._silent.items()
        }
        self._silent = {connection: mine for connection, mine in silent.items() if mine}

    def handover(self, connection: int) -> Handover:
        """Return the state of a connection that stays on this path."""
        at_ends = [self._framing.position_of(stream) for stream in (2 * connection, 2 * connection + 1)]
        return self._stand(connection, at_ends, self._silent.get(connection, []))

    def has_answered(self) -> Int64s:
        """Return the connections on this path with at least one answered request."""
        answered: Int64s = np.flatnonzero(self._latest[:, 1] >= 0)
        return answered

    def waiting(self, connection: int) -> Int64s:
        """Return the rows of a connection's requests in flight."""
        low, high = np.searchsorted(self._waiting.connection, (connection, connection + 1)).tolist()
        return self._waiting.row[low:high]

    # ------------------------------------------------------------ headers
    def _least(self, stream: Int64s) -> Int64s:
        is_request = stream & 1 == self._client_direction[stream >> 1]
        return np.where(is_request, MIN_REQUEST, MIN_RESPONSE)

    def _parse_requests(self, memory: Memory, requests: Frames) -> _Heads:
        head = memory.gather(_REQUEST_HEAD, requests.head)
        key = head["key"].astype(np.int64)
        version = head["version"].astype(np.int16)
        known = np.where((key >= 0) & (key < len(self._highest) - 1), key, len(self._highest) - 1)
        length = head["client_id"].astype(np.int64)
        odd = (version < 0) | (version > self._highest[known])
        odd |= (length < -1) | (length + 10 > requests.size - 4) | (length + 14 > requests.have)
        # raw tokens follow SaslHandshake v0, and ControlledShutdown v0 has no client ID
        odd |= (version == 0) & ((key == ApiKey.SASL_HANDSHAKE) | (key == ApiKey.CONTROLLED_SHUTDOWN))
        for row in np.flatnonzero((requests.position == 0) & (length > 0) & ~odd).tolist():
            odd[row] = not is_text(memory.read(int(requests.head[row]) + 14, int(length[row])))
        expects = np.ones(len(head), np.bool_)
        produce = np.flatnonzero((key == ApiKey.PRODUCE) & ~odd)
        acks = _produce_acks(memory, requests, produce, length[produce], version[produce])
        expects[produce] = acks != 0
        odd[produce] |= acks == _UNKNOWN
        return _Heads(
            head["key"].astype(np.int16),
            version,
            head["correlation_id"].astype(np.int32),
            self._client_ids(memory, requests, np.where(odd, -1, length)),
            expects,
            odd,
        )

    def _client_ids(self, memory: Memory, requests: Frames, lengths: Int64s) -> Int64s:
        """Return the numbers of client IDs; length -1 stands for none.

        Nearly every request has the client ID of the one before it on its connection: that is compared instead of
        looked up.
        """
        connection, indexes = requests.stream >> 1, requests.head + 14
        numbers = np.full(len(indexes), self._table.client_number(None), np.int64)
        for length in distinct_values(lengths[lengths >= 0]).tolist():
            rows = np.flatnonzero(lengths == length)
            if 0 < length <= _LONG_CLIENT_ID:
                rows = self._repeated(memory, connection, indexes, rows, length, numbers)
                newly = rows[np.unique(connection[rows], return_index=True)[1]]
                for row in newly.tolist():
                    name = memory.read(int(indexes[row]), length)
                    self._client_ids_known[connection[row]] = name, length, self._table.client_number(name)
                rows = self._repeated(memory, connection, indexes, rows, length, numbers)
            for row in rows.tolist():
                numbers[row] = self._table.client_number(memory.read(int(indexes[row]), length))
        return numbers

    def _repeated(
        self, memory: Memory, connection: Int64s, indexes: Int64s, rows: Int64s, length: int, numbers: Int64s
    ) -> Int64s:
        """Set the numbers of rows whose client ID is the one known for their connection; return the other rows."""
        known = self._client_ids_known[connection[rows]]
        same: Bools = memory.gather(np.dtype(f"S{length}"), indexes[rows]) == known["name"]
        same &= known["length"] == length
        numbers[rows[same]] = known["number"][same]
        others: Int64s = rows[~same]
        return others

    def _client_ids_of(self, connection: int) -> list[int]:
        """Return the numbers of the first client IDs of a connection."""
        first = int(self._first_client_id[connection])
        return [] if first < 0 else [first, *self._more_client_ids.get(connection, ())]

    def _note_client_ids(self, connection: Int64s, number: Int64s) -> None:
        """Record the client IDs of requests, which are sorted by connection and in order."""
        _, first = np.unique(connection << 32 | number, return_index=True)
        texts = self._table.client_ids
        for row in np.sort(first).tolist():
            mine, new = int(connection[row]), int(number[row])
            if not texts[new]:
                continue
            if self._first_client_id[mine] < 0:
                self._first_client_id[mine] = new
                continue
            known = self._client_ids_of(mine)
            # the same text may have two numbers, if one of them was decoded from invalid UTF-8
            if len(known) < MAX_CLIENT_IDS and texts[new] not in [texts[each] for each in known]:
                self._more_client_ids.setdefault(mine, []).append(new)

    # ------------------------------------------------------------ pairs
    def _expected(self, requests: Frames, parsed: _Heads) -> tuple[Int64s, Int32s, Int64s]:
        """Return requests that expect a response, from earlier blocks and this one, by connection and in order.

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

    def _out_of_step(self, memory: Memory, requests: Frames, parsed: _Heads, responses: Frames) -> set[int]:
        """Return connections whose responses do not carry the correlation IDs of their requests, in order.

        This includes connections with an unfinished response that is not the next one due: whether these bytes are a
        frame at all depends on the requests before them, which only the slow path considers.
        """
        connection, expected_id, _ = self._expected(requests, parsed)
        begun = [
            (stream >> 1, struct.unpack_from(">i", head, SIZE_BYTES)[0])
            for stream, head in self._framing.begun
            if stream & 1 != self._client_direction[stream >> 1] and len(head) >= _RESPONSE_HEAD.itemsize
        ]
        begun_of, begun_id = np.array(begun, np.int64).reshape(-1, 2).T
        answering = np.append(responses.stream >> 1, begun_of)
        indexes = _nth_of(connection, answering)
        unasked = indexes < 0
        correlation_id = memory.gather(_RESPONSE_HEAD, responses.head)["correlation_id"]
        wrong = unasked.copy()
        asked = ~unasked
        wrong[asked] = expected_id[indexes[asked]] != np.append(correlation_id, begun_id)[asked]
        return set(answering[wrong].tolist())

    def _commit(self, requests: Frames, parsed: _Heads, responses: Frames) -> None:
        """Write the block's requests as rows, and its responses into the rows of their requests."""
        table = self._table
        added = table.append(
            len(requests.head),
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
        new = parsed.client_id != self._first_client_id[requests.stream >> 1]
        if new.any():
            self._note_client_ids(requests.stream[new] >> 1, parsed.client_id[new])
        for request in np.flatnonzero(~parsed.expects).tolist():
            silent = self._silent.setdefault(int(requests.stream[request]) >> 1, [])
            silent.append(added.start + request)
            if len(silent) > 2 * MAX_SILENT:
                del silent[:-MAX_SILENT]
        connection, _, which = self._expected(requests, parsed)
        rows = np.where(which < 0, -1 - which, which + added.start)
        indexes = _nth_of(connection, responses.stream >> 1)
        # numpy keeps the last of several assignments to a connection
        self._latest[requests.stream >> 1, 0] = np.arange(added.start, added.stop)
        self._latest[responses.stream >> 1, 1] = rows[indexes]
        table.set(
            rows[indexes],
            response_position=responses.position,
            response_size=responses.size,
            response_first=responses.first,
            response_last=responses.last,
        )
        left = np.ones(len(rows), np.bool_)
        left[indexes] = False
        self._waiting = _PendingRequests(connection[left], rows[left])

    def _hand_over(self, broken: set[int], before: PositionsBefore | None = None) -> list[Handover]:
        handovers = []
        for connection in sorted(broken):
            at_ends = []
            for stream in (2 * connection, 2 * connection + 1):
                now = self._framing.end(stream)
                at_ends.append((before and before.of(stream)) or now)
            handovers.append(self._stand(connection, at_ends, self._silent.pop(connection, [])))
        if broken:
            kept = ~np.isin(self._waiting.connection, np.fromiter(broken, np.int64))
            self._waiting = _PendingRequests(self._waiting.connection[kept], self._waiting.row[kept])
        return handovers

    def _stand(self, connection: int, at_ends: list[StreamPosition], silent: list[int]) -> Handover:
        positions = [end if carry is None else carry.position for carry, end in at_ends]
        return Handover(
            connection,
            self.waiting(connection).tolist(),
            (positions[0], positions[1]),
            (at_ends[0].carry, at_ends[1].carry),
            silent[-MAX_SILENT:],
            (int(self._latest[connection, 0]), int(self._latest[connection, 1])),
            self._client_ids_of(connection),
        )

    def hand_over(self, connections: set[int]) -> list[Handover]:
        """Give up connections for a reason found elsewhere, before their segments of a block are fed."""
        return self._hand_over(connections)


def _produce_acks(
    memory: Memory, requests: Frames, which: Int64s, client_id: Int64s, version: NDArray[np.int16]
) -> Int64s:
    """Return ``acks`` of the Produce requests `which`; :data:`_UNKNOWN` if it is out of reach.

    :param client_id: lengths of the client IDs
    """
    # v9+: tag section, compact transactional_id; v3-v8: classic one; before: none (ProduceRequest.json)
    head, have = requests.head[which], requests.have[which]
    body = 14 + np.maximum(client_id, 0)
    flexible, classic = version >= 9, (version >= 3) & (version < 9)
    tags = np.where(flexible, memory.gather(_BYTE, head + body), 0)
    compact = np.where(flexible, memory.gather(_BYTE, head + body + 1).astype(np.int64), 0)
    plain = np.where(classic, memory.gather(_SHORT, head + body).astype(np.int64), 0)
    at = body + np.where(
        flexible, 2 + np.maximum(compact - 1, 0), np.where(classic, 2 + np.maximum(plain, 0), 0)
    )
    acks: Int64s = memory.gather(_SHORT, head + np.minimum(at, have)).astype(np.int64)
    # tagged header fields, long IDs and cut frames are rare enough to be decoded one by one
    for row in np.flatnonzero((tags > 0) | (compact > 127) | (at + 2 > have)).tolist():
        payload = memory.read(int(head[row]) + 4, int(have[row]) - 4)
        found = produce_acks(payload, int(version[row]))
        acks[row] = _UNKNOWN if found is None else found
    return acks


def _nth_of(groups: Int64s, members: Int64s) -> Int64s:
    """Return, for the n-th member of a group, the index of that group's n-th entry in ``groups``, or -1.

    ``groups`` is sorted; ``members`` has the members of each group in order, with groups in any order.
    """
    order = np.argsort(members, kind="stable")
    by_group = members[order]
    is_first = np.diff(by_group, prepend=-1) != 0
    begin = np.flatnonzero(is_first)
    rank = np.arange(len(by_group)) - np.repeat(begin, np.diff(np.append(begin, len(by_group))))
    low = np.searchsorted(groups, by_group, "left")
    high = np.searchsorted(groups, by_group, "right")
    indexes = np.where(low + rank < high, low + rank, -1)
    result = np.empty(len(members), np.int64)
    result[order] = indexes
    return result
