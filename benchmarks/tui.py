"""Speed of the terminal UI with a million exchanges: ``python -m benchmarks.tui [--exchanges N] [PART...]``.

The whole application runs headless at 200x50. Its terminal output is rendered and discarded. Parts, each in its own
process:

* ``open``: time until the list shows all exchanges, beside the table alone, built before in the same process
* ``scroll``: updates of the screen while the list scrolls by lines, pages and jumps
* ``follow``: following 5,000 new exchanges per second: how far the list lags, how late the event loop is
* ``filter``: time until the list shows the matches, and how late the event loop is meanwhile
* ``memory``: peak resident memory, beside that of the table alone
* ``peer``: Textual's own DataTable with a few thousand rows of the same texts

An update is the handling of a key and the repaint that follows, in wall-clock time, which decoding in other threads
prolongs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from textual._compositor import CompositorUpdate
from textual.app import App
from textual.screen import Screen
from textual.widgets import DataTable

from benchmarks import traffic
from benchmarks.outcome import Aim, for_programs
from captures.exchanges import open_capture
from captures.filters import compile_filter
from kproxy.session import Session
from kproxy.tui.app import KproxyApp
from kproxy.tui.main.screen import MainScreen
from kproxy.tui.run import settled
from kproxy.tui.settings import Settings
from kproxy.tui.widgets.exchange_list import ExchangeList

EXCHANGES = 1_000_000
SIZE = (200, 50)
UPDATES = 200
RATE = 5_000
FOLLOWED_SECONDS = 10.0
PEER_ROWS = 20_000
MIB = 1 << 20
MS = 1000.0

_SLOWER_S = 0.5  # allowed beyond the time of the table alone
_FRAME_MS = 16.0
_FOLLOWED = 0.99  # share of the written exchanges
_MOST_BEHIND_S = 1.0

FILTERS = (
    "api == Produce",
    "api == OffsetCommit and latency > 1ms and client_id ~ -1",
    "error",
    "topic == ticks and group ~ group-1",
)

_SWITCH_SECONDS = 0.0005  # as in kproxy.tui.run
_LATENESS_STEP = 0.01
_WRITE_STEP = 0.01


# ---------------------------------------------------------------- the application, measured
class MeasuredScreen(MainScreen):
    """Records the time of each update.

    :ivar updates: seconds
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.updates: list[float] = []

    def _on_timer_update(self) -> None:
        began = time.perf_counter()
        super()._on_timer_update()
        self.updates.append(time.perf_counter() - began)


class MeasuredApp(KproxyApp):
    """Renders terminal output and discards it."""

    def get_default_screen(self) -> MeasuredScreen:
        """Return the main screen."""
        return MeasuredScreen(self.session)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate):
            renderable.render_segments(self.console)


@asynccontextmanager
async def _application(session: Session) -> AsyncIterator[tuple[MeasuredScreen, ExchangeList]]:
    app = MeasuredApp(session, Settings(), settled=settled)
    async with app.run_test(size=SIZE):
        screen = app.main
        assert isinstance(screen, MeasuredScreen)
        yield screen, screen.exchanges.list
    session.close()


@asynccontextmanager
async def _opened(path: str) -> AsyncIterator[tuple[MeasuredScreen, ExchangeList]]:
    """Open a capture, and wait until the list is complete."""
    session = Session(open_capture(path), title=path)
    async with _application(session) as (screen, shown):
        await _until(lambda: session.status.finished and _lines(shown) == session.status.exchanges)
        await session.idle()
        yield screen, shown


def _lines(shown: ExchangeList) -> int:
    """Return how many exchanges the list shows; it also has a header line."""
    return shown.virtual_size.height - 1


async def _until(condition: Callable[[], bool], pause: float = 0.002) -> None:
    while not condition():
        await asyncio.sleep(pause)


async def _lateness(during: Awaitable[object]) -> list[float]:
    """Return repeated measurements of the event loop's lateness during some work, in seconds."""
    late: list[float] = []

    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(_LATENESS_STEP)
            late.append(time.perf_counter() - began - _LATENESS_STEP)

    watching = asyncio.ensure_future(watch())
    await during
    watching.cancel()
    return late


