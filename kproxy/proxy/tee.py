"""The tee: passes received bytes from the data plane to the recorder through a bounded queue, without ever waiting.

Each connection is announced once; then follow its bytes, with their position in the stream of their side, so that gaps
are visible. If the recorder cannot keep up, the queue fills, and connections whose bytes do not fit are suspended one
by one, in both directions, until it is below half. Then they continue after a gap, and a note gives its size.
Announcements, such notes and ends have a reserve of their own in the queue.

A lossless tee drops nothing: its feeder stops reading from sockets while it is :attr:`Tee.congested`, that is, more
than half full; the other half is for bytes that arrive until then. Any excess is kept in memory, in order.

Records in the queue (:mod:`kproxy.proxy.shared_queue`): :data:`RECORD`, then payload, then comment, then padding to a
multiple of eight.
"""

from __future__ import annotations

import os
import time as clock
from collections import deque
from struct import Struct

from dissectors.sides import ENDS
from kproxy.addresses import address_text
from kproxy.proxy.shared_queue import Sender

RECORD = Struct("=IIqIIHBB4x")
"""Bytes of the whole record, connection, time in ns, stream position modulo 2**32, bytes of payload and of comment,
kind, side. Its size is a multiple of eight, so the payload is aligned."""

OPEN, DATA, NOTE, END, RESET = 1, 2, 3, 4, 5
"""Kinds of records. The payload of OPEN is :func:`endpoints_of`; NOTE, END and RESET have none."""

DEFAULT_SIZE = 64 << 20

_SIZE = RECORD.size
_MASK = 0xFFFFFFFF
_MOST_COMMENT = 60_000  # bytes; an option of pcapng holds 65,535
_MOST_PAYLOAD = 1 << 20
_MOST_KEPT = 4096  # records kept in memory by a tee that may drop
_LINGER, _LOSSY_LINGER = 5.0, 0.5  # seconds that close() waits for the recorder to make room

_Bytes = bytes | bytearray | memoryview


def endpoints_of(client: tuple[str, int], broker: tuple[str, int]) -> str:
    """Return the endpoints of an announcement: two lines, ``10.0.0.1:9092`` or ``[::1]:9092``."""
    return f"{address_text(*client)}\n{address_text(*broker)}"


