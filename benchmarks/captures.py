"""Speed of reading captures beside tshark on the same file: ``python -m benchmarks.captures``.

Measures building the exchange table (beside ``tshark -T fields`` with key, version and correlation ID), of steady
traffic and of very small messages, and every message as JSON (beside ``tshark -T json``). The readers alternate, each
in its own process. Figures are medians over the rounds; ratios are computed within a round.

Files are generated once and kept in a temporary directory. ``--capture FILE`` repeats a recorded pcap file instead of
generated steady traffic.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import launch, traffic
from benchmarks.outcome import Aim, for_programs
from captures.exchanges import open_capture

MB = 1_000_000
MIB = 1 << 20

# with the setting that the command line makes: numpy's idle threads would be counted too
TABLE = """
import os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from captures.exchanges import open_capture
open_capture(sys.argv[1]).read()
"""
_COLUMNS = ("kafka.api_key", "kafka.api_version", "kafka.correlation_id")


class Targets(NamedTuple):
    """The aims; 0 where there is none.

    :ivar times: how many times as fast as tshark
    :ivar rate: MB of the file per second of processor time
    :ivar memory: largest resident memory as a share of tshark's
    """

    times: float
    rate: float = 0
    memory: float = 0.5


class Run(NamedTuple):
    """The costs of one process: wall-clock seconds, processor seconds, and peak resident memory in bytes."""

    wall: float
    cpu: float
    memory: int


@dataclass
class Task:
    """A task that both readers perform on the same file."""

    name: str
    file: Path
    ours: Sequence[str]
    theirs: Sequence[str]
    targets: Targets
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """Return medians and ratios as JSON values."""
        size = self.file.stat().st_size
        made: dict[str, Any] = {"file": self.file.name, "bytes": size}
        for name, runs in self.runs.items():
            wall, cpu, memory = (median(column) for column in zip(*runs, strict=True))
            made[name] = {
                "wall_s": wall,
                "cpu_s": cpu,
                "rss": memory,
                "mb_s": size / wall / MB,
                "mb_s_core": size / cpu / MB,
            }
        if "tshark" in self.runs:
            pairs = list(zip(self.runs["tshark"], self.runs["kproxy"], strict=True))
            made["times_wall"] = median(theirs.wall / ours.wall for theirs, ours in pairs)
            made["times_cpu"] = median(theirs.cpu / ours.cpu for theirs, ours in pairs)
            made["memory"] = median(ours.memory / theirs.memory for theirs, ours in pairs)
        return made

    def aims(self) -> Iterator[Aim]:
        """Return the aims whose figures were measured."""
        figures, targets = self.figures(), self.targets
        if targets.rate:
            yield Aim(f"{self.name}: MB/s a core", figures["kproxy"]["mb_s_core"], targets.rate)
        if "tshark" in self.runs:
            yield Aim(f"{self.name}: times as fast by the clock", figures["times_wall"], targets.times)
            yield Aim(f"{self.name}: times as fast by processor time", figures["times_cpu"], targets.times)
            yield Aim(f"{self.name}: of its memory", figures["memory"], targets.memory, at_most=True)


def measured(command: Sequence[str]) -> Run:
    """Run a command to its end and discard its output.

    :raises CalledProcessError: if it fails
    """
    launched = subprocess.run(
        [sys.executable, "-S", launch.__file__, *command],
        env=_environment(),
        stdout=subprocess.PIPE,
        check=True,
    )
    wall, cpu, memory, code = json.loads(launched.stdout)
    if code not in (0, _INCOMPLETE):
        raise subprocess.CalledProcessError(code, command)
    return Run(wall, cpu, memory)


_INCOMPLETE = 3  # exit code of kproxy: something was lost or could not be decoded


def _environment() -> dict[str, str]:
    """Return an environment in which programs run as installed: with compiled byte code and buffered output."""
    unusual = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if name not in unusual}


# ---------------------------------------------------------------- the files
def made(name: str, size: int, make: Callable[[Path], object]) -> Path:
    """Return a capture of about ``size`` bytes; reuse that of an earlier run if the same code made it."""
    code = sha256(Path(traffic.__file__).read_bytes()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / "kproxy-benchmarks"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{size // MB}MB-{code}.pcap"
    if not path.exists():
        unit, growing = path.with_suffix(".unit"), path.with_suffix(".growing")
        try:
            make(unit)
            traffic.repeat(unit, growing, size)
        finally:
            unit.unlink(missing_ok=True)
        growing.rename(path)
    return path


def repeated(capture: Path, size: int) -> Path:
    """Return a recorded capture repeated to about ``size`` bytes."""
    recorded = sha256(capture.read_bytes()).hexdigest()[:12]
    return made(f"{capture.stem}-{recorded}", size, lambda unit: unit.write_bytes(capture.read_bytes()))


def broker_ports(file: Path) -> set[str]:
    """Return the ports of Kafka, which tshark does not detect by itself."""
    capture = open_capture(str(file))
    capture.read()
    connections = set(capture.table.column("connection").tolist())
    return {capture.endpoints(connection)[1].rpartition(":")[2] for connection in connections}


# ---------------------------------------------------------------- the tasks
def tasks(options: argparse.Namespace) -> list[Task]:
    """Make the files, and return the tasks on them."""
    source: Path | None = options.capture
    name = "steady" if source is None else source.name

    def steady(size: float) -> Path:
        if source is not None:
            return repeated(source, int(size * MB))
        return made("steady", int(size * MB), traffic.GENERATED["steady"])

    tiny = made("tiny", int(options.tiny_mb * MB), traffic.GENERATED["tiny"])
    return [
        _table_task(f"table of {name}", steady(options.mb), Targets(8, 400)),
        _table_task("table of tiny messages", tiny, Targets(6, 60)),
        _json_task(f"JSON of {name}", steady(options.json_mb), Targets(8)),
    ]


def _table_task(name: str, file: Path, targets: Targets) -> Task:
    return Task(name, file, [sys.executable, "-c", TABLE, str(file)], tshark_fields(file), targets)


def tshark_fields(file: Path) -> list[str]:
    """Return the tshark command that prints the content of an exchange table."""
    columns = [part for column in _COLUMNS for part in ("-e", column)]
    return [*_tshark(file), "-T", "fields", *columns]


def _json_task(name: str, file: Path, targets: Targets) -> Task:
    ours = [sys.executable, "-m", "kproxy", "read", "--json", str(file)]
    return Task(name, file, ours, [*_tshark(file), "-T", "json"], targets)


def _tshark(file: Path) -> list[str]:
    ports = [part for port in sorted(broker_ports(file)) for part in ("-d", f"tcp.port=={port},kafka")]
    return ["tshark", "-n", "-r", str(file), *ports]


def measure(task: Task, rounds: int, *, beside_tshark: bool) -> None:
    """Run the readers in turns, after an uncounted run of kproxy, which may compile byte code."""
    measured(task.ours)
    for _ in range(rounds):
        if beside_tshark:
            task.runs.setdefault("tshark", []).append(measured(task.theirs))
        task.runs.setdefault("kproxy", []).append(measured(task.ours))


# ---------------------------------------------------------------- what came out
def print_table(done: Sequence[Task]) -> None:
    """Print a block per task: both readers, then ratios and targets."""
    for task in done:
        figures = task.figures()
        print(f"{task.name}: {figures['bytes'] / MB:,.0f} MB")
        print(f"  {'':8}{'wall s':>9}{'CPU s':>9}{'MB/s':>9}{'MB/s core':>11}{'RSS MiB':>9}")
        for name in task.runs:
            row = figures[name]
            print(
                f"  {name:8}{row['wall_s']:9.2f}{row['cpu_s']:9.2f}{row['mb_s']:9.1f}"
                f"{row['mb_s_core']:11.1f}{row['rss'] / MIB:9.0f}"
            )
        print(*task.aims(), "", sep="\n")


def tshark_missing() -> dict[str, str]:
    """Return why tshark is missing, by its name; empty if it is installed. Also prints it to standard error."""
    if shutil.which("tshark"):
        return {}
    print("tshark is not installed: there is nothing to compare with", file=sys.stderr)
    return {"tshark": "tshark is not installed"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default 3)")
    parser.add_argument("--capture", type=Path, metavar="FILE", help="repeat this pcap file")
    parser.add_argument("--mb", type=float, default=600, help="size of the steady capture (default 600)")
    parser.add_argument(
        "--tiny-mb", type=float, default=200, help="size of that of tiny messages (default 200)"
    )
    parser.add_argument("--json-mb", type=float, default=75, help="size of that for JSON (default 75)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only tasks with this in their name")
    options = parser.parse_args()
    missing = tshark_missing()
    done = [task for task in tasks(options) if options.only in task.name]
    for task in done:
        measure(task, options.rounds, beside_tshark=not missing)
    if options.json:
        figures = {task.name: task.figures() for task in done}
        print(for_programs(figures, (aim for task in done for aim in task.aims()), missing))
    else:
        print_table(done)


if __name__ == "__main__":
    main()
