"""Traffic of each client by hour and API: a script for spark-submit or plain Python.

spark-submit --master yarn docs/examples/spark_submit.py /captures/monday /reports/clients
python docs/examples/spark_submit.py kafka.pcap clients
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from captures.spark import exchanges
from captures.spark.session import running_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ["number", "time", "client_id", "api", "latency_ns", "request_size", "response_size", "error_count"]


def by_client(rows: DataFrame) -> DataFrame:
    """Return a row for each hour, client and API."""
    from pyspark.sql import functions as f

    return (
        rows.groupBy(f.date_trunc("hour", "time").alias("hour"), "client_id", "api")
        .agg(
            f.count("*").alias("exchanges"),
            f.sum("error_count").alias("errors"),
            f.sum(f.col("request_size") + f.col("response_size")).alias("bytes"),
            (f.percentile_approx("latency_ns", 0.99) / 1e6).alias("p99_ms"),
        )
        .orderBy("hour", f.desc("bytes"))
    )


def main(captures: str, out: str) -> None:
    """Write the rows as CSV.

    :param captures: a file, folder or pattern
    :param out: a folder
    """
    with running_session() as spark:  # the session of spark-submit, or a local one
        by_client(exchanges(spark, captures, columns=COLUMNS)).write.mode("overwrite").csv(out, header=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
