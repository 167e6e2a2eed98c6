"""The data source: options, partitions, what is pushed down, and streams of files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNull, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from captures.filters import compile_filter
from captures.ranges.edges import unpack
from captures.spark import register
from captures.spark.errors import plain as plain_error
from captures.spark.source import (
    FilteringReader,
    FolderStream,
    OptionError,
    Options,
    StreamPartition,
    finished,
    news,
)
from captures.tables.options import TablesOptions
from captures.tables.schema import TABLES
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.spark.kit import by_one_process, cut, rows_of
from tests.captures.tables.kit import exchanges_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZSTD = DATA / "21_k430_share_group.pcap.zst"


# ---------------------------------------------------------------- options
def test_options() -> None:
    given = {"PATHS": '["a", "b"]', "Table": "parts", "range_bytes": "7", "maxFilesPerTrigger": "3"}
    assert Options.of({**given, "settled": "1.5"}) == Options(
        ("a", "b"), "parts", range_bytes=7, settled=1.5, most_files=3
    )
    some = Options.of({"path": "/x", "columns": "api, number", "filter": "error"})
    assert (some.columns, some.table, some.filter) == (("api", "number"), "exchanges", "error")
    assert "`api` string" in some.shape()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, r"no path: load\('/captures/monday'\)"),
        ({"path": "x", "table": "nope"}, "'nope' is no table of kproxy: there are exchanges"),
        ({"path": "x", "table": "findngs"}, "'findngs' is no table of kproxy: did you mean findings"),
        ({"path": "x", "colums": "api"}, "'colums' is no option of kproxy: did you mean columns"),
        ({"path": "x", "settled": "abc"}, "settled is 'abc', and has to be a number of seconds from 0 on"),
        ({"path": "x", "filter": "api =="}, "filter: a value is missing"),
        ({"path": "x", "range_bytes": "0"}, "range_bytes is '0', and has to be a number from 1 on"),
        ({"path": "x", "range_bytes": "many"}, "range_bytes is 'many'"),
        ({"path": "x", "columns": "api,nope"}, "columns: 'nope' is not a column of exchanges"),
    ],
)
def test_options_that_cannot_be_used(given: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        Options.of(given)


def test_what_is_pushed_down() -> None:
    reader = FilteringReader(Options(("x",)))
    filters = [
        EqualTo(("api_key",), 12),
        In(("version",), (1, 2)),
        GreaterThan(("request_size",), 100),
        LessThanOrEqual(("connection",), 4),
        EqualTo(("api",), "Fetch"),
        EqualTo(("api",), "SaslToken"),  # no name that filters know
        In(("client_id",), ('a "b"', "c")),
        GreaterThan(("client_id",), "a"),
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
        "api == Fetch",
        'client_id == "a \\"b\\"" or client_id == c',
    ]


# ---------------------------------------------------------------- batch
PUSHING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(params=["false", "true"])
def plain(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session that does not push filters, as Spark has it by default, and one that does."""
    before = spark.conf.get(PUSHING)
    spark.conf.set(PUSHING, request.param)
    yield spark
    assert before is not None
    spark.conf.set(PUSHING, before)


def test_exchanges_by_ranges_and_filters_with_and_without_pushing(plain: SparkSession) -> None:
    source = plain.read.format("kproxy").options(range_bytes="50000", columns="version,api_key,number,api")
    some = source.load(str(SAMPLE))
    assert some.columns == ["version", "api_key", "number", "api"]
    assert some.rdd.getNumPartitions() == -(-SAMPLE.stat().st_size // 50_000)
    wanted = [(each.version, each.api_key, each.number, each.api) for each in exchanges_of(SAMPLE)[0]]
    assert sorted(map(tuple, some.collect()), key=itemgetter(2)) == wanted
    fitting = some.where("api = 'SyncGroup' and version > 2 and number < 300").collect()
    assert sorted(map(tuple, fitting), key=itemgetter(2)) == [
        each for each in wanted if each[3] == "SyncGroup" and each[0] > 2 and each[2] < 300
    ]


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_the_rows_of_one_process(spark: SparkSession, tmp_path: Path, table: str) -> None:
    by_one_process([SAMPLE, ZSTD], tmp_path, TablesOptions(tables=(table,)))
    source = spark.read.format("kproxy").options(table=table, range_bytes="90000")
    found = source.load([str(SAMPLE), str(ZSTD)]).toArrow().to_pylist()
    assert sorted(found, key=repr) == rows_of(tmp_path)[table]


def test_a_table_without_rows(spark: SparkSession) -> None:
    source = spark.read.format("kproxy").option("table", "rebalances")
    assert source.load(str(DATA / "01_nafka_kafkajs_none.pcap")).collect() == []
    source = spark.read.format("kproxy").option("filter", "api == CreateTopics")
    assert source.load(str(DATA / "01_nafka_kafkajs_none.pcap")).collect() == []


def test_a_schema_of_the_users_own_chooses_columns(spark: SparkSession) -> None:
    source = spark.read.format("kproxy")
    found = source.schema("api string, number bigint").load(str(SAMPLE)).where("number = 3").collect()
    assert [tuple(row) for row in found] == [("ApiVersions", 3)]
    for schema, told in (
        ("number string", "schema: number is declared as string, and is int64"),
        ("nope string", "schema: 'nope' is not a column of exchanges"),
    ):
        with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as raised:
            source.schema(schema).load(str(SAMPLE)).collect()
        assert plain_error(raised.value).startswith(told)


def test_a_filter_of_groups_is_one_partition(spark: SparkSession) -> None:
    options = {"filter": "group == payments", "range_bytes": "30000", "columns": "number"}
    found = spark.read.format("kproxy").options(**options).load(str(SAMPLE))
    wanted = compile_filter("group == payments")
    assert found.rdd.getNumPartitions() == 1
    assert found.count() == len(list(wanted.exchanges(exchanges_of(SAMPLE)[1])))


def test_a_view_of_sql(spark: SparkSession) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW seen USING kproxy OPTIONS (path '{SAMPLE}', columns 'api,number')")
    assert spark.sql("SELECT count(*) FROM seen").collect()[0][0] == 402


def test_parts_are_of_streams_only(spark: SparkSession) -> None:
    register(spark)
    with pytest.raises(Exception, match="parts is a table of streams only"):
        spark.read.format("kproxy").option("table", "parts").load(str(SAMPLE)).count()


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
    assert _files_of(reader.partitions(reader.initialOffset(), offset)) == [str(files[2])]
    assert _files_of(reader.partitions(offset, reader.latestOffset())) == [str(files[1])]
    assert reader.partitions(offset, offset) == []


def _files_of(partitions: Sequence[Any]) -> list[str]:
    return [file.path for each in partitions for file in unpack(each.task).given.plan.files]


# ---------------------------------------------------------------- streams
def test_each_file_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
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
