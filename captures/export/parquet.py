"""Exchanges as Parquet: typed columns, bodies as JSON text. pyarrow is imported only when a file is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from captures.exchanges import Exchange
from captures.exchanges.exchange_block import ExchangeBlock
from captures.export.arrow import record_batch
from captures.export.columns import COLUMNS, Column
from captures.faults import RAISED, Faults

if TYPE_CHECKING:
    import pyarrow as pa

WRITING = "writing it as Parquet"
"""The activity named in error reports."""
_ROW_GROUP_BYTES = 64 << 20
_ROWS_PER_STEP = 4096
_STEP_BYTES = 64 << 20


class ParquetMissing(ImportError):  # noqa: N818  # named for what is wrong
    """pyarrow is not installed."""

    def __init__(self) -> None:
        super().__init__("Parquet needs pyarrow: pip install 'kproxy[parquet]'")


def schema(columns: Iterable[Column] = COLUMNS) -> pa.Schema:
    """Return the Arrow schema; times are timestamps in ns, UTC.

    :raises ParquetMissing: if pyarrow is not installed
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


def write_parquet(
    exchanges: Iterable[Exchange | ExchangeBlock],
    file: BinaryIO,
    columns: Iterable[Column] = COLUMNS,
    faults: Faults = RAISED,
) -> int:
    """Write exchanges, in row groups of some 64 MB; return how many.

    :param faults: collects exchanges that could not be written because of a bug; without it, the error is raised
    :raises ParquetMissing: if pyarrow is not installed
    """
    chosen = tuple(columns)
    return write_batches(parquet_batches(exchanges, chosen, faults), file, chosen)


def parquet_batches(
    exchanges: Iterable[Exchange | ExchangeBlock], columns: tuple[Column, ...], faults: Faults = RAISED
) -> Iterator[pa.RecordBatch]:
    """Yield exchanges as record batches, for :func:`write_batches`.

    :param faults: as for :func:`write_parquet`
    :raises ParquetMissing: if pyarrow is not installed
    """
    made = schema(columns)
    for numbers, values in _steps(exchanges, columns, faults):
        yield record_batch(made, values, numbers, faults, WRITING)


def write_batches(batches: Iterable[pa.RecordBatch], file: BinaryIO, columns: tuple[Column, ...]) -> int:
    """Write record batches, in row groups of some 64 MB; return the number of rows.

    :raises ParquetMissing: if pyarrow is not installed
    """
    made = schema(columns)
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = waiting = 0
    together: list[pa.RecordBatch] = []
    # the smallest and largest body are useless, and computing them copies each body several times
    plain = [column.name for column in columns if column.kind != "json"]
    with pq.ParquetWriter(file, made, compression="zstd", write_statistics=plain or False) as writer:
        for batch in batches:
            together.append(batch)
            waiting += batch.nbytes
            count += batch.num_rows
            if waiting >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(together, made))
                together, waiting = [], 0
                pa.default_memory_pool().release_unused()  # one body may be as large as a row group
        if together:
            writer.write_table(pa.Table.from_batches(together, made))
    return count


def _steps(
    exchanges: Iterable[Exchange | ExchangeBlock], columns: tuple[Column, ...], faults: Faults
) -> Iterator[tuple[list[int], Iterable[Sequence[Any]]]]:
    """Yield the columns of some exchanges at a time, with their numbers."""
    numbers: list[int] = []
    rows: list[list[Any]] = []
    size = 0
    for each in exchanges:
        if isinstance(each, ExchangeBlock):
            try:
                values = [column.values(each) for column in columns]
            except Exception:  # one by one, so that only the value that fails is left out
                yield from _steps(each.exchanges(), columns, faults)
            else:
                yield each.number, values
            continue
        numbers.append(each.number)
        rows.append(_row(each, columns, faults))
        del each  # one of them may have a million records, and would be kept while the next one is decoded
        size += sum(len(value) for value in rows[-1] if isinstance(value, str))
        if len(rows) >= _ROWS_PER_STEP or size >= _STEP_BYTES:
            yield numbers, zip(*rows, strict=True)
            numbers, rows, size = [], [], 0
    if rows:
        yield numbers, zip(*rows, strict=True)


def _row(exchange: Exchange, columns: tuple[Column, ...], faults: Faults) -> list[Any]:
    """Return the values of an exchange; None for those that fail."""
    try:
        return [column.value(exchange) for column in columns]
    except Exception:
        made, number = faults.contained, exchange.number
        return [made(partial(column.value, exchange), WRITING, None, number) for column in columns]
