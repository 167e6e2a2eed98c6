"""The Spark session of the tests, and the one worker of xdist that has it.

A session is a JVM of half a gigabyte that takes seconds to start. So all tests that ask for the fixture ``spark`` are
run by one worker, which is given them first; the others share what is left as they always do (``--dist load``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the optimizing compiler and threads for garbage take two fifths of the processor time of the tests' JVMs, and gain
#: them nothing
LIGHT = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
#: the same as options of a command that has a JVM of its own
SHORT_LIVED = tuple(each for setting in LIGHT.items() for each in ("--spark-conf", "=".join(setting)))

_GROUP = "@spark"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session that runs two tasks side by side and tries each up to four times, as a cluster does."""
    from captures.spark.session import session, stop

    spark = session("local[2,4]", settings={"spark.driver.memory": "768m", **LIGHT})
    yield spark
    stop(spark)


def mark_tests(items: list[pytest.Item]) -> None:
    """Let the names of tests tell the scheduler, which is in another process, that they need the session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item._nodeid = f"{item.nodeid}{_GROUP}"  # as xdist does with its own groups


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Return what hands tests out to workers."""
    from xdist.scheduler.load import LoadScheduling

    class OneWorkerForSpark(LoadScheduling):
        """Gives all tests that need the session to the worker that is asked first."""

        _given = False

        def _send_tests(self, node: Any, num: int) -> None:
            if not self._given and self.collection is not None:
                self._given = True
                wanted = {index for index in self.pending if self.collection[index].endswith(_GROUP)}
                if wanted:
                    self.pending[:] = [*sorted(wanted), *(i for i in self.pending if i not in wanted)]
                    num = len(wanted)
            super()._send_tests(node, num)

    return OneWorkerForSpark(config, log)
