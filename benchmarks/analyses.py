"""Times the commands that read a whole capture, beside tshark printing three fields: ``python -m benchmarks.analyses
[PART...]``.

Parts are commands as users type them, with their output discarded: ``stats``, ``groups``, ``clients``, ``lag``,
``diagnose``, ``incidents``, ``api-versions``, ``read``, ``export``. The captures are generated: steady produce and
fetch traffic, the same without handshakes and without every hundredth packet, very small messages, and records that
groups consume and commit. A recorded cluster is repeated with new connections each time. Each command runs in its own
process, alternating with tshark on the same file. Figures are medians; ratios are computed within a round. The part
``story`` times the timelines of a stable group after a million heartbeats.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import pipeline, traffic
from benchmarks.captures import MB, MIB, TABLE, Run, made, measured, repeated, tshark_fields, tshark_missing
from benchmarks.jobs import damaged
from benchmarks.outcome import Aim, for_programs
from captures.analysis.groups.history import GroupHistories
from captures.exchanges import Exchange, Flag
from dissectors.frames import Body

_ONE = ["--jobs", "1"]  # beside tshark, which has one thread
COMMANDS = {
    "stats": ["stats", *_ONE],
    "groups": ["groups", *_ONE],
    "clients": ["clients"],
    "lag": ["lag", *_ONE],
    "diagnose": ["diagnose", *_ONE],
    "incidents": ["incidents", *_ONE],
    "api-versions": ["api-versions", *_ONE],
    "read": ["read", *_ONE],
    "export": ["export", *_ONE, "--format", "csv", "-o", "-"],
}
TARGETS = {"diagnose": 2.0, "incidents": 2.0, "read": 2.0, "export": 3.0}
"""Times as fast as tshark by processor time; of the other commands :data:`TARGET`."""
TARGET = 4.0
_CLUSTER = Path(__file__).parent.parent / "tests/data/clean/26_k430_steady_clients.pcap.zst"
_LOSE = 100  # one packet in so many is left out
HEARTBEATS = 1_000_000
_MEMBERS = 20
_EVERY = 3_000_000_000  # ns between two heartbeats of a member
_HEARTBEAT = 12


def captures(options: argparse.Namespace) -> dict[str, Path]:
    """Return the captures by name."""
    steady = made("steady", int(options.mb * MB), traffic.GENERATED["steady"])
    return {
        "steady traffic": steady,
        "steady traffic with loss": Path(damaged(str(steady), _LOSE)),
        "very small messages": made("tiny", int(options.tiny_mb * MB), traffic.GENERATED["tiny"]),
        "records on their way": pipeline.capture(int(options.pipeline_mb * MB), 3),
        "a recorded cluster": repeated(_CLUSTER, int(options.cluster_mb * MB)),
    }


def commands_of(file: Path, parts: Sequence[str], *, beside_tshark: bool) -> dict[str, list[str]]:
    """Return the measured commands by name."""
    theirs = {"tshark": tshark_fields(file)} if beside_tshark else {}
    return theirs | {part: [sys.executable, "-m", "kproxy", *COMMANDS[part], str(file)] for part in parts}


def measure(file: Path, commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, dict[str, float]]:
    """Return wall-clock seconds, processor seconds and memory of each command, and their ratios.

    Commands alternate with building the exchange table alone; ``times_table`` is the ratio to that. If tshark is
    measured too, ``times_wall`` and ``times_cpu`` say how many times as fast as tshark a command is, and ``memory``
    is its share of tshark's memory.
    """
    every: dict[str, Sequence[str]] = {"table": [sys.executable, "-c", TABLE, str(file)], **commands}
    runs: dict[str, list[Run]] = {name: [] for name in every}
    measured(every["table"])  # may compile byte code
    for _ in range(rounds):
        for name, command in every.items():
            runs[name].append(measured(command))
    return {
        name: {
            "wall_s": median(run.wall for run in each),
            "cpu_s": median(run.cpu for run in each),
            "rss": median(run.memory for run in each),
            "times_table": median(
                run.cpu / table.cpu for run, table in zip(each, runs["table"], strict=True)
            ),
            **(_beside(each, runs["tshark"]) if "tshark" in runs else {}),
        }
        for name, each in runs.items()
    }


def _beside(ours: Sequence[Run], theirs: Sequence[Run]) -> dict[str, float]:
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "times_wall": median(their.wall / our.wall for our, their in pairs),
        "times_cpu": median(their.cpu / our.cpu for our, their in pairs),
        "memory": median(our.memory / their.memory for our, their in pairs),
    }


def aims(found: Mapping[str, Mapping[str, Any]]) -> Iterator[Aim]:
    """Return the aims whose figures were measured."""
    for name, capture in found.items():
        for command, row in capture["commands"].items():
            if command in COMMANDS and "times_cpu" in row:
                what = f"{command} of {name}: times tshark by processor time"
                yield Aim(what, row["times_cpu"], TARGETS.get(command, TARGET))


def heartbeat(number: int) -> Exchange:
    """Return heartbeat `number` of a stable group."""
    member = number % _MEMBERS
    request = {
        "group_id": "orders",
        "generation_id": 1,
        "member_id": f"app-{member}",
        "group_instance_id": None,
    }
    return Exchange(
        number=number + 1,
        row=number,
        connection=member,
        client=f"10.0.0.{member}:4000",
        broker="10.0.0.99:9092",
        client_id=f"app-{member}",
        api_key=_HEARTBEAT,
        version=4,
        correlation_id=number,
        time=(number * _EVERY) // _MEMBERS,
        latency=1_000_000,
        request_size=80,
        response_size=16,
        flag=Flag(0),
        request=Body(_HEARTBEAT, 4, 4, {}, request, 0, b""),
        response=Body(_HEARTBEAT, 4, 4, {}, {"throttle_time_ms": 0, "error_code": 0}, 0, b""),
    )


def story(count: int = HEARTBEATS) -> dict[str, float]:
    """Return the microseconds to add one heartbeat, and the seconds to make the timelines after all of them."""
    histories = GroupHistories(lambda _: None)
    exchanges = [heartbeat(number) for number in range(count)]
    began = perf_counter()
    for exchange in exchanges:
        histories.add(exchange)
    added = perf_counter() - began
    began = perf_counter()
    histories.result()
    return {"add_us": added / count * 1_000_000, "result_s": perf_counter() - began}


def print_table(name: str, capture: Mapping[str, Any]) -> None:
    """Print the figures of a capture."""
    size = capture["bytes"]
    print(f"{name}: {size / MB:,.0f} MB")
    print(f"  {'':14}{'wall s':>9}{'CPU s':>9}{'RSS MiB':>9}{'times tshark, CPU':>19}")
    for command, row in capture["commands"].items():
        print(
            f"  {command:14}{row['wall_s']:9.2f}{row['cpu_s']:9.2f}{row['rss'] / MIB:9.0f}"
            f"{row.get('times_cpu', 0):18.2f}×"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join([*COMMANDS, 'story'])} (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("--mb", type=float, default=150, help="size of the steady capture (default 150)")
    parser.add_argument(
        "--tiny-mb", type=float, default=30, help="size of that of very small messages (default 30)"
    )
    parser.add_argument(
        "--pipeline-mb", type=float, default=100, help="size of that of records on their way (default 100)"
    )
    parser.add_argument(
        "--cluster-mb", type=float, default=40, help="size of that of a recorded cluster (default 40)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default 3)")
    options = parser.parse_args()
    parts = options.parts or [*COMMANDS, "story"]
    unknown = set(parts) - {*COMMANDS, "story"}
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    missing = tshark_missing()
    commands = [part for part in parts if part in COMMANDS]
    found: dict[str, dict[str, Any]] = {}
    for name, file in captures(options).items() if commands else ():
        made_of = commands_of(file, commands, beside_tshark=not missing)
        found[name] = {
            "bytes": file.stat().st_size,
            "commands": measure(file, made_of, options.rounds),
        }
    told = story() if "story" in parts else {}
    if options.json:
        print(for_programs({"captures": found, "story": told}, aims(found), missing))
        return
    for name, capture in found.items():
        print_table(name, capture)
    if told:
        print(
            f"a heartbeat is added in {told['add_us']:.1f} µs; after a million, timelines take {told['result_s']:.2f} s"
        )


if __name__ == "__main__":
    main()
