"""A lock for two threads that take it again and again, so that each gets its turn.

A plain lock is no queue: a thread that releases it and takes it again at once wins over one that has to be woken first.
"""

from __future__ import annotations

from threading import Lock


class FairLock:
    """A context manager; not to be entered again by who is in it.

    Who waits holds the way in, so that who leaves has to queue behind it.
    """

    def __init__(self) -> None:
        self._way_in = Lock()
        self._inside = Lock()

    def __enter__(self) -> None:
        with self._way_in:
            self._inside.acquire()

    def __exit__(self, *_: object) -> None:
        self._inside.release()
