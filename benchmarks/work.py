"""How much work kproxy does, counted: ``python -m benchmarks.work [JOB...] [--json] [--write]``.

Seconds differ between machines and from one minute to the next. So the test that guards against needless work
(``tests/benchmarks/test_work.py``) compares counts instead. They are given per exchange, message, record or piece
(:mod:`benchmarks.jobs`) and stored in ``benchmarks/work.json``:

``calls``
    Calls of kproxy's own functions, including generated decoders. Resuming a generator counts as a call.
``other calls``
    Calls that these make of other functions, in C or Python. The calls inside those depend on their version and are
    not counted. Both are counts of :mod:`cProfile`, which is complete except for numpy's ufuncs and the construction of
    objects by classes written in C.
``lines``
    Executed lines of kproxy, once per iteration of a loop: work without calls.
``allocated``
    Bytes of memory allocated, line by line, whether or not they are freed at once, so every copy counts. For each line
    it is the peak growth of memory that :mod:`tracemalloc` sees. Memory that a line frees before it allocates more
    counts once, and objects that Python recycles (tuples, lists, dictionaries, floats) count as nothing. Tracing itself
    adds some two hundred bytes per call.
``peak``
    Peak memory in use, in bytes, beyond that before the run.
``kept``
    Objects made: memory blocks that the result still holds (:func:`sys.getallocatedblocks`).
``read``
    Bytes read from files, counted each time.
``checked``
    Bytes covered by computed checksums.

Counting runs in its own process, with a fixed hash seed, in an empty folder with a path of fixed length, without
garbage collection, and after runs that import modules, generate code and fill caches. So counts are the same in every
process: calls, lines and bytes read or checked exactly, memory within a thousandth, because Python's method cache
depends on the addresses of classes.

A count may exceed the stored one by the factor :data:`MORE`, and must not fall below :data:`LESS` of it, so that gains
are stored too: a commit that changes the amount of work contains the result of ``--write``. This holds for the version
of Python that the counts were stored with. Another version inlines comprehensions, numbers lines and lays out objects
differently, so there the bounds are :data:`MORE_ELSEWHERE` and :data:`ELSEWHERE`. Likewise, :data:`MEMORY` depends on
numpy, pyarrow and msgspec.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).with_name("work.json")
WRITE = "python -m benchmarks.work --write"

MORE, LESS = 1.04, 0.90
MORE_ELSEWHERE = 1.15
ELSEWHERE = {"allocated": 2.0}
"""Tracing takes memory as well: 3.13 counts half as much again for records, with the same calls and lines."""
TWICE = 2.05
"""How much more may be done for twice the traffic: what grows faster than it is not linear."""
_FEW = 64
"""Counts in one run that are always allowed to differ: a table of Python that grows by one step, a name."""

COUNTS = ("calls", "other calls", "lines", "allocated", "peak", "kept", "read", "checked")
BY_FUNCTION = ("calls", "other calls", "lines", "allocated")
MEMORY = frozenset({"allocated", "peak", "kept"})
_NOUNS = {
    "calls": ("is called", "times"),
    "other calls": ("is called", "times"),
    "lines": ("executes", "lines"),
    "allocated": ("allocates", "bytes"),
}
_PATH = 240
"""Bytes of the path of the folder in which is counted."""
_MOST_FUNCTIONS = 15
_TOLD = 5
_LIBRARIES = ("numpy", "pyarrow", "msgspec", "construct")

_OWN = tuple(str(ROOT / name) + os.sep for name in ("kproxy", "captures", "dissectors"))
_ADDRESS = re.compile(" of type object at 0x[0-9a-fA-F]+")
_GENERATED = ("<decoder of", "<walk>", "<projection>", "<filter>", "<field>")


# ---------------------------------------------------------------- counting, in a process of its own
@dataclass
class JobWork:
    """The counted work of a job.

    :ivar units: number of processed units
    :ivar counts: of the whole run
    :ivar functions: count -> function -> its share; all functions when counted, the largest ones when stored
    """

    unit: str
    units: int
    counts: dict[str, int]
    functions: dict[str, dict[str, int]] = field(default_factory=dict)

    def each(self, name: str) -> float:
        """Return a count per unit."""
        return self.counts[name] / self.units

    def largest(self) -> JobWork:
        """Return a copy with only the largest functions."""
        functions = {
            name: dict(sorted(found.items(), key=lambda each: (-each[1], each[0]))[:_MOST_FUNCTIONS])
            for name, found in self.functions.items()
        }
        return JobWork(self.unit, self.units, self.counts, functions)


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(_OWN) or code.co_filename.startswith(_GENERATED)


def _name(code: CodeType | str) -> str:
    """Return the name of a function in figures, without its installation path."""
    if isinstance(code, str):
        return _ADDRESS.sub("", code.strip("<>"))
    file = code.co_filename
    if file.startswith(_OWN):
        return f"{Path(file).relative_to(ROOT)}: {code.co_qualname}"
    if file.startswith("<"):
        return f"{file} {code.co_qualname}"
    return f"{Path(file).stem}: {code.co_qualname}"


def _calls(run: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """Return the calls of kproxy's functions, and their calls of others."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        run()
    finally:
        profile.disable()
    own: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, str) or not _is_own(entry.code):
            continue
        own[_name(entry.code)] += entry.callcount
        for called in entry.calls or ():
            if isinstance(called.code, str) or not _is_own(called.code):
                others[_name(called.code)] += called.callcount
    return own, others


