"""Check that all ways of reading a capture give the same results: ``python -m tests.lanes.readings [RECORDING...]``.

RECORDING is a file, or a pattern for names in ``tests/data/groups``; the default is all of these. The incidents and
rebalances of one reading are compared with those of the other readings
(:mod:`tests.captures.analysis.incidents.readings`): live, in the terminal UI, and from the byte ranges of Spark.

The exit code is 1 if anything differs.
"""

from __future__ import annotations

import asyncio
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.captures.analysis.incidents.readings import differences
from tests.captures.tables.kit import GROUPS


@click.command(help=__doc__)
@click.argument("recordings", nargs=-1)
def main(recordings: tuple[str, ...]) -> None:
    wrong = 0
    paths = [path for recording in recordings or ("*",) for path in _matching(recording)]
    with TemporaryDirectory() as folder:
        for path in paths:
            for difference in asyncio.run(differences(path, Path(folder))):
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
