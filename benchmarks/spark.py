"""Speed of making tables on Spark, beside one process and tshark: ``python -m benchmarks.spark``.

All read the same file. Measures the default tables (all but records) and the table of exchanges without bodies, in one
process and on Spark with one and two workers; a session runs everything twice, and the second run counts. Peers are the
obvious Spark job, which shuffles packets with their payload by connection, and ``tshark -T fields`` with key, version
and correlation ID.

Figures are wall-clock seconds; memory is that of the largest worker process, and of this process, which is the driver
without its JVM. Spark's event log gives the shuffled bytes, the serial share (time with fewer than two running tasks,
over the time of all tasks), and the longest task of a stage over the median of its tasks (for stages of eight or more
tasks). Ratios are computed within a round.
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
from dataclasses import replace
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import monotonic, time
from typing import Any, NamedTuple

from benchmarks import traffic
from benchmarks.captures import MB, made, tshark_fields
from benchmarks.outcome import Aim, for_programs

MIB = 1 << 20
HEADERS = (
    "number",
    "time_ns",
    "latency_ns",
    "connection",
    "client",
    "broker",
    "client_id",
    "api",
    "api_key",
    "version",
    "correlation_id",
    "request_size",
    "response_size",
)
DEFAULT, EXCHANGES = "default tables", "exchanges only"
_TARGETS = (
    (DEFAULT, "local[2]", "single", 1.3),
    (EXCHANGES, "local[2]", "single", 0.9),
    (EXCHANGES, "local[2]", "tshark", 6.0),
)
NAIVE = "naive local[2]"
_MOST_SHUFFLED = 0.03
_MOST_SERIAL = 0.02
_LONGEST_TASK = 3.0
_MOST_MEMORY = 500 * MIB


# ---------------------------------------------------------------- one measurement, in a process of its own
def single(file: Path, what: str) -> dict[str, float]:
    """Write tables in one process."""
    from captures.tables.single import write_tables

    with _folder() as out:
        begin = monotonic()
        write_tables([str(file)], out, _options(what))
        return {"seconds": monotonic() - begin, "memory": _own_memory()}


def spark(file: Path, what: str, master: str, ranges: int) -> dict[str, float]:
    """Write tables on Spark, twice.

    :param ranges: number of ranges of the file; 0 for ranges of the default size
    """
    from captures.spark.pipeline import write_tables

    options = _options(what)
    if ranges:
        options = replace(options, range_bytes=-(-file.stat().st_size // ranges))
    return _on_spark(master, lambda out: write_tables([str(file)], out, options))


def naive(file: Path, _: str, master: str) -> dict[str, float]:
    """Shuffle all packets with their payload by connection, and count the exchanges."""
    from benchmarks.spark_naive import count_exchanges

    return _on_spark(master, lambda _: count_exchanges(str(file)))


def _on_spark(master: str, run: Callable[[str], object]) -> dict[str, float]:
    from captures.spark.session import session, stop

    with _folder() as log:
        begin = monotonic()
        settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{log}"}
        settings["spark.eventLog.compress"] = "false"
        made_session = session(master, settings=settings)
        started = monotonic() - begin
        with _Memory() as memory:
            with _folder() as out:
                begin = monotonic()
                run(out)
                first = monotonic() - begin
            with _folder() as out:
                begin, second = monotonic(), time()
                run(out)
                warm, end = monotonic() - begin, time()
        stop(made_session)
        tasks = [task for task in _tasks(Path(log)) if task.begin >= second]
    return {
        "seconds": warm,
        "first": first,
        "start": started,
        "memory": memory.most,
        "driver": _own_memory(),
        "shuffled": sum(task.shuffled for task in tasks),
        "serial": serial_share(tasks, second, end),
        "longest": longest_task(tasks),
    }


def _options(what: str) -> Any:
    from captures.tables.options import TablesOptions

    return TablesOptions() if what == DEFAULT else TablesOptions(tables=("exchanges",), columns=HEADERS)


class Task(NamedTuple):
    """A task in Spark's event log.

    :ivar begin: seconds since the epoch, as ``end``
    :ivar shuffled: bytes that it wrote for other tasks
    """

    stage: int
    begin: float
    end: float
    shuffled: int = 0


def _tasks(log: Path) -> Iterator[Task]:
    for file in log.rglob("*"):
        if file.is_file():
            with file.open() as lines:
                for line in lines:
                    event = json.loads(line) if '"SparkListenerTaskEnd"' in line else {}
                    if metrics := event.get("Task Metrics"):
                        info, written = event["Task Info"], metrics["Shuffle Write Metrics"]
                        begin, end = info["Launch Time"] / 1e3, info["Finish Time"] / 1e3
                        yield Task(event["Stage ID"], begin, end, written["Shuffle Bytes Written"])


def serial_share(tasks: Sequence[Task], begin: float, end: float) -> float:
    """Return the time with fewer than two running tasks, including the driver's, over the time of all tasks."""
    changes = sorted([(task.begin, 1) for task in tasks] + [(task.end, -1) for task in tasks] + [(end, 0)])
    serial, running = 0.0, 0
    for moment, change in changes:
        serial += moment - begin if running < 2 else 0
        begin, running = moment, running + change
    return serial / sum(task.end - task.begin for task in tasks)