class _Lines:
    """Counts executed lines and the memory that each allocates.

    Memory allocated between two events of kproxy's code is attributed to the first of them. Code objects are identified
    by ``id``, because their hash takes longer than everything else here.
    """

    def __init__(self) -> None:
        self.lines: defaultdict[int, int] = defaultdict(int)
        self.allocated: defaultdict[int, int] = defaultdict(int)
        self._owned: dict[int, tuple[bool, CodeType]] = {}

    def named(self, counts: Mapping[int, int]) -> Counter[str]:
        """Return counts by the names of functions."""
        named: Counter[str] = Counter()
        for each, counted in counts.items():
            if each in self._owned:
                named[_name(self._owned[each][1])] += counted
        return named

    def run(self, job: Callable[[], object]) -> None:
        """Run a job while counting."""
        traced, reset, size = tracemalloc.get_traced_memory, tracemalloc.reset_peak, sys.getsizeof
        lines, allocated, owned = self.lines, self.allocated, self._owned
        at = level = 0

        def called(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
            nonlocal at, level
            code = frame.f_code
            own = id(code)
            if own not in owned:
                owned[own] = _is_own(code), code
            if not owned[own][0]:
                return None
            # Python makes a frame object only if it is requested
            grown = traced()[1] - level - size(frame)
            if grown > 0:
                allocated[at] += grown
            at = own
            level = traced()[0]
            reset()
            return line

        def line(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            nonlocal at, level
            grown = traced()[1] - level
            if grown > 0:
                allocated[at] += grown
            at = id(frame.f_code)
            if event == "line":
                lines[at] += 1
            level = traced()[0]
            reset()
            return line

        tracemalloc.start()
        level = traced()[0]
        reset()
        before = sys.gettrace()
        sys.settrace(called)
        try:
            held = job()
        finally:
            sys.settrace(before)
            tracemalloc.stop()
        del held


def _lines_and_memory(run: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """Return lines executed, and bytes allocated, by function."""
    lines = _Lines()
    lines.run(run)
    return lines.named(lines.lines), lines.named(lines.allocated)


def _lines(run: Callable[[], object]) -> int:
    """Return lines executed."""
    lines = 0
    owned: dict[int, tuple[bool, CodeType]] = {}  # keeps code alive, so that no other code gets the same id

    def called(frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        code = frame.f_code
        own = owned.get(id(code))
        if own is None:
            own = owned[id(code)] = _is_own(code), code
        return line if own[0] else None

    def line(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        nonlocal lines
        if event == "line":
            lines += 1
        return line

    before = sys.gettrace()
    sys.settrace(called)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines


def _peak(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _held(run: Callable[[], object]) -> int:
    before = sys.getallocatedblocks()
    held = run()
    after = sys.getallocatedblocks()
    del held
    return after - before - 1  # minus the object of the first figure


def _seams(run: Callable[[], object]) -> tuple[int, int]:
    """Return bytes read from files, and bytes of which a checksum was made."""
    import crc32c
    from isal import isal_zlib

    counted = [0, 0]
    pread, preadv = os.pread, os.preadv
    crc, crc_c = isal_zlib.crc32, crc32c.crc32c

    def read(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        counted[0] += len(data)
        return data

    def read_into(fd: int, buffers: Sequence[Any], offset: int) -> int:
        count = preadv(fd, buffers, offset)
        counted[0] += count
        return count

    def checked(original: Callable[..., int]) -> Callable[..., int]:
        def check(data: Any, *more: Any) -> int:
            counted[1] += len(data)
            return original(data, *more)

        return check

    with (
        mock.patch.object(os, "pread", read),
        mock.patch.object(os, "preadv", read_into),
        mock.patch.object(isal_zlib, "crc32", checked(crc)),
        mock.patch.object(crc32c, "crc32c", checked(crc_c)),
    ):
        run()
    return counted[0], counted[1]


def count(run: Callable[[], object], unit: str, units: int, *, memory: bool = True) -> JobWork:
    """Count the work of a job, after warm-up runs.

    :param memory: count everything; otherwise only calls and lines, which is faster
    """
    gc.disable()
    try:
        run()
        _calls(run)
        own, others = _calls(run)
        found = {"calls": own, "other calls": others}
        counts = {name: sum(by.values()) for name, by in found.items()}
        if not memory:
            return JobWork(unit, units, counts | {"lines": _lines(run)})
        gc.collect()
        found["lines"], found["allocated"] = _lines_and_memory(run)
        counts |= {name: sum(found[name].values()) for name in ("lines", "allocated")}
        for name, measure in (("peak", _peak), ("kept", _held)):
            gc.collect()
            measure(run)
            gc.collect()
            counts[name] = measure(run)
        counts["read"], counts["checked"] = _seams(run)
    finally:
        gc.enable()
    return JobWork(unit, units, counts, {name: dict(by) for name, by in found.items()})


def _count_here(names: Sequence[str], *, twice: bool) -> Iterator[dict[str, Any]]:
    """Count in this process, and yield figures for :func:`measured`."""
    from benchmarks.jobs import JOBS

    for job in JOBS:
        if job.name not in names:
            continue
        made = job.make(1)
        found = count(made.run, job.unit, made.units)
        double = None
        if twice:
            made = job.make(2)
            double = count(made.run, job.unit, made.units, memory=job.unit == "piece")
        yield {"job": job.name, "found": asdict(found), "double": double and asdict(double)}


# ---------------------------------------------------------------- starting that process
class MeasuredJob(NamedTuple):
    """Counts of a job.

    :ivar double: counts with twice the traffic, if requested
    """

    found: JobWork
    double: JobWork | None


def jobs() -> dict[str, str]:
    """Return the jobs and their units."""
    from benchmarks.jobs import JOBS

    return {job.name: job.unit for job in JOBS}


def measured(
    names: Iterable[str] = (), *, twice: bool = False, first: str = "", folder: str | None = None
) -> dict[str, MeasuredJob]:
    """Count jobs in a separate process.

    :param names: names of jobs; all if empty
    :param twice: count also with twice the traffic
    :param first: Python code that the process runs first
    :param folder: folder for its files; None for the default temporary folder
    :raises RuntimeError: if that process fails
    """
    wanted = list(names) or list(jobs())
    code = f"{first}\nfrom benchmarks.work import _serve\n_serve({wanted!r}, {twice!r})"
    with tempfile.TemporaryDirectory(dir=folder) as made:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=_of_fixed_length(Path(made).resolve()),
            env=_environment(made),
            capture_output=True,
            text=True,
        )
    if ran.returncode:
        raise RuntimeError(f"counting failed:\n{ran.stderr}")
    every = [json.loads(line) for line in ran.stdout.splitlines()]
    return {
        each["job"]: MeasuredJob(
            JobWork(**each["found"]), JobWork(**each["double"]) if each["double"] else None
        )
        for each in every
    }


def _of_fixed_length(folder: Path) -> Path:
    """Make a folder whose path has a fixed length, because paths take memory."""
    more = _PATH - len(os.fsencode(folder)) - 1
    if more < 1:
        return folder
    made = folder / ("d" * more)
    made.mkdir()
    return made


def _environment(folder: str) -> dict[str, str]:
    """Return environment variables that are the same everywhere, except those that programs need."""
    passed = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return passed | {
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "OPENBLAS_NUM_THREADS": "1",
        "XDG_STATE_HOME": folder,
    }


def _serve(names: Sequence[str], twice: bool) -> None:
    """Count, and write a line per job to the original standard output."""
    out = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with out:
        for each in _count_here(names, twice=twice):
            out.write(json.dumps(each) + "\n")


# ---------------------------------------------------------------- stored counts
@dataclass
class KeptCounts:
    """The stored counts.

    :ivar python: version of Python that they were counted with, such as ``3.11``
    :ivar libraries: versions of the libraries on which :data:`MEMORY` depends
    """

    python: str
    libraries: dict[str, str]
    jobs: dict[str, JobWork]

    @classmethod
    def here(cls, counted: Mapping[str, JobWork]) -> KeptCounts:
        """Return the counts in stored form, with the versions of this process."""
        libraries = {name: version(name) for name in _LIBRARIES}
        python = ".".join(platform.python_version_tuple()[:2])
        return cls(python, libraries, {name: each.largest() for name, each in counted.items()})

    @classmethod
    def load(cls, path: Path | None = None) -> KeptCounts:
        """Read the stored counts."""
        shape = json.loads((path or KEPT).read_text())
        return cls(
            shape["python"],
            shape["libraries"],
            {name: JobWork(**each) for name, each in shape["jobs"].items()},
        )

    def save(self) -> None:
        """Store the counts."""
        KEPT.write_text(json.dumps(asdict(self), indent=1) + "\n")


def table(kept: KeptCounts) -> list[tuple[str, ...]]:
    """Return the stored counts as a table: a header, then a row per job; figures are per unit."""
    lines = [("job", "for one", *COUNTS)]
    for name, job in kept.jobs.items():
        lines.append((name, job.unit, *(_figure(job.each(each)) for each in COUNTS)))
    return lines


def _figure(value: float) -> str:
    """Return a figure with three significant digits, or as an integer."""
    if not value:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# ---------------------------------------------------------------- the guard
def compare(kept: KeptCounts, found: Mapping[str, JobWork], here: KeptCounts | None = None) -> list[str]:
    """Return the deviations from the stored counts, one text per count of a job.

    :param here: versions that they were counted with; None for those of this process
    """
    here = KeptCounts.here({}) if here is None else here
    wrong = []
    for job, now in found.items():
        if job not in kept.jobs:
            wrong.append(f"{job}: no counts are kept of it: {WRITE}")
            continue
        for name in COUNTS:
            same = kept.python == here.python and (name not in MEMORY or kept.libraries == here.libraries)
            told = _compared(job, name, kept.jobs[job], now, same=same)
            if told:
                wrong.append(told)
    return wrong


def _compared(job: str, name: str, kept: JobWork, now: JobWork, *, same: bool) -> str:
    """Return the deviation of a count as text, empty if there is none.

    :param same: whether both were counted with the same versions
    """
    was, found = kept.each(name), now.each(name)
    if abs(found - was) * now.units <= _FEW:
        return ""
    most = MORE if same else ELSEWHERE.get(name, MORE_ELSEWHERE)
    change = f"{found / was - 1:+.1%}" if was else "new"
    head = f"{job}: {name} {_figure(found)} for one {now.unit}, kept {_figure(was)} ({change}"
    if found > was * most:
        lines = [f"{head}, allowed +{most - 1:.0%})", *_grown(name, kept, now)]
        return "\n".join([*lines, f"  if that work has to be done: {WRITE}"])
    if same and found < was * LESS:
        return f"{head}): less work than before, which is kept by {WRITE}"
    return ""


def _grown(name: str, kept: JobWork, now: JobWork) -> Iterator[str]:
    """Yield the functions whose count grew most.

    Each function that is not stored had less than the last one that is.
    """
    if name not in now.functions:
        return
    before = {each: count / kept.units for each, count in kept.functions[name].items()}
    least = min(before.values()) if len(before) >= _MOST_FUNCTIONS else 0.0
    verb, noun = _NOUNS[name]
    grown = []
    for function, total in now.functions[name].items():
        each = total / now.units
        grown.append((each - before.get(function, least), function, each))
    for more, function, each in sorted(grown, key=lambda row: (-row[0], row[1]))[:_TOLD]:
        if more <= 0:
            return
        was = f"was {_figure(before[function])}" if function in before else f"was at most {_figure(least)}"
        yield f"  {function} {verb} {_figure(each)} {noun} for one {now.unit}, {was}"


def not_linear(job: str, found: JobWork, double: JobWork) -> list[str]:
    """Return the counts that grow faster than the traffic, one text each."""
    # half a unit: a capture of twice the length may have one exchange more or less
    times = TWICE * double.units / (2 * found.units)
    return [
        f"{job}: twice the traffic takes {double.counts[name] / found.counts[name]:.2f} times the {name}"
        for name in sorted(double.counts.keys() - {"kept"}, key=COUNTS.index)
        if double.counts[name] > times * found.counts[name] + _FEW
    ]


# ---------------------------------------------------------------- the command
def main(arguments: Sequence[str] | None = None) -> None:
    """Count, and print or store the result."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.work",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "jobs", nargs="*", metavar="JOB", help="names of jobs, or parts of them (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("--write", action="store_true", help="keep them, as what is allowed from now on")
    options = parser.parse_args(arguments)
    names = [name for name in jobs() if any(part in name for part in options.jobs or [""])]
    if not names:
        parser.error(f"there is no such job; there are: {', '.join(jobs())}")
    counted = {name: each.found for name, each in measured(names).items()}
    found = KeptCounts.here(counted)
    if options.write:
        _keep(found)
    if options.json:
        print(json.dumps(asdict(found), indent=1))
        return
    lines = table(found)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        print(line[0].ljust(widths[0]), line[1].ljust(widths[1]), *cells, sep="  ")
    if not options.write and KEPT.exists():
        for told in compare(KeptCounts.load(), counted, found):
            print(f"\n{told}")


def _keep(found: KeptCounts) -> None:
    """Store the counts, and keep those of other jobs if they were counted with the same versions."""
    every = jobs()
    if KEPT.exists():
        kept = KeptCounts.load()
        if (kept.python, kept.libraries) == (found.python, found.libraries):
            found = replace(found, jobs=kept.jobs | found.jobs)
    missing = every.keys() - found.jobs.keys()
    if missing:
        sys.exit("kept with other versions: count all jobs together")
    replace(found, jobs={name: found.jobs[name] for name in every}).save()


if __name__ == "__main__":
    main()
