"""Time of questions beside the exchange table alone: ``python -m benchmarks.questions [--mb N] [PART...]``.

The capture is generated: idempotent producers, and consumer groups that fetch the same batches, commit and send
heartbeats, with six partitions in three topics. Questions are about one of its twelve clients, one of its topics, or
everything. Each runs in its own process, alternating with the table. Figures are medians; ratios are computed within a
round. The exit code is 1 if a question exceeds its allowed multiple of the table's time. ``--topics 1`` uses one topic.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import pipeline
from benchmarks.analyses import measure
from benchmarks.captures import MB, MIB
from benchmarks.outcome import Aim, for_programs


class Question(NamedTuple):
    """A command, without the capture.

    :ivar most: allowed multiple of the table's time; 0 if there is no aim
    """

    command: tuple[str, ...]
    most: float


QUESTIONS = {
    "clients": Question(("clients", "--json"), 3),
    "clients --config": Question(("clients", "--settings", "--json"), 3),
    "follow a producer": Question(("follow", "app-0", "--json"), 3),
    "follow a consumer": Question(("follow", "app-1", "--json"), 3),
    "journey of a topic": Question(("journey", "--topic", "orders-0", "--json"), 6),
    "journey of a record": Question(("journey", "orders-0-0@1000", "--json"), 6),
    "compat": Question(("compat", "--broker-version", "4.3", "--json"), 0),
}


def commands_of(file: Path, parts: Sequence[str]) -> dict[str, list[str]]:
    """Return the measured commands by question."""
    out = {}
    for part in parts:
        word, *options = QUESTIONS[part].command
        out[part] = [sys.executable, "-m", "kproxy", word, *options, str(file)]
    return out


def aims(figures: dict[str, dict[str, float]]) -> Iterator[Aim]:
    """Return the aim of each question."""
    for name, row in figures.items():
        if name in QUESTIONS and QUESTIONS[name].most:
            what = f"{name}: times the table's processor time"
            yield Aim(what, row["times_table"], QUESTIONS[name].most, at_most=True)


def print_table(figures: dict[str, dict[str, float]], size: int) -> None:
    """Print the figures."""
    print(f"{size / MB:,.0f} MB of records on their way")
    print(f"  {'':20}{'wall s':>9}{'CPU s':>9}{'MB/s':>9}{'RSS MiB':>9}{'of the table':>14}")
    for name, row in figures.items():
        print(
            f"  {name:20}{row['wall_s']:9.2f}{row['cpu_s']:9.2f}{size / row['wall_s'] / MB:9.1f}"
            f"{row['rss'] / MIB:9.0f}{row['times_table']:13.1f}×"
        )
    print(*aims(figures), sep="\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="questions that begin with this word (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("--mb", type=float, default=1000, help="size of the capture (default 1000)")
    parser.add_argument(
        "--topics", type=int, choices=(1, 2, 3, 6), default=3, help="of the six partitions (default 3)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement (default 3)")
    options = parser.parse_args()
    words = {question.command[0] for question in QUESTIONS.values()}
    unknown = set(options.parts) - words
    if unknown:
        parser.error(
            f"there is no question {', '.join(sorted(unknown))}; there are {', '.join(sorted(words))}"
        )
    parts = [name for name, each in QUESTIONS.items() if each.command[0] in (options.parts or words)]
    file = pipeline.capture(int(options.mb * MB), options.topics)
    figures = measure(file, commands_of(file, parts), options.rounds)
    if options.json:
        print(for_programs({"bytes": file.stat().st_size, "questions": figures}, aims(figures)))
    else:
        print_table(figures, file.stat().st_size)
    sys.exit(any(not aim.reached for aim in aims(figures)))


if __name__ == "__main__":
    main()
