"""Rows go into a folder by date and hour, all of a run or none, and inputs are recognised again."""

from __future__ import annotations

import json
import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from captures.json_objects import to_json
from captures.tables import folder as module
from captures.tables.folder import Folder, FolderError, Part, PartWriter, open_folder, read_manifests
from captures.tables.manifest import Input
from captures.tables.schema import VERSION, schema

COLUMNS = ["run", "number", "time", "time_ns"]
HOUR = 3_600_000_000_000
#: 2026-11-21T23:30:00Z
EVENING = int(datetime(2026, 11, 21, 23, 30, tzinfo=UTC).timestamp()) * 1_000_000_000


def batch(times: list[int], first: int = 1) -> pa.RecordBatch:
    """Rows of exchanges at some times."""
    rows = [
        {"run": 0, "number": first + place, "time": time // 1_000, "time_ns": time}
        for place, time in enumerate(times)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema("exchanges", COLUMNS))


def parts(
    folder: Folder, batches: list[pa.RecordBatch], task: int = 0, table: str = "exchanges"
) -> list[Part]:
    with PartWriter(folder.staged, task) as writer:
        for each in batches:
            writer.write(table, each)
        return writer.close()


def run(out: Path, times: list[int], inputs: list[Input] | None = None, **how: bool) -> Folder:
    """One run of one task."""
    folder = open_folder(str(out), **how)
    folder.commit(parts(folder, [batch(times)]), tables=["exchanges"], inputs=inputs or [])
    folder.discard()
    return folder


def files(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def numbers(out: Path) -> list[int]:
    """The rows that anybody finds who reads the folder."""
    found: list[int] = ds.dataset(out / "exchanges", partitioning="hive").to_table()["number"].to_pylist()
    return sorted(found)


# ---------------------------------------------------------------- where rows go
def test_rows_go_to_the_date_and_hour_of_their_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    last, next_day = EVENING // HOUR * HOUR + HOUR - 1, EVENING // HOUR * HOUR + HOUR
    run(out, [EVENING, next_day, last, next_day + 7 * HOUR + 1])
    places = {
        "exchanges/date=2026-11-21/hour=23/part-00000-00000.parquet": [1, 3],
        "exchanges/date=2026-11-22/hour=0/part-00000-00000.parquet": [2],
        "exchanges/date=2026-11-22/hour=7/part-00000-00000.parquet": [4],
    }
    assert files(out) == ["_kproxy/run-00000.json", *places]
    for place, found in places.items():
        # as one file: a folder's name would become columns
        table = pq.ParquetFile(out / place).read()
        assert table["number"].to_pylist() == found
        assert table.schema.names == COLUMNS
        assert table.schema.metadata[b"kproxy.table"] == b"exchanges"
    table = ds.dataset(out / "exchanges", partitioning="hive").to_table()
    for row in table.to_pylist():
        moment = datetime.fromtimestamp(row["time_ns"] // 1_000_000_000, UTC)
        assert (row["date"], row["hour"]) == (moment.strftime("%Y-%m-%d"), moment.hour)


def test_time_format_before_the_epoch_have_a_place_too(tmp_path: Path) -> None:
    run(tmp_path / "out", [-1])
    assert files(tmp_path / "out")[1] == "exchanges/date=1969-12-31/hour=23/part-00000-00000.parquet"


def test_few_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 3)
    folder = open_folder(str(tmp_path / "out"))
    most = 0
    with PartWriter(folder.staged, 4) as writer:
        for round_ in range(2):
            for hour in range(10):
                writer.write("exchanges", batch([EVENING + hour * HOUR], 10 * round_ + hour))
                most = max(most, len(writer._open))
        made = writer.close()
    assert most == 3
    assert len(made) == 20  # each hour is begun again
    assert len({part.path for part in made}) == 20
    folder.commit(made, tables=["exchanges"])
    assert numbers(tmp_path / "out") == list(range(20))


def test_rows_are_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_GROUP_ROWS", 100)
    out = tmp_path / "out"
    folder = open_folder(str(out))
    made = parts(folder, [batch([EVENING] * 30, 30 * number) for number in range(9)])
    folder.commit(made, tables=["exchanges"])
    metadata = pq.ParquetFile(out / made[0].path).metadata
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [120, 120, 30]
    assert metadata.row_group(0).column(0).compression == "ZSTD"


def test_rows_of_hours_in_turns_keep_their_order(tmp_path: Path) -> None:
    """A clock that jumps: each hour has a file, of few rows, which is written as it is."""
    out = tmp_path / "out"
    folder = open_folder(str(out))
    made = parts(folder, [batch([EVENING + number % 3 * HOUR for number in range(60)])])
    folder.commit(made, tables=["exchanges"])
    written = [pq.read_table(out / part.path, partitioning=None) for part in made]
    assert [table["number"].to_pylist() for table in written] == [
        [number + 1 for number in range(60) if number % 3 == hour] for hour in range(3)
    ]
    assert pq.ParquetFile(out / made[0].path).metadata.row_group(0).column(0).compression == "UNCOMPRESSED"


def test_waiting_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 5_000)
    folder = open_folder(str(tmp_path / "out"))
    with PartWriter(folder.staged, 0) as writer:
        for number in range(40):
            writer.write("exchanges", batch([EVENING + number % 4 * HOUR] * 20))
            assert sum(each.waiting_bytes for each in writer._open.values()) <= 5_000
        assert sum(part.rows for part in writer.close()) == 800


def test_several_tasks_and_attempts(tmp_path: Path) -> None:
    """Files of tasks are private until committed; discarded attempts leave nothing."""
    out = tmp_path / "out"
    folder = open_folder(str(out))
    staged = pickle.loads(pickle.dumps(folder.staged))
    first, again, other = (PartWriter(staged, task) for task in (7, 7, 8))
    for writer, number in ((first, 1), (again, 1), (other, 2)):
        writer.write("exchanges", batch([EVENING], number))
    lost, taken, also = first.close(), again.close(), other.close()
    assert {part.path for part in lost} == {part.path for part in taken}
    assert not (out / "exchanges").exists()
    folder.commit([*pickle.loads(pickle.dumps(taken)), *also], tables=["exchanges"])
    assert numbers(out) == [1, 2]
    assert not list(out.glob(".staging-*"))


def test_an_attempt_that_fails_removes_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_GROUP_ROWS", 1)
    folder = open_folder(str(tmp_path / "out"))

    def killed() -> None:
        with PartWriter(folder.staged, 0) as writer:
            writer.write("exchanges", batch([EVENING, EVENING + HOUR]))
            assert files(tmp_path / "out")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        killed()
    assert files(tmp_path / "out") == [".lock"]
    folder.discard()
    assert not (tmp_path / "out").exists()


def test_names_of_tasks(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path / "out"))
    for wrong in ("../up", "a-b", "", "Ä"):
        with pytest.raises(ValueError, match="no name of a task"):
            PartWriter(folder.staged, wrong)


