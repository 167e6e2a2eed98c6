"""Exchanges of arriving files as a DataFrame of Spark's structured streaming.

A batch consists of the files that have arrived since the previous one. Its ranges are read in parallel; one task, which
holds the state of the query, stitches the connections that cross edges of ranges, files and batches, and continues the
numbering; then the ranges produce their exchanges in parallel again. So numbers and connections are those of a single
reading of all files. The state is a :class:`~captures.ranges.batches.BatchState`: for ordinary connections little more
than what waits, never a file. It is one row of Spark's state store, of any kind (the default, in memory with its
changes in the checkpoint, suffices; RocksDB is not needed).

If a query restarts in the middle of a batch and a file of the batch no longer exists, its exchanges are missing;
nothing is emitted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from captures.filters import compile_filter
from captures.ranges.batches import BatchState, stitch_and_number_batch
from captures.ranges.edges import pack, unpack
from captures.ranges.exchange_numbers import Context
from captures.ranges.jobs import FINISHED, Input, RangeOutput
from captures.spark.capture_reader import RowFunction
from captures.spark.frames import ReadOptions
from captures.spark.source import NAME, PLAN, SETTLED, Options, register
from captures.spark.task import Task
from captures.tables.schema import ddl
from captures.tables.single import TableRequest

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from captures.filters.filter import Filter

MOST_FILES = 1000
"""Most files per batch, since Spark 4.2."""
_AS_USUAL = ReadOptions()
_STATE = "standing binary"
_CONTEXTS = "part int, task binary, context binary"


class _State(NamedTuple):
    """State between two batches.

    :ivar start: time of the first exchange, the origin of relative times in filters
    """

    batch_state: BatchState
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
    """Return the exchanges of arriving files as a streaming DataFrame.

    Every file is read once; a query restarted with its checkpoint continues where it was. An exchange is emitted by the
    batch in which its response is complete; one without a response by the batch that proves that none follows: its
    connection was closed, or later requests were answered. Within a batch, numbers follow the order of the requests'
    first bytes.

    :param paths: folders and patterns into which files are rotated, the same on all machines
    :param columns: names of columns of the table ``exchanges`` (docs/tables.md); bodies are decoded only if one of them
        needs that
    :param reading: its filter must not refer to groups, which are known only of a whole capture; its key log is a path
        on all machines and is read again by each task
    :param settled: seconds without a write after which the newest file counts as finished; it also does as soon as
        there is a newer one
    :param most_files: most files per batch
    :raises ValueError: for an unknown column, an invalid filter, or a filter that refers to groups
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
        "settled": str(settled),
        "maxFilesPerTrigger": str(most_files),
    }
    if reading.keylog:
        options["keylog"] = reading.keylog
    Options.of(options)
    register(spark)
    parts = spark.readStream.format(NAME).options(**options).load().filter(f"kind != '{FINISHED}'")
    together = _BatchStitcher(chosen, wanted, reading)
    all_of_them = parts.withColumn("one", lit(0)).groupBy("one")
    contexts = all_of_them.applyInPandasWithState(together, _CONTEXTS, _STATE, "append", "NoTimeout")
    # the state operator returns columnar batches, which a shuffle cannot take: this expression turns them into rows
    dealt = contexts.withColumn("place", contexts["part"] + 1).repartition("place")
    return dealt.mapInArrow(_RowMaker(), shape)


@dataclass(frozen=True)
class _BatchStitcher:
    """Stitches the ranges of a batch; yields the context that each range needs to produce its exchanges."""

    columns: tuple[str, ...] | None
    filter: Filter | None
    reading: ReadOptions

    def __call__(self, key: Any, frames: Iterable[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        given, outputs = self._gathered(frames)
        before = unpack(bytes(state.get[0])) if state.exists else _State(BatchState(), None)
        read, after = stitch_and_number_batch(given, outputs, before.batch_state)
        start = read.numbered.start if before.start is None else before.start
        state.update((bytearray(pack(_State(after, start))),))
        columns = {"exchanges": self.columns} if self.columns else {}
        task = replace(Task.of(read, TableRequest(columns=columns, filter=self.filter)), start=start)
        contexts = [context for context in read.numbered.contexts if context.count]
        yield pd.DataFrame(
            {
                "part": [context.part.number for context in contexts],
                "task": [pack(task)] * len(contexts),
                "context": [pack(context) for context in contexts],
            }
        )

    def _gathered(self, frames: Iterable[pd.DataFrame]) -> tuple[Input, dict[int, list[RangeOutput]]]:
        given: Input | None = None
        outputs: dict[int, list[RangeOutput]] = {}
        for frame in frames:
            for part, kind, bucket, data in frame[["part", "kind", "bucket", "data"]].itertuples(index=False):
                if kind == PLAN:
                    given = unpack(bytes(data))
                else:
                    outputs.setdefault(part, []).append(RangeOutput(part, kind, bucket, bytes(data)))
        assert given is not None
        keylog = Path(self.reading.keylog).read_bytes() if self.reading.keylog else b""
        return replace(given, keylog=keylog), outputs


class _RowMaker(RowFunction):
    """Yields the rows of the exchanges of ranges."""

    inputs = ("task", "context")

    def batches(self, task: Task, context: Context) -> Iterator[pa.RecordBatch]:
        return task.rows_of("exchanges", context)
