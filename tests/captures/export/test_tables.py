"""JSON lines, CSV and Parquet: read back, they equal the exchanges."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from datetime import UTC
from pathlib import Path
from weakref import ref

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captures.exchanges import Exchange, ExchangeReader, projected_reader, shapes
from captures.exchanges.summarised_exchanges import SummarisedExchanges
from captures.export import csv_export, parquet
from captures.export.columns import COLUMNS, PLAIN, choose
from captures.export.csv_export import csv_pieces, write_csv
from captures.export.jsonlines import write_json_lines
from captures.export.parquet import ParquetMissing, parquet_batches, write_parquet
from captures.json_objects import to_json
from kproxy.text.lines import Lines
from tests.captures.export.files import ROOT, SAMPLE, opened
from tests.captures.recorded import CAPTURES, FOLDER


@pytest.fixture(scope="module")
def exchanges() -> list[Exchange]:
    return list(ExchangeReader(opened(SAMPLE)))


def plain(value: object) -> object:
    return json.loads(msgspec.json.encode(value))


def test_json_lines(exchanges: list[Exchange]) -> None:
    file = io.BytesIO()
    assert write_json_lines(exchanges, file) == len(exchanges) == 402
    assert [json.loads(line) for line in file.getvalue().splitlines()] == plain(
        [to_json(exchange) for exchange in exchanges]
    )


def test_json_lines_with_bytes_as_text(exchanges: list[Exchange]) -> None:
    file = io.BytesIO()
    write_json_lines(exchanges[10:11], file, text=True)
    (produce,) = map(json.loads, file.getvalue().splitlines())
    (batch,) = produce["request"]["topic_data"][0]["partition_data"][0]["records"]
    assert batch["records"][0]["value"] == '{"n":0}'


class Watched(Exchange):
    """An exchange whose lifetime can be observed."""

    __slots__ = ("__weakref__",)


@pytest.mark.parametrize("write", [write_json_lines, write_parquet])
def test_no_exchange_is_kept_while_the_next_is_decoded(
    exchanges: list[Exchange], write: Callable[[Iterator[Exchange], io.BytesIO], int]
) -> None:
    kept = []

    def one_by_one() -> Iterator[Exchange]:
        before: Callable[[], Exchange | None] = lambda: None  # noqa: E731
        for exchange in exchanges[:5]:
            kept.append(before())
            made = Watched(*(getattr(exchange, field.name) for field in fields(exchange) if field.init))
            before = ref(made)
            yield made
            del made

    assert write(one_by_one(), io.BytesIO()) == 5
    assert kept == [None] * 5


def test_long_cells_of_csv_are_written_in_pieces(
    exchanges: list[Exchange], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, pieces = io.StringIO(newline=""), io.StringIO(newline="")
    columns = choose([column.name for column in COLUMNS], COLUMNS)
    write_csv(exchanges, whole, columns)
    monkeypatch.setattr(csv_export, "_LONG", 7)
    write_csv(exchanges, pieces, columns)
    assert list(csv.reader(io.StringIO(pieces.getvalue(), newline=""))) == list(
        csv.reader(io.StringIO(whole.getvalue(), newline=""))
    )
    assert pieces.getvalue() != whole.getvalue()  # cells that need no quotes have them nevertheless


def test_csv(exchanges: list[Exchange]) -> None:
    file = io.StringIO(newline="")
    assert write_csv(exchanges, file) == 402
    file.seek(0)
    rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(PLAIN)
    for row, exchange in zip(rows, exchanges, strict=True):
        shape = to_json(exchange)
        for name in (
            "number",
            "time",
            "client",
            "broker",
            "api",
            "version",
            "request_size",
            "correlation_id",
        ):
            assert row[name] == str(shape[name])
        assert row["latency_ns"] == ("" if exchange.latency is None else str(exchange.latency))
        assert row["flags"].split() == shape["flags"]
        assert row["request_summary"] == exchange.summary[0]
    assert rows[17]["errors"] == "MEMBER_ID_REQUIRED"


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        ("app-1", "app-1"),
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'�=1"),
        (" =1", "' =1"),
        ('"=1', "'\"=1"),
        ("\r", "'�"),
        ("a=1", "a=1"),
        ("\x1b[2J\0", "�[2J�"),
        ("a\nb", "a b"),
    ],
)
def test_texts_in_csv_are_no_formulas(exchanges: list[Exchange], said: str, cell: str) -> None:
    file = io.StringIO(newline="")
    write_csv(
        [replace(exchanges[0], client_id=said, latency=-5)],
        file,
        choose(["client_id", "latency_ns"], COLUMNS),
    )
    file.seek(0)
    assert next(csv.DictReader(file)) == {"client_id": cell, "latency_ns": "-5"}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CAPTURES)
def test_blocks_are_written_like_their_exchanges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # small captures have few similar messages: one is enough
    monkeypatch.setattr(projected_reader, "_WORTH_SHARING", 1)
    monkeypatch.setattr(shapes, "_WORTH_A_SHAPE", 1)
    capture = opened(FOLDER / name)
    for row in range(0, len(capture.table), 7):
        capture.notes.comment(row, f"row {row}, =1")
    reader = ExchangeReader(capture, annotate=False)
    every = range(len(reader))
    blocks = list(SummarisedExchanges(reader, waits=True).blocks(every))
    one_by_one = list(SummarisedExchanges(ExchangeReader(capture, annotate=False), waits=True).several(every))
    columns = choose(PLAIN, COLUMNS)
    texts = ["".join(text for text, _ in csv_pieces(each, columns)) for each in (blocks, one_by_one)]
    assert texts[0] == texts[1]
    assert len(list(csv.reader(io.StringIO(texts[0], newline="")))) == len(every)
    tables = [
        pa.Table.from_batches(parquet_batches(each, columns), parquet.schema(columns))
        for each in (blocks, one_by_one)
    ]
    assert tables[0].equals(tables[1])
    lines, other = Lines(None, UTC), Lines(None, UTC)
    assert [line for block in blocks for line in lines.block(block)] == list(map(other.line, one_by_one))


def test_parquet(exchanges: list[Exchange], tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with path.open("wb") as file:
        assert write_parquet(exchanges, file) == 402
    table = pq.read_table(path)
    assert table.schema.names == [column.name for column in COLUMNS]
    assert table.schema.field("time").type == pa.timestamp("ns", "UTC")
    assert table["time"].cast(pa.int64()).to_pylist() == [exchange.time for exchange in exchanges]
    assert table["latency_ns"].to_pylist() == [exchange.latency for exchange in exchanges]
    assert table["api"].to_pylist() == [exchange.api for exchange in exchanges]
    assert table["flags"].to_pylist() == [exchange.flags for exchange in exchanges]
    for name in ("request", "response", "decoded"):
        found = [None if text is None else json.loads(text) for text in table[name].to_pylist()]
        assert found == plain([to_json(exchange)[name] for exchange in exchanges])


def test_parquet_writes_row_groups(exchanges: list[Exchange], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(parquet, "_ROWS_PER_STEP", 100)
    file = io.BytesIO()
    write_parquet(exchanges, file, choose(["number", "api"], COLUMNS))
    read = pq.ParquetFile(io.BytesIO(file.getvalue()))
    assert read.num_row_groups == 5
    assert read.read()["number"].to_pylist() == list(range(1, 403))


def test_nothing_to_write_still_has_its_columns() -> None:
    file = io.BytesIO()
    assert write_parquet([], file) == 0
    assert pq.read_table(io.BytesIO(file.getvalue())).schema.names == [column.name for column in COLUMNS]


def test_parquet_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ParquetMissing, match=r"pip install 'kproxy\[parquet\]'"):
        write_parquet([], io.BytesIO())


def test_columns_are_named_as_in_the_json() -> None:
    documented = (ROOT / "docs" / "json.md").read_text()
    own = {"errors", "request_summary", "response_summary"}
    assert all(f"`{column.name}`" in documented for column in COLUMNS if column.name not in own)


def test_a_column_that_is_none() -> None:
    assert [column.name for column in choose(["api", "number"], COLUMNS)] == ["api", "number"]
    with pytest.raises(ValueError, match="'apis' is not a column of exchanges; there are number, time,"):
        choose(["apis"], COLUMNS)
