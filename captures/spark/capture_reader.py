"""A capture read on Spark: one task per range, and a few more for the connections that cross range edges.

Spark moves only packed edges between tasks (see :mod:`captures.ranges.jobs`), one row per range and bucket. Exchanges
that are finished in their range stay in the partition that read it until they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from captures.ranges.batches import BatchState, number_batch, stitch_batch
from captures.ranges.edges import pack, unpack
from captures.ranges.jobs import (
    EDGES,
    FINISHED,
    MARK,
    Input,
    MergeResult,
    RangeOutput,
    RangeSummary,
    number_all,
    read_part,
    settle,
    stitch_bucket,
)
from captures.ranges.plan import Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARTS = "part int not null, kind string not null, bucket int not null, data binary not null"
"""Columns of :func:`parts`: the fields of :class:`~captures.ranges.jobs.RangeOutput`."""
_TOGETHER = "bucket int, data binary"


class RowFunction:
    """A function for ``DataFrame.mapInArrow`` that makes batches of each row.

    :cvar inputs: names of the columns that :meth:`batches` is called with; those of bytes hold packed values
    """

    inputs: ClassVar[tuple[str, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in columns_of(batch, *self.inputs):
                yield from self.batches(*(unpack(each) if isinstance(each, bytes) else each for each in row))

    def batches(self, *row: Any, **_: Any) -> Iterator[pa.RecordBatch]:
        """Return the batches of a row."""
        raise NotImplementedError


def columns_of(batch: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `batch` as tuples of the columns `names`, as Python values."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


@dataclass(frozen=True)
class _PartsReader(RowFunction):
    given: Input
    inputs = ("id",)

    def batches(self, index: int) -> Iterator[pa.RecordBatch]:
        return batches_of(read_part(self.given, self.given.plan.ranges[index]))


def batches_of(outputs: Iterable[RangeOutput]) -> Iterator[pa.RecordBatch]:
    """Yield the results of a range as rows of :data:`PARTS`."""
    import pyarrow as pa

    schema = pa.schema(
        [
            pa.field("part", pa.int32(), nullable=False),
            pa.field("kind", pa.string(), nullable=False),
            pa.field("bucket", pa.int32(), nullable=False),
            pa.field("data", pa.binary(), nullable=False),
        ]
    )
    for each in outputs:
        columns = [[each.part], [each.kind], [each.bucket], [each.data]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.record_batch(arrays, schema=schema)


class _BucketStitcher:
    """Stitches the connections of each bucket; the rows of a bucket must be adjacent.

    :param before: state that earlier batches left, None if the capture is not read in batches
    """

    def __init__(self, given: Input, marked: Sequence[RangeSummary], before: BatchState | None) -> None:
        self._given = given
        self._before = None if before is None else pack(before)
        self._marks = pack(marked)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        marks = unpack(self._marks)
        before = None if self._before is None else unpack(self._before)
        every = chain.from_iterable(columns_of(batch, "bucket", "part", "data") for batch in batches)
        for bucket, rows in groupby(every, key=itemgetter(0)):
            packed = [(part, data) for _, part, data in rows if part >= 0]
            made: Any
            if before is None:
                made = stitch_bucket(self._given, [each.mark for each in marks], packed)
            else:
                made = stitch_batch(self._given, marks, before, bucket, packed)
            columns = [pa.array([bucket], pa.int32()), pa.array([pack(made)], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["bucket", "data"])


def parts(spark: SparkSession, given: Input, only: Sequence[Range] | None = None) -> DataFrame:
    """Return the results of reading the ranges of a capture, one task per range, as rows of :data:`PARTS`.

    :param only: the ranges to read; default: all
    """
    numbers = [part.number for part in (given.plan.ranges if only is None else only)]
    if numbers == list(range(len(numbers))):
        ids = spark.range(0, len(numbers), 1, max(len(numbers), 1))
    else:
        ids = spark.createDataFrame([(number,) for number in numbers], "id bigint").repartition(len(numbers))
    return ids.mapInArrow(_PartsReader(given), PARTS)


class SparkCaptureReader:
    """Reads a capture on Spark.

    :param before: state that earlier batches left, None if the capture is not read in batches
    :ivar read: the result; its ``finished`` is empty, because those exchanges stay with Spark
    :ivar after: state for the next batch, None if the capture is not read in batches
    :ivar finished: packed exchanges by range number: columns ``part`` and ``data``
    """

    def __init__(self, spark: SparkSession, given: Input, before: BatchState | None = None) -> None:
        self._spark = spark
        self.after: BatchState | None = None
        self._kept: list[DataFrame] = []
        self._outputs: DataFrame
        self._found: dict[int, RangeSummary] = {}
        given, marked = settle(given, self._read(given, []), self._read)
        outputs = self._outputs
        self.finished: DataFrame = outputs.filter(f"kind = '{FINISHED}'").select("part", "data")
        if before is None:
            numbered = number_all(
                given, marked, [made for _, made in self._together(given, marked, outputs, None)]
            )
        else:
            made = dict(self._together(given, marked, outputs, before))
            numbered, self.after = number_batch(given, marked, before, made)
        self.read = MergeResult(given, marked, [], numbered)

    def close(self) -> None:
        """Release the data that Spark has cached."""
        while self._kept:
            self._kept.pop().unpersist()

    # ------------------------------------------------------------ steps
    def _read(self, given: Input, to_reread: list[Range]) -> list[RangeSummary]:
        """Read the ranges `to_reread`, or all if it is empty; return the summaries of all ranges."""
        from pyspark import StorageLevel

        read = parts(self._spark, given, to_reread or None).persist(StorageLevel.MEMORY_AND_DISK)
        if to_reread:
            numbers = [part.number for part in to_reread]
            self._outputs = self._outputs.filter(~self._outputs["part"].isin(numbers)).unionAll(read)
            self._found |= dict(_marks(read))
        else:
            self.close()
            self._outputs, self._found = read, dict(_marks(read))
        self._kept.append(read)
        return [self._found[number] for number in sorted(self._found)]

    def _together(
        self, given: Input, marked: list[RangeSummary], outputs: DataFrame, before: BatchState | None
    ) -> list[tuple[int, Any]]:
        edges = outputs.filter(f"kind = '{EDGES}'").select("part", "bucket", "data")
        if before is not None and before.carried:  # also buckets that no range has rows for
            more = [(-1, bucket, bytearray()) for bucket in before.carried]
            edges = edges.unionAll(self._spark.createDataFrame(more, "part int, bucket int, data binary"))
        dealt = edges.repartition(given.buckets, "bucket").sortWithinPartitions("bucket")
        rows: list[Any] = dealt.mapInArrow(_BucketStitcher(given, marked, before), _TOGETHER).collect()
        return [(row["bucket"], unpack(bytes(row["data"]))) for row in sorted(rows, key=itemgetter("bucket"))]


def _marks(outputs: DataFrame) -> Iterator[tuple[int, RangeSummary]]:
    for row in outputs.filter(f"kind = '{MARK}'").select("part", "data").collect():
        yield row["part"], unpack(bytes(row["data"]))