def longest_task(tasks: Sequence[Task]) -> float:
    """Return the highest ratio of a stage's longest task to its median task."""
    stages: dict[int, list[float]] = {}
    for task in tasks:
        stages.setdefault(task.stage, []).append(task.end - task.begin)
    return max((max(each) / median(each) for each in stages.values() if len(each) >= 8), default=1.0)


def _own_memory() -> float:
    import resource

    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


class _Memory:
    """Tracks the memory of the Python workers that are descendants of this process."""

    def __init__(self) -> None:
        self.most = 0.0
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        me = psutil.Process()
        while not self._over.wait(0.5):
            for process in me.children(recursive=True):
                try:
                    if "python" in process.name():
                        self.most = max(self.most, float(process.memory_info().rss))
                except psutil.Error:
                    continue


class _folder:  # noqa: N801  # a context manager
    """A temporary folder on the disk of the captures."""

    def __enter__(self) -> str:
        self._name = tempfile.mkdtemp(dir=Path(tempfile.gettempdir()) / "kproxy-benchmarks")
        return self._name

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._name, ignore_errors=True)


# ---------------------------------------------------------------- all of them
def run_one(how: str, what: str, file: Path, ranges: int = 0) -> dict[str, float]:
    """Run a measurement in its own process."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.spark",
        "--one",
        how,
        what,
        str(file),
        "--ranges",
        str(ranges),
    ]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _measure(how: str, what: str, file: Path, ranges: int) -> dict[str, float]:
    if how == "single":
        return single(file, what)
    if how.startswith("naive"):
        return naive(file, what, how.partition(" ")[2])
    if how == "tshark":
        begin = monotonic()
        subprocess.run(tshark_fields(file), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return {"seconds": monotonic() - begin}
    return spark(file, what, how, ranges)


def plan(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the measurements of a round."""
    hows = [("single", DEFAULT), ("local[1]", DEFAULT), ("local[2]", DEFAULT)]
    hows += [("single", EXCHANGES), ("local[1]", EXCHANGES), ("local[2]", EXCHANGES)]
    if not options.ours:
        hows.append((NAIVE, EXCHANGES))
        if not missing(options):
            hows.append(("tshark", EXCHANGES))
    return [each for each in hows if options.only in each[1]]


def missing(options: argparse.Namespace) -> dict[str, str]:
    """Return the programs that cannot be compared here, with the reason."""
    return {} if options.ours or shutil.which("tshark") else {"tshark": "tshark is not installed"}


Runs = dict[tuple[str, str], list[dict[str, float]]]


def times(runs: Runs, what: str, ours: str, theirs: str) -> float | None:
    """Return how many times as fast one is as another; None if either was not measured."""
    if (ours, what) not in runs or (theirs, what) not in runs:
        return None
    pairs = zip(runs[ours, what], runs[theirs, what], strict=True)
    return median(their["seconds"] / our["seconds"] for our, their in pairs)


