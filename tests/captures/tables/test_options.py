"""The summary of a run."""

from __future__ import annotations

import json
from dataclasses import replace

from captures.json_objects import to_json
from captures.tables.options import InputFile, OmittedFile, TablesOptions, TablesSummary, note_sentences

SUMMARY = TablesSummary(
    out="tables",
    engine="spark",
    files=(InputFile("a.pcap", 30_000_000, 4), InputFile("b.pcapng", 2_000_000, 1, "pcapng cannot be cut")),
    packets=1_000,
    exchanges=1,
    rows={"exchanges": 1, "findings": 0},
    seconds=2.0,
)


def test_lines_for_people() -> None:
    assert list(SUMMARY.lines()) == [
        "one task: b.pcapng: pcapng cannot be cut",
        "2 files, 31 MiB: 1,000 packets, 1 exchange in 2.0 s, 16 MB/s",
        "rows written to tables: exchanges 1, findings 0",
    ]


def test_what_went_wrong_comes_first() -> None:
    summary = replace(
        SUMMARY,
        unreadable=(OmittedFile("c", "Permission denied"),),
        skipped=tuple(OmittedFile(f"s{i}", "a run before has read it") for i in range(12)),
        damage=("d.pcap at byte 7: x",),
        lost_bytes=1460,
        undecoded=2,
    )
    lines = list(summary.lines())
    assert lines[:2] == ["not read: c: Permission denied", "damaged: d.pcap at byte 7: x"]
    assert lines[2] == "skipped: s0: a run before has read it"
    assert lines[12] == "skipped: 2 more"
    assert "lost: 1,460 bytes of TCP streams that the captures do not hold" in lines
    assert "not wholly decoded: 2 exchanges" in lines


def test_what_is_complete() -> None:
    assert SUMMARY.clean
    assert not SUMMARY.nothing_read
    fault = (OmittedFile("c", "x"),)
    for worse in (
        replace(SUMMARY, unreadable=fault),
        replace(SUMMARY, damage=("x",)),
        replace(SUMMARY, lost_bytes=1),
        replace(SUMMARY, undecoded=1),
    ):
        assert not worse.clean
        assert not worse.nothing_read
    assert replace(SUMMARY, files=(), unreadable=fault).nothing_read
    known = replace(SUMMARY, files=(), skipped=fault)
    assert known.clean
    assert list(known.lines())[-1] == "nothing was read, and nothing was written to tables"


def test_as_json() -> None:
    shape = json.loads(json.dumps(to_json(SUMMARY)))
    assert shape["bytes"] == 32_000_000
    assert shape["complete"] is True
    assert shape["files"][1] == {
        "path": "b.pcapng",
        "bytes": 2_000_000,
        "tasks": 1,
        "one_task_because": "pcapng cannot be cut",
    }
    assert shape["rows"] == {"exchanges": 1, "findings": 0}


def test_keys_are_always_among_the_columns() -> None:
    assert TablesOptions(columns=("api", "time")).columns == ("run", "number", "time", "time_ns", "api")
    assert TablesOptions().columns == ()


def test_notes_say_one_and_many() -> None:
    given = TablesOptions(filter="error")
    assert note_sentences(given, exchanges=1204, fitting=1, dropped=1, foreign=1) == (
        "1 of 1,204 exchanges fits the filter",
        "1 packet was dropped by the capturing machine",
        "1 connection is not Kafka in the clear: see the table connections",
    )
    assert note_sentences(given, exchanges=1, fitting=0, dropped=2000, foreign=2) == (
        "0 of 1 exchange fit the filter",
        "2,000 packets were dropped by the capturing machine",
        "2 connections are not Kafka in the clear: see the table connections",
    )
    assert note_sentences(TablesOptions(), exchanges=9, fitting=9, dropped=0, foreign=0) == ()
