"""A data plane that only talks: a control server on a loop in a thread of its own."""

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
    """What runs in the thread.

    :ivar left: how often the last controller has left
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
        """Run something on the loop."""

        async def run() -> Any:
            return action()

        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE)

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds on the loop."""

        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(until(holds), self.loop).result()


@contextmanager
def serving(plane: P, runner: Callable[[Any], Any] = asyncio.run) -> Iterator[P]:
    """Let a plane run; its socket is closed at the end."""
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