class Tee:
    """The data plane's end of the queue.

    :param size: bytes of the queue, rounded up to a power of two
    :param lossless: drop nothing
    :ivar lossless: as given
    :ivar dropped_bytes: bytes that were not recorded
    :ivar dropped_connections: connections that lost bytes
    :ivar queue: to the recorder
    :ivar half: bytes in it above which it is congested
    :ivar spare: bytes in it reserved for records without payload
    :ivar most: bytes of the largest payload of a record
    :ivar most_comment: bytes of the longest comment
    :ivar salt: a random number that distinguishes connections of different runs in one file
    :ivar kept: records that did not fit into the queue
    :ivar closed: whether :meth:`close` was called
    :ivar live: connections that have not ended
    """

    def __init__(self, size: int = DEFAULT_SIZE, *, lossless: bool = False) -> None:
        self.lossless = lossless
        self.dropped_bytes = 0
        self.dropped_connections = 0
        self.queue = Sender(size)
        self.half = self.queue.size // 2
        self.spare = 0 if lossless else self.queue.size // 16
        self.most = min(self.queue.size // 8, _MOST_PAYLOAD) & ~7
        self.most_comment = min(self.most, _MOST_COMMENT)
        self.salt = int.from_bytes(os.urandom(4))
        self.kept: deque[bytes] = deque()
        self.closed = False
        self.live: dict[int, Recording] = {}
        self._kept_bytes = 0
        self._made = 0

    @property
    def waiting(self) -> int:
        """Bytes that the recorder has not taken yet."""
        return 0 if self.closed else self.queue.waiting + self._kept_bytes

    @property
    def congested(self) -> bool:
        """Whether more than half of the queue is in use. Reading this moves records from memory into the queue."""
        if self.kept:
            self._flush_kept()
        return self.waiting > self.half

    def connection(self, client: tuple[str, int], broker: tuple[str, int], time: int) -> Recording:
        """Announce a connection.

        :param client: address and port
        :param broker: address and port of the real broker
        :param time: ns since the epoch at which it began
        """
        self._made += 1
        return Recording(self, self._made, endpoints_of(client, broker), time)

    def close(self) -> None:
        """Signal the end: the recorder takes the rest, and exits.

        Records kept in memory are first moved into the queue, for some seconds at most.
        """
        if self.closed:
            return
        for recording in list(self.live.values()):
            recording.conclude(clock.time_ns())
        deadline = clock.monotonic() + (_LINGER if self.lossless else _LOSSY_LINGER)
        while self.kept and not self._flush_kept() and clock.monotonic() < deadline:
            clock.sleep(0.005)
        self.dropped_bytes += self._kept_bytes
        self.closed = True
        self.queue.close()

    # ------------------------------------------------------------ for recordings
    def write(
        self,
        number: int,
        kind: int,
        side: int,
        time: int,
        position: int,
        data: _Bytes,
        comment: bytes,
        spare: int,
    ) -> bool:
        """Put a record into the queue; return whether there was room for it."""
        if self.closed or (self.kept and not self._flush_kept()):
            return False
        size = len(data)
        length = _SIZE + size + len(comment) + 7 & ~7
        pos = self.queue.reserve(length, spare)
        if pos < 0:
            return False
        memory = self.queue.memory
        RECORD.pack_into(memory, pos, length, number, time, position & _MASK, size, len(comment), kind, side)
        pos += _SIZE
        memory[pos : pos + size] = data
        pos += size
        memory[pos : pos + len(comment)] = comment
        self.queue.publish()
        return True

    def keep(
        self, number: int, kind: int, side: int, time: int, position: int, data: _Bytes, comment: bytes
    ) -> bool:
        """Keep a record in memory until there is room; return whether that is allowed."""
        if self.closed or not (self.lossless or len(self.kept) < _MOST_KEPT):
            return False
        length = _SIZE + len(data) + len(comment) + 7 & ~7
        head = RECORD.pack(length, number, time, position & _MASK, len(data), len(comment), kind, side)
        record = b"".join((head, data, comment)).ljust(length, b"\0")
        self.kept.append(record)
        self._kept_bytes += length
        return True

    def _flush_kept(self) -> bool:
        """Move records kept in memory into the queue; return whether all were moved."""
        queue, kept = self.queue, self.kept
        while kept:
            record = kept[0]
            position = queue.reserve(len(record))
            if position < 0:
                return False
            queue.memory[position : position + len(record)] = record
            queue.publish()
            self._kept_bytes -= len(record)
            kept.popleft()
        return True


class Recording:
    """The recording of one connection. Sides are 0 for the client, 1 for the broker. No method waits or raises.

    :ivar endpoints: as announced
    """

    __slots__ = (
        "_ended",
        "_lossy",
        "_lost",
        "_number",
        "_opened",
        "_positions",
        "_queue",
        "_suspended",
        "_tee",
        "_time",
        "endpoints",
    )

    def __init__(self, tee: Tee, number: int, endpoints: str, time: int) -> None:
        self.endpoints = endpoints
        self._tee = tee
        self._queue = tee.queue
        self._number = number
        self._time = time
        self._positions = [0, 0]
        self._lost = [0, 0]
        self._lossy = False
        self._ended = [False, False]
        self._opened = False
        self._suspended = not self._open()
        if not tee.closed:
            tee.live[number] = self

    def data(self, side: int, data: _Bytes, time: int, comment: str = "") -> None:
        """Record bytes.

        :param time: ns since the epoch at which they arrived
        :param comment: packet comment for their first packet
        """
        tee, positions, size = self._tee, self._positions, len(data)
        if comment or self._suspended or tee.kept or not 0 < size <= tee.most:
            self._pieces(side, data, time, comment)
            return
        position = positions[side]
        queue, length = self._queue, _SIZE + size + 7 & ~7
        pos = queue.reserve(length, tee.spare)
        if pos < 0:
            self._pieces(side, data, time, comment)
            return
        positions[side] = position + size
        memory = queue.memory
        RECORD.pack_into(memory, pos, length, self._number, time, position & _MASK, size, 0, DATA, side)
        pos += _SIZE
        memory[pos : pos + size] = data
        queue.publish()

    def note(self, side: int, text: str, time: int) -> None:
        """Record a comment on the connection, as the comment of a packet without payload."""
        if self._suspended and not self._resume(time):
            return
        record = (
            self._number,
            NOTE,
            side,
            time,
            self._positions[side],
            b"",
            _encoded(text, self._tee.most_comment),
        )
        if not self._tee.write(*record, self._tee.spare) and self._tee.lossless:
            self._tee.keep(*record)

    def end(self, side: int, time: int) -> None:
        """Record that a side sends nothing more (FIN)."""
        if not self._ended[side]:
            self._ended[side] = True
            self._end(END, side, time)

    def reset(self, side: int, time: int) -> None:
        """Record that a side has reset the connection (RST)."""
        if not all(self._ended):
            self._ended = [True, True]
            self._end(RESET, side, time)

    def conclude(self, time: int) -> None:
        """Stop recording, but record a pending gap first: a capture that ends inside a gap must show it.

        :param time: ns since the epoch
        """
        if self._suspended and any(self._lost):
            self._record_gap(time)
        self._suspended = True

    def _open(self) -> bool:
        self._opened = self._control(OPEN, 0, self._time, self.endpoints.encode())
        return self._opened

    def _pieces(self, side: int, data: _Bytes, time: int, comment: str) -> None:
        """Record any number of bytes, as far as there is room."""
        tee, positions = self._tee, self._positions
        if not data:
            if comment:
                self.note(side, comment, time)
            return
        text, view, at = _encoded(comment, tee.most_comment), memoryview(data), 0
        if not self._suspended or self._resume(time):
            for at in range(0, len(view), tee.most):
                piece = view[at : at + tee.most]
                record = (self._number, DATA, side, time, positions[side], piece, text)
                if not tee.write(*record, tee.spare) and not (tee.lossless and tee.keep(*record)):
                    break
                positions[side] += len(piece)
                text = b""
            else:
                return
        self._drop(side, len(view) - at)

    def _drop(self, side: int, size: int) -> None:
        tee = self._tee
        self._suspended = True
        self._positions[side] += size
        self._lost[side] += size
        tee.dropped_bytes += size
        if not self._lossy:
            self._lossy = True
            tee.dropped_connections += 1

    def _resume(self, time: int) -> bool:
        """Resume recording if the queue is below half; return whether it is."""
        tee = self._tee
        if tee.closed or tee.waiting >= tee.half or all(self._ended) or not self._record_gap(time):
            return False
        self._suspended = False
        return True

    def _record_gap(self, time: int) -> bool:
        """Announce the connection if that has not been done, and record how many bytes were dropped."""
        if not self._opened and not self._open():
            return False
        lost, self._lost = self._lost, [0, 0]
        recorded = True
        if any(lost):
            # a note from each side acknowledges the other side's bytes; the third note, those of the second
            for side in (0, 1, 0) if lost[1] else (0, 1):
                text = (
                    f"kproxy: tee dropped {lost[side]} bytes that the {ENDS[side]} sent" if lost[side] else ""
                )
                recorded &= self._control(NOTE, side, time, b"", text.encode())
                lost[side] = 0
        return recorded

    def _end(self, kind: int, side: int, time: int) -> None:
        if not self._suspended or self._record_gap(time):
            self._control(kind, side, time)
        if all(self._ended):
            self._suspended = True
            self._tee.live.pop(self._number, None)

    def _control(self, kind: int, side: int, time: int, data: bytes = b"", comment: bytes = b"") -> bool:
        """Record something for which there is nearly always room."""
        record = (self._number, kind, side, time, self._positions[side], data, comment)
        return self._tee.write(*record, 0) or self._tee.keep(*record)


def _encoded(text: str, most: int) -> bytes:
    """Return any text as UTF-8, cut at a character boundary."""
    data = text.encode(errors="backslashreplace")
    return data if len(data) <= most else data[:most].decode(errors="ignore").encode()
