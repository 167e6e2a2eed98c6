"""From captures to a folder of tables, in one process."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from captures.exchanges import ExchangeReader
from captures.filters import compile_filter
from captures.json_objects import to_json
from captures.packets import CaptureError
from captures.tables import single
from captures.tables.columns import Needs
from captures.tables.folder import FolderError, open_folder, read_manifests
from captures.tables.inputs import GROWING
from captures.tables.options import TablesOptions
from captures.tables.partition_rows import PartitionRows
from captures.tables.schema import TABLES, USUAL
from captures.tables.single import TableRequest, write_parts, write_tables
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.tables.kit import capture_of, exchanges_of, gathered, reopened, rows
from tests.captures.tables.test_whole_rows import whole

OPTIONS = TablesOptions()
HEADER = tuple(column.name for column in TABLES["exchanges"].columns if column.needs is Needs.HEADER)


def table(out: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table, without what its folders tell."""
    found: list[dict[str, Any]] = ds.dataset(out / name, partitioning="hive").to_table().to_pylist()
    return [{name: value for name, value in row.items() if name not in ("date", "hour")} for row in found]


def in_order(rows_: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({**row, "run": None}) for row in rows_)


@pytest.mark.slow
def test_all_tables(tmp_path: Path) -> None:
    out = tmp_path / "out"
    told: list[tuple[str, int, int]] = []
    made = write_tables([str(SAMPLE)], str(out), OPTIONS, lambda *each: told.append(each))
    exchanges, reader = exchanges_of(SAMPLE)
    expected = {**gathered(exchanges, reader, USUAL), **whole(SAMPLE)}
    for name in USUAL:
        found = table(out, name)
        assert in_order(found) == in_order(rows(expected[name]))
        assert {row["run"] for row in found} == {0}
        assert made.rows[name] == len(found)
    assert made.clean
    assert (made.exchanges, made.packets, made.bytes) == (402, 1518, SAMPLE.stat().st_size)
    (manifest,) = read_manifests(str(out))
    assert manifest.summary == to_json(made)
    assert [each.path for each in manifest.inputs] == [str(SAMPLE)]
    assert told[-1] == ("writing", 402, 402)
    assert told[0][0] == "reading"
    assert not (out / "records").exists()


def test_connections_name_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    files = ["09_snaplen128.pcap", "30_k0822_scala_acks0_partial.pcap"]
    options = replace(OPTIONS, tables=("connections", "tcp_health"))
    write_tables(files, str(tmp_path / "out"), options)
    for name in options.tables:
        of_file = {row["connection"]: row["file"] for row in table(tmp_path / "out", name)}
        first = len(capture_of(DATA / files[0]).connections)
        assert of_file == {each: str(DATA / files[each >= first]) for each in of_file}
        assert set(of_file.values()) == {str(DATA / file) for file in files}


def test_records_on_request(tmp_path: Path) -> None:
    options = replace(OPTIONS, tables=("records",))
    made = write_tables([str(SAMPLE)], str(tmp_path / "out"), options)
    assert made.rows == {"records": 156}
    assert {row["value_text"] for row in table(tmp_path / "out", "records")} >= {'{"n":0}'}


