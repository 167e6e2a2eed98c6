"""The Spark session of the tests, and the xdist worker that owns it.

A session is a JVM of half a gigabyte that takes seconds to start. So one worker runs all tests that use the fixture
``spark``, and runs them first. The other workers share the remaining tests as usual (``--dist load``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the optimizing compiler and parallel garbage collection would take two fifths of the processor time of these
#: short-lived JVMs and save none
LIGHT = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
#: the same as options of a kproxy command that starts its own JVM
SHORT_LIVED = tuple(each for setting in LIGHT.items() for each in ("--spark-conf", "=".join(setting)))

_GROUP = "@spark"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session that runs two tasks at a time and tries each up to four times, as a cluster does."""
    from captures.spark.session import session, stop

    spark = session("local[2,4]", settings={"spark.driver.memory": "768m", **LIGHT})
    yield spark
    stop(spark)


def mark_tests(items: list[pytest.Item]) -> None:
    """Add a suffix to the IDs of tests that need the session. IDs are all that the scheduler sees of a test."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item._nodeid = f"{item.nodeid}{_GROUP}"  # like xdist with its own groups


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler that distributes tests to workers."""
    from xdist.scheduler.load import LoadScheduling

    class OneWorkerForSpark(LoadScheduling):
        """Sends all tests that need the session to the first worker."""

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
