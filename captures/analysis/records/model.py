"""A record, with everything that its exchange or its log segment says about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from captures.analysis.journey.found_records import BatchPosition
from captures.analysis.journey.record_query import RecordQuery
from captures.json_objects import OrNull, Time
from captures.meaning.topic_partitions import TopicPartition
from dissectors.records import Record


class Origin(Enum):
    """How an exchange carries a record, or that it is in a log segment."""

    PRODUCED = "produced"
    FETCHED = "fetched"
    REPLICATED = "replicated"
    SNAPSHOT = "snapshot"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class _ListedRecord:
    """A record and its meaning.

    :ivar tp: topic and partition; the topic's ID if its name is unknown
    :ivar offset: offset in the log; None if neither a response nor a Fetch of the same batch contains it
    :ivar record: as in its batch; the offset of a produced record counts in the request
    :ivar timestamp_type: ``create`` or ``log_append``; None in magic 0, which has no timestamps
    :ivar control: type of a control record: ``COMMIT``, ``ABORT``, ``LEADER_CHANGE`` ...; None for others
    :ivar committed: whether its transaction was committed; None outside of transactions, and if unknown
    :ivar decoded: fields of a record of an internal topic, or of the value of a control record; None for others
    :ivar masked: whether the value is left out because it holds secrets
    """

    tp: TopicPartition
    offset: int | None
    record: Record
    timestamp_type: str | None
    batch: BatchPosition
    origin: Origin
    control: str | None
    committed: bool | None
    decoded: dict[str, Any] | None
    masked: bool

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since the epoch; None if it has none."""
        return None if self.record.timestamp < 0 else self.record.timestamp

    @property
    def name(self) -> str:
        """Its place in the log, as for ``kproxy journey``: ``orders-3@120``; ``orders-3@?`` if unknown."""
        offset = "?" if self.offset is None else self.offset
        return f"{self.tp.topic}-{self.tp.partition}@{offset}"


@dataclass(frozen=True, slots=True)
class CapturedRecord(_ListedRecord):
    """A record in a message.

    :ivar number: number of the exchange
    :ivar time: start of the exchange, ns since the epoch
    :ivar error: why the broker refused it; empty if it did not, or that was not captured
    :ivar path: path of its fields in the exchange: ``request.topic_data[0].partition_data[2].records[0].records[5]``
    """

    number: int
    time: Time
    connection: int
    client: str
    broker: str
    client_id: str | None
    error: OrNull[str]
    path: str


@dataclass(frozen=True, slots=True)
class LoggedRecord(_ListedRecord):
    """A record in a log segment.

    :ivar file: path of the segment
    :ivar position: of the first byte of its batch in the file
    """

    file: str
    position: int


AnyRecord = CapturedRecord | LoggedRecord


# ---------------------------------------------------------------- selection
WILDCARDS = frozenset("*?[")
EVERYTHING = RecordQuery()


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Wanted records; empty or None matches anything.

    :ivar topics: names, or patterns such as ``orders-*``
    :ivar offsets: first and last offset in the log, None for no bound
    :ivar timestamps: first and last timestamp, ms since the epoch, None for no bound
    :ivar content: the key, and bytes in key, value or a header
    """

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    offsets: tuple[int | None, int | None] = (None, None)
    timestamps: tuple[int | None, int | None] = (None, None)
    content: RecordQuery = EVERYTHING

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The topics, if all of them are named; empty if any may match."""
        return () if any(WILDCARDS & set(each) for each in self.topics) else self.topics

    @property
    def by_offset(self) -> bool:
        """Whether offsets are bounded, so that they have to be known."""
        return self.offsets != (None, None)

    def has_partition(self, tp: TopicPartition) -> bool:
        """Return whether records of a partition may match."""
        if self.partitions and tp.partition not in self.partitions:
            return False
        return not self.topics or any(each == tp.topic or fnmatchcase(tp.topic, each) for each in self.topics)

    def fits(self, record: Record, offset: int | None) -> bool:
        """Return whether a record of a matching partition is wanted.

        :param offset: offset in the log; None if unknown, which is within no bounds
        """
        if self.by_offset and (offset is None or not _within(offset, self.offsets)):
            return False
        if self.timestamps != (None, None) and not _within(record.timestamp, self.timestamps):
            return False
        return self.content.fits(record)


def _within(value: int, bounds: tuple[int | None, int | None]) -> bool:
    low, high = bounds
    return (low is None or value >= low) and (high is None or value <= high)
