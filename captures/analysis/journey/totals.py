"""Groups' totals over all records of a topic: waits, and records delivered twice or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from captures.analysis.percentiles import Percentiles


@dataclass(frozen=True, slots=True)
class Range:
    """A reported range of offsets; the last one is included.

    :ivar records: number of known records in it, without transaction markers and compacted records
    :ivar times: how often they were delivered; 0 if never
    :ivar first_number: number of the exchange that delivered them first; for skipped ones, of the last delivery before
        them
    :ivar again_number: number of the exchange that first delivered them again; for skipped ones, of the first delivery
        after them
    """

    JSON = "topic partition first last records times exchanges"

    topic: str
    partition: int
    first: int
    last: int
    records: int
    times: int
    first_number: int
    again_number: int

    @property
    def exchanges(self) -> list[int]:
        """Numbers of both exchanges."""
        return [self.first_number, self.again_number]


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """Waits of a topic's records on their way to a group, and records delivered twice or not at all.

    Each distribution counts records, and only those with both ends in the capture; None if there are none.

    :ivar group: None if unknown: then it is the consumer ``client``
    :ivar records: number of delivered offsets
    :ivar delivered: acknowledged -> first delivered; negative if a Fetch was answered before the Produce
    :ivar settled: first delivered -> first commit above (or accepted or rejected, in a share group)
    :ivar total: sent -> first delivered
    :ivar refetched: ranges delivered more than once
    :ivar skipped: ranges not delivered, though later ones were
    """

    JSON = (
        "group client=lone_client share_group=shares records acknowledged_to_delivered=delivered "
        "delivered_to_committed=settled sent_to_delivered=total delivered_again=refetched skipped"
    )

    group: str | None
    client: str
    shares: bool
    records: int
    delivered: Percentiles | None
    settled: Percentiles | None
    total: Percentiles | None
    refetched: list[Range]
    skipped: list[Range]

    @property
    def lone_client(self) -> str | None:
        """The client, if it is in no group."""
        return self.client if self.group is None else None


@dataclass(frozen=True, slots=True)
class TopicWaits:
    """Totals over all wanted records.

    :ivar sent: records in Produce requests, each counted once however often it was sent
    :ivar acknowledged: sent records with a response
    :ivar refused: sent records that were never written, according to responses
    :ivar resent: records that were sent more than once
    :ivar partitions: number of partitions
    :ivar waits: sent -> acknowledged
    """

    JSON = "partitions sent acknowledged refused resent sent_to_acknowledged=waits groups"

    partitions: int
    sent: int
    acknowledged: int
    refused: int
    resent: int
    waits: Percentiles | None
    groups: list[GroupWaits]
