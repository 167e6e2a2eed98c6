"""The pipeline on Spark: turns captures of any size into tables, on this machine or on a cluster.

::

    from captures import spark as kafka

    kafka.register(spark)                                      # the data source "kproxy", batch and streaming
    kafka.exchanges(spark, "/captures/monday", columns=["number", "api", "latency_ns"])
    kafka.tables(spark, "/captures/monday", ["rebalances", "findings"])
    kafka.stream(spark, "/var/tmp/ring", columns=["number", "api", "latency_ns"])    # files as they arrive
    kafka.write_tables(["/captures/monday"], "/tables", kafka.TablesOptions())

pyspark is only imported when one of these is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captures.spark.frames import ReadOptions, exchanges, tables
    from captures.spark.pipeline import follow_tables, write_tables
    from captures.spark.source import register
    from captures.spark.stream_source import stream
    from captures.tables.options import TablesOptions, TablesSummary

__all__ = [
    "ReadOptions",
    "TablesOptions",
    "TablesSummary",
    "exchanges",
    "follow_tables",
    "register",
    "stream",
    "tables",
    "write_tables",
]

_WHERE = {
    "ReadOptions": "captures.spark.frames",
    "TablesOptions": "captures.tables.options",
    "TablesSummary": "captures.tables.options",
    "exchanges": "captures.spark.frames",
    "follow_tables": "captures.spark.pipeline",
    "register": "captures.spark.source",
    "stream": "captures.spark.stream_source",
    "tables": "captures.spark.frames",
    "write_tables": "captures.spark.pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
