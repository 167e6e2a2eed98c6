"""The way of a record through the cluster.

Times are ns since the epoch, as the capture has them: a request counts from its first byte, a response as it is
complete. ``number`` is that of the exchange that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from captures.analysis.journey.found_records import BatchSeen
from captures.json_objects import OrNull, Time, Word
from dissectors.error_codes import ErrorCode, error_name
from dissectors.records import Record


class Settlement(IntEnum):
    """How a group was done with records."""

    COMMITTED = 0
    IN_TRANSACTION = 1
    ACCEPTED = 2
    RELEASED = 3
    REJECTED = 4

    @property
    def done(self) -> bool:
        """Whether the records do not come again."""
        return self is not Settlement.RELEASED


@dataclass(frozen=True, slots=True)
class Moment:
    """Something at a time, shown by an exchange."""

    JSON = "time exchange=number"

    time: Time
    number: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One Produce that held the record.

    :ivar answered: None if no response was captured
    :ivar error: code of the answer; 0 if none
    :ivar base_offset: offset of the first record sent, as answered; None if not told
    :ivar found_at: the same, where no answer told it: a Fetch brought a batch of the same checksum from there
    """

    JSON = "exchange=number sent answered client address broker acks error=error_name base_offset found_at"

    sent: Time
    answered: Time | None
    number: int
    client: str
    address: str
    broker: str
    acks: int
    error: int
    base_offset: int | None
    found_at: int | None

    @property
    def error_name(self) -> str | None:
        """Name of the error; None if there was none."""
        return error_name(self.error) if self.error else None


@dataclass(frozen=True, slots=True)
class Transaction:
    """The transaction that the record belongs to.

    :ivar committed: True committed, False aborted, None if the capture does not tell
    :ivar ended: when the producer asked for that (EndTxn), None if it was not captured, or it did not
    :ivar end_answered: when the coordinator confirmed it
    :ivar written: when the coordinator told the leader to write the marker, None if not captured
    :ivar marker: when a Fetch brought the marker first
    :ivar marker_offset: None if no Fetch brought it
    """

    JSON = (
        "producer_id transactional_id committed ended end_answered marker_written=written "
        "marker_fetched=marker marker_offset"
    )

    producer_id: int
    transactional_id: str | None
    committed: bool | None
    ended: Moment | None
    end_answered: Time | None
    written: Moment | None
    marker: Moment | None
    marker_offset: int | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A response that brought the record.

    :ivar asked: when it was asked for
    :ivar member: member ID, inferred but for share groups; empty if it cannot be told
    :ivar times: delivery count that the broker told, of share groups; 0 for others
    :ivar committed_only: whether this consumer reads committed transactions only
    """

    JSON = "time asked exchange=number client address broker member delivery_count=times isolation_level"

    time: Time
    asked: Time
    number: int
    client: str
    address: str
    broker: str
    member: OrNull[str]
    times: OrNull[int]
    committed_only: bool

    @property
    def isolation_level(self) -> str:
        """What it is called in clients."""
        return "read_committed" if self.committed_only else "read_uncommitted"


@dataclass(frozen=True, slots=True)
class Commit:
    """What says that a group is done with the record.

    :ivar offset: offset that was committed; None for share groups
    :ivar sent: when; ``time`` is when it was confirmed, for a transaction by the answer to EndTxn
    """

    JSON = "kind offset sent time exchange=number member"

    kind: Word[Settlement]
    offset: int | None
    sent: Time
    time: Time
    number: int
    member: OrNull[str]


@dataclass(frozen=True, slots=True)
class GroupStops:
    """What a group, or a consumer without one, did with the record.

    :ivar group: None if none is known: then the deliveries are those of one client
    :ivar deliveries: in the order of time
    :ivar commit: the first above the record, from its first delivery on
    :ivar committed_before: a commit above it from before its first delivery; None if there was none
    """

    JSON = "group client=lone_client share_group=shares deliveries commit committed_before"

    group: str | None
    client: str
    shares: bool
    deliveries: list[Delivery]
    commit: Commit | None
    committed_before: Commit | None

    @property
    def lone_client(self) -> str | None:
        """The client, if it is in no group."""
        return self.client if self.group is None else None


class RecordHeader(NamedTuple):
    """A header of a record."""

    key: str
    value: bytes | None


class RecordContent(NamedTuple):
    """What is in a record; its timestamp in ms."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[RecordHeader]


class ReplicaMoment(NamedTuple):
    """When a replica had fetched a record, and the number of the exchange."""

    node: int
    time: Time
    exchange: int


@dataclass(frozen=True, slots=True)
class Journey:
    """The way of one record.

    :ivar offset: None if the capture does not tell at which it was written
    :ivar base: offset of the first record that was sent with it; None if it is not known
    :ivar attempts: the requests that held it, in the order of time; empty if none was captured
    :ivar copies: other offsets at which the same batch was written
    :ivar readable: the first Fetch response whose high watermark is above it
    :ivar stable: the first one whose last stable offset is: from then on read_committed consumers may have it
    :ivar replicas: node ID -> the first Fetch response that brought it
    """

    JSON = (
        "topic partition offset record=content batch attempts acknowledged=acknowledged.answered acknowledge_ns copies "
        "readable stable transaction replicas=replica_moments groups"
    )

    topic: str
    partition: int
    offset: int | None
    record: Record | None
    batch: BatchSeen | None
    base: int | None
    attempts: list[Attempt]
    copies: list[int]
    readable: Moment | None
    stable: Moment | None
    transaction: Transaction | None
    replicas: dict[int, Moment]
    groups: list[GroupStops]

    @property
    def sent(self) -> int | None:
        """When it was sent first."""
        return self.attempts[0].sent if self.attempts else None

    @property
    def acknowledged(self) -> Attempt | None:
        """The attempt whose answer says first that the record is where it is: not always the first that was sent."""
        here = [
            each
            for each in self.attempts
            if each.error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
            or (not each.error and (self.base is None or each.base_offset in (self.base, None)))
        ]
        answered = [each for each in here if each.answered is not None]
        return min(answered, key=lambda each: each.answered or 0, default=None)

    @property
    def acknowledge_ns(self) -> int | None:
        """From when it was sent first until then, in ns; None if that was not seen."""
        answered = None if self.acknowledged is None else self.acknowledged.answered
        return None if answered is None else answered - self.attempts[0].sent

    @property
    def content(self) -> RecordContent | None:
        """What is in the record."""
        if self.record is None:
            return None
        headers = [RecordHeader(*header) for header in self.record.headers]
        return RecordContent(self.record.key, self.record.value, self.record.timestamp, headers)

    @property
    def replica_moments(self) -> list[ReplicaMoment]:
        """When each replica had it."""
        return [ReplicaMoment(node, each.time, each.number) for node, each in self.replicas.items()]
