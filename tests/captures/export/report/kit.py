"""Synthetic folders of tables: rows have the values a test needs, other columns have defaults."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from captures.tables.schema import TABLES, schema

SECOND = 1_000_000_000
BEGIN = 1_790_000_000 * SECOND
"""2026-09-21T13:33:20Z."""

Row = dict[str, Any]


def at(seconds: float) -> int:
    """Return a time in the tables, in ns since the epoch."""
    return BEGIN + round(seconds * SECOND)


def exchange(number: int, seconds: float, api: str = "Produce", **more: Any) -> Row:
    """Return a row of an exchange that took a millisecond and had no error."""
    row = {
        "number": number,
        "time_ns": at(seconds),
        "latency_ns": 1_000_000,
        "connection": 1,
        "client": "10.0.0.9:40000",
        "broker": "10.0.0.1:9092",
        "client_id": "app",
        "api": api,
        "request_size": 100,
        "response_size": 50,
        "answered": True,
    }
    return row | more


def failed(number: int, seconds: float, *errors: str, api: str = "Produce", **more: Any) -> Row:
    """Return a row of an exchange with errors."""
    about = {"errors": list(errors), "error_count": len(errors), "flags": ["error"]}
    return exchange(number, seconds, api, **about, **more)


def write(folder: Path, **tables: list[Row]) -> Path:
    """Write tables as ``kproxy tables`` does, split by date and hour of their rows; return the folder."""
    for name, rows in tables.items():
        parts: dict[str, list[Row]] = {}
        for row in rows:
            moment = datetime.fromtimestamp(row["time_ns"] // SECOND, UTC)
            parts.setdefault(f"date={moment:%Y-%m-%d}/hour={moment.hour}", []).append(row)
        for path, part in (parts or {"date=2026-09-21/hour=13": []}).items():
            place = folder / name / path
            place.mkdir(parents=True, exist_ok=True)
            pq.write_table(_table(name, part), place / "part-0-0.parquet")
    return folder


def _table(name: str, rows: list[Row]) -> pa.Table:
    made = schema(name)
    known = {field.name for field in made}
    unknown = {key for row in rows for key in row} - known
    assert not unknown, unknown
    nullable = {column.name: column.nullable for column in TABLES[name].columns}
    whole = [{"last_ns": row["time_ns"], **row} for row in rows]
    return pa.Table.from_pylist(
        [{field.name: _value(row, field, nullable) for field in made} for row in whole], made
    )


def _value(row: Row, field: pa.Field, nullable: dict[str, bool]) -> Any:
    if field.name in row:
        return row[field.name]
    if pa.types.is_timestamp(field.type):
        moment = row.get(f"{field.name}_ns")
        return None if moment is None else moment // 1000
    if nullable[field.name]:
        return None
    if pa.types.is_list(field.type) or pa.types.is_map(field.type):
        return []
    if pa.types.is_boolean(field.type):
        return False
    return 0 if pa.types.is_integer(field.type) else ""
