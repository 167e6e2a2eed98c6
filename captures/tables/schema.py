"""The tables of a capture: every table and column with its type, unit and meaning.

Columns have the names and values of the corresponding keys of ``read --json``, ``groups --json``, ``diagnose --json``,
``api-versions --json`` and ``stats --json``. The rules for all tables:

- The order of columns is stable, new ones are added at the end, and :data:`VERSION` counts incompatible changes.
- ``run`` comes first: the run into the folder that wrote the row. Exchanges are numbered anew in each run, so tables
  are joined by ``run`` and ``number``, or ``run`` and ``connection``.
- Every table has ``time``, the start of what the row describes. Rows are partitioned into folders by its date and hour
  (UTC), which are in the paths and not in the files.
- A point in time ``X`` is a timestamp in microseconds (UTC), as Spark has it, with ``X_ns`` beside it, in nanoseconds
  since the epoch. Durations end in the name of their unit, unless Kafka's own field name does not.
- No unsigned integers and no dictionaries, which Spark does not have.

Types are written in Spark's syntax (``array<struct<topic:string,partition:int>>``), which DuckDB reads in a similar
form; :func:`schema` converts them to Arrow types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from captures.export.parquet import ParquetMissing
from captures.tables.columns import Column, Needs, Table
from captures.tables.exchange_tables import EXCHANGES, RECORD_BATCHES, RECORDS, TOPIC_PARTITIONS
from captures.tables.whole_tables import (
    CLIENT_VERSIONS,
    CONNECTIONS,
    FINDINGS,
    GROUP_EVENTS,
    INCIDENTS,
    REBALANCES,
    TCP_HEALTH,
)

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
"""Version of the schema: increased when a column is removed or changes its type or meaning, not when one is added."""

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        EXCHANGES,
        TOPIC_PARTITIONS,
        RECORD_BATCHES,
        RECORDS,
        GROUP_EVENTS,
        REBALANCES,
        INCIDENTS,
        CLIENT_VERSIONS,
        CONNECTIONS,
        FINDINGS,
        TCP_HEALTH,
    )
}
"""All tables by name, in the order in which they are listed."""

USUAL = tuple(name for name, table in TABLES.items() if not table.on_request)
"""The default tables: all but the records."""

PER_EXCHANGE = tuple(name for name, table in TABLES.items() if table.per_exchange)
"""Tables whose rows come from single exchanges."""

OF_THE_WHOLE = tuple(name for name, table in TABLES.items() if not table.per_exchange)
"""Tables whose rows need all of a capture."""


def choose_tables(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return tables by name, in the order of :data:`TABLES`; the default ones if `names` is None.

    :raises ValueError: for an unknown name, or an empty choice
    """
    if names is None:
        return USUAL
    wanted = list(names)
    unknown = [name for name in wanted if name not in TABLES]
    if unknown or not wanted:
        problem = f"{unknown[0]!r} is no table" if unknown else "no table was chosen"
        raise ValueError(f"{problem}; there are {', '.join(TABLES)}")
    return tuple(name for name in TABLES if name in wanted)


def needs_of(columns: Sequence[Column]) -> Needs:
    """Return the parts of exchanges to read for `columns`: the maximum of their needs."""
    order = list(Needs)
    return max((column.needs for column in columns), key=order.index, default=Needs.HEADER)


# ---------------------------------------------------------------- as others write it
def ddl(table: str, columns: Iterable[str] | None = None) -> str:
    """Return the columns of a table as Spark SQL declares them: ``run INT NOT NULL, ...``.

    :param columns: names of columns; the default columns if None
    :raises ValueError: for a column that the table does not have
    """
    return ", ".join(
        f"`{column.name}` {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in TABLES[table].choose(columns)
    )


def schema(table: str, columns: Iterable[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of a table.

    :param columns: names of columns; the default columns if None
    :raises ValueError: for a column that the table does not have
    :raises ParquetMissing: if pyarrow is not installed
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise ParquetMissing from None
    return pa.schema(
        [
            pa.field(column.name, arrow_type(column.type), nullable=column.nullable)
            for column in TABLES[table].choose(columns)
        ]
    )


def doing(table: str) -> str:
    """Return the name of the activity of making a table's rows, for reports of internal errors."""
    return f"the table {table}"


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type for a type in Spark's syntax.

    :raises ValueError: if it is malformed
    """
    tokens = iter(re.findall(r"[<>:,]|[^<>:,]+", text))
    made = _type(tokens)
    if next(tokens, None) is not None:
        raise ValueError(f"{text!r} goes on behind its end")
    return made


def _type(tokens: Iterator[str]) -> pa.DataType:
    import pyarrow as pa

    simple = {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    word = next(tokens)
    if word in simple:
        return simple[word]
    if word not in ("array", "map", "struct"):
        raise ValueError(f"{word!r} is no type")
    next(tokens)  # the opening bracket
    if word == "struct":
        fields = []
        while True:
            name, _ = next(tokens), next(tokens)
            fields.append((name, _type(tokens)))
            if next(tokens) == ">":
                return pa.struct(fields)
    first = _type(tokens)
    separator = next(tokens)
    if word == "array":
        return pa.list_(first)
    if separator != ",":
        raise ValueError("a map has two types")
    second = _type(tokens)
    next(tokens)  # the closing bracket
    return pa.map_(first, second)


def reference() -> str:
    """Return all tables as Markdown."""
    return "\n\n".join(_section(table) for table in TABLES.values())


def _section(table: Table) -> str:
    lines = [f"## `{table.name}`", "", table.about]
    if table.on_request:
        lines += ["", f"Written only if it is asked for: `--table {table.name}`."]
    exchanges = table.name == "exchanges"
    lines += ["", "| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in table.columns:
        notes = [column.meaning]
        if column.on_request:
            notes.append("only if it is asked for")
        elif exchanges and column.needs is not Needs.HEADER:
            notes.append("needs bodies")
        type_ = f"`{column.type}`{' or null' if column.nullable else ''}"
        lines.append(f"| `{column.name}` | {type_} | {column.unit} | {'; '.join(notes)} |")
    return "\n".join(lines)
