"""Settings found in the fields of requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.clients.settings import Setting, Value, Values
from captures.analysis.negotiation import BETWEEN_BROKERS
from captures.exchanges import Exchange
from captures.meaning.assignments import STREAMS_ASSIGNOR
from captures.meaning.exchange import Body, number, replica_of, rows, text
from captures.meaning.payload import headers
from dissectors.api_keys import GROUP_HEARTBEATS, ApiKey
from dissectors.codec import CODEC_LABELS, CODEC_MASK
from dissectors.records import Batch

_ISOLATION = {0: "read_uncommitted", 1: "read_committed"}
_ACKS = {-1: "all"}
_CLOSES = -1
_MAGIC_2 = 2

_NEEDED = {
    "Produce": ("acks", "timeout_ms", "transactional_id", "topic_data.partition_data.records"),
    "InitProducerId": ("transactional_id", "transaction_timeout_ms"),
    "Fetch": ("replica_id", "replica_state.replica_id", "max_wait_ms", "min_bytes", "max_bytes", "rack_id"),
    "Fetch sessions": ("session_id", "session_epoch"),
    "Fetch partitions": ("isolation_level", "topics.partitions.partition_max_bytes"),
    "Metadata": ("allow_auto_topic_creation", "topics.name", "topics.topic_id"),
    "JoinGroup": ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "group_instance_id"),
    "JoinGroup protocols": ("protocol_type", "protocols.name"),
    "ConsumerGroupHeartbeat": ("instance_id", "server_assignor", "member_epoch"),
}
NEEDS = frozenset(f"request.{path}" for paths in _NEEDED.values() for path in paths)
"""The needed fields, for :class:`~captures.exchanges.projected_reader.ProjectedExchanges`."""


class SentRequest(NamedTuple):
    """A request, as far as it shows settings.

    :ivar client: name of the client
    :ivar body: its needed fields; empty if unknown, or none is needed
    :ivar time: when it was sent, ns since the epoch
    :ivar number: number of its exchange
    """

    client: str
    api_key: int | None
    body: Body
    connection: int
    time: int
    number: int


class Roles(msgspec.Struct):
    """The observed roles of a client.

    :ivar governs: whether it used APIs between brokers and controllers
    :ivar administers: whether it used APIs of administrators
    :ivar group_protocol: classic, consumer, share or streams; None if it was in no group
    :ivar protocol_type: of JoinGroup: consumer, connect, or an application's own
    :ivar streams_assignor: whether it joins with the assignor of Kafka Streams
    """

    produces: bool = False
    fetches: bool = False
    replicates: bool = False
    governs: bool = False
    administers: bool = False
    group_protocol: str | None = None
    protocol_type: str | None = None
    streams_assignor: bool = False

    @property
    def consumes(self) -> bool:
        """Whether it is a consumer, in a group or without."""
        return self.fetches or self.group_protocol is not None

    @property
    def is_streams(self) -> bool:
        """Whether it is an instance of Kafka Streams, in a group of either protocol (KIP-1071)."""
        return self.group_protocol == "streams" or self.streams_assignor

    def names(self) -> list[str]:
        """Return the roles in words."""
        if self.replicates or self.governs:
            return ["replica" if self.replicates else "broker"]
        found = ["producer"] if self.produces else []
        if self.protocol_type not in (None, "consumer"):
            return [*found, f"{self.protocol_type} group"]
        kind = "streams" if self.is_streams else "consumer"
        kind = "share consumer" if self.group_protocol == "share" else kind
        found += [kind] if self.consumes else []
        return found or (["admin"] if self.administers else [])


class BatchFacts(msgspec.Struct):
    """Facts about the record batches of a client.

    :ivar largest: bytes of the largest batch, and the negative number of its exchange
    :ivar ages: age of the first record in ns at the time of each request, by the client's clock, with the exchange
        number; the first :data:`MOST_AGES`
    """

    count: int = 0
    largest: tuple[int, int] = (0, 0)
    ages: list[tuple[int, int]] = []


MOST_AGES = 1024


class Fields:
    """Settings of one client from its requests."""

    def __init__(self) -> None:
        self.roles = Roles()
        self.batches = BatchFacts()
        self._values: dict[str, Values] = defaultdict(Values)
        self._auto_create = Values()
        self._asked_to_create = False

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        self._plays(exchange)
        key, request = exchange.api_key, exchange.request_body
        of = exchange.connection, exchange.time, exchange.number
        self.read(SentRequest(client_name(exchange), key, request, *of))

    def read(self, sent: SentRequest) -> None:
        """Learn from the fields of a request."""
        key = sent.api_key
        if not sent.body:
            return
        if key == ApiKey.PRODUCE:
            self._produced(sent)
        elif key == ApiKey.FETCH:
            self._fetched(sent)
        elif key == ApiKey.METADATA:
            self._asked(sent)
        elif key == ApiKey.JOIN_GROUP:
            self._joined(sent)
        elif key in GROUP_HEARTBEATS:
            self._member(sent)
        elif key == ApiKey.SHARE_FETCH:
            self._limits(sent)
        elif key == ApiKey.INIT_PRODUCER_ID:
            self._init(sent)

    def settings(self) -> Iterator[Setting]:
        """Yield the settings found."""
        for key, values in self._values.items():
            # a producer that compresses leaves some batches as they are
            yield values.setting(key, weakest="none" if key == "compression.type" else None)
        # producers may always create topics, so the flag is a setting of consumers only (KIP-361)
        if self._asked_to_create and self.roles.consumes and not self.roles.produces:
            yield self._auto_create.setting("allow.auto.create.topics")

    def _plays(self, exchange: Exchange) -> None:
        roles, key = self.roles, exchange.api_key
        if key in (ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID):
            roles.produces = True
        elif key == ApiKey.SHARE_FETCH:
            roles.fetches = True
            roles.group_protocol = "share"
        elif key in _GROUP_PROTOCOLS:
            roles.group_protocol = _GROUP_PROTOCOLS[key]
        elif exchange.api in BETWEEN_BROKERS:
            roles.governs = True
        elif key in _ADMIN:
            roles.administers = True

    def _see(self, key: str, value: Value, sent: SentRequest) -> None:
        self._values[key].add(value, sent.number)

    def _number(self, key: str, name: str, sent: SentRequest) -> None:
        value = number(sent.body, name)
        if value >= 0:
            self._see(key, value, sent)

    def _text(self, key: str, name: str, sent: SentRequest) -> None:
        if name in sent.body:
            self._see(key, text(sent.body, name) or None, sent)

    # ------------------------------------------------------------ producers
    def _produced(self, sent: SentRequest) -> None:
        acks = sent.body.get("acks")
        if isinstance(acks, int):
            self._see("acks", _ACKS.get(acks, str(acks)), sent)
        self._number("request.timeout.ms", "timeout_ms", sent)
        self._text("transactional.id", "transactional_id", sent)
        found = [
            batch
            for topic in rows(sent.body, "topic_data")
            for row in rows(topic, "partition_data")
            for batch in headers(row.get("records"))
        ]
        if not found:
            return
        codecs = {CODEC_LABELS[batch.attributes & CODEC_MASK] for batch in found}
        for codec in sorted(codecs - {"none"}) or ["none"]:
            self._see("compression.type", codec, sent)
        if found[0].magic >= _MAGIC_2:
            idempotent = any(batch.producer_id >= 0 for batch in found)
            self._see("enable.idempotence", "true" if idempotent else "false", sent)
        self._measure(sent, found)

    def _measure(self, sent: SentRequest, found: list[Batch]) -> None:
        seen = self.batches
        seen.count += len(found)
        seen.largest = max(seen.largest, *((batch.end - batch.start, -sent.number) for batch in found))
        made = [batch.base_timestamp for batch in found if batch.base_timestamp > 0]
        if made and len(seen.ages) < MOST_AGES:
            seen.ages.append((sent.time - min(made) * 1_000_000, sent.number))

    def _init(self, sent: SentRequest) -> None:
        self._see("enable.idempotence", "true", sent)
        if text(sent.body, "transactional_id"):
            self._text("transactional.id", "transactional_id", sent)
            self._number("transaction.timeout.ms", "transaction_timeout_ms", sent)

    # ------------------------------------------------------------ consumers
    def _fetched(self, sent: SentRequest) -> None:
        if replica_of(sent.body) >= 0:
            self.roles.replicates = True
            return
        self.roles.fetches = True
        if number(sent.body, "session_epoch", 0) == _CLOSES and number(sent.body, "session_id", 0) > 0:
            return  # closes a session (KIP-227), with whatever limits
        self._limits(sent)
        level = sent.body.get("isolation_level")
        if level in _ISOLATION:
            self._see("isolation.level", _ISOLATION[level], sent)
        self._text("client.rack", "rack_id", sent)
        for topic in rows(sent.body, "topics"):
            for row in rows(topic, "partitions"):
                self._number("max.partition.fetch.bytes", "partition_max_bytes", sent._replace(body=row))
                return

    def _limits(self, sent: SentRequest) -> None:
        self._number("fetch.max.wait.ms", "max_wait_ms", sent)
        self._number("fetch.min.bytes", "min_bytes", sent)
        self._number("fetch.max.bytes", "max_bytes", sent)

    def _asked(self, sent: SentRequest) -> None:
        allowed = sent.body.get("allow_auto_topic_creation")
        if isinstance(allowed, bool) and rows(sent.body, "topics"):
            self._auto_create.add("true" if allowed else "false", sent.number)
            self._asked_to_create = True

    def _joined(self, sent: SentRequest) -> None:
        kind = text(sent.body, "protocol_type") or None
        self.roles.protocol_type = kind or self.roles.protocol_type
        self._see("group.protocol", "classic", sent)
        self._text("group.id", "group_id", sent)
        self._number("session.timeout.ms", "session_timeout_ms", sent)
        self._number("max.poll.interval.ms", "rebalance_timeout_ms", sent)
        self._text("group.instance.id", "group_instance_id", sent)
        names = [text(row, "name") for row in rows(sent.body, "protocols") if row.get("name")]
        if names and kind in (None, "consumer"):
            self._see("partition.assignment.strategy", ",".join(names), sent)
            self.roles.streams_assignor |= names == [STREAMS_ASSIGNOR]

    def _member(self, sent: SentRequest) -> None:
        protocol = self.roles.group_protocol
        if protocol != "share":  # share consumers have no choice
            self._see("group.protocol", protocol, sent)
        self._text("group.id", "group_id", sent)
        if number(sent.body, "member_epoch", 1) != 0:  # later ones omit unchanged fields (KIP-848)
            return
        self._number("max.poll.interval.ms", "rebalance_timeout_ms", sent)
        self._text("group.instance.id", "instance_id", sent)
        self._text("client.rack", "rack_id", sent)
        if sent.body.get("server_assignor"):
            self._text("group.remote.assignor", "server_assignor", sent)


_ADMIN = frozenset(
    key
    for key in ApiKey
    if key.name.startswith(("ALTER", "CREATE", "DELETE", "DESCRIBE", "ELECT", "EXPIRE", "INCREMENTAL", "LIST", "RENEW"))
    or key.name.endswith("GROUP_DESCRIBE")
) - {
    ApiKey.LIST_OFFSETS, ApiKey.ALTER_PARTITION, ApiKey.DESCRIBE_QUORUM, ApiKey.DELETE_SHARE_GROUP_STATE,
} | {
    ApiKey.OFFSET_DELETE, ApiKey.UPDATE_FEATURES, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER,
}  # fmt: skip
"""APIs of an ``Admin``: for topics, partitions, configurations, ACLs, quotas, groups and the like."""
_GROUP_PROTOCOLS: dict[int | None, str] = {
    ApiKey.JOIN_GROUP: "classic",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams",
}
