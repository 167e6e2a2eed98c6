"""The lines of the program of :mod:`~captures.live.taps.script` as packets."""

from __future__ import annotations

import heapq
import struct
import sys
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from operator import attrgetter

import msgspec

from captures.export.segments import MAX_SEGMENT, Conversation
from captures.live.taps.script import CHUNK, LARGEST

_PATIENCE = 2_000_000_000
"""Nanoseconds that a call waits for bytes that were printed after later calls, or are lost."""
_IDLE = 500_000_000
"""Nanoseconds without a heartbeat after which a CPU is not waited for: it is idle, and has no timer, or offline."""
_WAITING = 4 << 20
"""Bytes of calls of one connection that wait for its addresses."""
_NUMBERS = struct.Struct(f"={CHUNK // 8}Q")
_SERVER = 2  # a role


class _Call(msgspec.Struct, eq=False):
    """A call, with the bytes that have arrived.

    :ivar at: position of its first byte in the stream of `side`
    :ivar runs: offset and bytes of what has arrived without a hole
    :ivar more: bytes that may still arrive
    """

    thread: str
    time: int
    side: int
    at: int
    size: int
    connection: _Connection
    runs: list[tuple[int, bytearray]] = []
    more: int = 0

    def put(self, offset: int, data: bytes) -> None:
        """Take a chunk; chunks come in order, and the last one may overlap."""
        end = self.runs[-1][0] + len(self.runs[-1][1]) if self.runs else -1
        data = data[: self.size - offset]
        if offset <= end:
            self.runs[-1][1].extend(data[end - offset :])
            self.more -= max(len(data) - (end - offset), 0)
        else:
            self.runs.append((offset, bytearray(data)))
            self.more -= len(data)


class _Connection(msgspec.Struct, eq=False):
    """A connection of a process.

    :ivar key: process ID and address of the object
    :ivar role: of the process; 0 if the handshake was not seen
    :ivar conversation: None until its addresses are known
    :ivar waiting: calls until then
    :ivar used: whether bytes went in each direction
    :ivar begun: whether packets were made
    :ivar late: whether earlier calls were left out
    :ivar ends: the endpoint of the process, and the other one
    :ivar twin: whether the process at the other end is read, too, so that calls of this one are the same data
    :ivar freed: whether its end was printed; earlier calls on other CPUs may be printed after it
    """

    key: tuple[str, str]
    role: int
    conversation: Conversation | None = None
    waiting: list[_Call] = []
    used: set[str] = msgspec.field(default_factory=set)
    begun: bool = False
    late: bool = False
    ends: tuple[str, str] = ("", "")
    twin: bool = False
    freed: bool = False


