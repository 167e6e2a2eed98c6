"""Run all commands on all hostile files, each run in its own process with limited resources.

    python -m tests.lanes.hostile                        # everything
    python -m tests.lanes.hostile 'overlaps*' fragments --commands 'read*' --jobs 2
    python -m tests.lanes.hostile --scale 0.01 --short   # small files of the same kinds, fewer commands
    python -m tests.lanes.hostile --scale 0.01 --short --turn 2   # a sixth of these runs, as in .ci/run
    python -m tests.lanes.hostile --make DIR             # write the files for other uses
    python -m tests.lanes.hostile --write                # update the figures in docs/security.md

The exit code is 1 if a run failed: by a traceback, a signal, an undocumented exit code, too much processor time or
memory, or control characters in its output.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import click

from docs import generate
from docs.tools import security
from tests.lanes.hostile import beside, gate
from tests.lanes.hostile.attack import written
from tests.lanes.hostile.collection import ATTACKS, Attack
from tests.lanes.hostile.gate import COMMANDS, MIB, Bounds, Command, Outcome

T = TypeVar("T")

_TURNS = 6
_SAID, _WIDE = 8, 160  # lines shown of the standard error of a failed run, and characters of each


@click.command(help=__doc__)
@click.argument("files", nargs=-1)
@click.option(
    "--commands", "-c", multiple=True, metavar="NAME", help="Run these commands only; patterns are taken."
)
@click.option("--short", is_flag=True, help="Leave out commands that do much the same as others.")
@click.option(
    "--turn",
    type=int,
    help=f"Run 1 of {_TURNS} commands on each file, and each command on 1 of {_TURNS} files; turns in a row run all.",
)
@click.option("--jobs", "-j", default=2, show_default=True, help="Runs at the same time.")
@click.option("--scale", default=1.0, show_default=True, help="Make files of this part of their size.")
@click.option("--seconds", default=gate.SECONDS, show_default=True, help="Of the processor, for each run.")
@click.option("--memory", default=gate.MEMORY // MIB, show_default=True, help="MiB, for each run.")
@click.option(
    "--make", type=click.Path(file_okay=False, path_type=Path), help="Make the files there, and run nothing."
)
@click.option(
    "--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Keep the files there."
)
@click.option("--all", "whole", is_flag=True, help="Show every run, not only the dearest ones of each file.")
@click.option("--write", is_flag=True, help="Bring docs/security.md up to date.")
@click.option(
    "--list", "listed", is_flag=True, help="List the files and what they attack, the commands, and end."
)
def main(
    files: tuple[str, ...],
    commands: tuple[str, ...],
    short: bool,
    turn: int | None,
    jobs: int,
    scale: float,
    seconds: int,
    memory: int,
    make: Path | None,
    folder: Path | None,
    whole: bool,
    write: bool,
    listed: bool,
) -> None:
    entry = beside.measuring("")
    entry["command"] += " --short" * short
    if write and turn is not None:
        raise click.UsageError("--write needs every command on each file: leave --turn out")
    chosen = list(_chosen(ATTACKS, files, "file").values())
    run = [each for each in _chosen(COMMANDS, commands, "command").values() if not (short and each.again)]
    if listed:
        for attack in chosen:
            click.echo(f"{attack.name:24}{attack.about}")
        click.echo(f"\n{len(run)} commands: {', '.join(command.name for command in run)}")
        return
    if make is not None:
        make.mkdir(parents=True, exist_ok=True)
        for attack in chosen:
            path = written(attack, make, scale)
            click.echo(f"{path.stat().st_size:14,}  {path.name:32}{attack.about}")
        return
    runs = {
        attack.name: run if turn is None else _of_turn(run, number + turn)
        for number, attack in enumerate(chosen)
    }
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory(prefix="hostile-files-") as place:
        made = _Files(chosen, Path(place), scale, kept=folder is not None, runs=runs)
        table = Table(made.sizes, made.counts, whole=whole)
        for outcome in gate.run(made, Bounds(seconds, memory * MIB, gate.PATIENCE * seconds), jobs):
            made.done(outcome.file)
            table.add(outcome)
        table.finish()
    if write:
        bounds = {"seconds": seconds, "memory": memory * MIB}
        told = {"scale": scale, "bounds": bounds, "commands": len(run), "files": table.told()}
        security.write("gate", entry | told)
        generate.main()
    sys.exit(bool(table.failures()))


def _chosen(there: Mapping[str, T], patterns: Sequence[str], what: str) -> dict[str, T]:
    """Return the names that match a pattern; all if there are no patterns."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in there):
            raise click.UsageError(f"no {what} is called {pattern}: --list tells all")
    fits = patterns or ("*",)
    return {name: each for name, each in there.items() if any(fnmatchcase(name, one) for one in fits)}


