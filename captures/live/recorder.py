"""The flight recorder: copies the surroundings of a match out of a ring of capture files before they are dropped.

It does not depend on how packets are captured: it takes a folder of chunk files, in order of their names, each a
capture file of any kind, to which another party adds files and from which it removes the oldest; and a stream of
matches. Each match asks for the packets from some time before it to some time after it. Windows that overlap become
one, and a window becomes a pcapng file when it is over, when its beginning is about to leave the ring (the rest goes to
another file), or when recording ends. Missing parts of a file are reported, in the file as well.

Times are nanoseconds since the epoch by the clock of this machine, like packet times.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import BinaryIO

import msgspec
import numpy as np

from captures import private
from captures.arrays import Bytes
from captures.export.pcapng_writer import Packet, PcapngWriter
from captures.packets.errors import CaptureError
from captures.packets.files import first_time
from captures.packets.reader import BLOCK_SIZE, recognise
from captures.packets.records import Interface, ParsedBuffer
from captures.packets.source import Source, open_source
from captures.packets.table import PADDING, Statistics
from captures.time_format import span
from dissectors.units import SECOND

_SETTLE = SECOND // 2
"""ns after the end of a window for its last packets to reach the ring."""
_TICK = 0.5  # seconds between checks for windows to save
_MOST_MATCHES = 100  # per window that are described one by one
_LEAST_CAPTURE = 28  # bytes of the smallest readable file: the header of a pcapng section
_NO_NAME = re.compile(r"[^\w.-]+", re.ASCII)
_EDGE = 2  # chunks: if the ring has no room for so many more, the oldest ones are about to be dropped


class Match(msgspec.Struct, frozen=True):
    """An event whose surroundings are to be kept.

    :ivar begin: its first moment
    :ivar end: its last moment
    :ivar name: a word for the name of the file
    :ivar text: what matched, in one line
    """

    begin: int
    end: int
    name: str
    text: str


class Window(msgspec.Struct):
    """A stretch of time to be kept.

    :ivar matches: the first matches in it
    :ivar more: number of further matches
    :ivar kept_until: packets up to this moment are already in a file
    """

    begin: int
    end: int
    matches: list[Match] = []
    more: int = 0
    kept_until: int = 0

    def overlaps(self, other: Window) -> bool:
        """Return whether both share a moment."""
        return self.begin <= other.end and other.begin <= self.end

    def join(self, other: Window) -> None:
        """Extend this window to include `other`."""
        self.kept_until = max(self.kept_until, other.kept_until)
        self.begin = max(min(self.begin, other.begin), self.kept_until + 1)
        self.end = max(self.end, other.end)
        matches = sorted([*other.matches, *self.matches], key=lambda match: match.begin)
        self.matches = matches[:_MOST_MATCHES]
        self.more += other.more + len(matches) - len(self.matches)


class RecordedFile(msgspec.Struct, frozen=True):
    """A file that was written.

    :ivar packets: number of packets
    :ivar missing: what it lacks, in words, or empty
    """

    path: Path
    packets: int
    missing: str


class Recorder:
    """Keeps the surroundings of matches.

    :param chunks: folder of the ring
    :param limit: bytes that the ring may hold
    :param folder: for the files kept
    :param before: ns to keep before a match
    :param after: ns to keep after it
    :param notice: called with sentences for the user, from the recording thread
    :param clock: ns since the epoch
    :ivar kept: the files written so far
    """

    def __init__(
        self,
        chunks: Path,
        limit: int,
        folder: Path,
        before: int,
        after: int,
        notice: Callable[[str], None],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._chunks = chunks
        self._limit = limit
        self._folder = folder
        self._before = before
        self._after = after
        self._notice = notice
        self._clock = clock
        self._began = clock()
        self._first_chunk = ""
        self._windows: list[Window] = []
        self._matches: SimpleQueue[Match | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="recorder", daemon=True)
        self.kept: list[RecordedFile] = []

    def start(self) -> None:
        """Start to wait for matches."""
        self._thread.start()

    def match(self, match: Match) -> None:
        """Request that a match be kept. May be called from any thread or a signal handler."""
        self._matches.put(match)

    def keep_now(self, name: str, text: str) -> None:
        """Request that the surroundings of this moment be kept. May be called from any thread or a signal handler."""
        now = self._clock()
        self.match(Match(now, now, name, text))

    def close(self) -> None:
        """Save all windows as far as they go, including one that ends now, and stop."""
        self._matches.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            with suppress(Empty):
                match = self._matches.get(timeout=_TICK)
                if match is None:
                    break
                self.add(match)
                continue
            self.save_due()
        now = self._clock()
        end = Match(now, now, "end", "the end of recording")
        self._open_window(Window(now - self._before, now, [end]))
        self.save_all()

    # ------------------------------------------------------------ windows
    def add(self, match: Match) -> None:
        """Open a window around a match, merging windows that overlap."""
        self._open_window(Window(match.begin - self._before, match.end + self._after, [match]))

    def _open_window(self, window: Window) -> None:
        apart = []
        for other in self._windows:
            if window.overlaps(other):
                window.join(other)
            else:
                apart.append(other)
        self._windows = [*apart, window]

    def save_due(self) -> None:
        """Save the windows that are over, and the parts of others that are about to leave the ring."""
        now, edge = self._clock(), self._edge()
        waiting = []
        for window in self._windows:
            if window.end + _SETTLE <= now:
                self._save(window)
            elif window.begin < edge:
                self._save(Window(window.begin, now, window.matches, window.more))
                matches = [match for match in window.matches if match.end > now] or window.matches[-1:]
                waiting.append(Window(now + 1, window.end, matches, kept_until=now))
            else:
                waiting.append(window)
        self._windows = waiting

    def save_all(self) -> None:
        """Save all windows as far as they go."""
        windows, self._windows = self._windows, []
        for window in windows:
            self._save(window, stopped=window.end > self._clock())

    def _edge(self) -> int:
        """Return the time before which packets are about to be dropped from the ring; 0 while there is room in it."""
        paths = self._paths()
        sizes = [path.stat().st_size for path in paths if path.exists()]
        if not self._windows or len(sizes) <= _EDGE or sum(sizes) + _EDGE * max(sizes) < self._limit:
            return 0
        try:
            with open_source(paths[_EDGE]) as source:
                return _first_time(source) or 0
        except CaptureError:  # dropped since it was listed: the next check finds others
            return 0

    def _paths(self) -> list[Path]:
        """Return the chunks, the oldest first."""
        paths = sorted(path for path in self._chunks.iterdir() if path.is_file())
        if paths and not self._first_chunk:
            self._first_chunk = paths[0].name
        return paths

    def _rolled(self, paths: list[Path]) -> bool:
        """Return whether chunks were dropped from the ring."""
        return bool(paths) and paths[0].name != self._first_chunk

    # ------------------------------------------------------------ files
    def _save(self, window: Window, *, stopped: bool = False) -> None:
        match = window.matches[0]
        path = self._free_path(match)
        partial = path.with_name(f".{path.name}.part")
        try:
            with os.fdopen(private.opened(partial, os.O_WRONLY | os.O_EXCL), "wb") as file:
                kept = self._copy(window, file, path, stopped=stopped)
            partial.rename(path)
        except (OSError, CaptureError) as error:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._notice(f"{path}: {reason}: what surrounds {match.text} was not kept")
            return
        self.kept.append(kept)
        lacks = f" ({kept.missing})" if kept.missing else ""
        self._notice(f"kept {kept.packets:,} packets around {match.text} in {path}{lacks}")

    def _free_path(self, match: Match) -> Path:
        moment = datetime.fromtimestamp(match.begin / SECOND, UTC)
        stem = f"{moment:%Y-%m-%dT%H-%M-%S}Z-{_NO_NAME.sub('-', match.name)}"
        path, count = self._folder / f"{stem}.pcapng", 1
        while path.exists():
            count += 1
            path = self._folder / f"{stem}-{count}.pcapng"
        return path

    def _copy(self, window: Window, file: BinaryIO, path: Path, *, stopped: bool) -> RecordedFile:
        with ExitStack() as opened:
            # open all first: files dropped from the ring meanwhile stay readable
            sources, lost = self._open(window)
            for source in sources:
                opened.enter_context(source)
            missing = self._missing(window, lost, stopped=stopped)
            writer = PcapngWriter(file, comment=_description(window, missing))
            copying = _WindowCopy(writer, window)
            for source in sources:
                copying.copy(source)
        return RecordedFile(path, writer.packets, missing)

    def _open(self, window: Window) -> tuple[list[Source], int]:
        """Open the chunks that may hold packets of a window.

        :returns: the chunks in order, and how many ns at the beginning of the window were dropped with older ones
        """
        sources: list[Source] = []
        begins = window.end
        paths = self._paths()
        for path in reversed(paths):
            try:
                source = open_source(path)
            except CaptureError:  # dropped since it was listed, like all older ones
                break
            sources.insert(0, source)
            begins = _first_time(source) or begins
            if begins <= window.begin:
                return sources, 0
        return sources, begins - window.begin if self._rolled(self._paths()) else 0

    def _missing(self, window: Window, lost: int, *, stopped: bool) -> str:
        """Return which parts of a window are not in the ring, in words."""
        lacks = []
        if lost:
            lacks.append(f"the first {span(lost)} were no longer in the ring")
        elif window.begin < self._began:
            lacks.append(
                f"recording began {span(self._began - window.begin)} after the beginning of the window"
            )
        if stopped:
            lacks.append(f"recording ended {span(window.end - self._clock())} before the end of the window")
        return ", ".join(lacks)


class _WindowCopy:
    """Copies the packets of a window; the first packet of each match gets a comment."""

    def __init__(self, writer: PcapngWriter, window: Window) -> None:
        self._writer = writer
        self._window = window
        self._interfaces: dict[tuple[int, int, str], int] = {}
        self._marks = window.matches[::-1]  # a stack: the next one last

    def copy(self, source: Source) -> None:
        """Copy from one chunk.

        :raises CaptureError: if it is not a capture, such as a chunk that was just begun
        """
        for interfaces, data, parsed in _frames(source):
            records = parsed.records
            rows = np.flatnonzero((records.time >= self._window.begin) & (records.time <= self._window.end))
            numbers = {
                number: self._declare(interfaces[number]) for number in set(records.interface[rows].tolist())
            }
            columns = (records.interface, records.time, records.frame, records.captured, records.wire)
            self._writer.write_packets(
                Packet(
                    numbers[interface],
                    time_,
                    data[frame : frame + captured].tobytes(),
                    wire,
                    "\n".join(filter(None, (parsed.comments.get(row, ""), *self._marks_at(time_)))),
                )
                for row, interface, time_, frame, captured, wire in zip(
                    rows.tolist(), *(column[rows].tolist() for column in columns), strict=True
                )
            )

    def _declare(self, interface: Interface) -> int:
        key = (interface.link_type, interface.snapshot_length, interface.name)
        if key not in self._interfaces:
            self._interfaces[key] = self._writer.interface(
                interface.link_type,
                name=interface.name,
                description=interface.description,
                snapshot_length=interface.snapshot_length,
            )
        return self._interfaces[key]

    def _marks_at(self, moment: int) -> Iterator[str]:
        """Yield the matches that have begun by `moment` and were not yet noted on a packet."""
        while self._marks and self._marks[-1].begin <= moment:
            match = self._marks.pop()
            if match.begin >= self._window.begin:
                yield f"kproxy: {match.text}"


def _frames(source: Source) -> Iterator[tuple[list[Interface], Bytes, ParsedBuffer]]:
    """Yield the whole packets of a chunk, block by block: the interfaces, the bytes, and the records."""
    if source.size < _LEAST_CAPTURE:
        return
    format_ = recognise(source, Statistics())
    position, size = format_.start, BLOCK_SIZE
    while position < source.size:
        data = np.empty(min(size, source.size - position) + PADDING, np.uint8)
        end = source.read_into(position, data.data[:-PADDING])
        data[end:] = 0
        parsed = format_.parse(data, 0, end)
        if parsed.end:
            yield format_.interfaces, data, parsed
        elif parsed.damaged or position + end >= source.size:  # the writer is in the middle of a record
            return
        else:
            size *= 2
        position += parsed.end


def _first_time(source: Source) -> int | None:
    """Return the time of the first packet of a chunk, None if it has none yet."""
    return None if source.size < _LEAST_CAPTURE else first_time(source)


def _description(window: Window, missing: str) -> str:
    """Return the comment on a file: why it was kept, and what it lacks."""
    lines = ["kept by kproxy's flight recorder: what surrounds"]
    lines += [f"{_clock_time(match.begin)} {match.text}" for match in window.matches]
    if window.more:
        lines.append(f"and {window.more:,} more")
    if missing:
        lines.append(f"missing: {missing}")
    return "\n".join(lines)


def _clock_time(moment: int) -> str:
    seconds, rest = divmod(moment, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
