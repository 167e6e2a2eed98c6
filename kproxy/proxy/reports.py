"""Reports of the data plane: JSON lines on standard output, and events for subscribers of the control socket.

Nothing has to read them: lines that cannot be written at once are dropped. A repeated sentence is reported again only
after some seconds, with a count.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import msgspec

_AGAIN = 10.0  # seconds before a sentence is repeated
_MOST_KEPT = 1000  # sentences remembered

_encode = msgspec.json.Encoder().encode


class Reports:
    """Reports events and sentences.

    :param descriptor: file descriptor for the lines; it is made non-blocking
    :ivar publish: receives the same events, once there is a subscriber
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._reported: dict[str, tuple[float, int]] = {}
        self.publish: Callable[[dict[str, Any]], None] = lambda _: None
        os.set_blocking(descriptor, False)

    def event(self, name: str, **values: Any) -> None:
        event = {"event": name, **values}
        with suppress(OSError):
            os.write(self._descriptor, _encode(event) + b"\n")
        self.publish(event)

    def note(self, text: str) -> None:
        """Report a sentence for information."""
        self.event("note", text=text)

    def warn(self, text: str, about: str = "") -> None:
        """Report a problem in a sentence.

        :param about: warnings with the same value count as repetitions; the text, if empty
        """
        key, now = about or text, monotonic()
        reported_at, count = self._reported.get(key, (-_AGAIN, 0))
        if now - reported_at < _AGAIN:
            self._reported[key] = reported_at, count + 1
            return
        if len(self._reported) > _MOST_KEPT:
            self._reported.clear()
        self._reported[key] = now, 0
        self.event("warning", text=f"{text} (and {count:,} more before that)" if count else text)
