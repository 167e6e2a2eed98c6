"""Records of Kafka's internal topics.

There are two families. The coordinators' topics have keys of an int16 record type and the type's key schema, and
values of an int16 version and the type's value schema; a null value deletes (``CoordinatorRecordSerde.java``). Metadata
topics have no keys; values are a frame version, a record type and a version, all uvarint, and the record
(``AbstractApiMessageSerde.java``). The two topics of the second family are not meant for consumers, but followers
fetch ``__cluster_metadata``, and any client may read ``__remote_log_metadata``.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from dissectors import wire
from dissectors.embedded import cluster_metadata as cluster
from dissectors.embedded import consumer_offsets as offsets
from dissectors.embedded import groups
from dissectors.embedded import remote_log_metadata as remote
from dissectors.embedded import share_group_state as share
from dissectors.embedded import transaction_state as transactions
from dissectors.embedded.layout import Layout, embedded
from dissectors.embedded.model import EmbeddedProblem, EmbeddedValue, Hints, inside, join
from dissectors.embedded.secrets import may_hold_secrets
from dissectors.errors import DecodeError
from dissectors.masks import UNDECODED
from dissectors.schema import Message

RecordTypes = dict[int, tuple[Message, Message]]


def _declared(module: ModuleType, suffix: str) -> dict[int, Message]:
    """Return a module's messages whose name ends with `suffix`, by record type."""
    found = [
        each for name, each in vars(module).items() if name.endswith(suffix) and not name.startswith("_")
    ]
    return {each.key: each for each in found if each.key is not None}


def _pairs(module: ModuleType) -> RecordTypes:
    """Return the declared keys and values by record type."""
    values = _declared(module, "Value")
    return {number: (key, values[number]) for number, key in _declared(module, "Key").items()}


#: record type -> key and value. Type 0 is the first form of the offset commit's key, with the same bytes; type 9 was
#: dropped before it got a number in Kafka's definitions.
CONSUMER_OFFSETS: RecordTypes = {
    0: (offsets.OffsetCommitKey, offsets.OffsetCommitValue),
    **_pairs(offsets),
    9: (offsets.ShareGroupPartitionMetadataKey, offsets.ShareGroupPartitionMetadataValue),
}
TRANSACTION_STATE: RecordTypes = _pairs(transactions)
SHARE_GROUP_STATE: RecordTypes = _pairs(share)

# 2.8's form of ClientQuotaRecord, under another name (metadata/.../QuotaRecord.json of 2.8)
QuotaRecord = Message("QuotaRecord", 14, "data", "0", "none", *cluster.ClientQuotaRecord.fields)

#: record type -> record, of a KRaft cluster's metadata log. 13 was never used, 14 is QuotaRecord in frame version 0.
CLUSTER_METADATA: dict[int, Message] = _declared(cluster, "Record")

#: record type -> record, of the default remote log metadata manager (KIP-405)
REMOTE_LOG_METADATA: dict[int, Message] = _declared(remote, "Record")

COORDINATOR_TOPICS: dict[str, RecordTypes] = {
    "__consumer_offsets": CONSUMER_OFFSETS,
    "__transaction_state": TRANSACTION_STATE,
    "__share_group_state": SHARE_GROUP_STATE,
}

METADATA_TOPICS: dict[str, dict[int, Message]] = {
    "__cluster_metadata": CLUSTER_METADATA,
    "__remote_log_metadata": REMOTE_LOG_METADATA,
}


def internal_topic_record(
    topic: str, key: bytes | None, value: bytes | None, *, show_secrets: bool = False
) -> EmbeddedValue | None:
    """Decode a record of an internal topic; None for other topics.

    The value is ``{"type": "OffsetCommit", "version": 3, "key": {...}, "value": {...}}``; if the record
    deletes the value stored under its key, ``value`` is None and ``tombstone`` true.
    """
    if topic in COORDINATOR_TOPICS:
        found = _coordinator_record(topic, key, value, show_secrets)
    elif topic in METADATA_TOPICS:
        found = _metadata_record(topic, value, show_secrets)
    else:
        return None
    if not show_secrets and (found.problems or found.guess) and topic_may_hold_secrets(topic):
        return replace(found, masked=(*found.masked, UNDECODED))
    return found


@cache
def topic_may_hold_secrets(topic: str) -> bool:
    """Return whether records of an internal topic have fields that may be secret."""
    values = [value for _, value in COORDINATOR_TOPICS.get(topic, {}).values()]
    values += METADATA_TOPICS.get(topic, {}).values()
    return any(may_hold_secrets(each.fields) for value in values for each in (value, *value.older))


class _Record:
    """Collects the parts of one record."""

    def __init__(self, label: str, type_name: str | None) -> None:
        self.label = label
        self.value: dict[str, Any] = {"type": type_name}
        self.problems: list[EmbeddedProblem] = []
        self.masked: list[str] = []
        self.names: dict[str, str] = {}
        self.guess = ""

    def read(
        self, path: str, layout: Layout, data: bytes, start: int, *, show_secrets: bool = False
    ) -> dict[str, Any]:
        """Read the key or value after its ``start`` bytes of type and version; return its fields."""
        part = embedded(layout, data[start:], show_secrets=show_secrets)
        fields: dict[str, Any] = part.value
        self.value[path] = fields
        self.add(path, part, start)
        return fields

    def add(self, path: str, part: EmbeddedValue, offset: int = -1) -> None:
        """Add the problems, masked paths and names of a part whose value is at ``path``."""
        self.problems += inside(path, part.problems, offset)
        self.masked += [join(path, where) for where in part.masked]
        self.names.update({join(path, where): name for where, name in part.names.items()})
        self.guess = self.guess or part.guess

    def problem(self, path: str, offset: int, reason: str) -> None:
        self.problems.append((offset, path, reason))

    def done(self) -> EmbeddedValue:
        return EmbeddedValue(
            self.value,
            self.label,
            self.value.get("version"),
            tuple(self.problems),
            tuple(self.masked),
            self.guess,
            self.names,
        )


