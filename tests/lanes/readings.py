"""The same answers, however a capture is read: ``python -m tests.lanes.readings [RECORDING...]``.

RECORDING is a file, or a pattern for names in ``tests/data/groups``; without any, all of those are read. The answers of
one reading are compared with

* the last reports of ``incidents --follow`` when the same bytes come from a pipe, except for the numbers of exchanges,
  which follow the order of completion in a growing capture
* the tables that Spark tasks make of its byte ranges: rebalances, incidents, findings and others of the whole capture

The exit code is 1 if anything differs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
import zstandard

from tests.captures.spark.judged import built
from tests.captures.spark.test_judged import by_one
from tests.captures.tables.kit import GROUPS

_RANGE = 60_000
_TASKS = 4
_NUMBERS = re.compile(r"#\d+")
Incident = dict[str, Any]


def followed_otherwise(path: Path) -> Iterator[str]:
    """Yield the incidents of one reading whose last report with ``--follow`` differs."""
    reported = {
        (each["kind"], each["begin"]): each for each in _incidents("--follow", "-", stdin=_unpacked(path))
    }
    for each in _incidents(str(path)):
        if reported.get((each["kind"], each["begin"])) != each:
            yield f"followed: {each['kind']} {each['begin']}: {each['sentence']}"


def _incidents(*arguments: str, stdin: bytes = b"") -> list[Incident]:
    command = [sys.executable, "-m", "kproxy", "incidents", "--json", *arguments]
    ended = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=False)
    if ended.returncode not in (0, 3):  # 3: the capture has losses
        ended.check_returncode()
    lines = ended.stdout.decode()
    return [_without_numbers(json.loads(line)) for line in _NUMBERS.sub("#", lines).splitlines()]


def _without_numbers(incident: Incident) -> Incident:
    effects = [each | {"evidence": None} for each in incident["consequences"]]
    return incident | {"evidence": None, "consequences": effects}


def _unpacked(path: Path) -> bytes:
    packed = path.read_bytes()
    return zstandard.ZstdDecompressor().stream_reader(packed).read() if path.suffix == ".zst" else packed


def dealt_otherwise(path: Path) -> Iterator[str]:
    """Yield the tables that differ between tasks and one reading."""
    whole, parts = by_one(path), built([path], _RANGE, _TASKS)
    for table in sorted(whole.keys() | parts.keys()):
        if whole.get(table) != parts.get(table):
            yield f"by ranges: {table}"


@click.command(help=__doc__)
@click.argument("recordings", nargs=-1)
def main(recordings: tuple[str, ...]) -> None:
    wrong = 0
    paths = [path for recording in recordings or ("*",) for path in _matching(recording)]
    for path in paths:
        for difference in (*followed_otherwise(path), *dealt_otherwise(path)):
            wrong += 1
            click.echo(f"{path.name}: {difference}")
    click.echo(f"{len(paths)} recordings, {wrong} differences")
    sys.exit(bool(wrong) or not paths)


def _matching(recording: str) -> list[Path]:
    if Path(recording).is_file():
        return [Path(recording)]
    return [
        path
        for path in sorted(GROUPS.glob("*.pcap.zst"))
        if fnmatchcase(path.name.partition(".")[0], recording)
    ]


if __name__ == "__main__":
    main()