def _share(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


#: of one part
Figures = dict[str, Any]


def _distribution(values: Sequence[float]) -> dict[str, float]:
    return {
        "median_ms": _share(values, 0.5) * MS,
        "p95_ms": _share(values, 0.95) * MS,
        "p99_ms": _share(values, 0.99) * MS,
        "most_ms": max(values) * MS,
        "count": len(values),
    }


# ---------------------------------------------------------------- parts
async def _open(path: str) -> Figures:
    alone, count = _table(path)
    began = time.perf_counter()
    session = Session(open_capture(path), title=path)
    async with _application(session) as (_, shown):
        await _until(lambda: _lines(shown) > 0 and session.summaries.get(1) is not None)
        first = time.perf_counter() - began
        await _until(lambda: session.status.finished and _lines(shown) == count)
        took = time.perf_counter() - began
    return {"exchanges": count, "table_s": alone, "first_s": first, "all_s": took}


def _table(path: str) -> tuple[float, int]:
    began = time.perf_counter()
    capture = open_capture(path)
    capture.read()
    return time.perf_counter() - began, len(capture.table)


async def _scroll(path: str) -> Figures:
    found: Figures = {}
    async with _opened(path) as (screen, shown):
        random = Random(1)
        count = _lines(shown)
        ways: dict[str, Callable[[], object]] = {
            "a line, the cursor": lambda: shown.action_move(1),
            "three lines, the wheel": lambda: shown.scroll_relative(y=3, animate=False),
            "a page": lambda: shown.action_move_page(1),
            "a jump to anywhere": lambda: shown.go_to(random.randrange(1, count)),
        }
        for label, way in ways.items():
            shown.go_to(count // 3)
            await screen.session.idle()
            times: list[float] = []
            for _ in range(UPDATES):
                screen.updates.clear()
                began = time.perf_counter()
                way()
                acted = time.perf_counter() - began
                await _until(lambda: bool(screen.updates), 0.0)
                times.append(acted + screen.updates[0])
                await asyncio.sleep(0.01)
                times.extend(screen.updates[1:])  # once the visible rows are decoded
            found[label] = _distribution(times)
    return found


async def _follow(path: str) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "growing.pcap")
        target.touch()
        _, count = _table(path)
        each = Path(path).stat().st_size / count
        writer = _child("write", path, str(target), str(each * RATE))
        await _until(lambda: target.stat().st_size > 0)
        session = Session(open_capture(str(target), follow=True), title=path, live=True)
        behind: list[float] = []
        async with _application(session) as (screen, shown):
            shown.following = True
            await _until(lambda: _lines(shown) > RATE)
            screen.updates.clear()

            async def watch() -> None:
                end = time.monotonic() + FOLLOWED_SECONDS
                while time.monotonic() < end:
                    await asyncio.sleep(0.05)
                    behind.append(target.stat().st_size / each / RATE - (shown.number or 0) / RATE)

            began, before = time.monotonic(), _lines(shown)
            late = await _lateness(watch())
            rate = (_lines(shown) - before) / (time.monotonic() - began)
            found = {
                "the list is behind by": _distribution(behind),
                "the event loop is late by": _distribution(late),
                "updates": _distribution(screen.updates),
            }
        writer.kill()
        writer.wait()
    return {"rate": rate, "times": found}


def _write(source: str, target: str, rate: float) -> None:
    """Copy a file at a rate in bytes per second, until its end or until stopped."""
    began = time.monotonic()
    with Path(source).open("rb") as read, Path(target).open("wb", buffering=0) as written:
        while data := read.read(max(int((time.monotonic() - began) * rate) - read.tell(), 24)):
            written.write(data)
            time.sleep(_WRITE_STEP)


async def _filter(path: str) -> Figures:
    found: Figures = {}
    async with _opened(path) as (_, shown):
        session = shown.session
        for text in FILTERS:
            for again in ("first", "again"):
                began = time.perf_counter()

                async def shows(wanted: str = text) -> None:
                    await session.set_filter(compile_filter(wanted))
                    await _until(lambda: _lines(shown) == session.status.shown)

                late = await _lateness(shows())
                took = time.perf_counter() - began
                row = found.setdefault(text, {"shown": session.status.shown})
                row[f"{again}_s"], row[f"{again}_late_ms"] = took, _share(late, 0.95) * MS
                await session.set_filter(None)
    return found


async def _memory(path: str) -> Figures:
    alone = int(_child("table", path).communicate()[0])
    async with _opened(path):
        pass
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"table": alone * 1024, "ui": used * 1024}


async def _peer(path: str) -> Figures:
    async with _opened(path) as (_, shown):
        session = shown.session
        session.summaries.want(range(1, 200))
        await session.idle()
        rows = [session.summaries.get(1 + number % 199) for number in range(PEER_ROWS)]
    app: App[None] = App()
    async with app.run_test(size=SIZE):
        table: DataTable[str] = DataTable()
        await app.mount(table)
        table.add_columns("#", "time", "ms", "client", "broker", "api", "summary", "state")
        began = time.perf_counter()
        for each in filter(None, rows):
            table.add_row(
                str(each.number), str(each.time), str(each.latency), each.client, each.broker, each.api,
                each.request, each.state.value,
            )  # fmt: skip
        await _until(lambda: table.virtual_size.height >= PEER_ROWS)
        took = time.perf_counter() - began
    return {"rows": PEER_ROWS, "seconds": took, "rows_s": PEER_ROWS / took}


