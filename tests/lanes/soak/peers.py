"""The peers of the soak: a client with many connections, and a broker that responds, each a separate program.

    python -m tests.lanes.soak.peers broker PORT JOURNAL
    python -m tests.lanes.soak.peers client PORT JOURNAL

Both compare every received byte with the expected one (:mod:`tests.lanes.soak.talk`). Each writes a JSON line to its
journal for each ended connection; :mod:`tests.lanes.soak.accounts` evaluates these.

On SIGUSR1 the broker is away for some seconds: it resets all connections and accepts none. SIGTERM stops either; the
client closes its connections cleanly.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import random
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Coroutine
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.loads import API_VERSIONS, METADATA, Ask, api_versions, metadata, response_frame
from tests.lanes.soak import talk
from tests.lanes.soak.talk import Habit

FIRST_PORT, LAST_PORT = 1_024, 10_000
"""Local ports of the client's connections: each connection has its own, which identifies it in the recording.

They are below the range that :func:`tests.lanes.confined.enter` assigns to others.
"""
AWAY_S = 5.0

_WORKERS = 14
_SIZE = struct.Struct(">i")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST
_PIECE = 16 << 10
_BUFFER = 64 << 10  # kernel buffers: small, so that a side that does not read has an effect
_PATIENCE_S = 240.0


class Wrong(Exception):  # noqa: N818  # says what is wrong
    """Bytes were received that were never sent."""


class Journal:
    """JSON lines, one for each ended connection."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def note(self, **facts: Any) -> None:
        """Write a line, with the time in seconds since boot."""
        self._file.write(json.dumps(facts | {"at": monotonic()}) + "\n")


