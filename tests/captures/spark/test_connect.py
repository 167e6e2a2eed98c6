"""With Spark Connect, where a program has neither a JVM nor its processes, the functions give the same results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from captures.tables.options import TablesOptions
from tests.captures.export.files import SAMPLE
from tests.captures.spark.kit import by_one_process, same_tables

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from captures import spark as kafka

sample, out = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").config("spark.driver.memory", "768m").getOrCreate()
assert ".connect." in type(spark).__module__
found = kafka.exchanges(spark, sample, columns=["number", "api"], reading=kafka.ReadOptions(range_bytes=60_000))
assert found.where("api = 'JoinGroup'").count() > 0
options = kafka.TablesOptions(range_bytes=60_000, tables=("exchanges", "findings"))
made = kafka.write_tables([sample], out, options, lambda *_: None)
print(made.exchanges, found.count())
"""


def test_tables_of_a_server(tmp_path: Path) -> None:
    pytest.importorskip("grpc_status", reason="Spark Connect needs grpcio-status (extra 'connect')")
    tables = ("exchanges", "findings")
    by_one_process([SAMPLE], tmp_path / "single", TablesOptions(tables=tables))
    out = tmp_path / "out"
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    # its own process: a session with a JVM runs in this one
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SAMPLE), str(out)],
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONWARNINGS": "ignore",
        },
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert run.stdout == "402 402\n", run.stderr
    same_tables(out, tmp_path / "single")
