"""How long analyses take beside the exchange table alone: ``python -m benchmarks.analyses [--mb N] [PART...]``.

Parts are commands of kproxy that read a whole capture: ``groups``, ``lag``, ``diagnose``, ``api-versions``, ``stats``.
Each runs in a process of its own, in turns with the table and with tshark's field dump of the same file; figures are
medians, ratios are taken within a round. ``story`` is how long it takes to tell the timelines of a group that has been
at peace for a million heartbeats, once these were added.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import traffic
from benchmarks.captures import MB, MIB, TABLE, made, measured, tshark_fields, tshark_missing
from benchmarks.outcome import for_programs
from captures.analysis.groups.history import GroupHistories
from captures.exchanges import Exchange, Flag
from dissectors.frames import Body

COMMANDS = {
    "groups": ["groups", "--json"],
    "lag": ["lag", "--json"],
    "diagnose": ["diagnose", "--json"],
    "api-versions": ["api-versions", "--json"],
    "stats": ["stats", "--json"],
}
HEARTBEATS = 1_000_000
_MEMBERS = 20
_EVERY = 3_000_000_000  # ns between two heartbeats of a member
_HEARTBEAT = 12


def commands_of(file: Path, parts: Sequence[str], *, beside_tshark: bool) -> dict[str, list[str]]:
    """Return the commands that are measured, by what they are called."""
    theirs = {"tshark": tshark_fields(file)} if beside_tshark else {}
    return theirs | {part: [sys.executable, "-m", "kproxy", *COMMANDS[part], str(file)] for part in parts}


def measure(file: Path, commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, dict[str, float]]:
    """Return seconds by the clock, memory, and how many times as long as the table alone, by command.

    They take turns with the table.
    """
    every: dict[str, Sequence[str]] = {"table": [sys.executable, "-c", TABLE, str(file)], **commands}
    runs: dict[str, list[Any]] = {name: [] for name in every}
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
        }
        for name, each in runs.items()
    }


def heartbeat(number: int) -> Exchange:
    """Return one heartbeat of a group at peace, by its number."""
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
    """Return microseconds to add a heartbeat, and seconds to tell the timelines after so many."""
    histories = GroupHistories(lambda _: None)
    exchanges = [heartbeat(number) for number in range(count)]
    began = perf_counter()
    for exchange in exchanges:
        histories.add(exchange)
    added = perf_counter() - began
    began = perf_counter()
    histories.result()
    return {"add_us": added / count * 1_000_000, "result_s": perf_counter() - began}


def print_table(figures: dict[str, dict[str, float]], size: int) -> None:
    """Print what was measured."""
    print(f"{size / MB:,.0f} MB of steady traffic")
    print(f"  {'':14}{'wall s':>9}{'CPU s':>9}{'MB/s':>9}{'RSS MiB':>9}{'of the table':>14}")
    for name, row in figures.items():
        print(
            f"  {name:14}{row['wall_s']:9.2f}{row['cpu_s']:9.2f}{size / row['wall_s'] / MB:9.1f}"
            f"{row['rss'] / MIB:9.0f}{row['times_table']:13.1f}×"
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
    parser.add_argument("--mb", type=float, default=100, help="size of the capture (default 100)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default 3)")
    options = parser.parse_args()
    parts = options.parts or [*COMMANDS, "story"]
    unknown = set(parts) - {*COMMANDS, "story"}
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    missing = tshark_missing()
    file = made("steady", int(options.mb * MB), traffic.GENERATED["steady"])
    commands = [part for part in parts if part in COMMANDS]
    made_of = commands_of(file, commands, beside_tshark=not missing)
    figures = measure(file, made_of, options.rounds) if commands else {}
    told = story() if "story" in parts else {}
    if options.json:
        everything = {"bytes": file.stat().st_size, "commands": figures, "story": told}
        print(for_programs(everything, missing=missing))
        return
    if figures:
        print_table(figures, file.stat().st_size)
    if told:
        print(
            f"a heartbeat is added in {told['add_us']:.1f} µs; after a million, timelines take {told['result_s']:.2f} s"
        )


if __name__ == "__main__":
    main()
