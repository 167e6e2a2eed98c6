"""Times what a user does in the terminal UI: ``python -m benchmarks.keystrokes [CAPTURE...]``.

``kproxy open`` runs on a pseudo-terminal. A user opens a capture, waits until the list is complete, moves the cursor,
filters, opens every view, and quits. In another run the user quits while the capture is loading. For comparison,
``kproxy read`` prints a line per exchange, and the exchange table is built alone. Captures:

* ``exchanges``: a million exchanges of very small messages
* ``groups``: a recorded rebalance a thousand times, each time of another group

Times are wall-clock seconds until the screen shows the result, and processor seconds of all threads. On a busy machine
only the latter can be compared. The terminal's own work counts for the clock only.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import traffic
from benchmarks.captures import TABLE, made, measured
from benchmarks.outcome import Aim, for_programs
from captures.exchanges import open_capture
from tests.kproxy.cli.terminal import Terminal

EXCHANGES = 1_000_000
GROUPS = 1_000
SIZE = (160, 48)
MB = 1_000_000

_SAMPLE = Path(traffic.__file__).parent.parent / "captures/samples/rebalance.pcap"
_NAME = b"r2-java_eager_range"
"""In the sample: the name of the topic, and the end of the name of the group."""
_TINY_BYTES = 287.3
"""Of the capture, for each exchange of very small messages."""

VIEWS = {
    "2": "connections",
    "3": "clients",
    "4": "topics",
    "R": "records",
    "5": "groups",
    "6": "latency",
    "7": "errors",
    "8": "conversation",
    "0": "findings",
    "W": "incidents",
}
"""Names of views, by their keys."""
FILTERS = ("error", "api == Produce", "latency > 2ms and client_id ~ -1")
_PRESSES = 30
_DOWN = "\x1b[B"
_IDLE_SECONDS = 5.0
_QUIET_SECONDS = 1.0
_PATIENCE = 60.0
_UNFINISHED = ("counting", "filtering", "reading", "counted ")
_ABOVE = 12  # lines with the headline and the message of an empty view


class Took(NamedTuple):
    """The wall-clock and processor seconds of a step.

    :ivar unfinished: the headline at the time limit; empty if the work was done
    """

    clock: float
    processor: float
    unfinished: str = ""


class User(Terminal):
    """A user at a terminal with a stopwatch."""

    def __init__(self, path: str, home: Path) -> None:
        self._began, self._before = time.perf_counter(), 0.0
        super().__init__(["open", path], home, size=SIZE)

    @property
    def processor(self) -> float:
        """Processor seconds that the program has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lines(self, begin: int, end: int) -> str:
        """Return some lines of the screen."""
        columns = range(SIZE[0])
        return "\n".join("".join(self._screen.buffer[y][x].data for x in columns) for y in range(begin, end))

    def number(self) -> int:
        """Return the number of the exchange under the list's cursor, 0 if there is none."""
        for y in range(3, SIZE[1]):
            if self._screen.buffer[y][0].data == "▸":
                shown = self.lines(y, y + 1)[1:].split()[0].replace(",", "")
                return int(shown) if shown.isdigit() else 0
        return 0

    def view(self) -> str:
        """Return the name of the current view."""
        cells = self._screen.buffer[1]
        return "".join(cells[x].data for x in range(SIZE[0]) if cells[x].reverse).strip()

    def press(self, keys: str) -> None:
        """Type keys, and start the stopwatch."""
        self._began, self._before = time.perf_counter(), self.processor
        self.type(keys)

    def took(self) -> Took:
        """Return the times since the stopwatch was started."""
        return Took(time.perf_counter() - self._began, self.processor - self._before)

    def shows_that(self, holds: Callable[[], bool]) -> Took:
        """Return the times until the screen shows something.

        :raises TimeoutError: if it does not
        """
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            if not self._read(deadline) or time.monotonic() > deadline:
                raise TimeoutError(self.screen)
        return self.took()

    def rests(self, quiet: float = _QUIET_SECONDS) -> Took:
        """Return the times until the last change of the screen, once all work is done."""
        took, deadline = self.took(), time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if self._read(time.monotonic() + quiet):
                took = self.took()
            elif not any(word in self.lines(0, _ABOVE) for word in _UNFINISHED):
                return took
        return Took(took.clock, took.processor, self.lines(0, 1).rpartition("   ")[2].strip())

    def look_for(self, seconds: float) -> None:
        """Look at the screen for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read(end)

    def quit(self) -> Took:
        """Press q; return the times until the program has exited."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.press("q")
        if self.end():
            raise ChildProcessError(f"kproxy failed:\n{self.text[-2000:]}")
        after, clock = resource.getrusage(resource.RUSAGE_CHILDREN), self.took_by_clock()
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Took(clock, max(used - self._before, 0.0))

    def took_by_clock(self) -> float:
        """Return the wall-clock seconds since the stopwatch was started."""
        return time.perf_counter() - self._began