class Wire:
    """One end of a connection, which counts bytes and checks them.

    :ivar sent: bytes passed to the kernel or waiting for it
    :ivar received: correct bytes received
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sent = self.received = 0
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self.sent += len(data)
        self._writer.write(data)
        await self._writer.drain()

    async def expect(self, data: bytes, pause: float = 0.0) -> None:
        """Receive these bytes.

        :param pause: seconds between pieces
        :raises Wrong: if different bytes arrive
        """
        at = 0
        while at < len(data):
            piece = await self._reader.read(min(len(data) - at, _PIECE))
            if not piece:
                raise ConnectionResetError("the other side ended in the middle")
            if piece != data[at : at + len(piece)]:
                raise Wrong(f"other bytes than were sent, from {self.received} on: {piece[:32].hex(' ')} ...")
            at += len(piece)
            self.received += len(piece)
            if pause:
                await asyncio.sleep(pause)

    async def end(self) -> None:
        """Read to the end of the connection; no more bytes may arrive.

        :raises Wrong: if more bytes arrive
        """
        rest = await self._reader.read(_PIECE)
        if rest:
            raise Wrong(f"{len(rest)} bytes too many: {rest[:32].hex(' ')} ...")

    def reset(self) -> None:
        raw = self._writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    @property
    def writer(self) -> asyncio.StreamWriter:
        return self._writer


# ---------------------------------------------------------------- the client
class Client:
    """Keeps connections busy until it is stopped."""

    def __init__(self, port: int, journal: Journal) -> None:
        self._port = port
        self._journal = journal
        self._numbers = count()
        self._ports = iter(range(FIRST_PORT, LAST_PORT))
        self._ending = asyncio.Event()

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._ending.set)
        await asyncio.gather(*(self._work() for _ in range(_WORKERS)))

    async def _work(self) -> None:
        while not self._ending.is_set():
            await self._one(next(self._numbers))
            await self._sleep(random.uniform(0.1, 1.0))

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)

    async def _one(self, number: int) -> None:
        """Run one connection from beginning to end."""
        raw = self._socket()
        port = raw.getsockname()[1]
        try:
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self._port))
            reader, writer = await asyncio.open_connection(sock=raw, limit=_PIECE)
        except OSError as error:
            raw.close()
            self._journal.note(connection=number, port=port, end=f"refused: {error}")
            await self._sleep(1.0)
            return
        wire = Wire(reader, writer)
        answered, end = [0], ""
        try:
            async with asyncio.timeout(None if number < talk.LASTING else _PATIENCE_S):
                end = await self._talk(number, wire, answered)
        except Wrong as wrong:
            end = f"wrong: {wrong}"
        except TimeoutError:
            end = "stuck"
        except OSError as error:
            end = f"broken: {error}"
        wire.writer.transport.abort()
        facts = {"sent": wire.sent, "received": wire.received, "answered": answered[0], "end": end}
        self._journal.note(connection=number, port=port, habit=talk.habit(number).name, **facts)

    def _socket(self) -> socket.socket:
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                raw.bind(("127.0.0.1", next(self._ports)))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return raw

    async def _talk(self, connection: int, wire: Wire, answered: list[int]) -> str:
        """Exchange the connection's messages; return how it ended."""
        habit, total, window = talk.habit(connection), talk.length(connection), talk.window(connection)
        broken_at = total // 2 if habit is Habit.CLIENT_RESETS else -1
        waiting: deque[int] = deque()
        for number in range(total):
            if self._ending.is_set():
                break
            request = talk.request(connection, number)
            if number == broken_at:
                await wire.send(request[: len(request) // 2])
                await asyncio.sleep(0.05)
                wire.reset()
                return "reset"
            await self._send(habit, wire, request)
            if talk.is_answered(connection, number):
                waiting.append(number)
            while len(waiting) >= window:
                await self._receive(habit, connection, wire, waiting, answered)
            await self._pause(habit)
        if habit is Habit.HALF_CLOSED:
            wire.writer.write_eof()
        while waiting:
            await self._receive(habit, connection, wire, waiting, answered)
        if habit is Habit.HALF_CLOSED:
            await wire.end()
        await wire.close()
        return "fin"

    async def _send(self, habit: Habit, wire: Wire, request: bytes) -> None:
        if habit is not Habit.DRIBBLE:
            await wire.send(request)
            return
        at = 0
        while at < len(request):
            size = random.randint(1, 40)
            await wire.send(request[at : at + size])
            at += size
            await asyncio.sleep(0.002)

    async def _receive(
        self, habit: Habit, connection: int, wire: Wire, waiting: deque[int], answered: list[int]
    ) -> None:
        number = waiting.popleft()
        slow = habit is Habit.SLOW_CLIENT
        if slow and number % 20 == 7:
            await self._sleep(random.uniform(2, 10))
        await wire.expect(talk.response(connection, number), 0.02 if slow else 0.0)
        answered[0] = number + 1

    async def _pause(self, habit: Habit) -> None:
        if habit is Habit.LASTING:
            await self._sleep(random.choice((0.05, 0.5, 2.0, 20.0)))
        elif habit is not Habit.BULK:
            await asyncio.sleep(random.uniform(0.0, 0.12))


# ---------------------------------------------------------------- the broker
class Broker:
    """Answers the requests of the client, and those of kproxy itself."""

    def __init__(self, port: int, journal: Journal) -> None:
        self._port = port
        self._journal = journal
        self._open: set[Wire] = set()
        self._ending = asyncio.Event()
        offered = talk.VERSIONS | {API_VERSIONS: 3, METADATA: 12}
        self._for_kproxy = {
            API_VERSIONS: response_frame(Ask(API_VERSIONS, 3, api_versions(offered))),
            METADATA: response_frame(Ask(METADATA, 12, metadata(port))),
        }

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        away = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, self._ending.set)
        loop.add_signal_handler(signal.SIGUSR1, away.set)
        while not self._ending.is_set():
            server = await asyncio.start_server(self._serve, sock=self._socket(), limit=_PIECE)
            ends = [asyncio.create_task(event.wait()) for event in (away, self._ending)]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for each in ends:
                each.cancel()
            away.clear()
            server.close()
            for wire in list(self._open):
                wire.reset()
            if not self._ending.is_set():
                await asyncio.sleep(AWAY_S)

    def _socket(self) -> socket.socket:
        raw = socket.create_server(("127.0.0.1", self._port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        return raw

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        self._open.add(wire)
        connection, end = None, ""
        try:
            first = await reader.readexactly(_SIZE.size)
            first += await reader.readexactly(*_SIZE.unpack(first))
            connection = talk.connection_of(first[_SIZE.size :])
            if connection is None:
                await self._answer_kproxy(reader, wire, first)
            else:
                end = await self._talk(connection, wire, first)
        except Wrong as wrong:
            end = f"wrong: {wrong}"
        except (OSError, asyncio.IncompleteReadError) as error:
            end = f"broken: {error}"
        self._open.discard(wire)
        writer.transport.abort()
        if connection is not None:
            self._journal.note(connection=connection, sent=wire.sent, received=wire.received, end=end)

    async def _answer_kproxy(self, reader: asyncio.StreamReader, wire: Wire, first: bytes) -> None:
        frame = first
        while True:
            key = int.from_bytes(frame[4:6])
            answer = self._for_kproxy[key]
            await wire.send(answer[:4] + frame[8:12] + answer[8:])
            frame = await reader.readexactly(_SIZE.size)
            frame += await reader.readexactly(*_SIZE.unpack(frame))

    async def _talk(self, connection: int, wire: Wire, first: bytes) -> str:
        habit, total = talk.habit(connection), talk.length(connection)
        slow = habit is Habit.SLOW_BROKER
        if first != talk.request(connection, 0):
            raise Wrong("the first request is not what was sent")
        wire.received += len(first)
        for number in range(total):
            if slow and number % 20 == 7:
                await asyncio.sleep(random.uniform(2, 10))
            if number:
                try:
                    await wire.expect(talk.request(connection, number), 0.02 if slow else 0.0)
                except ConnectionResetError as error:
                    return f"ended: {error}"
            if not talk.is_answered(connection, number):
                continue
            answer = talk.response(connection, number)
            if habit is Habit.BROKER_RESETS and number >= total // 2:
                await wire.send(answer[: len(answer) // 2])
                await asyncio.sleep(0.05)
                wire.reset()
                return "reset"
            await wire.send(answer)
        await wire.end()
        await wire.close()
        return "fin"


def main() -> None:
    role, port, journal = sys.argv[1:]
    random.seed(role)
    kind = {"client": Client, "broker": Broker}[role]

    async def run() -> None:
        work: Coroutine[Any, Any, None] = kind(int(port), Journal(Path(journal))).run()
        await work

    asyncio.run(run())


if __name__ == "__main__":
    main()
