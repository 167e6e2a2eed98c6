"""Runs targets under atheris in a separate process, or input by input in this one."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from fuzz.target import CORPUS, FOUND, Input, Target, load, whole

#: a progress line of libFuzzer: executions, event, edges, features, inputs
_STATUS = re.compile(r"^#(\d+)\s+(\w+)\s+cov: (\d+) ft: (\d+) corp: (\d+)/")
_STATISTIC = re.compile(r"^stat::(\w+):\s+(\d+)")
_WRITTEN = re.compile(r"Test unit written to (\S+)")
_NOISE = re.compile(r"^(INFO: |WARNING: Failed to find function|MERGE-|#\d+\s|stat::|Done \d+ runs)")
_PATIENCE = 4
"""libFuzzer counts the time that passes; an input may have to share the processor with others."""
_FUZZER_MB = 3072
"""What libFuzzer may keep for itself."""
_MOST_TOLD = 60
"""Lines of a case that are kept: exception, traceback, and what libFuzzer says."""


class CannotRun(Exception):  # noqa: N818  # says what is wrong, reads well at the raise
    """A package that fuzzing needs is not installed."""


@dataclass(slots=True)
class Outcome:
    """The outcome of fuzzing a target.

    :ivar executions: number of executed inputs, including seeds
    :ivar seconds: wall-clock time, including the start of the process
    :ivar before: edges of code that the seeds reach
    :ivar after: edges that all inputs reach
    :ivar inputs: inputs that reached new code
    :ivar megabytes: peak resident memory
    :ivar cases: inputs that broke the target, one of each kind
    :ivar told: descriptions of the cases
    :ivar died: whether the fuzzing process exited early
    """

    name: str
    executions: int = 0
    seconds: float = 0.0
    before: int = 0
    after: int = 0
    inputs: int = 0
    megabytes: int = 0
    cases: list[Path] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    died: bool = False

    @property
    def failed(self) -> bool:
        """Whether there is a case, or the run itself failed."""
        return bool(self.cases or self.told)

    def take(self, line: str) -> None:
        """Process a line of output of libFuzzer or Python."""
        if status := _STATUS.match(line):
            self.executions = max(self.executions, int(status[1]))
            self.after = max(self.after, int(status[3]))
            if status[2] == "INITED":
                self.before = int(status[3])
        elif statistic := _STATISTIC.match(line):
            match statistic[1]:
                case "number_of_executed_units":
                    self.executions = int(statistic[2])
                case "new_units_added":
                    self.inputs = int(statistic[2])
                case "peak_rss_mb":
                    self.megabytes = int(statistic[2])
        elif not _NOISE.match(line) and line.strip() and len(self.told) < _MOST_TOLD:
            self.told.append(line.rstrip())
        if written := _WRITTEN.search(line):
            self.cases.append(Path(written[1]))

    def summary(self) -> str:
        """Return a one-line summary."""
        rate = self.executions / self.seconds if self.seconds else 0
        found = f"cases: {', '.join(map(str, self.cases))}" if self.cases else "no case"
        if not self.cases and self.told:
            found = "did not run"
        return (
            f"{self.name:<14}{self.executions:>12,} executions in {self.seconds:.0f} s ({rate:,.0f}/s), "
            f"{self.after:,} edges ({self.after - self.before:+,}), {self.inputs:,} new inputs, "
            f"{self.megabytes} MB: {found}"
        )


#: receives the progress
Progress = Callable[[Outcome], None]


def fuzz(
    name: str,
    work: Path,
    *,
    seconds: int = 0,
    runs: int = 0,
    plain: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """Fuzz a target until a limit is reached; 0 means no limit.

    Cases are stored, each kind once, and do not end the run unless they end the process.

    :param work: folder for inputs that reach new code, kept between runs
    :param plain: run without coverage, which is faster but finds no new code
    :param seed: seed of the random numbers; 0 for a random one
    :raises CannotRun: if atheris is not installed
    """
    target = load(name)
    for folder in (work, FOUND / name, CORPUS / name):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        if plain:
            return _plain(target, work, seconds, runs, seed, progress)
        need_atheris()
        return _guided(target, work, seconds, runs, seed, progress)
    finally:
        with suppress(OSError):  # not empty
            (FOUND / name).rmdir()


def _guided(
    target: Target, work: Path, seconds: int, runs: int, seed: int, progress: Progress | None
) -> Outcome:
    name = target.name
    options = [*limits(target), f"-artifact_prefix={FOUND / name}/", "-print_final_stats=1", "-reload=0"]
    if words := [f'"{escaped(word)}"\n' for word in target.words()]:
        dictionary = work.with_name(f"{name}.words")  # beside the folder, whose files all count as inputs
        dictionary.write_text("".join(words), encoding="ascii")
        options.append(f"-dict={dictionary}")
    limited = (("max_total_time", seconds), ("runs", runs), ("seed", seed))
    options += [f"-{option}={value}" for option, value in limited if value]
    folders = (str(work), str(CORPUS / name), str(FOUND / name))
    return _ended(name, ["fuzz.child", name, str(cases_of(work)), *options, *folders], progress)


def _plain(
    target: Target, work: Path, seconds: int, runs: int, seed: int, progress: Progress | None
) -> Outcome:
    name = target.name
    with tempfile.NamedTemporaryFile(prefix="kproxy-fuzz-", dir=memory()) as current:
        named = {
            "--cases": cases_of(work),
            "--found": FOUND / name,
            "--work": work,
            "--current": current.name,
        }
        numbers = {"--seconds": seconds, "--runs": runs, "--seed": seed}
        options = [str(part) for pair in (named | numbers).items() for part in pair]
        outcome = _ended(name, ["fuzz.plain", name, *options], progress)
        if outcome.died:  # before it could report the reason
            for data in running(Path(current.name).read_bytes()):
                path = FOUND / name / f"ended-{hashlib.sha1(data).hexdigest()}"
                path.write_bytes(data)
                outcome.cases.append(path)
    return outcome


def running(noted: bytes) -> list[bytes]:
    """Return the inputs that a process without coverage was running when it died."""
    given = Input(noted)
    return [given.take(given.number(8)) for _ in range(given.number(8))]


def cases_of(work: Path) -> Path:
    """Return the file with the cases of a work folder. It is beside the folder, whose files all count as inputs."""
    return work.with_name(f"{work.name}.cases")


def merge(name: str, folders: Iterable[Path]) -> Outcome:
    """Add the inputs in other folders that reach new code to a target's corpus.

    :raises CannotRun: if atheris is not installed
    """
    need_atheris()
    target = load(name)
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    options = [*limits(target), "-merge=1", str(CORPUS / name), *map(str, folders)]
    return _ended(name, ["fuzz.child", name, os.devnull, *options], None)


def escaped(word: bytes) -> str:
    """Return a word in the form of libFuzzer's dictionaries."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def limits(target: Target) -> list[str]:
    """Return libFuzzer's options for the limits of a target."""
    return [
        f"-max_len={target.longest}",
        f"-timeout={_PATIENCE * target.seconds}",
        f"-report_slow_units={_PATIENCE * target.seconds}",
        f"-rss_limit_mb={_FUZZER_MB + target.megabytes}",
    ]


