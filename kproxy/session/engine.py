"""The engine: the one thread that decodes. It runs jobs in the order of their priority.

A job is a function; one that takes longer than some milliseconds is a generator function, which yields now and then to
let more urgent jobs run, and returns its result. It runs with the capture's turns held: the capture changes only
between steps of jobs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from enum import IntEnum
from inspect import isgenerator
from itertools import count
from threading import Condition, Thread
from typing import Any, TypeVar, cast, overload

T = TypeVar("T")

Steps = Generator[None, None, T]
"""A running job."""


class Priority(IntEnum):
    """The priority of a job; lower values run first."""

    LOOK = 0
    """Details that the user has selected."""
    ROWS = 1
    """Lines of the list."""
    UPDATE = 2
    """Newly read exchanges."""
    FILTER = 3
    """The content of the list."""
    ASKED = 4
    """Everything else that a user waits for: searches, exports."""
    COUNT = 5
    """Background counts of views."""


class ClosedError(Exception):
    """The engine has ended, and the job was not run."""


class Engine:
    """Runs jobs in a thread.

    :param turns: held while a job runs
    """

    def __init__(self, turns: AbstractContextManager[None]) -> None:
        self._turns = turns
        self._jobs: list[tuple[int, int, Callable[[], Any] | Steps[Any], Future[Any]]] = []
        self._numbers = count()
        self._changed = Condition()
        self._closed = False
        self._busy = False
        self._thread = Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @overload
    def submit(self, job: Callable[[], Steps[T]], priority: Priority) -> Future[T]: ...
    @overload
    def submit(self, job: Callable[[], T], priority: Priority) -> Future[T]: ...
    def submit(self, job: Callable[[], Any], priority: Priority) -> Future[Any]:
        """Submit a job. Cancelling the future ends the job, at its next yield if it is running."""
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                future.set_exception(ClosedError("the session is closed"))
                return future
            heapq.heappush(self._jobs, (priority, next(self._numbers), job, future))
            self._changed.notify_all()
        return future

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        with self._changed:
            return not self._jobs and not self._busy

    def close(self) -> None:
        """Stop; unfinished jobs fail."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        for _, _, job, future in self._jobs:
            if isgenerator(job):
                job.close()
            if not future.done():
                future.set_exception(ClosedError("the session is closed"))

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                while not self._jobs and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                priority, number, job, future = heapq.heappop(self._jobs)
                self._busy = True
            rest = self._step(job, future)
            if rest is not None:
                with self._changed:
                    # with the same number: of equal priorities the oldest runs first
                    heapq.heappush(self._jobs, (priority, number, rest, future))

    def _step(self, job: Callable[[], Any] | Steps[Any], future: Future[Any]) -> Steps[Any] | None:
        """Run one step of a job; return the job if there is more."""
        try:
            with self._turns:
                if future.cancelled():
                    if isgenerator(job):
                        job.close()
                    return None
                if isgenerator(job):
                    next(job)
                    return cast(Steps[Any], job)
                made = cast(Callable[[], Any], job)()
        except StopIteration as end:
            made = end.value
        except Exception as error:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)
            return None
        if isgenerator(made):
            return cast(Steps[Any], made)
        if future.set_running_or_notify_cancel():  # if it was cancelled, the value is not needed
            future.set_result(made)
        return None
