"""One-sentence causes of failed jobs. The texts are excerpts from Spark 4.3, provoked for that purpose."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from captures.packets import CaptureError
from captures.spark.errors import SparkMissing, expected, plain
from captures.tables.folder import FolderError
from captures.tables.options import TablesOptions
from tests.captures.export.files import SAMPLE
from tests.captures.spark.kit import on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAULT = CaptureError("/data/day 1/k.pcap", 4096, "a record of 4294967295 bytes")
JOB = (
    "An error occurred while calling o281.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most"
    " recent failure: Lost task 0.0 in stage 7.0 (TID 7) (localhost executor driver): {}\n"
    "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator$$anonfun$1.applyOrElse(PythonRunner.scala:1143)\n"
    "\tat scala.collection.Iterator$$anon$10.hasNext(Iterator.scala:611)\n"
    "Caused by: {}\n"
)
WORKER = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    '  File "/x/y.py", line 8, in it\n    f(); yield from batches\n    ^^^\n{}\n'
)
TEXTS = {
    JOB.format(
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed): ",
        "java.io.EOFException",
    ): "a Python worker died",
    JOB.format(
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed): Fatal Python error: Segmentation"
        " fault",
        "java.io.EOFException",
    ): "a Python worker crashed: Segmentation fault",
    JOB.format(
        "org.apache.arrow.memory.OutOfMemoryException: Failure allocating buffer.",
        "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate 536870952 byte(s) of direct memory",
    ): "Spark's JVM ran out of memory: give it more (--spark-conf spark.driver.memory=4g",
    JOB.format(
        "java.io.IOException: Mkdirs failed to create file:/proc/x/_temporary/0 (exists=false, cwd=file:/tmp)",
        "java.io.IOException: Mkdirs failed to create file:/proc/x/_temporary/0 (exists=false, cwd=file:/tmp)",
    ): "access is refused: Mkdirs failed to create file:/proc/x/_temporary/0",
    JOB.format(
        "java.io.IOException: No space left on device", "java.io.IOException: No space left on device"
    ): ("a disk is full"),
    JOB.format(
        "ExecutorLostFailure (executor 3 exited caused by one of the running tasks)", "x.y.Z: Worker lost"
    ): "an executor of the cluster was lost",
    JOB.format("a.B: outer", "java.lang.IllegalStateException: the innermost words"): (
        "IllegalStateException: the innermost words"
    ),
    "[PATH_NOT_FOUND] Path does not exist: file:/none/such. SQLSTATE: 42K03": (
        "there is no such file or folder: file:/none/such"
    ),
    "[UNRESOLVED_COLUMN] A column cannot be resolved. SQLSTATE: 42703": "A column cannot be resolved.",
    "An error occurred while calling o370.parquet.\n: java.lang.RuntimeException: java.lang.ClassNotFoundException:"
    " Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n\tat x.Y(Q:1)": "this Spark cannot read s3a:// paths",
    "An error occurred while calling o377.parquet.\n: java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1"
    " failed on connection exception: java.net.ConnectException: Connection refused": "nothing answers at localhost:1",
    "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = x>": (
        "no Spark Connect server answers"
    ),
    "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.": "Spark's JVM did not start",
    WORKER.format("ModuleNotFoundError: No module named 'captures'"): "a worker cannot import what it needs",
    WORKER.format("MemoryError"): "a Python worker ran out of memory",
    WORKER.format("OSError: [Errno 28] No space left on device: '/out/x.parquet'"): (
        "/out/x.parquet: No space left on device"
    ),
    WORKER.format("KeyError: 'a'"): "a worker failed with KeyError: 'a'",
    WORKER.format(
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different"
        " version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor versions."
    ): "the workers run another version of Python (3.9) than this program (3.11)",
    "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):\n"
    f'  File "/x", line 50, in __init__\n    f()\ncaptures.packets.errors.CaptureError: {FAULT}\n SQLSTATE: 38000': (
        str(FAULT)
    ),
}


class SparkError(Exception):
    """Stands for one of Spark's errors, which are recognised by their module."""


SparkError.__module__ = "pyspark.errors.exceptions.captured"


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: TEXTS[text][:30])
def test_texts_of_spark(text: str) -> None:
    told = plain(SparkError(text))
    assert told.startswith(TEXTS[text])
    assert "\n" not in told
    assert "\tat " not in told


def test_own_errors_come_out_as_they_are() -> None:
    assert plain(FAULT) == str(FAULT)
    assert plain(FileNotFoundError(2, "No such file or directory", "/x")) == "/x: No such file or directory"
    assert all(
        expected(each) for each in (FAULT, SparkMissing("x"), FolderError("x"), OSError(), SparkError(""))
    )
    assert not expected(TypeError("a fault of ours"))


def test_a_machine_that_died_while_it_was_talked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile(
        "def talk():\n    raise ConnectionRefusedError(111, 'Connection refused')\n", "py4j", "exec"
    )
    space: dict[str, Any] = {"__name__": "py4j.clientserver"}
    exec(code, space)
    with pytest.raises(ConnectionRefusedError) as told:
        space["talk"]()
    assert plain(told.value).startswith("Spark's JVM ended in the middle of the job")
    assert plain(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"


def _fault() -> None:
    raise FAULT


def _value() -> None:
    raise ValueError("a port is: wrong")


def _type() -> None:
    raise TypeError("a fault of ours")


def _full() -> None:
    raise OSError(28, "No space left on device", "/out/x.parquet")


def _refused() -> None:
    raise PermissionError(13, "Permission denied", "/out")


def _out_of_memory() -> None:
    raise MemoryError


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("fail", "told"),
    [
        (_fault, str(FAULT)),
        (_value, "a port is: wrong"),
        (_type, "a worker failed with TypeError: a fault of ours"),
        (_full, "/out/x.parquet: No space left on device"),
        (_refused, "/out: Permission denied"),
        (_out_of_memory, "a Python worker ran out of memory: let fewer tasks run side by side"),
        (_killed, "a Python worker died in the middle of its work"),
    ],
)
def test_what_a_worker_raises(spark: SparkSession, fail: Callable[[], None], told: str) -> None:
    def failing(batches: Iterator[Any]) -> Iterator[Any]:
        fail()
        yield from batches

    with pytest.raises(Exception) as raised:  # py4j's, or Spark's
        spark.range(1, numPartitions=1).mapInArrow(failing, "id long").collect()
    assert expected(raised.value)
    assert plain(raised.value).startswith(told)


def test_packages_that_are_missing_on_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))  # as PYSPARK_PYTHON sets it
    with pytest.raises(Exception) as raised:
        on_spark([SAMPLE], tmp_path / "out", TablesOptions(tables=("exchanges",)))
    assert expected(raised.value)
    assert plain(raised.value).startswith("a worker cannot import what it needs (No module named ")
    assert not (tmp_path / "out").exists()