def aims(runs: Runs, size: int) -> Iterator[Aim]:
    """Return the aims whose figures were measured."""
    for what, ours, theirs, least in _TARGETS:
        ratio = times(runs, what, ours, theirs)
        if ratio is not None:
            yield Aim(f"{what}: times as fast, {ours} beside {theirs}", ratio, least)
    for (how, what), all_runs in runs.items():
        if how == "local[2]":
            share = 100 * median(run["shuffled"] for run in all_runs) / size
            yield Aim(f"{what}: % of the capture shuffled", share, 100 * _MOST_SHUFFLED, at_most=True)
            serial = 100 * median(run["serial"] for run in all_runs)
            yield Aim(f"{what}: % of the work serial", serial, 100 * _MOST_SERIAL, at_most=True)
            longest = median(run["longest"] for run in all_runs)
            yield Aim(f"{what}: longest task over the median", longest, _LONGEST_TASK, at_most=True)
            most = max(run["memory"] for run in all_runs)
            yield Aim(f"{what}: MiB of a worker", most / MIB, _MOST_MEMORY / MIB, at_most=True)


def figures(runs: Runs, size: int) -> dict[str, Any]:
    """Return medians and ratios as JSON values."""
    rows = [
        {"what": what, "how": how, "rounds": len(each)}
        | {name: median(run[name] for run in each) for name in each[0]}
        for (how, what), each in runs.items()
    ]
    others = ("single", NAIVE, "tshark")
    ratios = [
        {"what": what, "beside": theirs, "times": found}
        for what in (DEFAULT, EXCHANGES)
        for theirs in others
        if (found := times(runs, what, "local[2]", theirs)) is not None
    ]
    return {"bytes": size, "runs": rows, "ratios": ratios}


def report(runs: Runs, size: int) -> None:
    """Print medians and ratios."""
    print(f"{size / MB:,.0f} MB; {os.cpu_count()} processors; seconds by the clock, medians")
    print(
        f"{'':28}{'s':>9}{'MB/s':>9}{'first s':>9}{'start s':>9}{'worker MiB':>12}"
        f"{'shuffled':>10}{'serial':>8}{'longest':>9}"
    )
    for (how, what), all_runs in runs.items():
        row = {name: median(run[name] for run in all_runs) for name in all_runs[0]}
        tasks = ""
        if "shuffled" in row:
            tasks = f"{row['shuffled'] / size:10.2%}{row['serial']:8.1%}{row['longest']:9.1f}"
        cells = [f"{row[name]:9.1f}" if name in row else f"{'':9}" for name in ("first", "start")]
        memory = f"{row['memory'] / MIB:12.0f}" if "memory" in row else f"{'':12}"
        rate = size / row["seconds"] / MB
        print(f"{what + ', ' + how:28.28}{row['seconds']:9.1f}{rate:9.1f}{''.join(cells)}{memory}{tasks}")
    print(*aims(runs, size), sep="\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=float, default=2000, help="size of the capture (default 2000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--capture", type=Path, metavar="FILE", help="read this pcap file")
    parser.add_argument("--ranges", type=int, default=0, help="ranges of the capture (default: of 64 MiB)")
    parser.add_argument("--ours", action="store_true", help="leave out the shuffle of packets, and tshark")
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has this in its name")
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("--one", nargs=3, metavar=("HOW", "WHAT", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        how, what, file = options.one
        print(json.dumps(_measure(how, what, Path(file), options.ranges)))
        return
    path = options.capture or made("steady", int(options.mb * MB), traffic.GENERATED["steady"])
    runs: Runs = {}
    for _ in range(options.rounds):
        for how, what in plan(options):
            runs.setdefault((how, what), []).append(run_one(how, what, path, options.ranges))
            print(f"{what}, {how}: {runs[how, what][-1]['seconds']:.1f} s", file=sys.stderr)
    if options.json:
        size = path.stat().st_size
        print(for_programs(figures(runs, size), aims(runs, size), missing(options)))
    else:
        report(runs, path.stat().st_size)


if __name__ == "__main__":
    main()
