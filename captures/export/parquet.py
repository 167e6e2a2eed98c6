"""Exchanges as Parquet: typed columns, bodies as JSON text. pyarrow is imported when a file is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from captures.exchanges import Exchange
from captures.export.columns import COLUMNS, Column

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_GROUP_BYTES = 64 << 20
_ROWS_PER_STEP = 4096
_STEP_BYTES = 64 << 20


class ParquetMissing(ImportError):  # noqa: N818  # says what is wrong
    """pyarrow is not installed."""

    def __init__(self) -> None:
        super().__init__("Parquet needs pyarrow: pip install 'kproxy[parquet]'")


def schema(columns: Iterable[Column] = COLUMNS) -> pa.Schema:
    """Return the Arrow schema; times are timestamps in ns, UTC.

    :raises ParquetMissing: if there is no pyarrow
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise ParquetMissing from None
    types = {
        "bool": pa.bool_(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "time": pa.timestamp("ns", "UTC"),
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "json": pa.string(),
    }
    return pa.schema([pa.field(column.name, types[column.kind]) for column in columns])


def write_parquet(exchanges: Iterable[Exchange], file: BinaryIO, columns: Iterable[Column] = COLUMNS) -> int:
    """Write exchanges, in row groups of some 64 MB; return how many.

    :raises ParquetMissing: if there is no pyarrow
    """
    chosen = tuple(columns)
    made = schema(chosen)
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = waiting = 0
    batches: list[pa.RecordBatch] = []
    # smallest and largest body tell nothing, and each is copied several times for it
    told = [column.name for column in chosen if column.kind != "json"]
    with pq.ParquetWriter(file, made, compression="zstd", write_statistics=told or False) as writer:
        for rows in _steps(exchanges, chosen):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, made, strict=True)]
            batches.append(pa.record_batch(arrays, schema=made))
            waiting += batches[-1].nbytes
            count += len(rows)
            if waiting >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(batches, made))
                batches, waiting = [], 0
        if batches:
            writer.write_table(pa.Table.from_batches(batches, made))
    return count


def _steps(exchanges: Iterable[Exchange], columns: tuple[Column, ...]) -> Iterator[list[list[Any]]]:
    """Yield some rows at a time. Exchanges are not kept: one of them may have a million records."""
    rows: list[list[Any]] = []
    size = 0
    for exchange in exchanges:
        row = [column.value(exchange) for column in columns]
        size += sum(len(value) for value in row if isinstance(value, str))
        rows.append(row)
        if len(rows) >= _ROWS_PER_STEP or size >= _STEP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows
