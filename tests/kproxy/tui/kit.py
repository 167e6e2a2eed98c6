"""Common parts of the UI tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from captures.exchanges import open_capture
from kproxy.session import Session
from kproxy.tui.app import KproxyApp
from kproxy.tui.main.screen import MainScreen
from kproxy.tui.settings import Settings

REBALANCE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"

_LOOK = 0.02
_QUIET = 3
"""Number of consecutive checks that have to find the UI idle."""
_LOOKS = 1_000
"""Number of checks before giving up. Checks are counted instead of seconds: on a busy machine one second is too
short, and each check takes longer."""


def session_of(path: Path | str = REBALANCE, **options: Any) -> Session:
    """Return a session of a capture that has not started."""
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


@asynccontextmanager
async def opened(
    path: Path | str = REBALANCE, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[Pilot[Any]]:
    """Return the whole UI with a capture that was read."""
    app = KproxyApp(session_of(path), Settings(), **options)
    try:
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            yield pilot
            if not app._exit:
                shown_lines(pilot)  # reveals drawing errors even in tests that do not look at the screen
    finally:
        app.session.close()


def main_of(pilot: Pilot[Any]) -> MainScreen:
    """Return the main screen."""
    app: Any = pilot.app
    screen: MainScreen = app.main
    return screen


def shown_lines(pilot: Pilot[Any]) -> list[str]:
    """Return the lines on the screen."""
    lines = pilot.app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in line) for line in lines]


async def settled(pilot: Pilot[Any]) -> None:
    """Wait until the UI is idle, or waits for its user, and has drawn its screen.

    Checks only sleep: :meth:`Pilot.pause` sends a message to each widget, and without a delay it waits until the
    process uses little processor time, which depends on the machine.
    """
    app: Any = pilot.app
    quiet = looks = 0
    await pilot.pause(0)  # handle earlier messages
    while quiet < _QUIET:
        looks += 1
        assert looks <= _LOOKS, "the UI does not come to rest"
        await asyncio.sleep(_LOOK)
        # a worker of a screen below has asked a question, and continues after the answer
        working = any(not each.is_finished and each.node.screen is app.screen for each in app.workers)
        current = app.main.up_to_date if hasattr(app, "main") else True
        idle = app.session.at_rest and current and not working and not _has_messages(app)
        quiet = quiet + 1 if idle else 0
    await pilot.pause(0)


def _has_messages(app: Any) -> bool:
    """Return whether messages are pending for the app, its screen or a widget on it."""
    return any(each.message_queue_size for each in (app, *app.screen.walk_children(with_self=True)))
