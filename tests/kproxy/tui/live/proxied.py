"""A proxy in the event loop of a test, with a broker behind it and a link to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.app import App
from textual.screen import Screen

from kproxy.tui.live.link import Link
from tests.kproxy.fake_broker import FakeBroker
from tests.kproxy.proxy.planes import RunningPlane, running
from tests.waiting import PATIENCE, until


@asynccontextmanager
async def linked(folder: Path, **options: Any) -> AsyncIterator[tuple[RunningPlane, Link]]:
    """Run a proxy and a link to it.

    :param folder: for run folders
    :param options: options of the link
    """
    async with (
        FakeBroker() as broker,
        running(folder, (broker.host, broker.port), client_timeout=PATIENCE) as proxy,
    ):
        link = Link(proxy.plane._run.control_socket, **options)
        await asyncio.to_thread(link.start)
        try:
            await until(lambda: link.state.version > 0)  # its thread has subscribed, so no event is missed
            yield proxy, link
        finally:
            await asyncio.to_thread(link.close)


def shown(app: App[Any], kind: type[Screen[Any]]) -> Callable[[], bool]:
    """Return a function that checks whether a dialog of some type is completely shown."""
    return lambda: isinstance(app.screen, kind) and app.screen.focused is not None
