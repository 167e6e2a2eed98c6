"""Shared code for tests of tables: captures, and their tables as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.tables.exchange_rows import ExchangeTables
from captures.tables.schema import PER_EXCHANGE
from tests.captures.export.files import DATA, SAMPLE, opened

GROUPS = Path(__file__).parents[2] / "data" / "groups"

#: small, and as different as can be: every API, old message formats, transactions, share groups, SASL, losses
VARIED = [
    SAMPLE,
    *(
        DATA / name
        for name in (
            "09_snaplen128.pcap",
            "21_k430_kip848_java.pcap.zst",
            "21_k430_share_group.pcap.zst",
            "22_k430_java_commit_abort.pcap",
            "24_k430_franz_scramsha256.pcap",
            "26_k430_add_controller_controller.pcap.zst",
            "30_k0822_scala_acks0_partial.pcap",
            "32_k0102_java_snappy.pcap",
            "35_k282_sasl_plain.pcap.zst",
            "36_k251_sweep.pcap.zst",
        )
    ),
]


@cache
def capture_of(path: Path) -> Capture:
    return opened(path)


@cache
def exchanges_of(path: Path) -> tuple[list[Exchange], ExchangeReader]:
    """The exchanges of a capture as tables take them; whoever makes them ready to be shown reads them anew."""
    reader = ExchangeReader(capture_of(path), annotate=False)
    reader.learn(len(reader))
    return list(reader), reader


def rows_of(
    path: Path, table: str, columns: Mapping[str, Sequence[str]] | None = None
) -> list[dict[str, Any]]:
    """The rows of a table of exchanges."""
    exchanges, reader = exchanges_of(path)
    return rows(gathered(exchanges, reader, [table], columns).get(table))


def gathered(
    exchanges: Iterable[Exchange],
    reader: ExchangeReader,
    chosen: Iterable[str] = PER_EXCHANGE,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, pa.RecordBatch]:
    tables = ExchangeTables(chosen, names=reader.knowledge.topic_name, run=3, columns=columns)
    for exchange in exchanges:
        tables.add(exchange)
    return tables.take()


def rows(batch: pa.RecordBatch | None) -> list[dict[str, Any]]:
    """Rows as plain values, and whether they fit their schema."""
    if batch is None:
        return []
    batch.validate(full=True)
    for column in batch.schema:
        assert column.nullable or not batch.column(column.name).null_count, column.name
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def reopened(path: Path) -> Capture:
    """A capture that nobody else has."""
    capture = open_capture(str(path))
    capture.read()
    return capture
