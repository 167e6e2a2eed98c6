"""A record, with all that the exchange that carries it tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from captures.analysis.journey.found_records import BatchSeen
from captures.json_objects import OrNull, Time
from captures.meaning.places import TopicPartition
from dissectors.records import Record


class Origin(Enum):
    """How an exchange comes to carry a record."""

    PRODUCED = "produced"
    FETCHED = "fetched"
    REPLICATED = "replicated"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class CapturedRecord:
    """A record in a message.

    :ivar place: topic and partition; the topic's ID where its name is not known
    :ivar offset: in the log; None if no answer, and no Fetch of the same batch, tells it
    :ivar record: as in its batch; of what is produced the offset counts in the request
    :ivar timestamp_type: ``create`` or ``log_append``; None in magic 0, which has no timestamps
    :ivar number: of the exchange
    :ivar time: ns since the epoch, when that began
    :ivar control: of a control record, what it is for: ``COMMIT``, ``ABORT``, ``LEADER_CHANGE`` ...; else None
    :ivar committed: whether its transaction was committed; None outside of transactions, and where that was not seen
    :ivar error: why the broker refused it; empty if it did not, or was not seen to
    :ivar decoded: the record of an internal topic, or the value of a control record, in fields; None of others
    :ivar masked: whether the value is left out because it holds secrets
    :ivar path: where its fields are in the exchange: ``request.topic_data[0].partition_data[2].records[0].records[5]``
    """

    place: TopicPartition
    offset: int | None
    record: Record
    timestamp_type: str | None
    batch: BatchSeen
    number: int
    time: Time
    origin: Origin
    connection: int
    client: str
    broker: str
    client_id: str | None
    control: str | None
    committed: bool | None
    error: OrNull[str]
    decoded: dict[str, Any] | None
    masked: bool
    path: str

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since the epoch; None if it has none."""
        return None if self.record.timestamp < 0 else self.record.timestamp

    @property
    def name(self) -> str:
        """Its place in the log, as ``kproxy journey`` takes it: ``orders-3@120``; ``orders-3@?`` if it is not known."""
        offset = "?" if self.offset is None else self.offset
        return f"{self.place.topic}-{self.place.partition}@{offset}"