# ---------------------------------------------------------------- coordinators
def _coordinator_record(
    topic: str, key: bytes | None, value: bytes | None, show_secrets: bool
) -> EmbeddedValue:
    if key is None or len(key) < wire.INT16.size:
        record = _Record(f"{topic} record", None)
        record.problem("key", 0, "the key is too short for a record type")
        return record.done()
    type_id, _ = wire.INT16.read(key, 0)
    known = COORDINATOR_TOPICS[topic].get(type_id)
    if known is None:
        record = _Record(f"{topic} record of unknown type {type_id}", None)
        record.value |= {"type_id": type_id, "tombstone": value is None}
        record.guess = f"record type {type_id} is not known here"
        return record.done()
    key_message, value_message = known
    record = _Record(value_message.name, value_message.name.removesuffix("Value"))
    # The type is where other messages have their version: before 4.1 it was called that, and all keys of one
    # type have the same layout.
    version = key_message.versions.first
    record.value["version"] = None
    record.read("key", Layout(key_message, version, version, prefixed=False), key, wire.INT16.size)
    record.value["value"] = None
    if value is None:
        record.value["tombstone"] = True
        record.label += " tombstone"
    else:
        _coordinator_value(record, value_message, value, show_secrets)
    return record.done()


def _coordinator_value(record: _Record, message: Message, value: bytes, show_secrets: bool) -> None:
    if len(value) < wire.INT16.size:
        record.problem("value", 0, "the value is too short for a version")
        return
    version, _ = wire.INT16.read(value, 0)
    record.value["version"] = version
    record.label += f" v{version}"
    layout = Layout(message, message.nearest(version), version, prefixed=False)
    fields = record.read("value", layout, value, wire.INT16.size, show_secrets=show_secrets)
    if message is offsets.GroupMetadataValue:
        _classic_members(record, fields, show_secrets)
    elif message is offsets.ConsumerGroupMemberMetadataValue:
        _classic_member_protocols(record, fields, show_secrets)


def _classic_members(record: _Record, group: dict[str, Any], show_secrets: bool) -> None:
    hints = Hints(
        protocol_type=group.get("protocol_type"),
        # the coordinator drops the name when the group is empty
        protocol_name=group.get("protocol"),
        show_secrets=show_secrets,
    )
    for index, member in enumerate(group.get("members") or ()):
        path = f"value.members[{index}]"
        _inner_group_data(record, member, "subscription", path, hints, assignment=False)
        _inner_group_data(record, member, "assignment", path, hints, assignment=True)


def _classic_member_protocols(record: _Record, member: dict[str, Any], show_secrets: bool) -> None:
    """Decode the protocols that a classic member sent to a group of the new protocol (KIP-848)."""
    classic = member.get("classic_member_metadata") or {}
    for index, protocol in enumerate(classic.get("supported_protocols") or ()):
        path = f"value.classic_member_metadata.supported_protocols[{index}]"
        hints = Hints(protocol_type="consumer", protocol_name=protocol.get("name"), show_secrets=show_secrets)
        _inner_group_data(record, protocol, "metadata", path, hints, assignment=False)


def _inner_group_data(
    record: _Record, holder: dict[str, Any], name: str, path: str, hints: Hints, *, assignment: bool
) -> None:
    data = holder.get(name)
    if isinstance(data, bytes) and data:
        part = groups.decode(data, hints, assignment=assignment)
        if part.value is not None:
            holder[name] = part.value
            record.add(f"{path}.{name}", part)


# ---------------------------------------------------------------- metadata
def _metadata_record(topic: str, value: bytes | None, show_secrets: bool) -> EmbeddedValue:
    label = f"{topic} record"
    if value is None:
        record = _Record(label, None)
        record.problem("value", 0, "a metadata record without value")
        return record.done()
    try:
        frame, pos = wire.read_uvarint(value, 0)
        type_id, pos = wire.read_uvarint(value, pos)
        version, pos = wire.read_uvarint(value, pos)
    except DecodeError as error:
        record = _Record(label, None)
        record.problem("value", error.offset, error.reason)
        return record.done()
    message = METADATA_TOPICS[topic].get(type_id)
    if frame == 0 and message is cluster.ClientQuotaRecord:
        message = QuotaRecord
    if message is None:
        record = _Record(f"{label} of unknown type {type_id}", None)
        record.value |= {"type_id": type_id, "version": version, "frame_version": frame}
        record.guess = f"record type {type_id} is not known here"
        return record.done()
    record = _Record(f"{message.name} v{version}", message.name.removesuffix("Record"))
    record.value |= {"version": version, "frame_version": frame}
    declared = _of_frame(message, frame, value[pos:])
    layout = Layout(declared, message.nearest(version), version, prefixed=False)
    record.read("value", layout, value, pos, show_secrets=show_secrets)
    return record.done()


def _of_frame(message: Message, frame: int, body: bytes) -> Message:
    """Return the declaration that applied: frame version 0 means the layouts of 2.8, the oldest."""
    if frame == 0:
        for older in reversed(message.older):
            if 0 in older.versions and older[0].exactly(body, 0) is not None:
                return older
    return message
