"""The journey of a record through the cluster.

Times are ns since the epoch in the capture: of a request's first byte, and of a complete response. ``number`` is the
number of the exchange that shows the fact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import msgspec

from captures.analysis.journey.found_records import BatchPosition
from captures.json_objects import OrNull, Time, Word
from dissectors.error_codes import ErrorCode, error_name
from dissectors.records import Record


class Settlement(IntEnum):
    """How a group finished records."""

    COMMITTED = 0
    IN_TRANSACTION = 1
    ACCEPTED = 2
    RELEASED = 3
    REJECTED = 4

    @property
    def done(self) -> bool:
        """Whether the records will not be delivered again."""
        return self is not Settlement.RELEASED


@dataclass(frozen=True, slots=True)
class Moment:
    """An event with its time and exchange."""

    JSON = "time exchange=number"

    time: Time
    number: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """One Produce with the record.

    :ivar answered: None if no response was captured
    :ivar error: error code of the response; 0 if none
    :ivar base_offset: offset of the first sent record in the response; None if unknown
    :ivar found_at: the same offset if no response contains it: from a fetched batch with the same checksum
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
    """The transaction of the record.

    :ivar committed: True committed, False aborted, None if unknown
    :ivar ended: when the producer requested the end (EndTxn), None if it was not captured, or did not happen
    :ivar end_answered: when the coordinator confirmed it
    :ivar written: when the coordinator told the leader to write the marker, None if not captured
    :ivar marker: when a Fetch first delivered the marker
    :ivar marker_offset: None if no Fetch delivered it
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
    """A response with the record.

    :ivar asked: time of the request
    :ivar member: member ID, inferred except for share groups; empty if unknown
    :ivar times: delivery count from the broker, for share groups; 0 for others
    :ivar committed_only: whether this consumer reads only committed transactions
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
        """Name of the isolation level in clients."""
        return "read_committed" if self.committed_only else "read_uncommitted"


@dataclass(frozen=True, slots=True)
class Commit:
    """The sign that a group has finished the record.

    :ivar offset: committed offset; None for share groups
    :ivar sent: time of the request; ``time`` is when it was confirmed, for a transaction by the response to EndTxn
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
    """The record at a group, or at a consumer without one.

    :ivar group: None if unknown: then the deliveries are those of one client
    :ivar deliveries: ordered by time
    :ivar commit: the first one above the record, after its first delivery
    :ivar committed_before: a commit above it before its first delivery; None if there was none
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
    """The content of a record; its timestamp in ms."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[RecordHeader]


class ReplicaMoment(NamedTuple):
    """When a replica had fetched a record, and the number of the exchange."""

    node: int
    time: Time
    exchange: int


class LogPlace(msgspec.Struct, frozen=True, kw_only=True):
    """What the log of a broker says of the record.

    :ivar absent: whether the record is certain not to be there; None if that is unknown
    :ivar file: segment with it; None if it was not found, as all of the following
    :ivar position: byte of its batch in the file
    :ivar base_offset: first offset of the batch
    :ivar last_offset: last offset of the batch
    :ivar appended: when the broker appended it; None if the topic has other timestamps
    :ivar committed: whether its transaction was committed, by the log; None outside transactions, and if unknown
    :ivar reason: why it is not there, or that another record is; otherwise empty
    """

    JSON = "folder absent file position base_offset last_offset appended committed reason"

    folder: str
    absent: bool | None = True
    file: str | None = None
    position: int | None = None
    base_offset: int | None = None
    last_offset: int | None = None
    appended: Time | None = None
    committed: bool | None = None
    reason: OrNull[str] = ""


@dataclass(frozen=True, slots=True)
class Journey:
    """The journey of one record.

    :ivar offset: None if unknown
    :ivar base: offset of the first record that was sent with it; None if unknown
    :ivar attempts: requests with the record, ordered by time; empty if none was captured
    :ivar copies: other offsets at which the same batch was written
    :ivar readable: the first Fetch response with a high watermark above it
    :ivar stable: the first Fetch response with a last stable offset above it: from then on read_committed consumers may
        have it
    :ivar replicas: node ID -> the first Fetch response that delivered it
    :ivar logs: the record in the logs that were read with the capture
    """

    JSON = (
        "topic partition offset record=content batch attempts acknowledged=acknowledged.answered acknowledge_ns copies "
        "readable stable transaction replicas=replica_moments groups logs"
    )

    topic: str
    partition: int
    offset: int | None
    record: Record | None = None
    batch: BatchPosition | None = None
    base: int | None = None
    attempts: list[Attempt] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    readable: Moment | None = None
    stable: Moment | None = None
    transaction: Transaction | None = None
    replicas: dict[int, Moment] = field(default_factory=dict)
    groups: list[GroupStops] = field(default_factory=list)
    logs: list[LogPlace] = field(default_factory=list)

    @property
    def sent(self) -> int | None:
        """When it was first sent."""
        return self.attempts[0].sent if self.attempts else None

    @property
    def acknowledged(self) -> Attempt | None:
        """The attempt that was first confirmed at the record's offset, which is not always the first one sent."""
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
        """From the first send to the acknowledgment, in ns; None if that was not captured."""
        answered = None if self.acknowledged is None else self.acknowledged.answered
        return None if answered is None else answered - self.attempts[0].sent

    @property
    def content(self) -> RecordContent | None:
        """The content of the record."""
        if self.record is None:
            return None
        headers = [RecordHeader(*header) for header in self.record.headers]
        return RecordContent(self.record.key, self.record.value, self.record.timestamp, headers)

    @property
    def replica_moments(self) -> list[ReplicaMoment]:
        """When each replica had fetched it."""
        return [ReplicaMoment(node, each.time, each.number) for node, each in self.replicas.items()]
