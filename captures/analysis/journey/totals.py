"""What groups make of all records of a topic: how long these wait, and which they get twice or not at all."""

from __future__ import annotations

from dataclasses import dataclass

from captures.analysis.percentiles import Percentiles


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a partition about which something is reported; the last is included.

    :ivar records: of them that are known to be records: not transaction markers, nor what compaction left out
    :ivar times: how often they were delivered; 0 if never
    :ivar first_number: of the exchange that brought them first; of skipped ones, the last before them
    :ivar again_number: of the exchange that brought them again first; of skipped ones, the first behind them
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

    JSON = (
        "group client=lone_client share_group=shares records acknowledged_to_delivered=delivered "
        "delivered_to_committed=settled sent_to_delivered=total delivered_again=again skipped"
    )

    group: str | None
    client: str
    shares: bool
    records: int
    delivered: Percentiles | None
    settled: Percentiles | None
    total: Percentiles | None
    again: list[Range]
    skipped: list[Range]

    @property
    def lone_client(self) -> str | None:
        """The client, if it is in no group."""
        return self.client if self.group is None else None


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

    JSON = "partitions sent acknowledged refused resent sent_to_acknowledged=waits groups"

    partitions: int
    sent: int
    acknowledged: int
    refused: int
    resent: int
    waits: Percentiles | None
    groups: list[GroupWaits]
