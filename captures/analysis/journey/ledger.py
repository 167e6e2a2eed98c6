"""The events of each partition as rows: sends, deliveries, commits, and readable ends.

Rows are some dozen bytes each. They are kept to the end, because related ones arrive in any order: a Fetch that waits
for records has a lower number than the Produce that brings them, and a group may reach a record hours later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from captures.analysis.journey.logs import Layout, Log
from captures.meaning.topic_partitions import TopicPartition
from captures.packets.coverage import Coverage

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
"""One Produce to a partition. ``base``: offset of the first record in the response, -1 if unknown;
``answered``: ns since the epoch, -1 if it was not; ``sender``: index in :attr:`Ledger.senders`; ``crc``: checksum of
the first batch, which with magic 2 is the only one; ``transaction``: index in :attr:`Ledger.texts`, the transactional
ID, -1 if none."""

DELIVERIES = Layout(
    first="i8", last="i8", time="i8", asked="i8", number="i8", reader="i4", member="i4", times="i2"
)
"""One delivery of a partition by a Fetch response. ``asked``: time of the request; ``reader``: index in
:attr:`Ledger.readers`; ``member``: index in :attr:`Ledger.texts`; ``times``: delivery count of share groups, else 0."""

BATCHES = Layout(base="i8", crc="u4", size="i4")
"""Fetched batches, usually each once."""

MARKERS = Layout(offset="i8", producer_id="i8", epoch="i2", committed="i1", time="i8", number="i8")
"""Transaction markers in the log, at their first delivery by a Fetch."""

ENDS = Layout(offset="i8", time="i8", number="i8")
"""High watermarks or last stable offsets in Fetch responses."""

COMMITS = Layout(first="i8", last="i8", sent="i8", time="i8", number="i8", member="i4", kind="i1")
"""Records that a group has finished. ``first``: -1 for all up to ``last``, as in commits; ``kind``: a
:class:`~captures.analysis.journey.model.Settlement`."""


class ReadableOffsets(Log):
    """Times at which Fetch responses first allowed reading up to an offset."""

    __slots__ = ("_highest", "_time")

    def __init__(self) -> None:
        super().__init__(ENDS)
        self._highest = self._time = -1

    def extend(self, offset: int, time: int, number: int) -> None:
        """Add an offset if it is higher than all before, or was reported earlier than that: responses may overtake."""
        if offset > self._highest:
            self._highest, self._time = offset, time
        elif offset < 0 or time >= self._time:
            return
        self.add(offset, time, number)


@dataclass(slots=True, eq=False)
class PartitionLog:
    """All rows of a partition.

    :ivar seen: offsets whose batches are in ``batches``
    :ivar looked: offsets whose records were searched
    :ivar commits: group -> commits
    """

    sends: Log = field(default_factory=lambda: Log(SENDS))
    deliveries: Log = field(default_factory=lambda: Log(DELIVERIES))
    batches: Log = field(default_factory=lambda: Log(BATCHES))
    markers: Log = field(default_factory=lambda: Log(MARKERS))
    readable: ReadableOffsets = field(default_factory=ReadableOffsets)
    stable: ReadableOffsets = field(default_factory=ReadableOffsets)
    commits: dict[str, Log] = field(default_factory=dict)
    seen: Coverage = field(default_factory=Coverage)
    looked: Coverage = field(default_factory=Coverage)

    def commits_of(self, group: str) -> Log:
        """Return the commits of a group, for adding to them."""
        return self.commits.setdefault(group, Log(COMMITS))

    def include(self, other: PartitionLog) -> None:
        """Add the rows of the same partition under another name."""
        for name in ("sends", "deliveries", "batches", "markers", "readable", "stable"):
            getattr(self, name).include(getattr(other, name))
        for group, log in other.commits.items():
            self.commits_of(group).include(log)


@dataclass(frozen=True, slots=True)
class Sender:
    """A producing client on one connection.

    :ivar client: client ID, or address without one
    :ivar address: address of the client, with its port
    """

    client: str
    address: str
    broker: str
    connection: int


@dataclass(slots=True, eq=False)
class Reader:
    """A fetching client on one connection.

    :ivar client: client ID, or address without one
    :ivar address: address of the client, with its port
    :ivar replica: node ID of a broker or controller; negative for a consumer
    :ivar committed: whether it reads only committed transactions
    :ivar group: its group; empty while unknown
    :ivar shares: whether it is in a share group
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
    """Numbers for repeated texts."""

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
    """The rows of all partitions, with senders, readers and texts."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionLog] = defaultdict(PartitionLog)
        self.senders: list[Sender] = []
        self.readers: list[Reader] = []
        self.texts = TextNumbers()
        self._senders: dict[int, int] = {}

    def sender(self, connection: int, client: Callable[[], Sender]) -> int:
        """Return the number of the sender on a connection.

        :param client: returns the sender; called the first time
        """
        found = self._senders.get(connection)
        if found is None:
            found = self._senders[connection] = len(self.senders)
            self.senders.append(client())
        return found

    def of(self, tp: TopicPartition) -> PartitionLog:
        """Return the rows of a partition, for adding to them."""
        return self.partitions[tp]
