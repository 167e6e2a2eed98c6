"""``python -m fuzz TARGET``: fuzz a target, or run stored inputs through it.

Exit codes: 0 no case, 1 a case was found (its file is printed), 2 wrong usage, or atheris is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from fuzz import record
from fuzz.engine import CannotRun, Outcome, fuzz, merge, replay
from fuzz.target import NAMES, kept, load

SECONDS = 60
_TURNS = 3
_GUIDED = 6
"""In a campaign one run of so many is guided by coverage."""
WORK = Path("build") / "fuzz"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = parser().parse_args(arguments)
    names = NAMES if options.target == "all" else (options.target,)
    if options.list:
        for name in names:
            print(f"{name}\n    " + load(name).about.replace("\n", "\n    ").rstrip())
        return 0
    try:
        if options.files:
            return run_files(options.target, options.files)
        if options.merge:
            return merged(names, options.corpus)
        if options.campaign:
            return campaign(names, options)
        # with a limit of executions there is no time limit
        seconds = options.seconds or (0 if options.runs else SECONDS)
        return worst([ran(name, options, seconds, plain=options.plain) for name in names])
    except CannotRun as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    made = argparse.ArgumentParser(
        "python -m fuzz", description="Fuzz what reads bytes of others (docs/fuzzing.md)."
    )
    made.add_argument(
        "target", choices=("all", *NAMES), metavar="TARGET", help=f"all, or one of {', '.join(NAMES)}"
    )
    made.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="only run these inputs; needs no atheris"
    )
    made.add_argument(
        "--seconds", type=int, default=0, metavar="N", help=f"of each target, {SECONDS} by default"
    )
    made.add_argument("--runs", type=int, default=0, metavar="N", help="executions of each target")
    made.add_argument(
        "--plain", action="store_true", help="without coverage: faster, and reaches no new code but by chance"
    )
    made.add_argument(
        "--campaign",
        type=int,
        default=0,
        metavar="N",
        help="for N seconds, run targets that have not reached their goals (fuzz/record.py), --seconds each",
    )
    made.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=record.RECORD,
        metavar="FILE",
        help="add the executions to those on record: fuzz/record.json",
    )
    made.add_argument("--state", metavar="TEXT", help="the code's state for the record, if it is no commit")
    made.add_argument(
        "--corpus",
        type=Path,
        default=WORK,
        metavar="DIR",
        help=f"keeps what reached something new, by target: {WORK}",
    )
    made.add_argument(
        "--merge", action="store_true", help="add to fuzz/corpus what of DIR reaches code that is new"
    )
    made.add_argument("--list", action="store_true", help="say what the target feeds, and what must hold")
    return made


def ran(name: str, options: argparse.Namespace, seconds: int, *, plain: bool) -> Outcome:
    """Fuzz a target, print the outcome, and record it if requested."""
    state = options.state or record.state()
    outcome = fuzz(
        name,
        options.corpus / name,
        seconds=seconds,
        runs=options.runs,
        plain=plain,
        seed=time.time_ns() & 0xFFFF_FFFF,
        progress=shown,
    )
    told(outcome)
    if options.record:
        kind = "plain" if plain else "guided"
        record.add(name, state, kind, outcome.executions, outcome.after, options.record)
    return outcome


def campaign(names: Iterable[str], options: argparse.Namespace) -> int:
    """Fuzz targets below their goals for a while each, with more time for those furthest from theirs."""
    options.record = options.record or record.RECORD
    end, outcomes, number = time.monotonic() + options.campaign, list[Outcome](), 0
    while (left := end - time.monotonic()) > 1:
        wanted = [name for name in record.behind(record.load(options.record)) if name in names]
        if not wanted:
            break
        name = wanted[
            number % min(len(wanted), _TURNS)
        ]  # so that concurrent campaigns do not all choose the first
        seconds = min(int(left), options.seconds or SECONDS)
        outcomes.append(ran(name, options, seconds, plain=options.plain or number % _GUIDED != _GUIDED - 1))
        number += 1
    return worst(outcomes)


def merged(names: Iterable[str], root: Path) -> int:
    """Add inputs from other folders to the corpus of targets, and print how many."""
    outcomes = []
    for name in names:
        before = len(kept(name))
        outcomes.append(merge(name, [root / name]))
        print(f"{name:<14}{len(kept(name)) - before:>6} inputs added to {before}", flush=True)
        for line in outcomes[-1].told:
            print(f"  {line}", file=sys.stderr)
    return worst(outcomes)


def run_files(name: str, files: list[Path]) -> int:
    """Run inputs through a target, and print those that break it."""
    if name == "all":
        print("a file belongs to one target: name it instead of all", file=sys.stderr)
        return 2
    missing = [path for path in files if not path.is_file()]
    if missing:
        print(f"no such file: {', '.join(map(str, missing))}", file=sys.stderr)
        return 2
    broken = replay(load(name), files)
    for path, text in broken.items():
        print(f"{path}:\n{text}", file=sys.stderr)
    print(f"{name}: {len(files)} inputs, {len(broken)} cases")
    return 1 if broken else 0


def shown(outcome: Outcome) -> None:
    """Show the progress on a terminal."""
    if sys.stderr.isatty():
        line = f"{outcome.name}: {outcome.executions:,} executions, {outcome.after:,} edges"
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)


def told(outcome: Outcome) -> None:
    """Print the outcome of a target."""
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    for line in outcome.told:
        print(f"  {line}", file=sys.stderr)
    print(outcome.summary(), flush=True)
    for case in outcome.cases:
        print(f"  again: python -m fuzz {outcome.name} {case}", flush=True)


def worst(outcomes: list[Outcome]) -> int:
    """Return the exit code for some outcomes."""
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
