"""Options and summaries of runs that write tables. pyspark and pyarrow are not imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from captures.faults import Faults
from captures.json_objects import OrNull, Rounded
from captures.meaning.words import counted, volume
from captures.packets import CaptureError, FileDamage
from captures.ranges.plan import RANGE_BYTES

KEYS = ("run", "number", "time", "time_ns")
"""Columns of ``exchanges`` that are always written."""
ALREADY_READ = "a run before has read it"
"""Reason for skipping a file."""
CHANGED = (
    f"it has grown since {ALREADY_READ}, and other files of that run are gone: --overwrite, or another folder"
)
"""Reason for not reading a file that an earlier run has read under its path."""
_TELLING = 10_000_000  # bytes from which the rate is meaningful
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class TablesOptions:
    """Options of a run that writes tables.

    :ivar tables: names of the tables to write; empty for the default ones (all but ``records``)
    :ivar columns: names of columns of ``exchanges``; empty for the default ones. The columns that rows are partitioned
        and joined by (:data:`KEYS`) are always included
    :ivar filter: only exchanges that match it (docs/filters.md) become rows; None for all
    :ivar append: add to the existing tables; files that an earlier run has read are skipped
    :ivar overwrite: replace the existing tables
    :ivar strict: fail at the first file that cannot be read, or is damaged
    :ivar keylog: TLS key log file
    :ivar hosts: files with names of addresses
    :ivar range_bytes: bytes of a capture that one task reads
    :ivar follow: continue with files that arrive in the folder, until stopped
    :ivar master: where Spark runs, None for its configured master, else this machine
    :ivar remote: a Spark Connect server
    :ivar settings: Spark's settings, by name
    :ivar jobs: processes of the engine that runs without Spark; None for one per processor
    :ivar only: names of the rules of the diagnosis to apply; empty for all
    :ivar skip: names of rules not to apply
    """

    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    filter: str | None = None
    append: bool = False
    overwrite: bool = False
    strict: bool = False
    keylog: str | None = None
    hosts: tuple[str, ...] = ()
    range_bytes: int = RANGE_BYTES
    follow: bool = False
    master: str | None = None
    remote: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    jobs: int | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.columns:
            object.__setattr__(self, "columns", tuple(dict.fromkeys((*KEYS, *self.columns))))


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that was read.

    :ivar bytes: its size
    :ivar tasks: how many tasks read it side by side
    :ivar why: why it was one task, though it is large: ``pcapng``, ``gzip`` ...; empty if it was split, or small
    """

    JSON = "path bytes tasks one_task_because=why"

    path: str
    bytes: int
    tasks: int = 1
    why: OrNull[str] = ""


