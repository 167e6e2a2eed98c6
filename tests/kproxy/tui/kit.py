"""What tests of the UI have in common."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from captures.exchanges import open_capture
from kproxy.tui.session import Session

REBALANCE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"

_DEADLINE = 10.0
_DRAWN = 0.1
"""Seconds, a little more than from one look at what is published to the next."""


def session_of(path: Path | str = REBALANCE, **options: Any) -> Session:
    """Return a session of a capture, which is not begun yet."""
    return Session(open_capture(str(path)), title=Path(path).name, zone=UTC, **options)


@asynccontextmanager
async def read_session(path: Path | str = REBALANCE, **options: Any) -> AsyncIterator[Session]:
    """Return a session of a capture that was read."""
    session = session_of(path, **options)
    session.start()
    try:
        await session.idle()
        yield session
    finally:
        session.close()


async def until(condition: Callable[[], Any], seconds: float = _DEADLINE) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come to hold"
        await asyncio.sleep(0.01)


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until the UI has nothing left to do, or waits for its user, and has drawn it."""
    app: Any = pilot.app
    for _ in range(2):
        await pilot.pause()
        # a worker that has asked something goes on when that is answered
        await until(lambda: len(app.screen_stack) > 1 or all(each.is_finished for each in app.workers))
        await asyncio.wait_for(app.session.idle(), _DEADLINE)
        await pilot.pause(_DRAWN)
