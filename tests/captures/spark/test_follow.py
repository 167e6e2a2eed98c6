"""``--follow``: batch by batch, the tables become those of one reading, across restarts and removed files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from captures.packets import CaptureError
from captures.spark.follow import Follower
from captures.spark.pipeline import follow_tables
from captures.tables.folder import open_folder, read_manifests
from captures.tables.options import TablesOptions
from captures.tables.single import TableRequest
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.spark.kit import by_one_process, cut, leftovers, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = TablesOptions(range_bytes=40_000)
TLS = DATA / "24_k430_tls13_franz.pcap"
KEYLOG = DATA / "24_k430_tls13_franz.keylog"


class FollowedFolder:
    """A folder into which files are put, and its tables."""

    def __init__(
        self, spark: SparkSession, folder: Path, tables: Sequence[str], options: TablesOptions = OPTIONS
    ):
        self.ring, self.out = folder / "ring", folder / "out"
        self.ring.mkdir()
        self._spark = spark
        self._wanted = TableRequest(tables=tuple(tables))
        self._options = options
        self.start()

    def start(self, *, append: bool = False) -> None:
        """Begin, or begin again."""
        if append:
            self._folder.discard()
        folder = self._folder = open_folder(str(self.out), append=append)
        self.follower = Follower(
            self._spark, [str(self.ring)], folder, self._wanted, self._options, settled=0.0
        )

    def put(self, path: Path, name: str = "") -> None:
        """Put a file into the folder, and let it be read."""
        shutil.copy2(path, self.ring / (name or path.name))
        assert self.follower.step()

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        return rows_of(self.out)


def answered(rows: list[dict[str, Any]], *, numbers: bool = False) -> list[str]:
    """Exchanges in an order of their own, without those of which only the end of a capture tells something."""
    told = [
        {**row, "run": 0, "number": row["number"] * numbers} for row in rows if row["latency_ns"] is not None
    ]
    return sorted(repr(sorted(row.items())) for row in told)


def test_batches_of_files_that_go(spark: SparkSession, tmp_path: Path) -> None:
    tables = ("exchanges", "connections", "findings", "rebalances")
    files = cut(SAMPLE, 3, tmp_path / "cut")
    followed = FollowedFolder(spark, tmp_path, tables)
    found = []
    for path in files:
        followed.put(path)
        found.append(len(followed.rows()["rebalances"]))
        (followed.ring / path.name).unlink()
        assert not leftovers(followed.out)
    assert not followed.follower.step()
    by_one_process([SAMPLE], tmp_path / "single", TablesOptions(tables=tables))
    expected, rows = rows_of(tmp_path / "single"), followed.rows()
    assert answered(rows["exchanges"]) == answered(expected["exchanges"])
    assert sorted(row["number"] for row in rows["exchanges"]) == list(range(1, len(rows["exchanges"]) + 1))
    # what needs all of them is that of the last commit, and of no other
    assert found == sorted(found)
    assert len(rows["rebalances"]) == len(expected["rebalances"])
    ends = [
        [(row["connection"], row["client"], row["broker"]) for row in each["connections"]]
        for each in (rows, expected)
    ]
    assert sorted(ends[0]) == sorted(ends[1])
    (manifest,) = read_manifests(str(followed.out))
    assert [Path(each.path).name for each in manifest.inputs] == [path.name for path in files]
    assert followed.follower.summary.packets == 1518


def test_it_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """A restarted program adds no file to the tables twice, and knows the state of connections."""
    options = replace(OPTIONS, keylog=str(KEYLOG))
    files = cut(TLS, 3, tmp_path / "cut")
    followed = FollowedFolder(spark, tmp_path, ("exchanges",), options)
    followed.put(files[0])  # a TLS connection goes on: all its packets are carried
    followed.put(files[1])
    followed.start(append=True)
    followed.put(files[2])
    assert [Path(each.path).name for each in followed.follower.summary.skipped] == [
        path.name for path in files[:2]
    ]
    by_one_process([TLS], tmp_path / "single", TablesOptions(tables=("exchanges",), keylog=str(KEYLOG)))
    expected = answered(rows_of(tmp_path / "single")["exchanges"])
    rows = followed.rows()["exchanges"]
    assert answered(rows) == expected
    assert len(expected) > 10
    assert {row["run"] for row in rows} == {0, 1}


def test_names_that_come_again_and_files_that_grow(spark: SparkSession, tmp_path: Path) -> None:
    followed = FollowedFolder(
        spark, tmp_path, ("exchanges",), replace(OPTIONS, columns=("api", "latency_ns"))
    )
    files = cut(SAMPLE, 3, tmp_path / "cut")
    followed.put(files[0], "ring0")
    first = followed.follower.summary.exchanges
    with (followed.ring / "ring0").open("ab") as file:
        file.write(files[1].read_bytes()[24:])
    assert not followed.follower.step()  # told, and not read twice
    assert not followed.follower.step()
    (told,) = followed.follower.summary.unreadable
    assert told.path.endswith("ring0")
    assert "what came later is not in the tables" in told.reason
    larger = tmp_path / "larger"
    larger.write_bytes(files[1].read_bytes() + files[2].read_bytes()[24:])
    followed.put(larger, "ring0")
    assert followed.follower.summary.exchanges > first
    assert len(followed.rows()["exchanges"]) == followed.follower.summary.exchanges > 350


def test_what_is_no_capture(spark: SparkSession, tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    ring.mkdir()
    (ring / "notes.txt").write_text("no capture\n" * 10)
    stop = Event()
    stop.set()  # what is there is still read
    options = replace(OPTIONS, tables=("exchanges",))
    made = follow_tables([str(ring)], str(tmp_path / "out"), options, stop)
    assert made.exchanges == 0
    assert [Path(each.path).name for each in made.unreadable] == ["notes.txt"]
    with pytest.raises(CaptureError, match=r"notes\.txt"):
        follow_tables([str(ring)], str(tmp_path / "other"), replace(options, strict=True), stop)
    shutil.copy2(SAMPLE, ring)
    made = follow_tables([str(ring)], str(tmp_path / "out"), options, stop)
    assert made.rows == {"exchanges": len(rows_of(tmp_path / "out")["exchanges"])}
    assert made.exchanges > 390