@dataclass(frozen=True, slots=True)
class OmittedFile:
    """A file that was not read, or not to its end, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class FaultSummary:
    """Internal errors in kproxy that something in the captures brought out.

    :ivar count: how many
    :ivar sentences: the first of them, in sentences, and what to do about them
    """

    JSON = "count told=sentences"

    count: int = 0
    sentences: tuple[str, ...] = ()

    @classmethod
    def of(cls, faults: Faults) -> FaultSummary:
        """Return the lines about faults."""
        return cls(faults.count, tuple(faults.lines()))


@dataclass(frozen=True, slots=True)
class TablesSummary:
    """What a run has read, decoded, lost, skipped, and written.

    :ivar out: the folder of the tables
    :ivar engine: what did it: ``spark`` or ``single``
    :ivar files: those that were read
    :ivar unreadable: those that could not be read, or not to the end
    :ivar skipped: those that the tables have already
    :ivar passed_over: those in folders, or matched by patterns, that are no captures
    :ivar packets: how many were read
    :ivar exchanges: how many were found
    :ivar undecoded: how many of them could not be decoded, or not wholly
    :ivar faults: what went wrong in kproxy itself; what it was about is not in the tables
    :ivar rows: written to each table
    :ivar lost_bytes: of TCP streams, that the captures do not hold
    :ivar damage: places of files that are damaged, in words
    :ivar notes: further things a user should know, in sentences
    :ivar seconds: how long it took
    """

    JSON = (
        "out engine files unreadable skipped passed_over bytes packets exchanges undecoded faults rows lost_bytes "
        "damage notes seconds complete"
    )

    out: str
    engine: str
    files: tuple[InputFile, ...] = ()
    unreadable: tuple[OmittedFile, ...] = ()
    skipped: tuple[OmittedFile, ...] = ()
    passed_over: tuple[str, ...] = ()
    packets: int = 0
    exchanges: int = 0
    undecoded: int = 0
    faults: FaultSummary = FaultSummary()
    rows: Mapping[str, int] = field(default_factory=dict)
    lost_bytes: int = 0
    damage: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: Rounded = 0.0

    @property
    def bytes(self) -> int:
        """Bytes of the files that were read."""
        return sum(file.bytes for file in self.files)

    @property
    def nothing_read(self) -> bool:
        """Whether there were files, and none could be read."""
        return bool(self.unreadable) and not self.files and not self.skipped

    @property
    def clean(self) -> bool:
        """Whether all of it could be read and decoded."""
        return not (self.unreadable or self.damage or self.lost_bytes or self.undecoded or self.faults.count)

    @property
    def complete(self) -> bool:
        """Whether all files were captures, and could be read and decoded."""
        return self.clean and not self.passed_over

    def lines(self) -> Iterator[str]:
        """Yield it for people, line by line."""
        for file in self.unreadable:
            yield f"not read: {file.path}: {file.reason}"
        yield from _several("passed over, as it is no capture", self.passed_over)
        yield from _several("damaged", self.damage)
        yield from _several("skipped", [f"{file.path}: {file.reason}" for file in self.skipped])
        yield from _several("one task", [f"{file.path}: {file.why}" for file in self.files if file.why])
        yield from self.notes
        if not self.files:
            yield f"nothing was read, and nothing was written to {self.out}"
            return
        yield self._read()
        if self.lost_bytes:
            yield f"lost: {self.lost_bytes:,} bytes of TCP streams that the captures do not hold"
        if self.undecoded:
            yield f"not wholly decoded: {counted(self.undecoded, 'exchange')}"
        yield self._written()

    def _read(self) -> str:
        slow = self.seconds <= 0 or self.bytes < _TELLING
        rate = "" if slow else f", {self.bytes / self.seconds / 1e6:,.0f} MB/s"
        found = f"{counted(self.packets, 'packet')}, {counted(self.exchanges, 'exchange')}"
        other = f" ({len(self.passed_over):,} passed over)" if self.passed_over else ""
        files = f"{counted(len(self.files), 'file')}{other}"
        return f"{files}, {volume(self.bytes)}: {found} in {self.seconds:,.1f} s{rate}"

    def _written(self) -> str:
        tables = ", ".join(f"{name} {rows:,}" for name, rows in self.rows.items())
        return f"rows written to {self.out}: {tables or 'none'}"


def check_complete(
    options: TablesOptions, damage: Iterable[FileDamage], unreadable: Iterable[CaptureError]
) -> None:
    """End a strict run at the first place that could not be read.

    :raises CaptureError: with ``strict``, if there is one
    """
    if options.strict:
        for each in damage:
            raise CaptureError(each.path, each.offset, each.reason)
        for error in unreadable:
            raise error


def damage_sentences(damage: Iterable[FileDamage]) -> tuple[str, ...]:
    """Return a sentence for each damaged place of a file."""
    return tuple(f"{each.path} at byte {each.offset:,}: {each.reason}" for each in damage)


def note_sentences(
    options: TablesOptions, *, exchanges: int, fitting: int, dropped: int, foreign: int
) -> tuple[str, ...]:
    """Return notes on a run for the user, as sentences.

    :param fitting: number of exchanges that match the filter
    :param dropped: number of packets that the capturing machine dropped
    :param foreign: number of connections that are not Kafka in plain text
    """
    notes = []
    if options.filter:
        notes.append(
            f"{fitting:,} of {counted(exchanges, 'exchange')} {'fits' if fitting == 1 else 'fit'} the filter"
        )
    if dropped:
        notes.append(f"{counted(dropped, 'packet was', 'packets were')} dropped by the capturing machine")
    if foreign:
        are = counted(foreign, "connection is", "connections are")
        notes.append(f"{are} not Kafka in the clear: see the table connections")
    return tuple(notes)


def _several(title: str, texts: tuple[str, ...] | list[str]) -> Iterator[str]:
    """Yield the first lines, and the number of omitted ones; JSON has them all."""
    for text in texts[:_SHOWN]:
        yield f"{title}: {text}"
    if len(texts) > _SHOWN:
        yield f"{title}: {len(texts) - _SHOWN:,} more"