def _of_turn(commands: Sequence[T], turn: int) -> Sequence[T]:
    """Return every sixth command; six consecutive turns cover all of them."""
    return commands[turn % _TURNS :: _TURNS]


class _Files:
    """The files, made one by one when needed, and removed once all commands have run on them.

    :param kept: keep the files, and use existing ones
    :param runs: the commands for each file, by name of the attack
    :ivar sizes: sizes in bytes, by file name
    :ivar counts: numbers of runs, by file name
    """

    def __init__(
        self,
        attacks: Sequence[Attack],
        folder: Path,
        scale: float,
        *,
        kept: bool,
        runs: Mapping[str, Sequence[Command]],
    ) -> None:
        self.sizes: dict[str, int] = {}
        self._attacks = attacks
        self._folder = folder
        self._scale = scale
        self._kept = kept
        self._runs = runs
        self.counts = {attack.path(folder).name: len(runs[attack.name]) for attack in attacks}
        self._left = Counter(self.counts)

    def __iter__(self) -> Iterator[tuple[Path, Sequence[Command]]]:
        for attack in self._attacks:
            path = attack.path(self._folder)
            if not (self._kept and path.exists()):
                written(attack, self._folder, self._scale)
            self.sizes[path.name] = path.stat().st_size
            yield path, self._runs[attack.name]

    def done(self, name: str) -> None:
        """Count a finished run, and remove its file after the last one."""
        self._left[name] -= 1
        if not self._left[name] and not self._kept:
            (self._folder / name).unlink()


class Table:
    """The results of the runs, printed as they arrive: a line per file once all its runs have ended, and each failure.

    :param runs: number of runs on each file, by its name
    :param whole: print a line per run
    """

    def __init__(self, sizes: Mapping[str, int], runs: Mapping[str, int], *, whole: bool) -> None:
        self.outcomes: dict[str, list[Outcome]] = {}
        self._sizes = sizes
        self._runs = runs
        self._whole = whole

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a run."""
        of_file = self.outcomes.setdefault(outcome.file, [])
        of_file.append(outcome)
        if self._whole or outcome.failure:
            click.echo(f"  {_line(outcome)}")
        if len(of_file) == self._runs[outcome.file]:
            slow, large = (max(of_file, key=attrgetter(what)) for what in ("seconds", "memory"))
            codes = ", ".join(map(str, sorted({each.code for each in of_file})))
            click.echo(
                f"{outcome.file:30}{self._sizes[outcome.file]:12,} bytes; at most {slow.seconds:6.2f} s "
                f"({slow.command}), {large.memory / MIB:,.0f} MiB ({large.command}); exit codes {codes}"
            )

    def told(self) -> dict[str, Any]:
        """Return the most expensive run and the failed runs of each file."""
        files = {}
        for file, runs in self.outcomes.items():
            slow, large = (max(runs, key=attrgetter(what)) for what in ("seconds", "memory"))
            files[file] = {
                "slowest": [slow.seconds, slow.command],
                "largest": [large.memory, large.command],
                "failed": [[each.command, each.failure] for each in runs if each.failure],
            }
        return files

    def failures(self) -> list[Outcome]:
        """Return the runs that failed."""
        return [each for of_file in self.outcomes.values() for each in of_file if each.failure]

    def finish(self) -> None:
        """Print the summary: each failure, with the end of its standard error."""
        failures = self.failures()
        for each in failures:
            click.echo(f"\n{_line(each)}")
            for line in each.said.strip().splitlines()[-_SAID:]:
                click.echo(f"    {line[:_WIDE]}")
        runs = [each for of_file in self.outcomes.values() for each in of_file]
        seconds = sum(each.seconds for each in runs)
        click.echo(
            f"\n{len(runs):,} runs on {len(self.outcomes)} files, {seconds:,.0f} s: {len(failures)} failed"
        )


def _line(outcome: Outcome) -> str:
    return (
        f"{outcome.file:30}{outcome.command:22}{outcome.seconds:7.2f} s {outcome.memory / MIB:7,.0f} MiB"
        f"{outcome.code:5}  {outcome.failure}"
    )


if __name__ == "__main__":
    main()
