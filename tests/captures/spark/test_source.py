"""The data source: options, partitions, what is pushed down, and streams of files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNull, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from captures.filters import FilterError
from captures.spark import register
from captures.spark.source import (
    FolderStream,
    OptionError,
    Options,
    StreamPartition,
    TableReader,
    finished,
    news,
)
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.spark.kit import cut
from tests.captures.tables.kit import exchanges_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZSTD = DATA / "21_k430_share_group.pcap.zst"


# ---------------------------------------------------------------- options
def test_options() -> None:
    given = {"PATHS": '["a", "b"]', "Table": "parts", "range_bytes": "7", "maxFilesPerTrigger": "3"}
    assert Options.of(given) == Options(("a", "b"), "parts", range_bytes=7, most_files=3)
    some = Options.of({"path": "/x", "columns": "api, number", "filter": "error"})
    assert (some.columns, some.table, some.filter) == (("api", "number"), "exchanges", "error")
    assert "`api` string" in some.shape()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, r"no path: load\('/captures/monday'\)"),
        ({"path": "x", "table": "nope"}, "'nope' is no table; there are parts, exchanges"),
        ({"path": "x", "range_bytes": "0"}, "range_bytes is '0', and has to be a number from 1 on"),
        ({"path": "x", "buckets": "many"}, "buckets is 'many'"),
        ({"path": "x", "columns": "api,nope"}, "nope"),
    ],
)
def test_options_that_cannot_be_used(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        Options.of(given)
    assert isinstance(caught.value, OptionError) or "nope" in told


def test_a_filter_that_is_none() -> None:
    with pytest.raises(FilterError):
        Options.of({"path": "x", "filter": "api =="})


def test_what_is_pushed_down() -> None:
    reader = TableReader(Options(("x",)))
    filters = [
        EqualTo(("api_key",), 12),
        In(("version",), (1, 2)),
        GreaterThan(("request_size",), 100),
        LessThanOrEqual(("connection",), 4),
        EqualTo(("api",), "Fetch"),  # text is written otherwise in filters
        EqualTo(("throttle", "ms"), 3),
        IsNull(("version",)),
        EqualTo(("version",), True),
    ]
    assert list(reader.pushFilters(filters)) == filters  # Spark asks all of them once more
    assert reader._pushed == [
        "api_key == 12",
        "version == 1 or version == 2",
        "request_size > 100",
        "connection <= 4",
    ]


# ---------------------------------------------------------------- batch
def test_tables(spark: SparkSession) -> None:
    register(spark)
    source = spark.read.format("kproxy")
    exchanges, _ = exchanges_of(SAMPLE)
    some = source.option("columns", "number,api_key,version").load(str(SAMPLE))
    wanted = [(each.number, each.api_key, each.version) for each in exchanges]
    assert sorted(map(tuple, some.collect())) == wanted
    fitting = some.filter("api_key = 12 and version > 2 and number < 300").collect()
    assert sorted(map(tuple, fitting)) == [
        each for each in wanted if each[1] == 12 and each[2] > 2 and each[0] < 300
    ]
    two = source.load([str(SAMPLE), str(ZSTD)])  # two captures, which are numbered each by itself
    assert two.rdd.getNumPartitions() == 2
    assert two.filter("number = 1").count() == 2
    assert source.option("table", "rebalances").option("columns", "").load(str(SAMPLE)).count() > 0


def test_parts(spark: SparkSession) -> None:
    register(spark)
    parts = (
        spark.read.format("kproxy").options(table="parts", range_bytes="50000", buckets="2").load(str(SAMPLE))
    )
    count = -(-SAMPLE.stat().st_size // 50_000)
    assert parts.rdd.getNumPartitions() == count
    rows = parts.select("part", "kind", "bucket").collect()
    for kind in ("mark", "finished"):
        assert sorted(row.part for row in rows if row.kind == kind) == list(range(count))
    assert {row.bucket for row in rows if row.kind == "edges"} <= {0, 1}


# ---------------------------------------------------------------- which files
def test_files_are_finished_when_nobody_writes_to_them(tmp_path: Path) -> None:
    for number, path in enumerate(cut(SAMPLE, 3, tmp_path)):
        os.utime(path, (1_000 + number, 1_000 + number))
    (tmp_path / ".hidden").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "empty.pcap").touch()
    os.utime(tmp_path / "empty.pcap", (1_000, 1_000))
    paths = sorted(tmp_path.glob("reb*"))
    assert sorted(finished([str(tmp_path)], 60)) == list(map(str, paths))
    os.utime(paths[1])  # the newest one, which may still be written to
    assert sorted(finished([str(tmp_path)], 60)) == [str(paths[0]), str(paths[2])]
    assert sorted(finished([str(tmp_path)], 0)) == list(map(str, paths))
    assert sorted(finished([f"{tmp_path}/*-002.pcap", str(paths[0])], 0)) == [str(paths[0]), str(paths[2])]


def test_a_grown_file_is_not_new_and_another_one_is(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    first, second, _ = cut(SAMPLE, 3, tmp_path / "cut")
    shutil.copy2(first, path)
    before = finished([str(path)], 0)
    assert news({}, before) == [str(path)]
    with path.open("ab") as file:
        file.write(second.read_bytes()[24:])
    os.utime(path, (2_000, 2_000))
    grown = finished([str(path)], 0, before)
    assert grown != before
    assert news(before, grown) == []
    path.write_bytes(second.read_bytes() + first.read_bytes()[24:])  # as large, and another one
    assert news(before, finished([str(path)], 0, before)) == [str(path)]
    path.write_bytes(first.read_bytes()[:200])
    assert news(before, finished([str(path)], 0, before)) == [str(path)]


def test_a_batch_has_as_many_files_as_wanted(tmp_path: Path) -> None:
    files = cut(SAMPLE, 5, tmp_path)
    for age, path in enumerate(reversed(files)):
        os.utime(path, (1_000 + age, 1_000 + age))
    reader = FolderStream(Options((str(tmp_path),), "parts", settled=0, most_files=2, range_bytes=30_000))
    offset: dict[str, Any] = reader.initialOffset()
    sizes = []
    while True:
        now = reader.latestOffset(offset, reader.getDefaultReadLimit())
        parts = reader.partitions(offset, now)
        if not parts:
            break
        assert all(isinstance(part, StreamPartition) for part in parts)
        assert sum(part.whole is not None for part in parts) == 1  # type: ignore[attr-defined]
        sizes.append(len(now["files"]) - len(offset["files"]))
        offset = now
    assert sizes == [2, 2, 1]
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxFiles)
    assert len(reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["files"]) == 5
    # the oldest come first
    assert set(reader.latestOffset(reader.initialOffset(), ReadMaxFiles(2))["files"]) == set(
        map(str, files[3:])
    )


def test_files_that_went_or_became_others_before_they_were_read_are_left_out(tmp_path: Path) -> None:
    files = cut(SAMPLE, 3, tmp_path)
    reader = FolderStream(Options((str(tmp_path),), "exchanges", settled=0))
    offset = reader.latestOffset()
    files[0].unlink()
    files[1].write_bytes(files[2].read_bytes())
    (partition,) = reader.partitions(reader.initialOffset(), offset)
    assert partition.paths == (str(files[2]),)  # type: ignore[attr-defined]
    assert reader.partitions(offset, reader.latestOffset())[0].paths == (str(files[1]),)  # type: ignore[attr-defined]
    assert reader.partitions(offset, offset) == []


# ---------------------------------------------------------------- streams
def test_each_file_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    ring, out = tmp_path / "ring", str(tmp_path / "out")
    ring.mkdir()

    def run() -> int:
        source = spark.readStream.format("kproxy").option("settled", "0").option("columns", "number,api")
        writer = source.load(str(ring)).writeStream.format("parquet").option("path", out)
        query = writer.option("checkpointLocation", f"{out}.checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        return spark.read.parquet(out).count()

    shutil.copy2(SAMPLE, ring / "a.pcap")
    assert run() == 402
    assert run() == 402
    shutil.copy2(ZSTD, ring / "b.pcap.zst")
    assert run() == 402 + len(exchanges_of(ZSTD)[0])
