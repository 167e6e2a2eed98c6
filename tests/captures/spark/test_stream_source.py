"""Exchanges of files that keep coming: each told once, numbered and connected as one reading does, over restarts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from captures.packets import CaptureError
from captures.spark import ReadOptions, exchanges, stream
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.spark.kit import cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("number", "connection", "api", "correlation_id", "time_ns", "latency_ns", "topics")
TLS = DATA / "24_k430_tls13_franz.pcap"
KEYLOG = DATA / "24_k430_tls13_franz.keylog"


def run(frame: DataFrame, out: Path) -> None:
    """Read what is there, and end; another run with the same folder goes on."""
    writer = frame.writeStream.format("parquet").option("path", str(out))
    query = writer.option("checkpointLocation", f"{out}.checkpoint").trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["number"])


def answered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without numbers, and without those that nobody has answered by the end: a stream does not know that it ended."""
    told = [
        {**row, "number": 0, "topics": sorted(row["topics"] or [])}
        for row in found
        if row["latency_ns"] is not None
    ]
    return sorted(told, key=repr)


def test_batches_give_what_one_reading_gives(spark: SparkSession, tmp_path: Path) -> None:
    files = cut(SAMPLE, 5, tmp_path / "cut")
    ring, out = tmp_path / "ring", tmp_path / "out"
    ring.mkdir()
    reading = ReadOptions(range_bytes=20_000)
    stream_of = lambda: stream(spark, str(ring), columns=COLUMNS, reading=reading, settled=0, most_files=2)  # noqa: E731
    for path in files[:3]:  # of which the second batch has one
        shutil.copy2(path, ring)
    run(stream_of(), out)
    for path in files[:3]:
        (ring / path.name).unlink()  # what goes on does not need them
    run(stream_of(), out)  # nothing new
    shutil.copy2(files[3], ring / files[0].name)  # a name comes again
    shutil.copy2(files[4], ring)
    run(stream_of(), out)
    found = rows(spark.read.parquet(str(out)))
    expected = rows(exchanges(spark, str(SAMPLE), columns=COLUMNS))
    assert [row["number"] for row in found] == list(range(1, len(found) + 1))
    assert answered(found) == answered(expected)
    assert len(answered(expected)) > 350


def test_a_failing_batch_is_taken_again(spark: SparkSession, tmp_path: Path) -> None:
    """What was told is written once, though a query died between its state and its commit."""
    files = cut(TLS, 3, tmp_path / "cut")
    ring, out = tmp_path / "ring", tmp_path / "out"
    ring.mkdir()
    columns = ("number", "connection", "api", "correlation_id", "time_ns", "latency_ns", "topics")
    reading = ReadOptions(keylog=str(KEYLOG), filter="not error")
    shutil.copy2(files[0], ring)
    run(stream(spark, str(ring), columns=columns, reading=reading, settled=0), out)
    shutil.copy2(files[1], ring)
    run(stream(spark, str(ring), columns=columns, reading=reading, settled=0), out)
    # as if it had died before the second batch was committed
    commits = sorted(Path(f"{out}.checkpoint", "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    Path(commits[-1].parent, f".{commits[-1].name}.crc").unlink(missing_ok=True)
    shutil.copy2(files[2], ring)
    run(stream(spark, str(ring), columns=columns, reading=reading, settled=0), out)
    found = rows(spark.read.parquet(str(out)))
    expected = rows(exchanges(spark, str(TLS), columns=columns, reading=reading))
    assert answered(found) == answered(expected)
    assert len(expected) > 10


def test_mistakes(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nope"):
        stream(spark, str(tmp_path), columns=["nope"])
    with pytest.raises(ValueError, match="which clients belong to which groups"):
        stream(spark, str(tmp_path), reading=ReadOptions(filter="group == g"))
    with pytest.raises(ValueError):
        stream(spark, str(tmp_path), reading=ReadOptions(filter="api =="))
    with pytest.raises(CaptureError):
        exchanges(spark, str(tmp_path))
