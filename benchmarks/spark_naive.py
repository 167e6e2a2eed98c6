"""The obvious Spark job, as a peer: it shuffles every packet with its payload by connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from captures.ranges.edges import Edges, Pair, pack, unpack
from captures.ranges.jobs import Input
from captures.ranges.plan import Range, make_plan
from captures.ranges.range_reader import in_buckets, packets_between
from captures.ranges.stitcher import Stitcher

if TYPE_CHECKING:
    import pyarrow as pa

BUCKETS = 8


class _All(dict[Pair, int]):
    """Numbers endpoint pairs in order of appearance, and contains all."""

    def __missing__(self, pair: Pair) -> int:
        self[pair] = len(self)
        return self[pair]

    def __contains__(self, pair: object) -> bool:
        return True


class _Packets:
    """Reads ranges into packets with their payload."""

    def __init__(self, given: Input) -> None:
        self._given = given

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._rows(self._given.plan.ranges[number])

    def _rows(self, part: Range) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        pairs = _All()
        with self._given.plan.source() as source:
            packets, payload = packets_between(source, part, pairs, pairs, in_place=False)
        names = [pair for pair, _ in sorted(pairs.items(), key=lambda each: each[1])]
        for bucket, mine in in_buckets(Edges(names, [], packets, payload), BUCKETS).items():
            columns = [[part.number], [bucket], [pack(mine)]]
            yield pa.RecordBatch.from_arrays(
                [pa.array(columns[0], pa.int32()), pa.array(columns[1], pa.int32()), pa.array(columns[2])],
                ["part", "bucket", "data"],
            )


class _Pair:
    """Reassembles packets into exchanges, and counts them."""

    def __init__(self, given: Input) -> None:
        self._given = given

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows = [row for batch in batches for row in batch.to_pylist()]
        count = 0
        for bucket in sorted({row["bucket"] for row in rows}):
            mine = sorted((row["part"], row["data"]) for row in rows if row["bucket"] == bucket)
            ranges = self._given.plan.ranges
            with self._given.plan.source() as source:
                # packet numbers only need to increase
                stitcher = Stitcher(source, ranges, [number << 32 for number in range(len(ranges))])
                for part, data in mine:
                    stitcher.feed(part, unpack(data))
                count += len(stitcher.finish().exchanges)
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], ["count"])


def count_exchanges(path: str) -> int:
    """Return the number of exchanges in a capture."""
    from captures.spark.session import session

    spark = session()
    given = Input(make_plan([path]), buckets=BUCKETS)
    parts = len(given.plan.ranges)
    packets = spark.range(0, parts, 1, parts).mapInArrow(_Packets(given), "part int, bucket int, data binary")
    counts = packets.repartition(BUCKETS, "bucket").mapInArrow(_Pair(given), "count bigint").collect()
    return sum(row["count"] for row in counts)
