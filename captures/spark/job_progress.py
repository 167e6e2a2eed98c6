"""Progress of running Spark jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from captures.spark.session import is_connect
from captures.tables.single import Progress, silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY = 0.2
"""Seconds between two polls."""


@contextmanager
def watched(spark: SparkSession, what: str, progress: Progress) -> Iterator[None]:
    """Report the progress of all jobs that run inside the ``with`` block, as their tasks end.

    With Spark Connect the server reports its progress, if it supports that.
    """
    if progress is silent:
        yield
        return
    progress(what, 0, 0)
    if is_connect(spark):

        def report(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
            completed = sum(stage.num_completed_tasks for stage in stages)
            progress(what, completed, sum(stage.num_tasks for stage in stages))

        handler: Any = report
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
        return
    over = Event()
    thread = Thread(
        target=_watch, args=(spark.sparkContext.statusTracker(), what, progress, over), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(tracker: Any, what: str, progress: Progress, over: Event) -> None:
    seen: dict[int, tuple[int, int]] = {}
    while not over.wait(_EVERY):
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                seen[stage] = info.numCompletedTasks, info.numTasks
        active = set(tracker.getActiveStageIds())
        for stage, (_, tasks) in seen.items():
            if stage not in active:
                seen[stage] = tasks, tasks
        progress(what, sum(done for done, _ in seen.values()), sum(tasks for _, tasks in seen.values()))
