"""What the workers of the lane of questions have in common: orders come in, and what happened goes out.

``Worker.java``, ``confluent_worker.py`` and ``kafka_python_worker.py`` do the same: they produce or consume. Their
arguments are ``produce`` or ``consume``, a topic, and settings of the client as ``name=value``. Orders are lines of
standard input; ``done`` is said after each:

    send COUNT PAUSE_MS    records with keys NAME-0000, NAME-0001 ... that nobody else uses
    begin, commit, abort   of a transaction
    flush                  wait until everything is acknowledged, or has failed
    commit                 (consumer) commit what was received, and wait for the answer
    skip COUNT             (consumer) go on so many records later, in each partition
    close                  end as a well-behaved client does

What happened goes to standard output, a JSON object on a line, with ``t`` in microseconds since the epoch by the clock
of the process: ``sent`` just before the library is given a record, ``delivered`` and ``failed`` in its callback,
``received`` when the application has it, ``committing`` and ``committed`` around a commit that was ordered, or
``committed`` alone in the callback of an automatic one.
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
    """Write down that something happens now."""
    line = json.dumps({"t": time.time_ns() // 1000, "what": what} | more)
    with _LOCK:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def settings() -> dict[str, str]:
    """Return the settings among the arguments."""
    return dict(each.split("=", 1) for each in sys.argv[3:])


def pairs(offsets: dict[int, int]) -> list[list[int]]:
    """Return partitions and their offsets as they are written down."""
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
        """Yield orders until ``close``; wait for each."""
        while (order := self._queue.get())[0] != "close":
            yield order

    def now(self) -> list[str] | None:
        """Return the next order, None if there is none yet."""
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None
