"""From records of the tee to blocks of pcapng: packets of TCP connections between clients and brokers.

Checksums of large payloads are left out, as a host does whose network card adds them: they took a fifth of the
recorder's time, and nothing uses them.

The recorder spends most of its time here, so there are no packet objects: small packets are joined from a few byte
strings, and large payloads are never copied but stay where the tee put them until they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from captures.export.checksum import words_sum
from captures.export.segments import MAX_SEGMENT, Conversation
from kproxy.proxy.tee import DATA, END, NOTE, OPEN, RECORD, RESET

_PACKET = Struct("<IIIIIII")  # enhanced packet block, draft-ietf-opsawg-pcapng section 4.3
_ENHANCED_PACKET = 6
_INTERFACE = 0
_COMMENT = Struct("<HH")  # option, section 3.5
_TAIL = Struct("<I")
_PADS = (b"", b"\0\0\0", b"\0\0", b"\0")
_OVERHEAD = 32
_MASK = 0xFFFFFFFF
_COPIED = 4096  # bytes of a payload up to which a copy costs less than a piece of its own
_NOWHERE = "0.0.0.0:0"


class _Connection:
    """A connection of the tee.

    :ivar shown: whether its handshake is in the capture
    :ivar ends: how many sides have ended
    """

    __slots__ = ("conversation", "ends", "opened", "shown")

    def __init__(self, conversation: Conversation, opened: int, *, shown: bool) -> None:
        self.conversation = conversation
        self.opened = opened
        self.shown = shown
        self.ends = 0


class BlockMaker:
    """Makes blocks of the records in a stretch of memory.

    :param memory: where the tee puts them
    :param salt: :attr:`~kproxy.proxy.tee.Tee.salt`
    :param notice: called with sentences for the user
    :ivar buffers: blocks made since :meth:`clear`, in pieces
    :ivar packets: how many
    :ivar payload: bytes of their payloads
    """

    def __init__(self, memory: memoryview, salt: int, notice: Callable[[str], None]) -> None:
        self._memory = memory
        self._salt = salt
        self._notice = notice
        self._connections: dict[int, _Connection] = {}
        self._begun: list[_Connection] = []
        self._small: list[bytes] = []
        self.buffers: list[bytes | memoryview] = []
        self.packets = 0
        self.payload = 0
        self._unknown = 0

    def go_on(self, number: int, endpoints: str) -> None:
        """Learn of a connection that another recorder has begun."""
        self._connections[number] = self._connection(number, endpoints, 0, shown=True)

    def read(self, place: int, end: int, most: int) -> int:
        """Make blocks of the records from one place to another; returns the place after those that were read.

        :param most: bytes of records after which to stop
        """
        memory, unpack, connections = self._memory, RECORD.unpack_from, self._connections
        limit = min(place + most, end)
        while place < limit:
            length, number, time, position, size, noted, kind, side = unpack(memory, place)
            if not length:
                place = end
                break
            payload = place + RECORD.size
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
            place += length
        if self._small:
            self.buffers.append(b"".join(self._small))
            self._small.clear()
        return place

    def take_unknown(self) -> int:
        """Return the bytes since the last call of connections that were never announced."""
        unknown, self._unknown = self._unknown, 0
        return unknown

    def written(self) -> None:
        """Take notice that the blocks made so far are in a file, and forget them."""
        self._begun.clear()
        self._forget()

    def lost(self) -> None:
        """Take notice that they are not, and forget them: connections that began with them begin again."""
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
        note = conversation.acknowledgment(side, position)  # the end goes behind it too
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
        place: int,
        size: int,
        noted: int,
    ) -> None:
        text = self._text(place + size, noted) if noted else b""
        end = place + size
        self.payload += size
        while place < end:
            count = min(end - place, MAX_SEGMENT)
            view = self._memory[place : place + count]
            checked = words_sum(view) if count <= _COPIED else None
            head = conversation.segment_header(side, position, count, checked, push=place + count == end)
            if count <= _COPIED:
                self._add(time, head + view, text)
                view.release()
            else:
                self._add_large(time, head, view, text)
            text = b""
            place += count
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
    """Return a comment, and the end of the options."""
    return _COMMENT.pack(1, len(text)) + text + _PADS[len(text) & 3] + bytes(4)
