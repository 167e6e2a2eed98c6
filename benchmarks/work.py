"""How much work kproxy does, counted: ``python -m benchmarks.work [JOB...] [--json] [--write]``.

Seconds differ from machine to machine, and from one minute to the next; so what guards kproxy in the test run against
doing more than it has to (``tests/benchmarks/test_work.py``) is counts. They are told for one exchange, message,
record or piece (:mod:`benchmarks.jobs`), and kept in ``benchmarks/work.json``:

``calls``
    Calls of functions of kproxy itself, generated decoders among them; a generator is called each time it goes on.
``other calls``
    Calls that these make of functions of others, written in C or in Python. What those call themselves is not
    counted: it is a matter of their version. Both as :mod:`cProfile` counts them, which misses none; it does not see
    numpy's ufuncs and the making of objects by classes written in C.
``lines``
    Lines of kproxy that are executed, once more for each round of a loop: work that calls nothing.
``allocated``
    Bytes of memory asked for, line by line, whether they are given back at once or not: what is copied is in it,
    once for each copy. For each line it is the most that memory grew in it, as :mod:`tracemalloc` sees it; so what a
    line gives back before it takes more is counted once, and objects that Python keeps for being used again (tuples,
    lists, dictionaries, floats) count as nothing. For each call there are some two hundred bytes that come of the
    tracing.
``peak``
    The most memory in use at a time, in bytes, beyond what there was before.
``kept``
    Objects made: blocks of memory that what came out still holds (:func:`sys.getallocatedblocks`).
``read``
    Bytes read from files, however often.
``checked``
    Bytes of which a checksum was made.

Counts are taken in a process of its own, with a fixed seed of hashes, in an empty folder whose path is always equally
long, with the garbage collector off, and after runs that import, generate code and fill caches. So they come out the
same in every process: calls, lines and bytes read or checked exactly. Memory differs by less than a thousandth, as
Python's cache of methods depends on where the system has put classes.

A count may be :data:`MORE` of the kept one, and not below :data:`LESS` of it, so that gains are kept as well:
``--write`` does that, and is run by whoever changes how much work is done, together with that change. That holds for
the version of Python that counts were kept with. Another one inlines comprehensions, numbers lines and lays out
objects differently, so that there only :data:`MORE_ELSEWHERE` is a bound, or :data:`ELSEWHERE`. What is
:data:`MEMORY` depends on numpy, pyarrow and msgspec likewise.
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
    """What one job takes.

    :ivar units: how many of ``unit`` were done
    :ivar counts: of the whole run
    :ivar functions: count -> function -> its share of it; all that have one when counted, the largest when kept
    """

    unit: str
    units: int
    counts: dict[str, int]
    functions: dict[str, dict[str, int]] = field(default_factory=dict)

    def each(self, name: str) -> float:
        """Return a count for one unit."""
        return self.counts[name] / self.units

    def largest(self) -> JobWork:
        """Return it with the largest functions only."""
        functions = {
            name: dict(sorted(found.items(), key=lambda each: (-each[1], each[0]))[:_MOST_FUNCTIONS])
            for name, found in self.functions.items()
        }
        return JobWork(self.unit, self.units, self.counts, functions)


def _is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(_OWN) or code.co_filename.startswith(_GENERATED)


def _name(code: CodeType | str) -> str:
    """Return what a function is called in figures, without anything that depends on where it is installed."""
    if isinstance(code, str):
        return _ADDRESS.sub("", code.strip("<>"))
    file = code.co_filename
    if file.startswith(_OWN):
        return f"{Path(file).relative_to(ROOT)}: {code.co_qualname}"
    if file.startswith("<"):
        return f"{file} {code.co_qualname}"
    return f"{Path(file).stem}: {code.co_qualname}"


def _calls(run: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """Return calls of own functions, and those that they make of others."""
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
    """Counts lines, and the memory that each asks for.

    Memory is asked for between two events of own code; what the first of them stands for is who asked for it. Code is
    told apart by its identity, as its hash takes longer than all the rest.
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
            # a frame is an object only where somebody looks at it
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
    owned: dict[
        int, tuple[bool, CodeType]
    ] = {}  # code that is gone could have its identity taken by other code

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
    return after - before - 1  # the figure from before is an object as well


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
    """Count what a job takes, after it was run so that nothing is done for the first time.

    :param memory: count all; otherwise calls and lines only, which is done sooner
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


# ---------------------------------------------------------------- asking that process
class MeasuredJob(NamedTuple):
    """Counts of a job.

    :ivar double: of the same with twice the traffic, if that was asked for
    """

    found: JobWork
    double: JobWork | None


def jobs() -> dict[str, str]:
    """Return the jobs there are, and their units."""
    from benchmarks.jobs import JOBS

    return {job.name: job.unit for job in JOBS}


def measured(
    names: Iterable[str] = (), *, twice: bool = False, first: str = "", folder: str | None = None
) -> dict[str, MeasuredJob]:
    """Count jobs in a process of their own.

    :param names: of the jobs, all if there are none
    :param twice: count them with twice the traffic too
    :param first: Python that is run in that process first
    :param folder: where it has its files, None for the usual place of temporary ones
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
    """Make a folder in another whose path is as long as that of every other: texts take memory."""
    more = _PATH - len(os.fsencode(folder)) - 1
    if more < 1:
        return folder
    made = folder / ("d" * more)
    made.mkdir()
    return made