# ---------------------------------------------------------------- what a user does
def use(path: str, home: Path, count: int) -> dict[str, Took]:
    """Run all steps on a capture with the given number of exchanges; return the time of each."""
    found: dict[str, Took] = {}
    with User(path, home) as user:
        user.shows_that(lambda: user.number() == 1)
        found["open: quit while it loads"] = user.quit()
    with User(path, home) as user:
        found["open: first lines"] = user.shows_that(lambda: user.number() == 1)
        found["open: everything in the list"] = user.shows_that(
            lambda: f"{count:,} exchanges" in (line := user.lines(0, 1)) and "reading" not in line
        )
        user.rests()
        found |= _cursor(user)
        for text in FILTERS:
            user.press(f"f{text}\r")
            user.shows_that(lambda: "filter: " in user.lines(0, 1) or "shown" in user.lines(0, 1))
            found[f"filter: {text}"] = user.rests()
            user.type("c")
            user.shows_that(lambda: "filter: " not in user.lines(0, 1))
        for key, name in VIEWS.items():
            user.press(key)
            user.shows_that(lambda name=name: user.view().endswith(name))
            found[f"view: {name}"] = user.rests()
            user.press("j")
            found[f"view: {name}, next row"] = user.rests(0.5)
        user.press("1")
        user.rests()
        user.press("")
        user.look_for(_IDLE_SECONDS)
        found["idle"] = user.took()
        found["quit"] = user.quit()
    return found


def _cursor(user: User) -> dict[str, Took]:
    """Move the cursor: key by key, and with the key held down."""
    single: list[Took] = []
    for _ in range(_PRESSES):
        wanted = user.number() + 1
        user.press(_DOWN)
        single.append(user.shows_that(lambda wanted=wanted: user.number() == wanted))
        user.rests(0.1)
    wanted = user.number() + _PRESSES
    user.press("")
    for _ in range(_PRESSES):
        user.type(_DOWN)
        user.look_for(1 / _PRESSES)
    user.shows_that(lambda: user.number() == wanted)
    held = user.took()
    return {
        "down: one press": Took(*(median(each) for each in zip(*(took[:2] for took in single), strict=True))),
        "down: slowest of single presses": max(single),
        f"down: {_PRESSES} presses in 1 s, behind": held._replace(clock=held.clock - 1),
    }


# ---------------------------------------------------------------- what came out
def peers(path: str) -> dict[str, Took]:
    """Return the times of the exchange table alone, and of ``kproxy read`` with a line per exchange."""
    commands = {
        "the table alone": [sys.executable, "-c", TABLE, path],
        "kproxy read": [sys.executable, "-m", "kproxy", "read", path],
    }
    runs = {name: measured(command) for name, command in commands.items()}
    return {name: Took(run.wall, run.cpu) for name, run in runs.items()}


def aims(name: str, found: dict[str, Took]) -> Iterator[Aim]:
    """Return the aims, in wall-clock seconds."""
    table = found["the table alone"].clock
    for step, took in found.items():
        most = _MOST.get(step) or _MOST.get(step.partition(":")[0])
        if step == "open: everything in the list":
            yield Aim(
                f"{name}: s until all is in the list, beyond the table alone",
                took.clock - table,
                0.5,
                at_most=True,
            )
        elif most:
            yield Aim(f"{name}: s, {step}", took.clock, most, at_most=True)


_MOST = {
    "open: quit while it loads": 0.5,
    "filter": 3.0,
    "down: one press": 0.1,
    "down: slowest of single presses": 0.25,
}
"""Seconds that a step or a kind of steps may take."""


def captures(folder: Path) -> Iterator[tuple[str, Path]]:
    """Make the captures, and yield their names and paths."""
    tiny = made("tiny", round(EXCHANGES * _TINY_BYTES), traffic.GENERATED["tiny"])
    yield "exchanges", tiny
    groups = folder / "groups.pcap"
    traffic.repeat(_SAMPLE, groups, GROUPS * _SAMPLE.stat().st_size, _NAME)
    yield "groups", groups


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("capture", nargs="*", type=Path, help="use these captures")
    options = parser.parse_args()
    for unusual in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):  # users have compiled byte code
        os.environ.pop(unusual, None)
    figures: dict[str, dict[str, Took]] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        for name, path in [(each.name, each) for each in options.capture] or captures(Path(folder)):
            capture = open_capture(str(path))
            capture.read()
            figures[name] = peers(str(path)) | use(str(path), home, len(capture.table))
            if not options.json:
                print(*_lines(name, figures[name]), sep="\n", flush=True)
    reached = [aim for name, found in figures.items() for aim in aims(name, found)]
    if options.json:
        shown = {
            name: {step: took._asdict() for step, took in found.items()} for name, found in figures.items()
        }
        print(for_programs(shown, reached))
    else:
        print(*reached, sep="\n")


def _lines(name: str, found: dict[str, Took]) -> Iterator[str]:
    yield f"{name:<50}{'s':>8}{'CPU s':>8}"
    for step, took in found.items():
        yield f"  {step:<48}{took.clock:8.2f}{took.processor:8.2f}  {took.unfinished}".rstrip()


if __name__ == "__main__":
    main()
