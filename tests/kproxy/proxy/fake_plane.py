"""A data plane without forwarding: a control server on an event loop in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from kproxy.proxy.control import Command, ControlServer
from tests.waiting import PATIENCE, until

P = TypeVar("P", bound="FakePlane")


class FakePlane:
    """The content of the thread.

    :ivar left: number of times that the last controller has left
    """

    def __init__(
        self, path: Path, commands: Mapping[str, Command], changing: frozenset[str] = frozenset()
    ) -> None:
        self.path = path
        self.left = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        self.server = ControlServer(path, commands, changing, self._gone)

    def _gone(self) -> None:
        self.left += 1

    def do(self, action: Callable[[], Any]) -> Any:
        """Run an action on the loop."""

        async def run() -> Any:
            return action()

        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds on the loop."""

        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(until(holds), self.loop).result()


@contextmanager
def serving(plane: P, runner: Callable[[Any], Any] = asyncio.run) -> Iterator[P]:
    """Run a plane during the block, then close its socket."""
    started = threading.Event()
    done: asyncio.Event

    async def serve() -> None:
        nonlocal done
        done, plane.loop = asyncio.Event(), asyncio.get_running_loop()
        await plane.server.start()
        started.set()
        await done.wait()
        await plane.server.close()

    thread = threading.Thread(target=runner, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    try:
        yield plane
    finally:
        plane.do(lambda: done.set())
        thread.join(PATIENCE)