def need_atheris() -> None:
    """Raise :class:`CannotRun` with instructions if atheris is missing."""
    if find_spec("atheris") is None:
        raise CannotRun(
            "fuzzing needs atheris: pip install -e '.[fuzz]' (Linux). Without it, inputs that are kept "
            "can be run: python -m fuzz TARGET FILE..."
        )


def memory() -> Path | None:
    """Return a folder in memory, None if there is none. Targets that read files write one per input."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else None


def _ended(name: str, module: list[str], progress: Progress | None) -> Outcome:
    """Run a fuzzing process to its end."""
    outcome, started = Outcome(name), time.monotonic()
    command = [sys.executable, "-m", *module]
    with ExitStack() as stack:
        # libFuzzer exits without cleaning up
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kproxy-fuzz-", dir=memory()))
        child = stack.enter_context(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,  # Python's exceptions; libFuzzer writes to standard error
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=os.environ | {"TMPDIR": folder},
            )
        )
        assert child.stdout is not None
        try:
            for line in child.stdout:
                outcome.take(line)
                outcome.seconds = time.monotonic() - started
                if progress is not None:
                    progress(outcome)
        except KeyboardInterrupt:
            child.terminate()
            raise
    outcome.seconds = time.monotonic() - started
    outcome.died = child.returncode != 0
    if not outcome.died and not outcome.cases:
        outcome.told.clear()  # warnings of libraries
    return outcome


def replay(target: Target, paths: Iterable[Path]) -> dict[Path, str]:
    """Run inputs through a target without atheris; return the traceback of each that breaks it."""
    broken, run = {}, whole(target)
    for path in paths:
        started = time.process_time()
        try:
            run(path.read_bytes())
        except Exception:  # any exception is a case
            broken[path] = traceback.format_exc()
        else:
            if (took := time.process_time() - started) > target.seconds:
                broken[path] = f"took {took:.1f} s, allowed are {target.seconds}\n"
    return broken