@pytest.mark.parametrize("path", [SAMPLE, DATA / "35_k282_sasl_plain.pcap.zst"], ids=["sample", "sasl"])
def test_nothing_is_decoded_where_headers_do(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    write_tables([str(path)], str(full), replace(OPTIONS, tables=("exchanges",)))
    expected = [{name: row[name] for name in row if name in HEADER} for row in table(full, "exchanges")]
    monkeypatch.setattr(ExchangeReader, "exchange", None)
    monkeypatch.setattr(single, "_STEP", 50)
    options = replace(OPTIONS, tables=("exchanges", "tcp_health"), columns=HEADER)
    write_tables([str(path)], str(tmp_path / "out"), options)
    assert in_order(table(tmp_path / "out", "exchanges")) == in_order(expected)
    assert table(tmp_path / "out", "tcp_health")
    monkeypatch.setattr(ExchangeReader, "learn", None)
    write_tables([str(path)], str(tmp_path / "alone"), replace(options, tables=("exchanges",)))
    assert in_order(table(tmp_path / "alone", "exchanges")) == in_order(expected)


def test_a_filter_leaves_rows_out(tmp_path: Path) -> None:
    capture = reopened(SAMPLE)
    reader = ExchangeReader(capture)
    text = "api == JoinGroup or error"
    fitting = (compile_filter(text).select(reader) + 1).tolist()
    made = write_tables([str(SAMPLE)], str(tmp_path / "out"), replace(OPTIONS, filter=text))
    assert sorted(row["number"] for row in table(tmp_path / "out", "exchanges")) == fitting
    assert made.rows["exchanges"] == len(fitting) < 402
    assert {row["event"] for row in table(tmp_path / "out", "group_events")} >= {"join"}
    assert made.notes == (f"{len(fitting)} of 402 exchanges fit the filter",)
    # what concerns the capture as a whole stays
    assert made.rows["tcp_health"] == 2 * len(capture.connections)


@pytest.mark.slow
def test_appending_the_same_file_again_adds_nothing(tmp_path: Path) -> None:
    out, options = str(tmp_path / "out"), replace(OPTIONS, append=True)
    copies = tmp_path / "captures"
    copies.mkdir()
    shutil.copy(SAMPLE, copies / "1.pcap")
    os.utime(copies / "1.pcap", (1, 1))
    (copies / "README").write_text("no capture, and no mistake either")
    first = write_tables([str(copies)], out, options)
    again = write_tables([str(copies)], out, options)
    assert again.rows == dict.fromkeys(USUAL, 0)
    assert [(each.path, each.reason) for each in again.skipped] == [
        (str(copies / "1.pcap"), "a run before has read it")
    ]
    assert again.clean
    assert len(read_manifests(out)) == 1
    shutil.copy(DATA / "22_k430_java_commit_abort.pcap", copies / "2.pcap")
    os.utime(copies / "2.pcap", (1, 1))
    more = write_tables([str(copies)], out, options)
    assert [each.path for each in more.files] == [str(copies / "2.pcap")]
    found = table(tmp_path / "out", "exchanges")
    assert len(found) == first.rows["exchanges"] + more.rows["exchanges"]
    assert {row["run"] for row in found} == {0, 1}


@pytest.mark.slow
def test_what_comes_to_a_file_after_it_was_read_is_read_by_the_next_run(tmp_path: Path) -> None:
    out, options = str(tmp_path / "out"), replace(OPTIONS, append=True)
    growing, other = tmp_path / "growing.pcap", tmp_path / "other.pcap"
    data = SAMPLE.read_bytes()
    growing.write_bytes(data[: len(data) // 2])
    shutil.copy(DATA / "09_nanosecond.pcap.zst", other)
    paths = [str(growing), str(other)]
    half = write_tables(paths, out, options)
    growing.write_bytes(data)
    whole = write_tables(paths, out, options)
    assert half.rows["exchanges"] < whole.rows["exchanges"]
    assert whole.clean
    write_tables(paths, str(tmp_path / "at once"), OPTIONS)
    found, expected = (table(tmp_path / name, "exchanges") for name in ("out", "at once"))
    assert in_order(found) == in_order(expected)
    # without the other file of its run it cannot be read again
    with growing.open("ab") as file:
        file.write(bytes(16))
    again = write_tables(paths[:1], out, options)
    (told,) = again.unreadable
    assert told.reason.startswith("it has grown since a run before has read it, and other files of that run")
    assert len(read_manifests(out)) == 1


@pytest.mark.slow
def test_the_newest_file_of_a_folder_is_left_to_the_next_run_while_it_may_grow(tmp_path: Path) -> None:
    out, options, ring = str(tmp_path / "out"), replace(OPTIONS, append=True), tmp_path / "ring"
    ring.mkdir()
    for number, path in enumerate(("1.pcap", "2.pcap")):
        (ring / path).write_bytes(SAMPLE.read_bytes()[: -100 * (number + 1)])
    first, second = ring / "1.pcap", ring / "2.pcap"
    os.utime(first, (1, 1))
    made = write_tables([str(ring)], out, options)
    assert [each.path for each in made.files] == [str(first)]
    assert [(each.path, each.reason) for each in made.skipped] == [(str(second), GROWING)]
    os.utime(second, (2, 2))
    assert [each.path for each in write_tables([str(ring)], out, options).files] == [str(second)]
    # a file that is named is read as it is, and so is everything that is not added to
    assert write_tables([str(second)], str(tmp_path / "b"), options).files
    os.utime(second)
    assert len(write_tables([str(ring)], str(tmp_path / "c"), OPTIONS).files) == 2


@pytest.mark.slow
def test_one_broken_file_is_told_and_does_not_end_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(b"no capture at all, whatever its name says")
    paths = [str(broken), str(SAMPLE)]
    made = write_tables(paths, str(tmp_path / "out"), OPTIONS)
    assert made.rows["exchanges"] == 402
    assert [each.path for each in made.unreadable] == [str(broken)]
    assert not made.clean
    assert not made.nothing_read
    with pytest.raises(CaptureError, match=r"broken\.pcap"):
        write_tables(paths, str(tmp_path / "strict"), replace(OPTIONS, strict=True))
    assert not list((tmp_path / "strict").glob("*"))
    assert write_tables([str(broken)], str(tmp_path / "none"), OPTIONS).nothing_read


@pytest.mark.slow
def test_a_damaged_file(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcap"
    data = bytearray(SAMPLE.read_bytes())
    damaged.write_bytes(data[:-7])
    made = write_tables([str(damaged)], str(tmp_path / "out"), OPTIONS)
    (told,) = made.damage
    assert told.startswith(str(damaged))
    assert not made.clean
    with pytest.raises(CaptureError, match=r"damaged\.pcap at byte"):
        write_tables([str(damaged)], str(tmp_path / "strict"), replace(OPTIONS, strict=True))
    assert read_manifests(str(tmp_path / "strict")) == []


@pytest.mark.slow
def test_a_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"

    def stopped(stage: str, done: int, total: int) -> None:
        if stage == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tables([str(SAMPLE)], str(out), OPTIONS, stopped)
    assert not list(out.glob("**/*"))


@pytest.mark.slow
def test_mistakes(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for wrong, text in (
        ({"tables": ("topics",)}, "'topics' is no table"),
        ({"columns": ("key",)}, "'key' is not a column of exchanges"),
        ({"only": ("nothing",)}, "nothing"),
        ({"filter": "api =="}, "a value is missing after =="),
        ({"follow": True}, "followed with Spark only"),
    ):
        with pytest.raises(ValueError, match=text):
            write_tables([str(SAMPLE)], out, replace(OPTIONS, **wrong))
    write_tables([str(SAMPLE)], out, OPTIONS)
    with pytest.raises(FolderError, match="--append"):
        write_tables([str(SAMPLE)], out, OPTIONS)
    write_tables([str(SAMPLE)], out, replace(OPTIONS, overwrite=True, tables=("connections",)))
    assert not (tmp_path / "out/exchanges").exists()


def test_a_capture_that_was_read_already(tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path / "out"))
    wanted = TableRequest(tables=("findings", "rebalances"))
    written = write_parts(reopened(SAMPLE), folder, wanted)
    made = folder.commit(written.parts, tables=wanted.tables, summary={"why": "test"})
    assert made.summary == {"why": "test"}
    assert {name: told["rows"] for name, told in made.tables.items()} == {
        "findings": len(rows(whole(SAMPLE)["findings"])),
        "rebalances": len(rows(whole(SAMPLE)["rebalances"])),
    }


@pytest.mark.slow
def test_a_fault_names_the_file_and_the_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(_: Any, exchange: Any) -> Any:
        if exchange.number in (3, 410):
            raise TypeError("planted")

    monkeypatch.setattr(PartitionRows, "of", planted)
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    shutil.copy(SAMPLE, first)
    shutil.copy(DATA / "22_k430_java_commit_abort.pcap", second)
    made = write_tables([str(first), str(second)], str(tmp_path / "out"), OPTIONS)
    assert [each.partition(": ")[0] for each in made.faults.sentences[:2]] == [
        f"exchange 3 of {first if made.files[0].path == str(first) else second}",
        f"exchange 410 of {second if made.files[0].path == str(first) else first}",
    ]
    assert made.rows["exchanges"] == made.exchanges


def test_headers_do_where_nothing_has_to_be_decoded() -> None:
    columns = ("number", "time_ns", "api")
    request = TableRequest(columns={"exchanges": columns})
    assert request.header_columns(("exchanges",)) == columns
    assert TableRequest().header_columns(("exchanges",)) is None
    assert request.header_columns(("connections",)) is None
    assert request.header_columns(("exchanges", "topic_partitions")) is None
    assert replace(request, columns={"exchanges": ("errors",)}).header_columns(("exchanges",)) is None
    assert replace(request, filter=compile_filter("api == Fetch")).header_columns(("exchanges",)) is None
