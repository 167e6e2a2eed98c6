"""The way of a record through the cluster.

Times are ns since the epoch, as the capture has them: a request counts from its first byte, a response as it is
complete. ``number`` is that of the exchange that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from captures.analysis.journey.found import BatchSeen
from captures.exchanges import rfc3339
from dissectors.error_codes import error_name
from dissectors.records import Record


class Settled(IntEnum):
    """How a group was done with records."""

    COMMITTED = 0
    IN_TRANSACTION = 1
    ACCEPTED = 2
    RELEASED = 3
    REJECTED = 4

    @property
    def done(self) -> bool:
        """Whether the records do not come again."""
        return self is not Settled.RELEASED


@dataclass(frozen=True, slots=True)
class Moment:
    """Something at a time, shown by an exchange."""

    time: int
    number: int

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {"time": rfc3339(self.time), "exchange": self.number}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One Produce that held the record.

    :ivar answered: None if no response was captured
    :ivar error: code of the answer; 0 if none
    :ivar base_offset: offset of the first record sent, as answered; None if not told
    :ivar found_at: the same, where no answer told it: a Fetch brought a batch of the same checksum from there
    """

    sent: int
    answered: int | None
    number: int
    client: str
    address: str
    broker: str
    acks: int
    error: int
    base_offset: int | None
    found_at: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "exchange": self.number,
            "sent": rfc3339(self.sent),
            "answered": None if self.answered is None else rfc3339(self.answered),
            "client": self.client,
            "address": self.address,
            "broker": self.broker,
            "acks": self.acks,
            "error": error_name(self.error) if self.error else None,
            "base_offset": self.base_offset,
            "found_at": self.found_at,
        }


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

    producer_id: int
    transactional_id: str | None
    committed: bool | None
    ended: Moment | None
    end_answered: int | None
    written: Moment | None
    marker: Moment | None
    marker_offset: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "producer_id": self.producer_id,
            "transactional_id": self.transactional_id,
            "committed": self.committed,
            "ended": json_of(self.ended),
            "end_answered": None if self.end_answered is None else rfc3339(self.end_answered),
            "marker_written": json_of(self.written),
            "marker_fetched": json_of(self.marker),
            "marker_offset": self.marker_offset,
        }


@dataclass(frozen=True, slots=True)
class Delivery:
    """A response that brought the record.

    :ivar asked: when it was asked for
    :ivar member: member ID, inferred but for share groups; empty if it cannot be told
    :ivar times: delivery count that the broker told, of share groups; 0 for others
    :ivar committed_only: whether this consumer reads committed transactions only
    """

    time: int
    asked: int
    number: int
    client: str
    address: str
    broker: str
    member: str
    times: int
    committed_only: bool

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "time": rfc3339(self.time),
            "asked": rfc3339(self.asked),
            "exchange": self.number,
            "client": self.client,
            "address": self.address,
            "broker": self.broker,
            "member": self.member or None,
            "delivery_count": self.times or None,
            "isolation_level": "read_committed" if self.committed_only else "read_uncommitted",
        }


@dataclass(frozen=True, slots=True)
class Commit:
    """What says that a group is done with the record.

    :ivar offset: offset that was committed; None for share groups
    :ivar sent: when; ``time`` is when it was confirmed, for a transaction by the answer to EndTxn
    """

    kind: Settled
    offset: int | None
    sent: int
    time: int
    number: int
    member: str

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "kind": self.kind.name.lower(),
            "offset": self.offset,
            "sent": rfc3339(self.sent),
            "time": rfc3339(self.time),
            "exchange": self.number,
            "member": self.member or None,
        }


@dataclass(frozen=True, slots=True)
class GroupStops:
    """What a group, or a consumer without one, did with the record.

    :ivar group: None if none is known: then the deliveries are those of one client
    :ivar deliveries: in the order of time
    :ivar commit: the first above the record, from its first delivery on
    :ivar committed_before: a commit above it from before its first delivery; None if there was none
    """

    group: str | None
    client: str
    shares: bool
    deliveries: list[Delivery]
    commit: Commit | None
    committed_before: Commit | None

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``)."""
        return {
            "group": self.group,
            "client": self.client if self.group is None else None,
            "share_group": self.shares,
            "deliveries": [each.to_json() for each in self.deliveries],
            "commit": json_of(self.commit),
            "committed_before": json_of(self.committed_before),
        }


@dataclass(frozen=True, slots=True)
class Journey:
    """The way of one record.

    :ivar offset: None if the capture does not tell at which it was written
    :ivar base: offset of the first record that was sent with it; None if it is not known
    :ivar index: its place in the batch, from 0
    :ivar attempts: the requests that held it, in the order of time; empty if none was captured
    :ivar copies: other offsets at which the same batch was written
    :ivar readable: the first Fetch response whose high watermark is above it
    :ivar stable: the first one whose last stable offset is: from then on read_committed consumers may have it
    :ivar replicas: node ID -> the first Fetch response that brought it
    """

    topic: str
    partition: int
    offset: int | None
    record: Record | None
    batch: BatchSeen | None
    base: int | None
    index: int
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
            if each.error == _DUPLICATE
            or (not each.error and (self.base is None or each.base_offset in (self.base, None)))
        ]
        answered = [each for each in here if each.answered is not None]
        return min(answered, key=lambda each: each.answered or 0, default=None)

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/journey.md``), for a JSON encoder that knows bytes."""
        batch, record, done = self.batch, self.record, self.acknowledged
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "record": None
            if record is None
            else {
                "key": record.key,
                "value": record.value,
                "timestamp": record.timestamp,
                "headers": [{"key": key, "value": value} for key, value in record.headers],
            },
            "batch": None
            if batch is None
            else {
                "index": self.index,
                "records": batch.records,
                "size": batch.size,
                "magic": batch.magic,
                "codec": batch.codec,
                "producer_id": batch.producer_id,
                "producer_epoch": batch.producer_epoch,
                "base_sequence": batch.base_sequence,
                "transactional": batch.transactional,
            },
            "attempts": [each.to_json() for each in self.attempts],
            "acknowledged": None if done is None or done.answered is None else rfc3339(done.answered),
            "acknowledge_ns": None
            if done is None or done.answered is None
            else done.answered - self.attempts[0].sent,
            "copies": self.copies,
            "readable": json_of(self.readable),
            "stable": json_of(self.stable),
            "transaction": json_of(self.transaction),
            "replicas": [{"node": node} | each.to_json() for node, each in self.replicas.items()],
            "groups": [each.to_json() for each in self.groups],
        }


_DUPLICATE = 46
"""DUPLICATE_SEQUENCE_NUMBER: the broker has the batch already."""


def json_of(found: Any) -> dict[str, Any] | None:
    """Return the documented shape of something that may be None."""
    return None if found is None else found.to_json()
