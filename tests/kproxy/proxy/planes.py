"""A data plane in the event loop of a test, and a client that sends frames byte by byte."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import uvloop

from dissectors.frames import decode_response
from kproxy.addresses import Address
from kproxy.proxy.cluster import Cluster
from kproxy.proxy.plane import Plane
from kproxy.proxy.recorder import RecordingOptions
from kproxy.proxy.reports import Reports
from kproxy.proxy.run_folder import RunFolder
from kproxy.proxy.settings import Settings
from tests.kproxy.frames import request_frame
from tests.waiting import PATIENCE, until

UNRECORDED = RecordingOptions(on=False)


class ReportLog(Reports):
    """Keeps the reports that a user would see."""

    def __init__(self) -> None:
        self._sink = os.open(os.devnull, os.O_WRONLY)
        super().__init__(self._sink)
        self.events: list[dict[str, Any]] = []

    def event(self, name: str, **values: Any) -> None:
        self.events.append({"event": name, **values})
        super().event(name, **values)

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    def close(self) -> None:
        os.close(self._sink)


class RunningPlane:
    """A plane and its reports."""

    def __init__(self, plane: Plane, told: ReportLog) -> None:
        self.plane = plane
        self.told = told

    @property
    def cluster(self) -> Cluster:
        """The only cluster, or the first."""
        return self.plane.clusters[0]

    @property
    def address(self) -> Address:
        return self.plane.listeners[0].addresses[0]


@asynccontextmanager
async def running(state: Path, *bootstrap: Address, **settings: Any) -> AsyncIterator[RunningPlane]:
    """Run a data plane on a free port.

    :param state: folder for run folders
    """
    folder = RunFolder.create(0, base=state)
    settings = {"listen": ("127.0.0.1", 0), "recorded": UNRECORDED, "drain": 0.5} | settings
    told = ReportLog()
    plane = Plane(Settings(run_folder=str(folder.path), bootstrap=bootstrap, **settings), told)
    task = asyncio.create_task(plane.run())
    try:
        await until(lambda: bool(told.of("ready")) or task.done())
        if task.done():
            task.result()
        yield RunningPlane(plane, told)
    finally:
        plane.end()
        await task
        told.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test in a new event loop of the same kind as the data plane's."""
    uvloop.run(test())


class Client:
    """A connection for raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, address: Address, **options: Any) -> Self:
        return cls(*await asyncio.open_connection(*address, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def frame(self) -> bytes:
        """Return the next frame, with its size field."""
        async with asyncio.timeout(PATIENCE):
            size = await self.reader.readexactly(4)
            return size + await self.reader.readexactly(int.from_bytes(size))

    async def response(self, key: int, version: int) -> dict[str, Any]:
        """Return the body of the next response."""
        frame = await self.frame()
        body = decode_response(frame[4:], key, version)
        assert body.value is not None
        assert not body.problems
        return body.value

    async def ask(
        self, key: int, version: int, body: dict[str, Any], correlation_id: int = 1
    ) -> dict[str, Any]:
        self.send(request_frame(key, version, body, correlation_id))
        return await self.response(key, version)

    async def ended(self) -> bytes:
        """Return the remaining bytes until the connection ends."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""
