"""Exchanges of files that keep coming, as a DataFrame of Spark's structured streaming.

A batch is the files that have come since the one before. Its ranges are read side by side; one task, which has the
state of the query, puts together what crosses the edges of ranges, files and batches, and counts on; then the ranges
give out their exchanges side by side again. So numbers and connections are those of one reading of all files. State is
what :class:`~captures.ranges.batches.BatchState` says: of connections that stand in the ordinary way little more than
what waits, never a file. It is a row of Spark's state store, whichever that is (the default one, in memory with its
changes in the checkpoint, does; RocksDB is not needed).

A file that is gone when a query restarts in the middle of its batch is missing; nothing is emitted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from captures.filters import compile_filter
from captures.ranges.batches import BatchState, read_on
from captures.ranges.edges import pack, unpack
from captures.ranges.jobs import FINISHED, Input, RangeOutput
from captures.spark.frames import ReadOptions
from captures.spark.source import NAME, PLAN, SETTLED, Options, register
from captures.spark.table_writer import Task, columns_of
from captures.tables.schema import ddl

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from captures.filters.filter import Filter

MOST_FILES = 1000
"""Files of a batch at most, from Spark 4.2 on."""
_AS_USUAL = ReadOptions()
_STATE = "standing binary"
_CONTEXTS = "part int, task binary, context binary"


class _State(NamedTuple):
    """What a batch leaves to the next.

    :ivar start: time of the first exchange, which relative times of a filter count from
    """

    standing: BatchState
    start: int | None


def stream(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    reading: ReadOptions = _AS_USUAL,
    settled: float = SETTLED,
    most_files: int = MOST_FILES,
) -> DataFrame:
    """Return the exchanges of files that keep coming, as a streaming DataFrame.

    Every file is read once; a query restarted with its checkpoint continues where it was. An exchange is emitted by the
    batch in which its response is complete, one without a response by the batch in which that is sure: when its
    connection was closed, or later ones were answered. It has the number that it was counted by, which is the order of
    first bytes within a batch.

    :param paths: folders and patterns into which files are rotated, the same on all machines
    :param columns: names of columns of the table ``exchanges`` (docs/tables.md); bodies are decoded only if one of them
        needs that
    :param reading: the filter may ask for anything but groups, which only a whole capture tells; the key log is a path
        on all machines, and read again by each task
    :param settled: seconds after which the newest file, if nothing was written to it, counts as finished; it does at
        once when there is a newer one
    :param most_files: of a batch
    :raises ValueError: for a column or filter that there is not, or a filter that asks for groups
    """
    from pyspark.sql.functions import lit

    wanted = compile_filter(reading.filter) if reading.filter else None
    if wanted is not None and wanted.needs_groups:
        raise ValueError(
            f"{reading.filter}: of a stream it is not known yet which clients belong to which groups"
        )
    chosen = tuple(columns) if columns else None
    shape = ddl("exchanges", chosen)
    options = {
        "paths": json.dumps([paths] if isinstance(paths, str) else list(paths)),
        "table": "parts",
        "range_bytes": str(reading.range_bytes),
        "buckets": str(reading.buckets),
        "settled": str(settled),
        "maxFilesPerTrigger": str(most_files),
    }
    if reading.keylog:
        options["keylog"] = reading.keylog
    Options.of(options)
    register(spark)
    parts = spark.readStream.format(NAME).options(**options).load().filter(f"kind != '{FINISHED}'")
    together = _PutTogether(chosen, wanted, reading)
    all_of_them = parts.withColumn("one", lit(0)).groupBy("one")
    contexts = all_of_them.applyInPandasWithState(together, _CONTEXTS, _STATE, "append", "NoTimeout")
    # what the state operator gives are rows of columns, which a shuffle cannot take: an expression makes rows of them
    dealt = contexts.withColumn("place", contexts["part"] + 1).repartition("place")
    return dealt.mapInArrow(_GiveRows(), shape)


@dataclass(frozen=True)
class _PutTogether:
    """Puts together what ranges of a batch have told; gives what each needs to give out its exchanges."""

    columns: tuple[str, ...] | None
    filter: Filter | None
    reading: ReadOptions

    def __call__(self, key: Any, frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        given, told = self._gathered(frames)
        before = (
            unpack(bytes(state.get[0])) if state.exists else _State(BatchState(self.reading.buckets), None)
        )
        given, numbered, after = read_on(given, told, before.standing)
        start = numbered.start if before.start is None else before.start
        state.update((bytearray(pack(_State(after, start))),))
        columns = {"exchanges": self.columns} if self.columns else {}
        task = Task(
            given=given,
            facts=numbered.facts,
            columns=columns,
            filter=self.filter,
            start=start,
        )
        contexts = [context for context in numbered.contexts if context.count]
        yield pd.DataFrame(
            {
                "part": [context.part.number for context in contexts],
                "task": [pack(task)] * len(contexts),
                "context": [pack(context) for context in contexts],
            }
        )

    def _gathered(self, frames: Iterable[pd.DataFrame]) -> tuple[Input, dict[int, list[RangeOutput]]]:
        given: Input | None = None
        told: dict[int, list[RangeOutput]] = {}
        for frame in frames:
            for part, kind, bucket, data in frame[["part", "kind", "bucket", "data"]].itertuples(index=False):
                if kind == PLAN:
                    given = unpack(bytes(data))
                else:
                    told.setdefault(part, []).append(RangeOutput(part, kind, bucket, bytes(data)))
        assert given is not None
        keylog = Path(self.reading.keylog).read_bytes() if self.reading.keylog else b""
        return replace(given, keylog=keylog), told


class _GiveRows:
    """Gives the rows of the exchanges of ranges."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task, context in columns_of(batch, "task", "context"):
                yield from unpack(task).rows_of("exchanges", unpack(context))
