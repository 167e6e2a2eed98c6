"""A capture read on Spark: one task per range, and a few more for the connections that cross range edges.

Spark moves only packed edges between tasks (see :mod:`captures.ranges.jobs`), one row per range and bucket. Exchanges
that are finished in their range stay in the partition that read it until they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from captures.arrays import Int64s
from captures.ranges.edges import SyncPoint, pack, unpack
from captures.ranges.exchange_numbers import NumberedBucket, NumberedRanges, bases, number
from captures.ranges.jobs import (
    EDGES,
    FINISHED,
    MARK,
    Input,
    MergeResult,
    RangeOutput,
    RangeSummary,
    read_part,
    settle,
    stitch_bucket,
)
from captures.ranges.plan import Range
from captures.ranges.whole_connections import ConnectionTable, PackedConnections

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PARTS = "part int not null, kind string not null, bucket int not null, data binary not null"
"""Columns of :func:`parts`: the fields of :class:`~captures.ranges.jobs.RangeOutput`."""
CONTEXTS = "part int not null, context binary not null"
"""Columns of :attr:`SparkCaptureReader.contexts`: number of the range, and its packed context."""
_TOGETHER = "bucket int, part int, data binary"
"""What stitching gives: a packed :class:`~captures.ranges.exchange_numbers.RangePiece` for a range, or else
:data:`_SUMMARY` or :data:`_CONNECTIONS` of the bucket."""
_SUMMARY, _CONNECTIONS = -1, -2
_BUCKETS = 8
"""Number of tasks that stitch connections, unless the capture has more than _RANGES_A_BUCKET ranges for each."""
_RANGES_A_BUCKET = 64


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
        yield pa.RecordBatch.from_pylist([each._asdict()], schema)


class _BucketStitcher:
    """Stitches the connections of each bucket; the rows of a bucket must be adjacent.

    Yields rows of :data:`_TOGETHER`.
    """

    def __init__(self, given: Input, marks: Sequence[SyncPoint]) -> None:
        self._given = given
        self._marks = pack(marks)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        marks = unpack(self._marks)
        every = chain.from_iterable(columns_of(batch, "bucket", "part", "data") for batch in batches)
        for bucket, rows in groupby(every, key=itemgetter(0)):
            made = stitch_bucket(self._given, marks, [(part, data) for _, part, data in rows])
            summary, pieces = NumberedBucket.of(made, bases(marks), {})
            table = ConnectionTable.of(made.connections)
            for part, result in ((_SUMMARY, summary), (_CONNECTIONS, table), *pieces.items()):
                columns = [pa.array([each], pa.int32()) for each in (bucket, part)]
                columns.append(pa.array([pack(result)], pa.binary()))
                yield pa.RecordBatch.from_arrays(columns, ["bucket", "part", "data"])


class _ContextJoiner:
    """Adds to the context of each range the pieces of all buckets; the rows of a range must be adjacent.

    :param ids: for each bucket, the ids of its connections
    """

    def __init__(self, ids: Mapping[int, Int64s]) -> None:
        self._ids = pack(ids)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        ids = unpack(self._ids)
        every = chain.from_iterable(columns_of(batch, "part", "bucket", "data") for batch in batches)
        for part, rows in groupby(every, key=itemgetter(0)):
            (_, _, alone), *pieces = rows
            context = unpack(alone)
            for _, bucket, data in pieces:
                context.add(unpack(data), ids[bucket])
            columns = [pa.array([part], pa.int32()), pa.array([pack(context)], pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, ["part", "context"])


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


def packed_rows(spark: SparkSession, **columns: Sequence[bytes]) -> DataFrame:
    """Return packed values of all ranges, in their order, with the column ``part``."""
    import pyarrow as pa

    count = len(next(iter(columns.values())))
    arrays = {name: pa.array(values, pa.binary()) for name, values in columns.items()}
    return spark.createDataFrame(pa.table({"part": pa.array(range(count), pa.int32()), **arrays}))


class SparkCaptureReader:
    """Reads a capture on Spark.

    :ivar read: the result; its ``finished`` is empty, because those exchanges stay with Spark; so do connections, and
        what they contribute to the contexts of ranges
    :ivar finished: packed exchanges by range number: columns ``part`` and ``data``
    :ivar contexts: the contexts of the ranges, each in a partition of its own: rows of :data:`CONTEXTS`
    :ivar connections: all connections
    """

    def __init__(self, spark: SparkSession, given: Input) -> None:
        self._spark = spark
        self._kept: list[DataFrame] = []
        self._outputs: DataFrame
        self._found: dict[int, RangeSummary] = {}
        given = replace(given, buckets=max(_BUCKETS, len(given.plan.ranges) // _RANGES_A_BUCKET))
        given, marked = settle(given, self._read(given, []), self._read)
        outputs = self._outputs
        self.finished: DataFrame = outputs.filter(f"kind = '{FINISHED}'").select("part", "data")
        marks = [each.mark for each in marked]
        edges = outputs.filter(f"kind = '{EDGES}'").select("part", "bucket", "data")
        dealt = edges.repartition(given.buckets, "bucket").sortWithinPartitions("bucket")
        together = self._keep(dealt.mapInArrow(_BucketStitcher(given, marks), _TOGETHER))
        rows = together.filter("part < 0").sort("bucket").collect()
        found = {(row["part"], row["bucket"]): bytes(row["data"]) for row in rows}
        made = {bucket: unpack(data) for (part, bucket), data in found.items() if part == _SUMMARY}
        numbered = number(given.plan, marks, list(made.values()), [each.facts for each in marked])
        ids = dict(zip(made, numbered.ids, strict=True))
        self.connections = [
            PackedConnections(found[_CONNECTIONS, bucket], of_bucket) for bucket, of_bucket in ids.items()
        ]
        self.contexts = self._joined(numbered, together, ids)
        self.read = MergeResult(given, marked, [], numbered)

    def close(self) -> None:
        """Release the data that Spark has cached."""
        while self._kept:
            self._kept.pop().unpersist()

    # ------------------------------------------------------------ steps
    def _read(self, given: Input, to_reread: list[Range]) -> list[RangeSummary]:
        """Read the ranges `to_reread`, or all if it is empty; return the summaries of all ranges."""
        read = parts(self._spark, given, to_reread or None)
        if not to_reread:
            self.close()
        self._keep(read)
        if to_reread:
            numbers = [part.number for part in to_reread]
            self._outputs = self._outputs.filter(~self._outputs["part"].isin(numbers)).unionAll(read)
            self._found |= dict(_marks(read))
        else:
            self._outputs, self._found = read, dict(_marks(read))
        return [self._found[number] for number in sorted(self._found)]

    def _joined(self, numbered: NumberedRanges, together: DataFrame, ids: Mapping[int, Int64s]) -> DataFrame:
        """Return the contexts of ranges, with the pieces of all buckets."""
        alone = packed_rows(self._spark, data=list(map(pack, numbered.contexts)))
        every = alone.selectExpr("part", "-1 AS bucket", "data").unionAll(
            together.filter("part >= 0").select("part", "bucket", "data")
        )
        by_part = every.repartitionById(len(numbered.contexts), "part").sortWithinPartitions("part", "bucket")
        return self._keep(by_part.mapInArrow(_ContextJoiner(ids), CONTEXTS))

    def _keep(self, frame: DataFrame) -> DataFrame:
        from pyspark import StorageLevel

        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame


def _marks(outputs: DataFrame) -> Iterator[tuple[int, RangeSummary]]:
    for row in outputs.filter(f"kind = '{MARK}'").select("part", "data").collect():
        yield row["part"], unpack(bytes(row["data"]))