class TlsCalls:
    """Turns lines into packets, in the order of time.

    Each CPU prints in order, and bpftrace reads one after the other. So a call is passed on when every CPU that is not
    idle has printed a later heartbeat.

    :ivar unplaced: calls whose connection remained unknown
    :ivar lost: lines that bpftrace could not print in time; 0.17 says so among the others
    :ivar cut: calls of which the program prints a part only
    :ivar ready: whether a line has come, so that all probes are set
    :ivar since: earlier calls are left out: some functions had no probe yet
    """

    def __init__(self) -> None:
        self.unplaced = self.lost = self.cut = 0
        self.ready = False
        self.since = 0
        self._beats: dict[str, tuple[int, int]] = {}
        self._connections: dict[tuple[str, str], _Connection] = {}
        self._open: dict[tuple[str, int], _Call] = {}
        self._ends: set[tuple[str, str]] = set()
        self._heap: list[tuple[int, int, _Call | _Connection]] = []
        self._count = 0

    def feed(self, lines: Iterable[str]) -> None:
        """Take lines; those in another form are passed over."""
        takes = {
            "b": self._beat, "o": self._call, "w": self._words, "x": self._bytes, "f": self._free, "e": self._exit,
            "Lost": self._count_lost,
        }  # fmt: skip
        for line in lines:
            kind, _, rest = line.partition(" ")
            take = takes.get(kind)
            if take is not None:
                try:
                    take(rest.split(" "))
                except (ValueError, IndexError, struct.error):
                    continue  # a line that bpftrace was stopped in
                self.ready = True

    def packets(self) -> Iterator[tuple[int, bytes]]:
        """Yield packets that no later line can precede, with their times in ns since the start of the machine."""
        newest = max((last for _, last in self._beats.values()), default=0)
        horizon = min((before for before, last in self._beats.values() if newest - last < _IDLE), default=0)
        while self._heap and self._heap[0][0] <= horizon:
            time, _, entry = self._heap[0]
            if isinstance(entry, _Call) and entry.more and horizon - time < _PATIENCE:
                return
            heapq.heappop(self._heap)
            if isinstance(entry, _Connection):
                if self._connections.get(entry.key) is entry:
                    del self._connections[entry.key]
                    self._ends.discard(entry.ends)
                for frame in self._end(entry):
                    yield time, frame
            else:
                self._open.pop((entry.thread, time), None)  # lines are lost
                if time >= self.since:
                    yield from self._place(entry)
                else:
                    entry.connection.late = True

    def _count_lost(self, values: list[str]) -> None:
        self.lost += int(values[0])

    def _beat(self, values: list[str]) -> None:
        cpu, time = values
        self._beats[cpu] = self._beats.get(cpu, (0, 0))[1], int(time)

    def _call(self, values: list[str]) -> None:
        pid, tid, time, direction, ssl, role, at, size, *ends = values
        key = pid, ssl
        connection = self._connections.get(key)
        # a new one at the same address
        if connection is None or (at == "0" and direction in connection.used):
            if connection is not None:
                self._ends.discard(connection.ends)
            connection = self._connections[key] = _Connection(key, int(role))
        connection.used.add(direction)
        side = int((direction == "r") != (connection.role == _SERVER))
        limit = -(-LARGEST["SSL_write" if direction == "w" else "SSL_read"] // CHUNK) * CHUNK
        call = _Call(tid, int(time), side, int(at), int(size), connection, more=min(int(size), limit))
        self.cut += call.size > limit
        if connection.conversation is None and not connection.twin:
            self._address(connection, ends)
        if connection.twin:
            return
        self._open[tid, call.time] = call
        self._push(call.time, call)

    def _address(self, connection: _Connection, ends: list[str]) -> None:
        family, port, remote_port, *numbers = ends
        packed = struct.pack("=10I", *map(int, numbers))
        if family == "2":
            local, remote = (str(IPv4Address(packed[at : at + 4])) for at in (0, 4))
        elif family == "10":
            local, remote = (_v6_text(packed[at : at + 16]) for at in (8, 24))
        else:
            return
        swapped = int.from_bytes(int(remote_port).to_bytes(2, sys.byteorder))
        here, there = f"{local}:{port}", f"{remote}:{swapped}"
        connection.twin = (there, here) in self._ends
        if connection.twin:
            return
        connection.ends = here, there
        self._ends.add(connection.ends)
        client, broker = (there, here) if connection.role == _SERVER else (here, there)
        connection.conversation = Conversation(client, broker, self._count)

    def _words(self, values: list[str]) -> None:
        tid, time, offset, *numbers = values
        self._data(tid, int(time), int(offset), _NUMBERS.pack(*[int(each, 16) for each in numbers]))

    def _bytes(self, values: list[str]) -> None:
        tid, time, offset, *data = values
        self._data(tid, int(time), int(offset), bytes.fromhex("".join(data)))

    def _data(self, tid: str, time: int, offset: int, data: bytes) -> None:
        call = self._open.get((tid, time))
        if call is None:
            return  # its line is lost
        call.put(offset, data)
        if call.more <= 0 or offset + len(data) >= call.size:
            call.more = 0
            del self._open[tid, time]

    def _free(self, values: list[str]) -> None:
        pid, time, ssl = values
        connection = self._connections.get((pid, ssl))
        if connection is not None and not connection.freed:
            connection.freed = True
            self._push(int(time), connection)

    def _exit(self, values: list[str]) -> None:
        """A process has ended, and may have freed nothing."""
        process, time = values
        for pid, ssl in [key for key in self._connections if key[0] == process]:
            self._free([pid, time, ssl])

    def _push(self, time: int, entry: _Call | _Connection) -> None:
        self._count += 1
        heapq.heappush(self._heap, (time, self._count, entry))

    def _place(self, call: _Call) -> Iterator[tuple[int, bytes]]:
        """Yield the packets of a call, and of earlier ones that waited for the connection's addresses."""
        connection = call.connection
        connection.waiting.append(call)
        conversation = connection.conversation
        if conversation is None:
            while sum(map(attrgetter("size"), connection.waiting)) > _WAITING:
                del connection.waiting[0]
                self.unplaced += 1
            return
        if connection.role and not (connection.begun or connection.late):
            # half a handshake: it identifies the client, and shows no round trip
            yield call.time, conversation.handshake()[1]
        connection.begun = True
        for each in connection.waiting:
            for offset, data in each.runs:
                for begin in range(0, len(data), MAX_SEGMENT):
                    part = bytes(data[begin : begin + MAX_SEGMENT])
                    at, push = each.at + offset + begin, begin + len(part) == len(data)
                    yield each.time, conversation.segment(each.side, at, part, push=push)
        connection.waiting = []

    def _end(self, connection: _Connection) -> Iterable[bytes]:
        self.unplaced += len(connection.waiting)
        if connection.conversation is not None and connection.begun:
            return connection.conversation.finish(0)
        return ()


def _v6_text(packed: bytes) -> str:
    """Return an address as text; a server's socket may be IPv6 where its clients' is IPv4."""
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or f"[{address}]")
