"""Tables that need all exchanges, made as on Spark, but in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from captures.analysis.findings.all import RULES
from captures.filters import compile_filter
from captures.ranges.edges import pack, unpack
from captures.ranges.jobs import Input, MergeResult, read_here
from captures.ranges.plan import make_plan
from captures.ranges.whole import WholeCaptureData, whole_of
from captures.spark.table_writer import (
    AnalysisSettings,
    ExchangeDealer,
    FactFinder,
    HistoryCollector,
    MergedFacts,
    TableBuilder,
)
from captures.spark.task import Task
from captures.spark.task_shares import shares_of
from captures.tables.schema import OF_THE_WHOLE
from captures.tables.single import TableRequest
from captures.tables.whole_rows import WholeTables

ALL = tuple(OF_THE_WHOLE)
Rows = dict[str, list[dict[str, Any]]]


def ranges_of(paths: Sequence[Path], size: int) -> MergeResult:
    return read_here(Input(make_plan([str(path) for path in paths], size), buckets=2))


def settings_of(
    read: MergeResult, processors: int, tables: Sequence[str] = ALL, wanted: str | None = None
) -> AnalysisSettings:
    task = Task.of(read, TableRequest(filter=None if wanted is None else compile_filter(wanted)))
    return AnalysisSettings(task=task, shares=tuple(shares_of(tables, RULES, processors)))


def contexts_of(read: MergeResult) -> pa.RecordBatch:
    packed = [pack(context) for context in read.numbered.contexts]
    return pa.RecordBatch.from_pydict({"part": list(range(len(packed))), "context": packed})


def dealt(read: MergeResult, settings: AnalysisSettings, most: int = 1000) -> pa.Table:
    """The rows of :class:`TableBuilder`, as Spark sorts them."""
    contexts = contexts_of(read)
    found = [
        unpack(row["data"]) for batch in FactFinder(settings)(iter([contexts])) for row in batch.to_pylist()
    ]
    merged = pa.array(map(pack, MergedFacts.of(found)), pa.binary())
    located = by_share(ExchangeDealer(settings)(iter([contexts.append_column("merged", merged)])))
    if not settings.collects:
        return located
    # Spark's rows have this schema, and every batch of a task must have the same
    located = located.cast(located.schema.set(0, pa.field("share", pa.int32(), nullable=False)))
    collect = HistoryCollector(settings, whole(read))
    of = [located.filter(pc.field("share") == share) for share in range(len(settings.shares))]
    return by_share(batch for rows in of for batch in collect(iter(rows.to_batches(most))))


def by_share(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    rows = pa.Table.from_batches(list(batches))
    return rows.sort_by([("share", "ascending"), ("number", "ascending")]).combine_chunks()


def whole(read: MergeResult) -> WholeCaptureData:
    return whole_of(read.numbered, [each.mark for each in read.marked])


def built(
    paths: Sequence[Path],
    size: int,
    processors: int,
    tables: Sequence[str] = ALL,
    wanted: str | None = None,
    most: int = 1000,
) -> Rows:
    """The tables of a capture.

    :param most: rows that come at a time
    """
    read = ranges_of(paths, size)
    settings = settings_of(read, processors, tables, wanted)
    found: Rows = {}
    for _, made in TableBuilder(settings, whole(read)).built(
        iter(dealt(read, settings, most).to_batches(most))
    ):
        assert isinstance(made, WholeTables)
        assert not made.faults
        for name, batch in made.batches():
            found.setdefault(name, []).extend(batch.to_pylist())
    return {name: sorted(rows, key=repr) for name, rows in found.items()}