# ---------------------------------------------------------------- what a run leaves
def test_the_manifest(tmp_path: Path) -> None:
    source = tmp_path / "a.pcap"
    source.write_bytes(b"x" * 100_000)
    folder = open_folder(str(tmp_path / "out"))
    made = folder.commit(
        parts(folder, [batch([EVENING, EVENING + HOUR])]),
        tables=["exchanges", "findings"],
        inputs=[Input.of(str(source))],
        summary={"packets": 12},
    )
    shape = json.loads((tmp_path / "out/_kproxy/run-00000.json").read_text())
    assert shape == json.loads(json.dumps(to_json(made)))
    assert [shape[name] for name in ("run", "schema", "summary")] == [0, VERSION, {"packets": 12}]
    (told,) = shape["inputs"]
    assert (told["path"], told["size"], told["mtime_ns"]) == (str(source), 100_000, source.stat().st_mtime_ns)
    assert shape["tables"]["exchanges"]["rows"] == 2
    for file in shape["tables"]["exchanges"]["files"]:
        assert (tmp_path / "out" / file["path"]).stat().st_size == file["bytes"]
    assert read_manifests(str(tmp_path / "out")) == [made]
    assert read_manifests(str(tmp_path / "nothing")) == []


def test_a_table_without_rows_can_be_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    folder = open_folder(str(out))
    folder.commit(parts(folder, [batch([EVENING])]), tables=["exchanges", "findings"])
    table = ds.dataset(out / "findings", partitioning="hive").to_table()
    assert table.num_rows == 0
    assert table.schema.names == [*schema("findings").names, "date", "hour"]
    # one is enough
    folder.discard()
    folder = open_folder(str(out), append=True)
    folder.commit(parts(folder, [batch([EVENING])]), tables=["exchanges", "findings"])
    assert len([name for name in files(out) if name.startswith("findings/")]) == 1
    nothing = open_folder(str(tmp_path / "nothing"))
    nothing.commit([], tables=["exchanges"])
    assert numbers(tmp_path / "nothing") == []


