"""The hostile files in full size, read by kproxy and by tshark: ``python -m tests.lanes.hostile.beside``.

Each run is a separate process, one after the other. Both print a table: ``kproxy read``, and ``tshark -T fields`` with
the Kafka fields of that table. Content and exit codes are not compared, because tshark decodes only a few fields of
Kafka.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.machine import ROOT, commit, machine, version_of
from docs import generate
from docs.tools import security
from tests.lanes.hostile.attack import written
from tests.lanes.hostile.collection import ATTACKS

SECONDS = 60
"""Of the processor, after which a run is ended: one that takes longer is as good as endless."""

_MIB = 1 << 20

KPROXY = (sys.executable, "-m", "kproxy", "read")
TSHARK = ("tshark", "-T", "fields")
_FIELDS = ("frame.number", "kafka.api_key", "kafka.api_version", "kafka.correlation_id", "kafka.client_id")
_LAUNCH = ROOT / "benchmarks" / "launch.py"
_LIMITED = 'ulimit -t "$0"; exec "$@"'


class Took(NamedTuple):
    """The cost of a run: processor seconds, peak memory in bytes, and exit code."""

    seconds: float
    memory: int
    code: int


def kproxy(file: Path) -> Took:
    """Read a file with kproxy."""
    return _run([*KPROXY, str(file)])


def tshark(file: Path) -> Took:
    """Read a file with tshark."""
    fields = (part for name in _FIELDS for part in ("-e", name))
    return _run([*TSHARK, *fields, "-r", str(file)])


def _run(command: Sequence[str]) -> Took:
    limited = ["/bin/sh", "-c", _LIMITED, str(SECONDS), *command]
    done = subprocess.run(
        [sys.executable, "-S", str(_LAUNCH), *limited], cwd=ROOT, capture_output=True, text=True, check=True
    )
    _, seconds, memory, code = json.loads(done.stdout)
    return Took(round(seconds, 2), memory, code)


def measuring(part: str) -> dict[str, Any]:
    """Return date, machine and commit of a measurement, for the documentation.

    :param part: the lane's module that measures, empty for the lane itself
    """
    module = ".".join(filter(None, ("tests.lanes.hostile", part)))
    return {
        "began": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "load": os.getloadavg()[0],
        "command": f"python -m {module} --write",
        "commit": commit(),
        "machine": machine(),
    }


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[FILE]...")
@click.option("--write", is_flag=True, help="Bring docs/security.md up to date.")
def main(names: tuple[str, ...], write: bool) -> None:
    chosen = [name for name in ATTACKS if not names or any(fnmatch(name, each) for each in names)]
    if not chosen:
        raise click.UsageError(f"no file of the collection is called {' or '.join(names)}")
    entry, files = measuring("beside"), {}
    version = version_of("tshark")
    with tempfile.TemporaryDirectory(prefix="hostile-files-") as folder:
        for attack in sorted(map(ATTACKS.__getitem__, chosen), key=attrgetter("name")):
            path = written(attack, Path(folder))
            ours, theirs, size = kproxy(path), tshark(path), path.stat().st_size
            path.unlink()
            click.echo(
                f"{path.name:30}{size:14,} bytes; kproxy {ours.seconds:6.2f} s {ours.memory / _MIB:6,.0f} MiB, "
                f"tshark {theirs.seconds:6.2f} s {theirs.memory / _MIB:6,.0f} MiB"
            )
            both = {"kproxy": ours._asdict(), "tshark": theirs._asdict()}
            files[path.name] = {"about": attack.about, "bytes": size, **both}
    if write:
        security.write("readers", entry | {"tshark": version, "patience": SECONDS, "files": files})
        generate.main()


if __name__ == "__main__":
    main()
