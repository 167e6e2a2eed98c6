"""Waiting for a state: the only way in which tests wait for other threads and processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which a test gives up. Only a hang takes that long: on a busy machine, seconds of work take minutes."""
_PAUSE = 0.01


async def until(ready: Callable[[], object]) -> None:
    """Wait in an event loop until `ready` returns something true.

    :raises TimeoutError: if it does not
    """
    async with asyncio.timeout(PATIENCE):
        while not ready():
            await asyncio.sleep(_PAUSE)


def wait_until(ready: Callable[[], object]) -> None:
    """Wait in a thread until `ready` returns something true.

    :raises TimeoutError: if it does not
    """
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(_PAUSE)
