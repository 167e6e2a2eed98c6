"""How a capture is divided into ranges that are read in parallel.

A pcap file can be cut anywhere: a record is recognized by its plausible header, and verified once the range before has
been read. Other inputs are ranges of their own: pcapng, whose blocks depend on earlier ones; compressed files, which
are read from their first byte; and files that were captured at the same time, which have to be merged. Consecutive
small files form one range.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from captures.packets import CaptureError, JoinedSource
from captures.packets.clock import ClockState
from captures.packets.files import CaptureFile, FoundFiles, find_files
from captures.packets.pcap import is_pcap
from captures.packets.remote import absolute
from captures.packets.source import open_source
from captures.packets.spool import DEFAULT_SPOOL, Quota
from captures.packets.wrappings import MAGIC_SIZE, compression

COMPRESSED = "compressed"
RANGE_BYTES = 64 << 20
"""Large enough that little is read twice at the edges, small enough for many tasks."""


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a capture.

    :ivar number: its index among all ranges
    :ivar files: numbers of its first file, and of the file after its last one
    :ivar begin: offset in the file, if it is a part of one
    :ivar end: offset after it, None for the end of the file
    :ivar known: whether a record is known to start at ``begin``
    :ivar clock: state of the capture clock before it, if it has to be known
    """

    number: int
    files: tuple[int, int]
    begin: int = 0
    end: int | None = None
    known: bool = False
    clock: ClockState | None = None


@dataclass(slots=True)
class Plan:
    """A capture, divided into ranges.

    :ivar files: in the order of their first packets
    :ivar ranges: in capture order
    :ivar unreadable: read errors of files
    :ivar passed_over: files in folders, or matched by patterns, that are no captures
    :ivar whole: number of a file that is not cut -> reason
    """

    files: list[CaptureFile]
    ranges: list[Range] = field(default_factory=list)
    unreadable: list[CaptureError] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    whole: dict[int, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def source(self, spool: int = DEFAULT_SPOOL) -> JoinedSource:
        """Open the files as one source."""
        return JoinedSource(FoundFiles([copy(file) for file in self.files]), Quota(spool))

    def merged(self, together: Sequence[tuple[int, int]], why: str) -> Plan:
        """Return the plan with the ranges of some files merged.

        :param together: pairs of file numbers: the first file, and the one after the last
        :param why: the reason
        """
        ranges: list[Range] = []
        for each in self.ranges:
            into = next((pair for pair in together if pair[0] <= each.files[0] < pair[1]), None)
            if into is None:
                ranges.append(replace(each, number=len(ranges)))
            elif not ranges or ranges[-1].files != into or ranges[-1].end is not None:
                ranges.append(Range(len(ranges), into))
        whole = self.whole | {number: why for pair in together for number in range(*pair)}
        return replace(self, ranges=ranges, whole=whole)


def make_plan(paths: Sequence[str], range_bytes: int = RANGE_BYTES) -> Plan:
    """Find captures and divide them into ranges.

    :param paths: files, folders and patterns that are one capture
    :param range_bytes: size of a range
    :raises CaptureError: if no file can be read
    """
    # absolute, because tasks have other working directories
    found = find_files([*map(absolute, paths)], Quota(DEFAULT_SPOOL))
    if not found.files:
        raise found.unreadable[0]
    plan = Plan(found.files, unreadable=found.unreadable, passed_over=found.passed_over)
    step = max(range_bytes, 1)
    room = 0  # bytes of further files that the last range may take
    for number, file in enumerate(plan.files):
        if file.source is not None:
            reason = (
                "a pipe and several request logs are read only in one process (kproxy tables --engine single)"
            )
            raise CaptureError(file.path, 0, reason)
        why = _indivisible(file)
        edges = range(step, file.size, step) if not why else ()
        if why:
            plan.whole[number] = why
        if file.size <= room and _compressed(plan, number) == _compressed(plan, number - 1):
            plan.ranges[-1] = replace(plan.ranges[-1], files=(plan.ranges[-1].files[0], number + 1))
            room -= file.size
            continue
        room = step - file.size
        for begin, end in zip((0, *edges), (*edges, None), strict=True):
            plan.ranges.append(Range(len(plan.ranges), (number, number + 1), begin, end))
    return plan


def _compressed(plan: Plan, number: int) -> bool:
    """Return whether a file is compressed: such files share no range with others, because their payload is kept."""
    return plan.whole.get(number, "").startswith(COMPRESSED)


def _indivisible(file: CaptureFile) -> str:
    """Return the reason why a file cannot be cut, empty if it can."""
    with open_source(file.path) as source:
        how = source.compression
        if how:
            return f"{COMPRESSED} with {how}"
        magic = source.read(0, MAGIC_SIZE)
    return "" if is_pcap(magic) and compression(magic) is None else "pcapng"
