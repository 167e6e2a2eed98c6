"""What groups make of all records of a topic: how long these wait, and which they get twice or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from captures.analysis.journey.model import json_of
from captures.analysis.percentiles import Percentiles


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a partition of which something is told; the last is included.

    :ivar records: of them that are known to be records: not transaction markers, nor what compaction left out
    :ivar times: how often they were delivered; 0 if never
    :ivar first_number: of the exchange that brought them first; of skipped ones, the last before them
    :ivar again_number: of the exchange that brought them again first; of skipped ones, the first behind them
    """

    topic: str
    partition: int
    first: int
    last: int
    records: int
    times: int
    first_number: int
    again_number: int

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "first": self.first,
            "last": self.last,
            "records": self.records,
            "times": self.times,
            "exchanges": [self.first_number, self.again_number],
        }


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """How long the records of a topic wait on their way to a group, and which it gets twice or not at all.

    Each distribution counts records, and only those whose both ends are in the capture; None if there are none.

    :ivar group: None if none is known: then it is the consumer ``client``
    :ivar records: offsets delivered to it
    :ivar delivered: acknowledged -> first delivered; below 0 where a Fetch was answered before the Produce
    :ivar settled: first delivered -> first commit above (or accepted or rejected, in a share group)
    :ivar total: sent -> first delivered
    :ivar again: delivered more than once
    :ivar skipped: not delivered, though later ones were
    """

    group: str | None
    client: str
    shares: bool
    records: int
    delivered: Percentiles | None
    settled: Percentiles | None
    total: Percentiles | None
    again: list[Range]
    skipped: list[Range]

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "group": self.group,
            "client": self.client if self.group is None else None,
            "share_group": self.shares,
            "records": self.records,
            "acknowledged_to_delivered": json_of(self.delivered),
            "delivered_to_committed": json_of(self.settled),
            "sent_to_delivered": json_of(self.total),
            "delivered_again": [each.to_json() for each in self.again],
            "skipped": [each.to_json() for each in self.skipped],
        }


@dataclass(frozen=True, slots=True)
class TopicWaits:
    """What happened to all records that are sought, together.

    :ivar sent: records in Produce requests, each once however often it was sent
    :ivar acknowledged: of them, with an answer
    :ivar refused: of them, never written as far as answers tell
    :ivar resent: records that were sent more than once
    :ivar partitions: how many there are
    :ivar waits: sent -> acknowledged
    """

    partitions: int
    sent: int
    acknowledged: int
    refused: int
    resent: int
    waits: Percentiles | None
    groups: list[GroupWaits]

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "partitions": self.partitions,
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "refused": self.refused,
            "resent": self.resent,
            "sent_to_acknowledged": json_of(self.waits),
            "groups": [each.to_json() for each in self.groups],
        }