def test_runs_are_added(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert [run(out, [EVENING] * (each + 1), append=True).run for each in range(3)] == [0, 1, 2]
    assert numbers(out) == [1, 1, 1, 2, 2, 3]
    assert [each.run for each in read_manifests(str(out))] == [0, 1, 2]


def test_overwriting_replaces_all_tables_once_it_is_committed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, [EVENING] * 3)
    run(out, [EVENING + HOUR], append=True)
    folder = open_folder(str(out), overwrite=True)
    made = parts(folder, [batch([EVENING], 50)])
    assert numbers(out) == [1, 1, 2, 3]
    folder.commit(made, tables=["exchanges"])
    assert numbers(out) == [50]
    assert [each.run for each in read_manifests(str(out))] == [2]
    assert sorted(path.name for path in (out / "_kproxy").iterdir()) == ["run-00002.json"]
    assert len([path for path in (out / "exchanges").rglob("*") if path.is_dir()]) == 2  # a date, an hour


@pytest.mark.parametrize("step", ["_write_manifest", "_remove"])
def test_overwriting_that_dies_loses_neither_the_old_tables_nor_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    out = tmp_path / "out"
    run(out, [EVENING] * 3)
    died = open_folder(str(out), overwrite=True)
    made = parts(died, [batch([EVENING], 50)])
    with monkeypatch.context() as patch:
        patch.setattr(Folder, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            died.commit(made, tables=["exchanges"])
    died.discard()
    assert numbers(out) == [1, 2, 3, 50]
    open_folder(str(out), append=True).discard()  # puts in order what was left
    assert numbers(out) == ([50] if step == "_remove" else [1, 2, 3])


# ---------------------------------------------------------------- inputs are known again
def test_inputs_are_known_by_their_content(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.pcap" for name in "abc"]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 70_000)
    inputs = [Input.of(str(path)) for path in paths]
    out = tmp_path / "out"
    run(out, [EVENING], inputs[:2])
    folder = open_folder(str(out), append=True)
    assert folder.compare(inputs) == (inputs[2:], inputs[:2], [])
    # touched, and moved, they are the same; what was written to is not
    os.utime(paths[0], (1, 1))
    moved = paths[0].rename(tmp_path / "moved.pcap")
    with paths[1].open("ab") as file:
        file.write(b"more")
    now = [Input.of(str(path)) for path in (moved, paths[1], paths[2])]
    assert folder.compare(now) == ([now[2]], [now[0]], [now[1]])
    folder.discard()
    assert open_folder(str(out), overwrite=True).compare(now) == (now, [], [])


def test_a_file_that_has_grown_is_read_again_with_the_others_of_its_run(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.pcap" for name in "abcd"]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 70_000)
    inputs = [Input.of(str(path)) for path in paths]
    out = tmp_path / "out"
    run(out, [EVENING], inputs[:1])
    run(out, [EVENING] * 2, inputs[1:3], append=True)
    with paths[2].open("ab") as file:
        file.write(b"more")
    now = [Input.of(str(path)) for path in paths]
    folder = open_folder(str(out), append=True)
    found = folder.compare(now)
    assert found == (now[3:], now[:2], now[2:3])
    without = [now[0], *now[2:]]
    assert folder.reread(folder.compare(without), without).changed == now[2:3]  # its run cannot be read again
    found = folder.reread(found, now)
    assert found == (now[1:], now[:1], [])
    folder.commit(parts(folder, [batch([EVENING], 50)]), tables=["exchanges"], inputs=found.new)
    assert numbers(out) == [1, 50]
    folder.discard()
    assert open_folder(str(out), append=True).compare(now) == ([], now, [])


# ---------------------------------------------------------------- runs that die
def killed(died: Folder) -> None:
    """End the process of a run, which frees its lock and leaves everything else."""
    assert died._lock is not None
    died._lock.release()


def test_a_run_that_dies_leaves_nothing_that_is_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, [EVENING])
    died = open_folder(str(out), append=True)
    parts(died, [batch([EVENING] * 5, 100)])
    assert numbers(out) == [1]
    assert len(list(out.glob(".staging-*"))) == 1
    killed(died)
    run(out, [EVENING + HOUR], append=True)
    assert numbers(out) == [1, 1]
    assert not list(out.glob(".staging-*"))


@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_run_that_dies_while_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    out = tmp_path / "out"
    if not first:
        run(out, [EVENING])
    died = open_folder(str(out), append=True)
    made = parts(died, [batch([EVENING, EVENING + HOUR], 100)])
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "_write_manifest", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            died.commit(made, tables=["exchanges"])
    killed(died)
    assert set(numbers(out)) >= {100, 101}  # without a manifest
    run(out, [EVENING + 2 * HOUR], append=not first)
    assert numbers(out) == ([1] if first else [1, 1])


def test_a_second_run_is_refused_at_the_start(tmp_path: Path) -> None:
    out = tmp_path / "out"
    slow = open_folder(str(out))
    for how in ({}, {"append": True}, {"overwrite": True}):
        with pytest.raises(
            FolderError, match=f"another run of kproxy writes to it .process {os.getpid()} on "
        ):
            open_folder(str(out), **how)
    slow.commit(parts(slow, [batch([EVENING])]), tables=["exchanges"])
    slow.discard()
    run(out, [EVENING], append=True)
    assert numbers(out) == [1, 1]


def test_two_runs_at_once_are_noticed_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    run(out, [EVENING])
    monkeypatch.setattr(Folder, "lock", lambda _: None)  # as of object stores
    slow = open_folder(str(out), append=True)
    run(out, [EVENING], append=True)
    with pytest.raises(FolderError, match="another run was written there meanwhile"):
        slow.commit([], tables=["exchanges"])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="/proc/tables cannot be written: "):
        open_folder("/proc/tables")


# ---------------------------------------------------------------- folders that do not fit
def test_a_folder_with_tables_is_not_written_to_unasked(tmp_path: Path) -> None:
    run(tmp_path / "out", [EVENING])
    with pytest.raises(
        FolderError, match="has tables already: --append adds to them, --overwrite replaces them"
    ):
        open_folder(str(tmp_path / "out"))
    with pytest.raises(FolderError, match="say one of both"):
        open_folder(str(tmp_path / "out"), append=True, overwrite=True)


@pytest.mark.parametrize(
    "how", [{}, {"append": True}, {"overwrite": True}], ids=["new", "append", "overwrite"]
)
def test_the_folders_of_others_are_left_alone(tmp_path: Path, how: dict[str, Any]) -> None:
    """Spark's output looks similar: none of it may be removed."""
    other = tmp_path / "exchanges" / "part-00000-0a1b2c3d-1111-2222-3333-444455556666-c000.snappy.parquet"
    other.parent.mkdir()
    other.write_text("mine")
    with pytest.raises(FolderError, match=r"is not empty, and has no tables of kproxy \(exchanges\)"):
        open_folder(str(tmp_path), **how)
    assert other.read_text() == "mine"
    assert open_folder(str(tmp_path / "new"), **how).run == 0
    with pytest.raises(FolderError, match="is a file; name a folder"):
        open_folder(str(other), **how)


def test_what_others_put_beside_the_tables_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, [EVENING])
    (out / "notes.txt").write_text("mine")
    run(out, [EVENING], append=True)
    run(out, [EVENING], overwrite=True)
    assert (out / "notes.txt").read_text() == "mine"


