"""Captures as DataFrames are the tables of one process."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from captures.packets import CaptureError
from captures.spark import ReadOptions, exchanges, frames, tables
from captures.tables.columns import Needs
from captures.tables.options import TablesOptions
from captures.tables.schema import TABLES
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.spark.kit import by_one_process, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER = tuple(
    column.name
    for column in TABLES["exchanges"].columns
    if column.needs is Needs.HEADER and column.name != "time"
)
GROUP = "group == gr2-java_eager_range and api == Heartbeat"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("single") / "out"
    by_one_process([SAMPLE], out)
    return rows_of(out)


def chosen(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    return sorted(repr([row[name] for name in names]) for row in rows)


def test_tables(spark: SparkSession, expected: dict[str, list[dict[str, Any]]]) -> None:
    wanted = ("exchanges", "topic_partitions", "rebalances", "findings")
    found = tables(spark, str(SAMPLE), wanted, reading=ReadOptions(range_bytes=50_000))
    assert tuple(found) == wanted
    for name, frame in found.items():
        ones = sorted((_plain(row.asDict(recursive=True)) for row in frame.collect()), key=repr)
        others = sorted((_plain(row) for row in expected[name]), key=repr)
        assert len(ones) == len(others)
        for one, other in zip(ones, others, strict=True):
            assert one == other, name


def _plain(value: Any) -> Any:
    """Return a row without its times, and with its maps as pairs.

    Spark gives times without their zone (beside each are its nanoseconds), pyarrow gives maps as pairs.
    """
    if isinstance(value, dict):
        return sorted((name, _plain(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value] if not _is_map(value) else _plain(dict(value))
    return "a time" if isinstance(value, datetime) else value


def _is_map(value: Any) -> bool:
    return bool(value) and isinstance(value, list) and isinstance(value[0], tuple)


def test_headers(
    spark: SparkSession, expected: dict[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "_RowMaker", None)  # nothing is decoded
    found = exchanges(spark, str(SAMPLE), columns=HEADER, reading=ReadOptions(range_bytes=50_000))
    assert chosen([row.asDict() for row in found.collect()], list(HEADER)) == chosen(
        expected["exchanges"], list(HEADER)
    )


def test_filters(spark: SparkSession, tmp_path: Path) -> None:
    by_one_process([SAMPLE], tmp_path / "single", TablesOptions(tables=("exchanges",), filter=GROUP))
    numbers = sorted(row["number"] for row in rows_of(tmp_path / "single")["exchanges"])
    found = exchanges(
        spark, str(SAMPLE), columns=["number"], reading=ReadOptions(filter=GROUP, range_bytes=80_000)
    )
    assert sorted(row.number for row in found.collect()) == numbers
    assert numbers


def test_a_key_log(spark: SparkSession) -> None:
    reading = ReadOptions(keylog=str(DATA / "24_k430_tls13_franz.keylog"), range_bytes=15_000)
    found = exchanges(spark, str(DATA / "24_k430_tls13_franz.pcap"), columns=["api"], reading=reading)
    assert found.count() > 10
    assert exchanges(spark, str(DATA / "24_k430_tls13_franz.pcap"), columns=["api"]).count() == 0


def test_mistakes(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nope"):
        exchanges(spark, str(SAMPLE), columns=["nope"])
    with pytest.raises(ValueError, match="nope"):
        tables(spark, str(SAMPLE), ["nope"])
    with pytest.raises(ValueError):
        exchanges(spark, str(SAMPLE), reading=ReadOptions(filter="api =="))
    with pytest.raises(CaptureError, match="there is no capture in this folder"):
        exchanges(spark, str(tmp_path))
