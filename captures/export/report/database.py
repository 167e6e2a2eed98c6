"""A folder of tables as a database: DuckDB reads the Parquet files through a view per table, or copies small files.

DuckDB is imported when a folder is opened. Statements aggregate: their results are bounded, however large the tables
are.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from captures.tables.schema import TABLES

if TYPE_CHECKING:
    from types import TracebackType

    from duckdb import DuckDBPyConnection

_SMALL = 64 << 10
"""Size in bytes below which much of a Parquet file is its footer."""
Row = dict[str, Any]
"""Values by column name of the statement."""


class ReportError(Exception):
    """No report can be made from a folder; the message says why."""


class DuckdbMissing(ImportError):  # noqa: N818  # says what is wrong
    """DuckDB is not installed."""

    def __init__(self) -> None:
        super().__init__("a report needs DuckDB: pip install 'kproxy[report]'")


class Statement(msgspec.Struct, frozen=True):
    """A statement that runs in DuckDB and in Spark SQL."""

    sql: str

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that it reads, by table: those whose names occur in it."""
        words = set(re.findall(r"\w+", re.sub("'[^']*'", "", self.sql)))
        tables = [name for name in re.findall(r"(?:FROM|JOIN) (\w+)", self.sql) if name in TABLES]
        return {
            name: tuple(each.name for each in TABLES[name].columns if each.name in words) for name in tables
        }


class Tables:
    """The tables in a folder, open for reading.

    :param folder: as ``kproxy tables`` writes it: ``FOLDER/TABLE/**/*.parquet``
    :raises DuckdbMissing: if DuckDB is not installed
    :raises ReportError: if the folder has no tables, or one cannot be read
    """

    def __init__(self, folder: Path) -> None:
        try:
            import duckdb
        except ImportError:
            raise DuckdbMissing from None
        self.folder = folder
        self._error = duckdb.Error
        self._closing = ExitStack()
        self._columns: dict[str, tuple[str, ...]] = {}
        self._files = {
            name: files for name in TABLES if (files := sorted((folder / name).rglob("*.parquet")))
        }
        if not self._files:
            raise ReportError(
                f"there are no tables in {folder}; 'kproxy tables CAPTURE... -o {folder}' writes them"
            )
        with ExitStack() as opened:
            scratch = opened.enter_context(tempfile.TemporaryDirectory(prefix="kproxy-report-"))
            # DuckDB must not use the network, and spills to a folder that is removed
            settings: dict[str, str | bool | int | float | list[str]] = {}
            settings |= {"autoinstall_known_extensions": "false", "temp_directory": scratch}
            settings |= {"preserve_insertion_order": "false"}  # it would keep a row group for each small file
            self._database: DuckDBPyConnection = opened.enter_context(
                duckdb.connect(":memory:", config=settings)
            )
            for name in self._files:
                self._columns[name] = self._view(name)
            self._closing = opened.pop_all()

    def __enter__(self) -> Tables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tables in the folder."""
        return tuple(self._columns)

    def missing(self, *statements: Statement) -> list[str]:
        """Return the missing tables and columns: ``rebalances`` for a table, ``exchanges.errors`` for a column."""
        found: dict[str, None] = {}
        for table, columns in (needed for each in statements for needed in each.needs.items()):
            there = self._columns.get(table)
            lacking = [f"{table}.{name}" for name in columns if there is not None and name not in there]
            found |= dict.fromkeys([table] if there is None else lacking)
        return list(found)

    def rows(self, statement: Statement) -> list[Row]:
        """Run a statement; return its rows.

        :raises ReportError: if the tables cannot be read
        """
        try:
            done = self._database.execute(statement.sql)
            names = [column[0] for column in done.description or ()]
            return [dict(zip(names, row, strict=True)) for row in done.fetchall()]
        except self._error as error:
            raise ReportError(self._problem("the tables", error)) from None

    def reading(self, name: str) -> str:
        """Return the SELECT with which DuckDB reads a table; the date and hour in the paths become columns."""
        pattern = f"{escape(str(self.folder.resolve() / name))}/**/*.parquet".replace("'", "''")
        # twice as slow with many files, and needed only if runs wrote different columns
        differing = ", union_by_name = true" if _differ(self._files[name]) else ""
        return f"SELECT * FROM read_parquet('{pattern}', hive_partitioning = true{differing})"  # noqa: S608

    def _view(self, name: str) -> tuple[str, ...]:
        try:
            kind = "TABLE" if _small(self._files[name]) else "VIEW"
            self._database.execute(f"CREATE {kind} {name} AS {self.reading(name)}")
            done = self._database.execute(f"SELECT * FROM {name} LIMIT 0")  # noqa: S608  # the name is ours
            return tuple(column[0] for column in done.description or ())
        except self._error as error:
            raise ReportError(self._problem(f"the table {name}", error)) from None

    def _problem(self, what: str, error: Exception) -> str:
        return f"{what} in {self.folder} cannot be read: {str(error).partition(chr(10))[0]}"


def _small(files: Sequence[Path]) -> bool:
    """Return whether the files of a table are so small that opening them is most of the cost of a statement.

    Such files are read once: a report of 10,000 files of two rows takes 45 s of processor time instead of 80 s.
    """
    return sum(path.stat().st_size for path in files) < _SMALL * len(files)


def _differ(files: Iterable[Path]) -> bool:
    """Return whether the files of a table have different columns; files of the same run have the same."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    of_runs = {"-".join(path.name.split("-")[:2]): path for path in files}
    try:
        return len({tuple(pq.read_schema(path)) for path in of_runs.values()}) > 1
    except (pa.ArrowInvalid, OSError):
        return False  # DuckDB reports which file is broken
