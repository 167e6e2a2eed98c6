"""What needs all exchanges, made as Spark makes it, but in this process: dealt out, sorted, judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.analysis.findings.all import RULES
from captures.filters import compile_filter
from captures.ranges.edges import pack
from captures.ranges.jobs import Input, MergeResult, read_here
from captures.ranges.plan import make_plan
from captures.ranges.whole import whole_of
from captures.spark.table_writer import Judge, JudgeSettings, Locate, Meet, Task
from captures.spark.task_shares import shares_of
from captures.tables.schema import OF_THE_WHOLE

ALL = tuple(OF_THE_WHOLE)
Rows = dict[str, list[dict[str, Any]]]


def ranges_of(paths: Sequence[Path], size: int) -> MergeResult:
    return read_here(Input(make_plan([str(path) for path in paths], size), buckets=2))


def judging_of(
    read: MergeResult, processors: int, tables: Sequence[str] = ALL, wanted: str | None = None
) -> JudgeSettings:
    task = Task(
        given=read.given,
        facts=read.numbered.facts,
        start=read.numbered.start,
        filter=None if wanted is None else compile_filter(wanted),
    )
    return JudgeSettings(task=task, shares=tuple(shares_of(tables, RULES, processors)), limits={})


def contexts_of(read: MergeResult) -> pa.RecordBatch:
    packed = [pack(context) for context in read.numbered.contexts]
    return pa.RecordBatch.from_pydict({"part": list(range(len(packed))), "context": packed})


def dealt(read: MergeResult, judging: JudgeSettings) -> pa.Table:
    """The rows that judges get, as Spark sorts them."""
    contexts = contexts_of(read)
    met: list[str] = []
    if judging.decides:
        met = [what for batch in Meet(judging)(iter([contexts])) for what in batch.column("met").to_pylist()]
    rows = pa.Table.from_batches(list(Locate(judging, met)(iter([contexts]))))
    return rows.sort_by([("share", "ascending"), ("number", "ascending")]).combine_chunks()


def judge_of(read: MergeResult, judging: JudgeSettings) -> Judge:
    return Judge(judging, whole_of(read.numbered, [each.mark for each in read.marked]))


def judged(
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
    judging = judging_of(read, processors, tables, wanted)
    found: Rows = {}
    for _, made in judge_of(read, judging).judged(iter(dealt(read, judging).to_batches(most))):
        assert not made.faults
        for name, batch in made.batches():
            found.setdefault(name, []).extend(batch.to_pylist())
    return {name: sorted(rows, key=repr) for name, rows in found.items()}
