"""The findings of a capture through Spark Connect: this program runs locally, the work is done by the server.

    python docs/examples/spark_connect.py sc://spark.example:15002 /captures/monday

kproxy must be installed on the server and its workers too, and the path must be valid everywhere.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from captures.spark import tables
from captures.spark.session import running_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def findings(spark_tables: dict[str, DataFrame]) -> DataFrame:
    """Return the findings, the most severe first."""
    from pyspark.sql import functions as f

    order = f.expr("array_position(array('high', 'medium', 'low', 'info'), severity)")
    return spark_tables["findings"].orderBy(order, "time").select("severity", "rule", "time", "sentence")


def main(server: str, captures: str) -> None:
    """Print the findings.

    :param server: such as ``sc://host:15002``
    :param captures: a file, folder or pattern
    """
    with running_session(remote=server) as spark:
        findings(tables(spark, captures, ["findings"])).show(50, truncate=False)


if __name__ == "__main__":
    main(*sys.argv[1:3])
