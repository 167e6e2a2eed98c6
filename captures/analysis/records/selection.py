"""Which records are wanted: by topic, partition, offset, timestamp and content."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from captures.analysis.journey.record_query import RecordQuery
from captures.meaning.places import TopicPartition
from dissectors.records import Record

WILDCARDS = frozenset("*?[")
EVERYTHING = RecordQuery()


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """Records that are wanted; what is empty or None may be anything.

    :ivar topics: names, or patterns such as ``orders-*``
    :ivar offsets: first and last in the log, either of them None for no bound
    :ivar timestamps: ms since the epoch, likewise
    :ivar content: the key, and what stands in key, value or a header
    """

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    offsets: tuple[int | None, int | None] = (None, None)
    timestamps: tuple[int | None, int | None] = (None, None)
    content: RecordQuery = EVERYTHING

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The topics, if all of them are named; empty if any may be meant."""
        return () if any(WILDCARDS & set(each) for each in self.topics) else self.topics

    @property
    def by_offset(self) -> bool:
        """Whether offsets are bounded, so that they have to be known."""
        return self.offsets != (None, None)

    def place(self, place: TopicPartition) -> bool:
        """Return whether records of a partition may be wanted."""
        if self.partitions and place.partition not in self.partitions:
            return False
        return not self.topics or any(
            each == place.topic or fnmatchcase(place.topic, each) for each in self.topics
        )

    def fits(self, record: Record, offset: int | None) -> bool:
        """Return whether a record of a partition that may be meant is wanted.

        :param offset: in the log; None if it is not known, which lies within no bounds
        """
        if self.by_offset and (offset is None or not _within(offset, self.offsets)):
            return False
        if self.timestamps != (None, None) and not _within(record.timestamp, self.timestamps):
            return False
        return self.content.fits(record)


def _within(value: int, bounds: tuple[int | None, int | None]) -> bool:
    low, high = bounds
    return (low is None or value >= low) and (high is None or value <= high)
