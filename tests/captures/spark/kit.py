"""Shared code for tests on Spark: captures split into files, and comparison of tables with those of one process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from captures.json_objects import to_json
from captures.spark.pipeline import write_tables
from captures.tables import single
from captures.tables.options import TablesOptions, TablesSummary
from captures.tables.schema import TABLES
from tests.captures.packets.kit import rotated

ALL = TablesOptions(tables=tuple(TABLES))


def cut(path: Path, count: int, folder: Path) -> list[Path]:
    """Split a pcap file into this many files, like a ring of tcpdump: after whole packets, each with the header."""
    data = path.read_bytes()
    packets = len(rotated(data, 1))
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number, part in enumerate(rotated(data, -(-packets // count))):
        made.append(folder / f"{path.stem}-{number:03d}.pcap")
        made[-1].write_bytes(part)
    return made


def rows_of(out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables of a folder, without what their folders tell, in an order of their own."""
    found = {}
    for name in sorted(each.name for each in out.iterdir() if each.name in TABLES):
        table = ds.dataset(out / name, partitioning="hive").to_table()
        rows = table.drop_columns(
            [each for each in ("date", "hour") if each in table.column_names]
        ).to_pylist()
        found[name] = sorted(rows, key=repr)
    return found


def by_one_process(paths: Sequence[Path], out: Path, options: TablesOptions = ALL) -> TablesSummary:
    """Write tables without Spark."""
    return single.write_tables([str(path) for path in paths], str(out), options)


def on_spark(paths: Sequence[Path], out: Path, options: TablesOptions = ALL) -> TablesSummary:
    """Write tables with the session that runs."""
    return write_tables([str(path) for path in paths], str(out), options)


def same_tables(found: Path, expected: Path) -> None:
    """Fail with the first rows in which two folders differ.

    :raises AssertionError: if they do
    """
    ones, others = rows_of(found), rows_of(expected)
    assert sorted(ones) == sorted(others)
    for name, rows in others.items():
        for one, other in zip(ones[name], rows, strict=False):
            assert one == other, name
        assert len(ones[name]) == len(rows), name


def same_summary(found: TablesSummary, expected: TablesSummary) -> None:
    """Check that two runs have the same summary, apart from how they worked.

    :raises AssertionError: if they differ
    """
    ones, others = (_plain(each) for each in (found, expected))
    assert ones == others


def _plain(made: TablesSummary) -> dict[str, Any]:
    files = tuple(replace(each, tasks=1, why="") for each in made.files)
    told = to_json(replace(made, out="", engine="", seconds=0.0, files=files))
    told["damage"] = sorted(told["damage"])
    return told


def leftovers(out: Path) -> list[str]:
    """Return the names of what is in a folder of tables besides tables, manifests and the lock of a run."""
    return [each.name for each in out.iterdir() if each.name not in (*TABLES, "_kproxy", ".lock")]


def copied(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Copy files into a folder, as old ones, to which nothing is written any more."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [Path(shutil.copy(path, folder)) for path in paths]
    for path in made:
        os.utime(path, (1, 1))
    return made
