"""What a capture says about each partition, row by row: what was sent, delivered and committed, and what can be read.

Rows are some dozen bytes each. They are kept to the end, because what belongs together comes in any order: a Fetch that
waits for records is numbered before the Produce that brings them, and a group may come to a record hours later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from captures.analysis.journey.covers import Ranges
from captures.analysis.journey.logs import Layout, Log
from captures.meaning.places import TopicPartition

SENDS = Layout(
    base="i8",
    count="i4",
    sent="i8",
    answered="i8",
    number="i8",
    sender="i4",
    producer_id="i8",
    epoch="i2",
    sequence="i4",
    error="i2",
    crc="u4",
    size="i4",
    acks="i2",
    attributes="i2",
    magic="i1",
    transaction="i4",
)
"""What one Produce sends to a partition. ``base``: offset of the first record as answered, -1 if it was not told;
``answered``: ns since the epoch, -1 if it was not; ``sender``: index of :attr:`Ledger.senders`; ``crc``: of the first
batch, which with magic 2 is the only one; ``transaction``: index of :attr:`Ledger.texts`, the
transactional ID, -1 if none."""

DELIVERIES = Layout(
    first="i8", last="i8", time="i8", asked="i8", number="i8", reader="i4", member="i4", times="i2"
)
"""What one Fetch response brings of a partition. ``asked``: when it was asked for; ``reader``: index of
:attr:`Ledger.readers`; ``member``: of :attr:`Ledger.texts`; ``times``: delivery count, of share groups only, else 0."""

BATCHES = Layout(base="i8", crc="u4", size="i4")
"""Batches that a Fetch brought, each once as a rule."""

MARKERS = Layout(offset="i8", producer_id="i8", epoch="i2", committed="i1", time="i8", number="i8")
"""Transaction markers in the log, as a Fetch brought them first."""

ENDS = Layout(offset="i8", time="i8", number="i8")
"""High watermarks or last stable offsets, as Fetch responses tell them."""

COMMITS = Layout(first="i8", last="i8", sent="i8", time="i8", number="i8", member="i4", kind="i1")
"""What a group is done with. ``first``: -1 where all up to ``last`` is meant, as in commits; ``kind``: of
:class:`~captures.analysis.journey.model.Settlement`."""


class Ends(Log):
    """When Fetch responses told first that one may read so far."""

    __slots__ = ("_highest", "_time")

    def __init__(self) -> None:
        super().__init__(ENDS)
        self._highest = self._time = -1

    def told(self, offset: int, time: int, number: int) -> None:
        """Note an offset if it is further than any before, or was told earlier than that, as answers may overtake."""
        if offset > self._highest:
            self._highest, self._time = offset, time
        elif offset < 0 or time >= self._time:
            return
        self.add(offset, time, number)


@dataclass(slots=True, eq=False)
class PartitionLog:
    """All rows of a partition.

    :ivar seen: offsets whose batches are in ``batches``
    :ivar looked: offsets whose records were looked at for what is sought
    :ivar commits: group -> commits
    """

    sends: Log = field(default_factory=lambda: Log(SENDS))
    deliveries: Log = field(default_factory=lambda: Log(DELIVERIES))
    batches: Log = field(default_factory=lambda: Log(BATCHES))
    markers: Log = field(default_factory=lambda: Log(MARKERS))
    readable: Ends = field(default_factory=Ends)
    stable: Ends = field(default_factory=Ends)
    commits: dict[str, Log] = field(default_factory=dict)
    seen: Ranges = field(default_factory=Ranges)
    looked: Ranges = field(default_factory=Ranges)

    def commits_of(self, group: str) -> Log:
        """Return the commits of a group, to be added to."""
        found = self.commits.get(group)
        if found is None:
            found = self.commits[group] = Log(COMMITS)
        return found

    def include(self, other: PartitionLog) -> None:
        """Take over the rows of the same partition under another name."""
        for name in ("sends", "deliveries", "batches", "markers", "readable", "stable"):
            getattr(self, name).include(getattr(other, name))
        for group, log in other.commits.items():
            self.commits_of(group).include(log)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who produces, over which connection.

    :ivar client: client ID, or address without one
    :ivar address: of the client, with its port
    """

    client: str
    address: str
    broker: str
    connection: int


@dataclass(slots=True, eq=False)
class Reader:
    """Who fetches, over which connection.

    :ivar client: client ID, or address without one
    :ivar address: of the client, with its port
    :ivar replica: node ID of a broker or controller; below 0 for a consumer
    :ivar committed: whether it reads committed transactions only
    :ivar group: whose member it is; empty as long as that is not known
    :ivar shares: whether it is of a share group
    """

    client: str
    address: str
    broker: str
    connection: int
    replica: int
    committed: bool
    shares: bool
    group: str = ""

    @property
    def host(self) -> str:
        """Address without the port."""
        return self.address.rpartition(":")[0]


class TextNumbers:
    """Numbers for texts that come again and again."""

    __slots__ = ("_numbers", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the number of a text; -1 for an empty one."""
        if not text:
            return -1
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found

    def text(self, number: int) -> str:
        """Return the text of a number; empty for -1."""
        return self.texts[number] if number >= 0 else ""


class Ledger:
    """The rows of all partitions, and whom they name."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionLog] = {}
        self.senders: list[Sender] = []
        self.readers: list[Reader] = []
        self.texts = TextNumbers()
        self._senders: dict[int, int] = {}

    def sender(self, connection: int, client: Callable[[], Sender]) -> int:
        """Return the number of who produces over a connection.

        :param client: tells who that is, the first time
        """
        found = self._senders.get(connection)
        if found is None:
            found = self._senders[connection] = len(self.senders)
            self.senders.append(client())
        return found

    def of(self, place: TopicPartition) -> PartitionLog:
        """Return the rows of a partition, to be added to."""
        found = self.partitions.get(place)
        if found is None:
            found = self.partitions[place] = PartitionLog()
        return found
