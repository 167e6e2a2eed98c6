"""From records of the tee to pcapng blocks: packets of TCP connections between clients and brokers.

Checksums of large payloads are omitted, as on a host that offloads them to its network card: they took a fifth of the
recorder's time, and nothing uses them.

The recorder spends most of its time here, so there are no packet objects: small packets are joined from a few byte
strings; large payloads are never copied but stay where the tee put them until they are written. If many small messages
wait, numpy makes their headers together: the same bytes (a property test compares them) in a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import Any

import numpy as np

from captures.arrays import Int64s
from captures.export.checksum import words_sum, words_sums
from captures.export.segments import MAX_SEGMENT, Conversation, SegmentColumns, segment_headers
from kproxy.proxy.tee import DATA, END, NOTE, OPEN, RECORD, RESET

_PACKET = Struct("<IIIIIII")  # enhanced packet block, draft-ietf-opsawg-pcapng section 4.3
_ENHANCED_PACKET = 6
_INTERFACE = 0
_COMMENT = Struct("<HH")  # option, section 3.5
_TAIL = Struct("<I")
_PADS = (b"", b"\0\0\0", b"\0\0", b"\0")
_OVERHEAD = 32
_MASK = 0xFFFFFFFF
_COPIED = 4096  # bytes of a payload up to which a copy costs less than a separate buffer
_NOWHERE = "0.0.0.0:0"

_ALIGNED = 8  # bytes: alignment of records
_RECORDS = np.dtype(
    {
        "names": ["number", "time", "position", "size", "noted", "kind", "side"],
        "formats": ["=u4", "=u8", "=u4", "=u4", "=u2", "u1", "u1"],
        "offsets": [4, 8, 16, 20, 24, 26, 27],
        "itemsize": RECORD.size,
    }
)
_FEW = 48
"""Consecutive messages below which making blocks one by one is faster."""
_PER_CONNECTION = 4
"""Messages per connection below which it is faster."""


@dataclass(slots=True, eq=False)
class _Connection:
    """A connection of the tee.

    :ivar shown: whether its handshake is in the capture
    :ivar ends: number of sides that have ended
    """

    conversation: Conversation
    opened: int
    shown: bool
    ends: int = 0


class BlockMaker:
    """Makes blocks from the records in a stretch of memory.

    :param memory: shared memory that the tee writes to
    :param salt: :attr:`~kproxy.proxy.tee.Tee.salt`
    :param notice: called with sentences for the user
    :ivar buffers: pieces of the blocks made since :meth:`written` or :meth:`lost`
    :ivar packets: number of packets in them
    :ivar payload: bytes of their payloads
    """

    def __init__(self, memory: memoryview, salt: int, notice: Callable[[str], None]) -> None:
        self._memory = memory
        self._bytes = np.frombuffer(memory, np.uint8)
        self._lengths = memory.cast("I")
        count = (len(memory) - RECORD.size) // _ALIGNED + 1
        self._records = np.ndarray((count,), _RECORDS, memory, 0, (_ALIGNED,))
        self._salt = salt
        self._notice = notice
        self._connections: dict[int, _Connection] = {}
        self._begun: list[_Connection] = []
        self._small: list[bytes] = []
        self.buffers: list[bytes | memoryview] = []
        self.packets = 0
        self.payload = 0
        self._unknown = 0

    def resume(self, number: int, endpoints: str) -> None:
        """Register a connection that another recorder has begun."""
        self._connections[number] = self._connection(number, endpoints, 0, shown=True)

    def read(self, position: int, end: int, most: int) -> int:
        """Make blocks from the records between `position` and `end`; return the place after the last record read.

        :param most: bytes of records after which to stop
        """
        limit = min(position + most, end)
        lengths, places = self._lengths, []
        while position < limit:
            length = lengths[position >> 2]
            if not length:
                position = end
                break
            places.append(position)
            position += length
        if len(places) < _FEW:
            self._one_by_one(places)
        else:
            self._in_runs(np.array(places))
        if self._small:
            self.buffers.append(b"".join(self._small))
            self._small.clear()
        return position

    def _in_runs(self, positions: Int64s) -> None:
        """Make blocks from records; runs of small messages are made together."""
        heads = self._records[positions // _ALIGNED]
        plain = (heads["kind"] == DATA) & (heads["noted"] == 0) & (heads["size"] <= _COPIED)
        edges = np.flatnonzero(np.diff(plain, prepend=~plain[:1], append=~plain[-1:])).tolist()
        for begin, end in pairwise(edges):
            chosen = slice(begin, end)
            if not (
                plain[begin] and end - begin >= _FEW and self._together(positions[chosen], heads[chosen])
            ):
                self._one_by_one(positions[chosen].tolist())

    def _one_by_one(self, places: Sequence[int]) -> None:
        memory, unpack, connections = self._memory, RECORD.unpack_from, self._connections
        for pos in places:
            _, number, time, position, size, noted, kind, side = unpack(memory, pos)
            payload = pos + RECORD.size
            connection = connections.get(number)
            if kind == OPEN:
                endpoints = bytes(memory[payload : payload + size]).decode()
                self._begin(number, self._connection(number, endpoints, time, shown=False))
            elif connection is None:
                self._unknown += size
            else:
                if not connection.shown:
                    self._show(connection)
                if kind == DATA:
                    self._data(connection.conversation, side, time, position, payload, size, noted)
                else:
                    self._other(number, connection, kind, side, time, position, self._text(payload, noted))

    def _together(self, positions: Int64s, heads: np.ndarray[Any, Any]) -> bool:
        """Make blocks from small messages together; return False, with nothing done, if that is not possible."""
        numbers, of = np.unique(heads["number"], return_inverse=True)
        connections = [self._connections.get(number) for number in numbers.tolist()]
        shown = [each.conversation for each in connections if each is not None and each.shown]
        if len(shown) < len(numbers) or len(numbers) * _PER_CONNECTION > len(positions):
            return False
        size, payload = heads["size"].astype(np.int64), positions + RECORD.size
        columns = SegmentColumns(
            of,
            heads["side"].astype(np.int64),
            heads["position"].astype(np.int64),
            size,
            words_sums(self._bytes, payload, size),
        )
        made = segment_headers(shown, columns)
        framed = size.copy()
        for chosen, headers in made:
            framed[chosen] += headers.shape[1]
        length, time = _OVERHEAD + (framed + 3 & ~3), heads["time"]
        # a row for each packet: padding and length that end the previous block, then the beginning of its own
        blocks = np.zeros((len(positions), 9), "<u4")
        blocks[1:, 1] = length[:-1]
        blocks[:, 2], blocks[:, 3], blocks[:, 4] = _ENHANCED_PACKET, length, _INTERFACE
        blocks[:, 5], blocks[:, 6] = time >> 32, time & _MASK
        blocks[:, 7] = blocks[:, 8] = framed
        padding = -framed & 3
        left = np.full(len(positions), 8)  # the first row has no previous block
        left[1:] = 4 - padding[:-1]
        pieces: list[bytes | memoryview] = [b""] * (2 * len(positions))
        memory, begins = self._memory, payload.tolist()
        pieces[1::2] = [
            memory[begin:end] for begin, end in zip(begins, (payload + size).tolist(), strict=True)
        ]
        rows = np.empty(len(positions), object)
        for chosen, headers in made:
            joined = np.concatenate((blocks[chosen].view(np.uint8), headers), axis=1)
            width, data = joined.shape[1], joined.tobytes()
            ends = np.arange(width, len(data) + 1, width)
            cut = zip((ends - width + left[chosen]).tolist(), ends.tolist(), strict=True)
            rows[chosen] = [data[begin:end] for begin, end in cut]
        pieces[::2] = rows.tolist()
        self._small.append(b"".join(pieces))
        self._small += (_PADS[framed[-1] & 3], _TAIL.pack(length[-1]))
        self.packets += len(positions)
        self.payload += int(size.sum())
        return True

    def take_unknown(self) -> int:
        """Return how many bytes since the last call belong to connections that were never announced."""
        unknown, self._unknown = self._unknown, 0
        return unknown

    def written(self) -> None:
        """Drop the blocks made so far: they are in a file."""
        self._begun.clear()
        self._forget()

    def lost(self) -> None:
        """Drop the blocks made so far: they could not be written. Connections that began in them begin again."""
        for connection in self._begun:
            connection.shown = False
        self.written()

    def _forget(self) -> None:
        for buffer in self.buffers:
            if isinstance(buffer, memoryview):
                buffer.release()
        self.buffers.clear()
        self.packets = self.payload = 0

    # ------------------------------------------------------------ records
    def _connection(self, number: int, endpoints: str, time: int, *, shown: bool) -> _Connection:
        client, _, broker = endpoints.partition("\n")
        seed = self._salt + number
        try:
            conversation = Conversation(client, broker, seed)
        except ValueError as error:
            self._notice(f"connection {number} is recorded without its addresses: {error}")
            conversation = Conversation(_NOWHERE, _NOWHERE, seed)
        return _Connection(conversation, time, shown=shown)

    def _begin(self, number: int, connection: _Connection) -> None:
        self._connections[number] = connection
        self._show(connection)

    def _show(self, connection: _Connection) -> None:
        for packet in connection.conversation.handshake():
            self._add(connection.opened, packet)
        connection.shown = True
        self._begun.append(connection)

    def _other(
        self,
        number: int,
        connection: _Connection,
        kind: int,
        side: int,
        time: int,
        position: int,
        text: bytes,
    ) -> None:
        conversation = connection.conversation
        note = conversation.acknowledgment(side, position)  # advances the stream; needed before END too
        if kind == NOTE:
            self._add(time, note, text)
        elif kind == END:
            for packet in conversation.finish(side):
                self._add(time, packet)
            connection.ends += 1
        elif kind == RESET:
            self._add(time, conversation.reset(side))
            connection.ends = 2
        if connection.ends == 2:
            del self._connections[number]

    def _text(self, payload: int, size: int) -> bytes:
        return bytes(self._memory[payload : payload + size])

    def _data(
        self,
        conversation: Conversation,
        side: int,
        time: int,
        position: int,
        pos: int,
        size: int,
        noted: int,
    ) -> None:
        text = self._text(pos + size, noted) if noted else b""
        end = pos + size
        self.payload += size
        while pos < end:
            count = min(end - pos, MAX_SEGMENT)
            view = self._memory[pos : pos + count]
            checked = words_sum(view) if count <= _COPIED else None
            head = conversation.segment_header(side, position, count, checked, push=pos + count == end)
            if count <= _COPIED:
                self._add(time, head + view, text)
                view.release()
            else:
                self._add_large(time, head, view, text)
            text = b""
            pos += count
            position += count

    # ------------------------------------------------------------ blocks
    def _add(self, time: int, frame: bytes, text: bytes = b"") -> None:
        size = len(frame)
        options = _options(text) if text else b""
        length = _OVERHEAD + (size + 3 & ~3) + len(options)
        self._small += (
            _PACKET.pack(_ENHANCED_PACKET, length, _INTERFACE, time >> 32, time & _MASK, size, size),
            frame,
            _PADS[size & 3],
            options,
            _TAIL.pack(length),
        )
        self.packets += 1

    def _add_large(self, time: int, head: bytes, payload: memoryview, text: bytes) -> None:
        size = len(head) + len(payload)
        options = _options(text) if text else b""
        length = _OVERHEAD + (size + 3 & ~3) + len(options)
        block = _PACKET.pack(_ENHANCED_PACKET, length, _INTERFACE, time >> 32, time & _MASK, size, size)
        self.buffers += (b"".join((*self._small, block, head)), payload)
        self._small.clear()
        self._small.append(_PADS[size & 3] + options + _TAIL.pack(length))
        self.packets += 1


def _options(text: bytes) -> bytes:
    """Return a comment option and the end of options."""
    return _COMMENT.pack(1, len(text)) + text + _PADS[len(text) & 3] + bytes(4)
