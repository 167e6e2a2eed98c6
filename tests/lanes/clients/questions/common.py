"""Common parts of the workers in the questions lane: orders come in, events go out.

``Worker.java``, ``confluent_worker.py`` and ``kafka_python_worker.py`` behave the same: they produce or consume. Their
arguments are ``produce`` or ``consume``, a topic, and client settings as ``name=value``. Orders are lines of standard
input; each is confirmed with ``done``:

    send COUNT PAUSE_MS    send records with unique keys NAME-0000, NAME-0001 ...
    begin, commit, abort   begin or end a transaction
    flush                  wait until all records are acknowledged or have failed
    commit                 (consumer) commit the received records, and wait for the response
    skip COUNT             (consumer) skip so many records in each partition
    close                  shut down cleanly

Events go to standard output, one JSON object per line, with ``t`` in microseconds since the epoch by the clock of the
process: ``sent`` just before the record is passed to the library, ``delivered`` and ``failed`` in its callback,
``received`` when the application has it, ``committing`` and ``committed`` around an ordered commit, or ``committed``
alone in the callback of an automatic one.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

_LOCK = threading.Lock()


def say(what: str, **more: Any) -> None:
    """Print an event with the current time."""
    line = json.dumps({"t": time.time_ns() // 1000, "what": what} | more)
    with _LOCK:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def settings() -> dict[str, str]:
    """Return the settings among the arguments."""
    return dict(each.split("=", 1) for each in sys.argv[3:])


def pairs(offsets: dict[int, int]) -> list[list[int]]:
    """Return partitions and their offsets in the format of the events."""
    return sorted([partition, offset] for partition, offset in offsets.items())


class Orders:
    """The lines of standard input."""

    def __init__(self) -> None:
        self._queue: queue.Queue[list[str]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._queue.put(line.split())

    def __iter__(self) -> Iterator[list[str]]:
        """Yield orders until ``close``, waiting for each."""
        while (order := self._queue.get())[0] != "close":
            yield order

    def now(self) -> list[str] | None:
        """Return the next order, None if there is none yet."""
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None
