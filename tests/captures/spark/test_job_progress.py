"""Progress derived from Spark's stages."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from captures.spark.job_progress import _watch, silent, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Stage(NamedTuple):
    numCompletedTasks: int  # noqa: N815  # Spark's name
    numTasks: int  # noqa: N815  # Spark's name


class _Tracker:
    """Tells of two stages, one after the other; then it is over."""

    def __init__(self, over: Event) -> None:
        self._steps: list[dict[int, _Stage]] = [
            {1: _Stage(0, 4)},
            {1: _Stage(3, 4), 2: _Stage(0, 2)},
            {2: _Stage(1, 2)},
        ]
        self._over = over
        self._asked = 0

    def getActiveStageIds(self) -> list[int]:
        self._asked += 1
        step = (self._asked - 1) // 2  # it is asked twice each time
        if step >= len(self._steps):
            self._over.set()
            return []
        return list(self._steps[step])

    def getStageInfo(self, stage: int) -> _Stage | None:
        return self._steps[(self._asked - 1) // 2].get(stage)


@pytest.mark.slow
def test_stages_add_up_and_those_that_are_gone_are_done() -> None:
    over, told = Event(), list[tuple[str, int, int]]()
    tracker: Any = _Tracker(over)
    _watch(tracker, "reading", lambda *each: told.append(each), over)
    assert told == [("reading", 0, 4), ("reading", 3, 6), ("reading", 5, 6), ("reading", 6, 6)]


def test_a_job_is_watched(spark: SparkSession) -> None:
    told: list[tuple[str, int, int]] = []
    with watched(spark, "counting", lambda *each: told.append(each)):
        assert spark.range(0, 100, 1, 3).count() == 100
    assert told[0] == ("counting", 0, 0)
    assert all(done <= tasks for _, done, tasks in told)


def test_nobody_is_told_without_need() -> None:
    nothing: Any = None
    with watched(nothing, "reading", silent):
        pass
