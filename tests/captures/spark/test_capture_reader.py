"""Reading on Spark gives the same as reading in one process."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from captures.ranges.edges import pack, unpack
from captures.ranges.exchange_numbers import Context
from captures.ranges.jobs import Input, RangeOutput, read_here
from captures.ranges.plan import make_plan
from captures.spark.capture_reader import PARTS, SparkCaptureReader, batches_of, parts
from tests.captures.exchanges.talk import Talk
from tests.captures.export.files import SAMPLE
from tests.captures.packets.kit import T0, Record, pcap, rotated
from tests.captures.ranges.made import packets, timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_is_the_reading_of_one_process(spark: SparkSession) -> None:
    expected = read_here(Input(make_plan([str(SAMPLE)], 30_000), b"", 3))
    reading = SparkCaptureReader(spark, Input(make_plan([str(SAMPLE)], 30_000), b"", 3))
    found = reading.read
    assert found.numbered.exchanges == expected.numbered.exchanges == 402
    assert [pack(each.mark) for each in found.marked] == [pack(each.mark) for each in expected.marked]
    contexts = {row["part"]: unpack(bytes(row["context"])) for row in reading.contexts.collect()}
    assert [_facts(contexts[number]) for number in sorted(contexts)] == [
        *map(_facts, expected.numbered.contexts)
    ]
    assert not any(context.locals for context in found.numbered.contexts)  # nothing in the driver
    assert sorted(chain.from_iterable(each.ids.tolist() for each in reading.connections)) == [
        *expected.numbered.connections
    ]
    rows = {row["part"]: unpack(bytes(row["data"])) for row in reading.finished.collect()}
    assert len(rows) == len(found.given.plan.ranges)
    reading.close()
    assert reading._kept == []


def _facts(context: Context) -> tuple[Any, ...]:
    stitched = ((each.connection, each.row["packet"], each.time, each.pieces) for each in context.stitched)
    counts = context.first_packet, context.first_number, context.count
    return *counts, sorted(context.locals, key=lambda each: each.local), sorted(stitched)


def test_only_some_ranges(spark: SparkSession) -> None:
    given = Input(make_plan([str(SAMPLE)], 50_000))
    some = [given.plan.ranges[3], given.plan.ranges[1]]
    rows = parts(spark, given, some).select("part", "kind").collect()
    assert {row["part"] for row in rows if row["kind"] == "mark"} == {1, 3}


def test_what_looked_like_a_record_is_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """Messages that hold the records of a capture: these are found where a range begins, and are none."""
    inside = pcap([Record(bytes(range(60)), T0 + each) for each in range(40)], nano=True)[24:]
    talk = Talk(0)
    for correlation_id in range(3):
        talk.exchange(correlation_id, body=inside)
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap([*timed(packets(talk, Random(1)), Random(1))], nano=True))
    expected = read_here(Input(make_plan([str(path)])))
    found = SparkCaptureReader(spark, Input(make_plan([str(path)], 1_500))).read
    assert any(part.known for part in found.given.plan.ranges)
    counts = [sum(each.mark.statistics.packets for each in read.marked) for read in (found, expected)]
    assert counts[0] == counts[1]
    assert found.numbered.exchanges == expected.numbered.exchanges == 3


def test_files_of_the_same_time_are_one_range(spark: SparkSession, tmp_path: Path) -> None:
    rows = [each[24:] for each in rotated(SAMPLE.read_bytes(), 1)]
    paths = [tmp_path / "one.pcap", tmp_path / "other.pcap"]
    for number, path in enumerate(paths):
        path.write_bytes(SAMPLE.read_bytes()[:24] + b"".join(rows[number::2]))
    found = SparkCaptureReader(spark, Input(make_plan([str(path) for path in paths], 30_000))).read
    assert [part.files for part in found.given.plan.ranges] == [(0, 2)]
    assert found.numbered.exchanges == 402


def test_rows_are_as_the_schema_says() -> None:
    (batch,) = batches_of([RangeOutput(3, "mark", -1, b"data")])
    assert batch.to_pylist() == [{"part": 3, "kind": "mark", "bucket": -1, "data": b"data"}]
    assert batch.schema.names == [column.split()[0] for column in PARTS.split(", ")]
    assert not any(field.nullable for field in batch.schema)
