"""Runs targets: under atheris in a process of their own, or input by input in this one."""

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

#: a line of libFuzzer about how far it is: executions, event, edges, features, inputs
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
    """Fuzzing needs something that is not installed."""


@dataclass(slots=True)
class Outcome:
    """What came of fuzzing one target.

    :ivar executions: inputs that were run through it, those to begin with included
    :ivar seconds: wall time, with the start of the process
    :ivar before: edges of code that the inputs to begin with reach
    :ivar after: edges that all inputs reach
    :ivar inputs: inputs that reached something new
    :ivar megabytes: most resident memory
    :ivar cases: the inputs that broke the target, one of each kind
    :ivar told: what is said about them
    :ivar died: the process that fuzzed ended before its time
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
        """Whether there is a case, or the run itself did not work."""
        return bool(self.cases or self.told)

    def take(self, line: str) -> None:
        """Take a line that libFuzzer or Python wrote."""
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
        """Return one line for people."""
        rate = self.executions / self.seconds if self.seconds else 0
        found = f"cases: {', '.join(map(str, self.cases))}" if self.cases else "no case"
        if not self.cases and self.told:
            found = "did not run"
        return (
            f"{self.name:<14}{self.executions:>12,} executions in {self.seconds:.0f} s ({rate:,.0f}/s), "
            f"{self.after:,} edges ({self.after - self.before:+,}), {self.inputs:,} new inputs, "
            f"{self.megabytes} MB: {found}"
        )


#: is told how far it is
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
    """Fuzz a target until one of the limits is reached; 0 is no limit.

    What breaks it is kept, each way once, and does not end the run, unless it ends the process.

    :param work: folder that keeps what reached something new, and to which earlier runs have added
    :param plain: without coverage, which is faster, and finds no new code
    :param seed: of the random numbers; 0 for some
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
        with suppress(OSError):  # unless there is something in it
            (FOUND / name).rmdir()


def _guided(
    target: Target, work: Path, seconds: int, runs: int, seed: int, progress: Progress | None
) -> Outcome:
    name = target.name
    options = [*limits(target), f"-artifact_prefix={FOUND / name}/", "-print_final_stats=1", "-reload=0"]
    if words := [f'"{escaped(word)}"\n' for word in target.words()]:
        dictionary = work.with_name(f"{name}.words")  # beside the folder: what is in it is taken for inputs
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
        if outcome.died:  # before it could say what of
            for data in running(Path(current.name).read_bytes()):
                path = FOUND / name / f"ended-{hashlib.sha1(data).hexdigest()}"
                path.write_bytes(data)
                outcome.cases.append(path)
    return outcome


def running(noted: bytes) -> list[bytes]:
    """Return the inputs that a process without coverage was running, as it has noted them."""
    given = Input(noted)
    return [given.take(given.number(8)) for _ in range(given.number(8))]


def cases_of(work: Path) -> Path:
    """Return the file with the cases of a work folder: beside it, as what is in it is taken for inputs."""
    return work.with_name(f"{work.name}.cases")


def merge(name: str, folders: Iterable[Path]) -> Outcome:
    """Add to a target's corpus what of some folders reaches code that the corpus does not.

    :raises CannotRun: if atheris is not installed
    """
    need_atheris()
    target = load(name)
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    options = [*limits(target), "-merge=1", str(CORPUS / name), *map(str, folders)]
    return _ended(name, ["fuzz.child", name, os.devnull, *options], None)


def escaped(word: bytes) -> str:
    """Return a word as libFuzzer's dictionaries have it."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def limits(target: Target) -> list[str]:
    """Return the options of libFuzzer that a target's bounds make."""
    return [
        f"-max_len={target.longest}",
        f"-timeout={_PATIENCE * target.seconds}",
        f"-report_slow_units={_PATIENCE * target.seconds}",
        f"-rss_limit_mb={_FUZZER_MB + target.megabytes}",
    ]


def need_atheris() -> None:
    """Raise :class:`CannotRun` with what to do if atheris is not there."""
    if find_spec("atheris") is None:
        raise CannotRun(
            "fuzzing needs atheris: pip install -e '.[fuzz]' (Linux). Without it, inputs that are kept "
            "can be run: python -m fuzz TARGET FILE..."
        )


def memory() -> Path | None:
    """Return a folder that is held in memory, None if there is none: targets of files write one for each input."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else None


def _ended(name: str, module: list[str], progress: Progress | None) -> Outcome:
    """Run a process that fuzzes to its end."""
    outcome, started = Outcome(name), time.monotonic()
    command = [sys.executable, "-m", *module]
    with ExitStack() as stack:
        # libFuzzer ends its process without tidying up
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kproxy-fuzz-", dir=memory()))
        child = stack.enter_context(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,  # of Python's exceptions; libFuzzer writes to the other
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
    """Run inputs through a target, without atheris; return the traceback of each that breaks it."""
    broken, run = {}, whole(target)
    for path in paths:
        started = time.process_time()
        try:
            run(path.read_bytes())
        except Exception:  # whatever it is, it is the case
            broken[path] = traceback.format_exc()
        else:
            if (took := time.process_time() - started) > target.seconds:
                broken[path] = f"took {took:.1f} s, allowed are {target.seconds}\n"
    return broken
