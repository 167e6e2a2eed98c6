"""Tasks that write: each alone, in this process, called as by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from captures.exchanges import Exchange, ExchangeReader
from captures.filters import compile_filter
from captures.ranges.edges import pack, unpack
from captures.ranges.jobs import Input, MergeResult, read_here
from captures.ranges.plan import make_plan
from captures.spark.capture_reader import columns_of
from captures.spark.table_writer import AnalysisSettings, HeaderWriter, RangeWriter, TableBuilder
from captures.spark.task import Task, TaskResult, faults_of
from captures.spark.task_shares import Share
from captures.tables.folder import Folder, StagingFolder, open_folder
from captures.tables.partition_rows import PartitionRows
from captures.tables.single import TableRequest
from tests.captures.export.files import SAMPLE
from tests.captures.spark.judged import dealt, whole

NOWHERE = StagingFolder("", 0, "")


@pytest.fixture(scope="module")
def read() -> MergeResult:
    return read_here(Input(make_plan([str(SAMPLE)], 60_000)))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "out"))


def task_of(read: MergeResult, staged: StagingFolder = NOWHERE, **more: Any) -> Task:
    return Task.of(read, TableRequest(**more), staged)


def run(task: Callable[[Iterator[Any]], Iterator[Any]], **columns: list[Any]) -> dict[int, TaskResult]:
    """Return the output of a task for rows."""
    batch = pa.RecordBatch.from_pydict(columns)
    found = [row for made in task(iter([batch])) for row in columns_of(made, "part", "data")]
    return {part: unpack(data) for part, data in found}


@pytest.mark.slow
def test_ranges_write_their_rows(read: MergeResult, folder: Folder) -> None:
    contexts = [pack(context) for context in read.numbered.contexts]
    writer = RangeWriter(task_of(read, folder.staged), ("exchanges", "topic_partitions"), prefix="7x")
    done = run(writer, part=list(range(len(contexts))), context=contexts)
    assert sum(each.exchanges for each in done.values()) == 402
    assert [each.exchanges for _, each in sorted(done.items())] == [c.count for c in read.numbered.contexts]
    parts = [part for each in done.values() for part in each.parts]
    assert sum(part.rows for part in parts if part.table == "exchanges") == 402
    assert all("-7x0000" in part.path for part in parts)
    assert all(Path(part.staged).exists() for part in parts)


@pytest.mark.slow
def test_what_fails_in_a_range_is_told_with_its_number(
    read: MergeResult, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, of = ExchangeReader._finish, PartitionRows.of

    def decode(reader: ExchangeReader, made: Exchange) -> None:
        if made.number == 300:
            raise RecursionError("planted")
        finish(reader, made)

    def rows(partitions: PartitionRows, exchange: Exchange) -> Any:
        if exchange.number == 301:
            raise KeyError("planted")
        return of(partitions, exchange)

    monkeypatch.setattr(ExchangeReader, "_finish", decode)
    monkeypatch.setattr(PartitionRows, "of", rows)
    contexts = [pack(context) for context in read.numbered.contexts]
    writer = RangeWriter(task_of(read, folder.staged), ("exchanges", "topic_partitions"))
    done = run(writer, part=list(range(len(contexts))), context=contexts)
    parts = [part for each in done.values() for part in each.parts]
    assert sum(part.rows for part in parts if part.table == "exchanges") == 402
    decoding, row, _ = faults_of(done.values()).lines()
    assert decoding.startswith(f"exchange 300 of {SAMPLE}: decoding failed: RecursionError: planted")
    assert row.startswith(f"exchange 301 of {SAMPLE}: the table topic_partitions failed: KeyError: 'planted'")
    assert sum(each.undecoded for each in done.values()) == 1


def test_headers_are_written_from_what_was_told(read: MergeResult, folder: Folder) -> None:
    contexts = [pack(context) for context in read.numbered.contexts]
    writer = HeaderWriter(task_of(read, folder.staged), ("number", "time_ns", "api"))
    done = run(writer, part=list(range(len(contexts))), context=contexts, data=read.finished)
    assert sum(part.rows for each in done.values() for part in each.parts) == 402


@pytest.mark.slow
def test_the_builder_writes_tables_of_all_exchanges(read: MergeResult, folder: Folder) -> None:
    shares = (Share(("rebalances",), ()), Share(("connections",), ()))
    settings = AnalysisSettings(task=task_of(read, folder.staged), shares=shares)
    done = {
        part: unpack(data)
        for batch in TableBuilder(settings, whole(read))(iter(dealt(read, settings).to_batches()))
        for part, data in columns_of(batch, "part", "data")
    }
    assert sorted(done) == [0, 1]
    rows = {part.table: part.rows for each in done.values() for part in each.parts}
    assert rows["connections"] == len(read.numbered.connections)
    assert rows["rebalances"] > 0


def test_a_task_that_fails_leaves_nothing(
    read: MergeResult, folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any) -> int:
        raise OSError("no luck")

    monkeypatch.setattr("captures.spark.table_writer.undecoded", fail)
    writer = RangeWriter(task_of(read, folder.staged), ("exchanges",))
    with pytest.raises(OSError, match="no luck"):
        run(writer, part=[0], context=[pack(read.numbered.contexts[0])])
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != ".lock"]


def test_only_what_fits_is_decoded_and_counted(read: MergeResult, folder: Folder) -> None:
    contexts = [pack(context) for context in read.numbered.contexts]
    task = task_of(read, folder.staged, filter=compile_filter("number <= 10"))
    done = run(RangeWriter(task, ("exchanges",)), part=list(range(len(contexts))), context=contexts)
    assert sum(each.exchanges for each in done.values()) == 10