PARTS: dict[str, Callable[[str], Coroutine[Any, Any, Figures]]] = {
    "open": _open,
    "scroll": _scroll,
    "follow": _follow,
    "filter": _filter,
    "memory": _memory,
    "peer": _peer,
}


# ---------------------------------------------------------------- what came out
def lines(part: str, found: Figures) -> Iterator[str]:
    """Yield the printed lines of a part."""
    match part:
        case "open":
            yield f"{'table alone':<28} {found['table_s']:6.2f} s   {found['exchanges']:,} exchanges"
            yield f"{'first lines in the UI':<28} {found['first_s']:6.2f} s"
            more = found["all_s"] - found["table_s"]
            yield f"{'all of them in the UI':<28} {found['all_s']:6.2f} s   {more:+.2f} s"
        case "scroll":
            yield from _distributions(found)
        case "follow":
            yield f"{'new in the list':<28} {found['rate']:6,.0f}/s"
            yield from _distributions(found["times"])
        case "filter":
            for text, row in found.items():
                for again in ("first", "again"):
                    late = f"the event loop late by {row[f'{again}_late_ms']:5.1f} ms (95%)"
                    yield f"{row[f'{again}_s']:7.2f} s {again}, {late}: {text}   {row['shown']:,}"
        case "memory":
            yield f"{'table alone':<28} {found['table'] / MIB:6.0f} MiB"
            more = (found["ui"] - found["table"]) / MIB
            yield f"{'in the UI':<28} {found['ui'] / MIB:6.0f} MiB   {more:+.0f} MiB"
        case "peer":
            rows, rate = found["rows"], found["rows_s"]
            yield (
                f"{'DataTable':<28} {found['seconds']:6.2f} s for {rows:,} rows: {1e6 / rate:,.0f} s for a million"
            )


def _distributions(found: Figures) -> Iterator[str]:
    for label, times in found.items():
        yield (
            f"{label:<28} median {times['median_ms']:6.1f}  95% {times['p95_ms']:6.1f}  "
            f"99% {times['p99_ms']:6.1f}  most {times['most_ms']:6.1f} ms   ({times['count']})"
        )


def aims(figures: dict[str, Figures]) -> Iterator[Aim]:
    """Return the aims whose figures were measured."""
    if opened := figures.get("open"):
        more = opened["all_s"] - opened["table_s"]
        yield Aim("s until all is in the list, beyond the table alone", more, _SLOWER_S, at_most=True)
    for label, times in figures.get("scroll", {}).items():
        yield Aim(f"ms for 95% of updates, {label}", times["p95_ms"], _FRAME_MS, at_most=True)
    if followed := figures.get("follow"):
        yield Aim(f"new in the list a second, of {RATE:,} written", followed["rate"], _FOLLOWED * RATE)
        behind = followed["times"]["the list is behind by"]["p95_ms"] / MS
        yield Aim("s that the list is behind, 95% of the time", behind, _MOST_BEHIND_S, at_most=True)


# ---------------------------------------------------------------- processes
def _child(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.tui", *arguments], text=True, stdout=subprocess.PIPE
    )


def make(path: Path, exchanges: int) -> None:
    """Write a capture of about `exchanges` exchanges: Heartbeat, OffsetCommit and small Produce of 200 clients."""
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder, "unit.pcap")
        traffic.GENERATED["tiny"](unit)
        _, count = _table(str(unit))
        traffic.repeat(unit, path, round(unit.stat().st_size * exchanges / count))


def main() -> None:
    """Generate the capture, and print the figures of the parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tui")
    parser.add_argument("--exchanges", type=int, default=EXCHANGES)
    parser.add_argument("--capture", help="use this capture")
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; all if none is named")
    arguments = parser.parse_args()
    unknown = set(arguments.part) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = folder
        path = arguments.capture
        if path is None:
            path = str(Path(folder, "traffic.pcap"))
            make(Path(path), arguments.exchanges)
        figures: dict[str, Figures] = {}
        for part in arguments.part or PARTS:
            print(f"---- {part}", file=sys.stderr if arguments.json else sys.stdout, flush=True)
            figures[part] = json.loads(_child("part", part, path).communicate()[0])
            if not arguments.json:
                print(*lines(part, figures[part]), sep="\n", flush=True)
    if arguments.json:
        print(for_programs(figures, aims(figures)))
    else:
        print(*aims(figures), sep="\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["part", part, path]:
            sys.setswitchinterval(_SWITCH_SECONDS)
            gc.set_threshold(100_000, 20, 100)  # as the command line does
            print(json.dumps(asyncio.run(PARTS[part](path))))
        case ["table", path]:
            _table(path)
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        case ["write", source, target, rate]:
            _write(source, target, float(rate))
        case _:
            main()