def _environment(folder: str) -> dict[str, str]:
    """Return the same variables everywhere, as far as programs run with them."""
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
    """Count, and write a line for each job to what was standard output."""
    out = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    with out:
        for each in _count_here(names, twice=twice):
            out.write(json.dumps(each) + "\n")


# ---------------------------------------------------------------- what is kept
@dataclass
class KeptCounts:
    """The counts that hold.

    :ivar python: version they were counted with, ``3.11``
    :ivar libraries: versions of those on which :data:`MEMORY` depends
    """

    python: str
    libraries: dict[str, str]
    jobs: dict[str, JobWork]

    @classmethod
    def here(cls, counted: Mapping[str, JobWork]) -> KeptCounts:
        """Return counts as they are kept if they were counted here."""
        libraries = {name: version(name) for name in _LIBRARIES}
        python = ".".join(platform.python_version_tuple()[:2])
        return cls(python, libraries, {name: each.largest() for name, each in counted.items()})

    @classmethod
    def load(cls, path: Path | None = None) -> KeptCounts:
        """Read those that are kept."""
        shape = json.loads((path or KEPT).read_text())
        return cls(
            shape["python"],
            shape["libraries"],
            {name: JobWork(**each) for name, each in shape["jobs"].items()},
        )

    def save(self) -> None:
        """Keep them."""
        KEPT.write_text(json.dumps(asdict(self), indent=1) + "\n")


def table(kept: KeptCounts) -> list[tuple[str, ...]]:
    """Return the kept counts as a table: a line with titles, then one for each job; figures are for one unit."""
    lines = [("job", "for one", *COUNTS)]
    for name, job in kept.jobs.items():
        lines.append((name, job.unit, *(_figure(job.each(each)) for each in COUNTS)))
    return lines


def _figure(value: float) -> str:
    """Return a figure with three digits that count, or all before the point."""
    if not value:
        return "0"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# ---------------------------------------------------------------- the guard
def compare(kept: KeptCounts, found: Mapping[str, JobWork], here: KeptCounts | None = None) -> list[str]:
    """Return what is wrong with counts, one text for each count of a job; none if all is well.

    :param here: what versions they were counted with, None for those of this process
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
    """Return what is wrong with one count, empty if nothing is.

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
    """Yield the functions of which a count grew most.

    Of those that are not kept it is only known that each had less than the last one that is.
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
    """Return which counts grow faster than the traffic, one text each."""
    # halves of units: a capture that is twice as long may have an exchange more or less
    times = TWICE * double.units / (2 * found.units)
    return [
        f"{job}: twice the traffic takes {double.counts[name] / found.counts[name]:.2f} times the {name}"
        for name in sorted(double.counts.keys() - {"kept"}, key=COUNTS.index)
        if double.counts[name] > times * found.counts[name] + _FEW
    ]


# ---------------------------------------------------------------- the command
def main(arguments: Sequence[str] | None = None) -> None:
    """Count, and print or keep what came out."""
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
    """Keep what was counted; of jobs that were not, what is kept, if it was counted with the same versions."""
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
