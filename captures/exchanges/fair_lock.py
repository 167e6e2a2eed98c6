"""A lock for two threads that acquire it again and again, so that each gets its turn.

A plain lock is not a queue: a thread that releases it and acquires it again at once wins over one that must first be
woken.
"""

from __future__ import annotations

from threading import Lock


class FairLock:
    """A context manager that is not reentrant.

    A waiting thread holds the way in, so that the thread that leaves has to queue behind it.
    """

    def __init__(self) -> None:
        self._way_in = Lock()
        self._inside = Lock()

    def __enter__(self) -> None:
        with self._way_in:
            self._inside.acquire()

    def __exit__(self, *_: object) -> None:
        self._inside.release()
