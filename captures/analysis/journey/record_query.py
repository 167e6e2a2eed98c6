"""Queries for records: one by its offset, those with a key or a text, or all of a topic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from captures.meaning import Names
from captures.meaning.exchange import Body
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from dissectors.records import Batch, Codec, Record

_ID_LENGTH = len("AAAAAAAAAAAAAAAAAAAAAA")
_PLACE = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)@(?P<offset>\d+)")


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A query for records; None matches anything.

    Without offset, key and text, it is about all records together, and none is listed one by one.

    :ivar contains: bytes in the key, the value, or the value of a header
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: bytes | None = None
    contains: bytes | None = None

    @property
    def single(self) -> bool:
        """Whether single records are searched."""
        return self.offset is not None or self.by_content

    @property
    def by_content(self) -> bool:
        """Whether records are matched by content, so that batches have to be decoded."""
        return self.key is not None or self.contains is not None

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return whether records of a partition may match."""
        return self.topic in (None, topic) and self.partition in (None, partition)

    def may_be(self, topic: str, partition: int, names: Names) -> bool:
        """Return whether records of a partition may match once all names of topic IDs are known."""
        if self.partition not in (None, partition) or topic == "?":
            return False
        return self.topic in (None, topic) or (len(topic) == _ID_LENGTH and names(topic) is None)

    def rows(
        self, body: Body, topics: str, names: Names, partitions: str = "partitions"
    ) -> Iterator[tuple[TopicPartition, Body]]:
        """Yield the partitions in a message of which records may match, each with its row.

        :param topics: name of the array of topics
        :param partitions: name of the array of partitions in a topic
        """
        for tp, row in rows_by_partition(body, topics, names, partitions):
            if self.may_be(*tp, names):
                yield tp, row

    def may_hold(self, batch: Batch) -> bool:
        """Return whether a batch may contain a matching record; uncompressed batches are searched as bytes."""
        if batch.control:
            return False
        if batch.codec != Codec.NONE or not self.by_content:
            return True
        data = bytes(batch.data[batch.start : batch.end])
        return all(each in data for each in (self.key, self.contains) if each)

    def fits(self, record: Record) -> bool:
        """Return whether a record has the key and the text; its offset is ignored."""
        if self.key is not None and record.key != self.key:
            return False
        if self.contains is None:
            return True
        parts = (record.key, record.value, *(value for _, value in record.headers))
        return any(part is not None and self.contains in part for part in parts)


def place_of(text: str) -> RecordQuery | None:
    """Return the query for ``orders-3@120``, None if the text has another form.

    Topic names may contain dashes: the last one before the ``@`` separates topic and partition.
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        return None
    return RecordQuery(found["topic"], int(found["partition"]), int(found["offset"]))