def test_another_schema_is_not_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path / "out", [EVENING])
    monkeypatch.setattr(module, "VERSION", VERSION + 1)
    with pytest.raises(
        FolderError, match=f"written with version {VERSION} of the schema, this is version {VERSION + 1}"
    ):
        open_folder(str(tmp_path / "out"), append=True)
    run(tmp_path / "out", [EVENING], overwrite=True)


def test_a_manifest_that_is_none(tmp_path: Path) -> None:
    run(tmp_path / "out", [EVENING])
    (tmp_path / "out/_kproxy/run-00000.json").write_text("{}")
    with pytest.raises(FolderError, match=r"run-00000\.json is no manifest of kproxy"):
        open_folder(str(tmp_path / "out"), append=True)


# ---------------------------------------------------------------- elsewhere
def test_uris(tmp_path: Path) -> None:
    out = tmp_path / "a folder"
    folder = open_folder(f"file://{tmp_path}/a%20folder")
    folder.commit(parts(folder, [batch([EVENING])]), tables=["exchanges"])
    assert numbers(out) == [1]


def test_what_nothing_reaches_is_told() -> None:
    with pytest.raises(FolderError, match=r"nothing is installed that reaches nowhere://.*install fsspec"):
        open_folder("nowhere://bucket/tables")
