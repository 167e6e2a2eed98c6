"""User data of Kafka Streams in the classic group protocol: members' reports and their assignments.

The subscription side is one of Kafka's declared messages (:mod:`dissectors.embedded.streams_subscription`). The
assignment side is hand-written in Kafka, with Java's ``DataOutput``; here it is declared like any other
message, with two types of its own for Java's strings.

Source: ``streams/.../processor/internals/assignment/AssignmentInfo.java`` and, for task IDs,
``ConsumerProtocolUtils.java``.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

from construct import Container
from construct.core import stream_write

from dissectors import wire
from dissectors.domains import STREAMS_ASSIGNOR_ERROR
from dissectors.embedded.layout import Layout
from dissectors.embedded.streams_subscription import SubscriptionInfoData
from dissectors.errors import DecodeError
from dissectors.schema import Array, Int32, Int64, Message, SizedType


class ModifiedUtf8(wire.SizedLeaf):
    """A string written by ``DataOutput.writeUTF``: uint16 length; NUL takes two bytes, supplementary characters six."""

    kind = "string"
    prefix = struct.Struct(">H")

    def read(self, buf: bytes, pos: int) -> tuple[str, int]:
        data, end = self.read_bytes(buf, pos)
        assert data is not None  # an unsigned length cannot encode null
        try:
            units = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            at = end - len(data) + error.start
            raise DecodeError(f"string is not modified UTF-8: {error.reason}", at) from None
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace"), end

    def _build(self, obj: str, stream: BinaryIO, context: Container, path: str) -> str:
        pairs = obj.encode("utf-16-be", "surrogatepass")
        units = "".join(map(chr, struct.unpack(f">{len(pairs) // 2}H", pairs)))
        data = units.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
        self.write_bytes(data, stream, path)
        return obj


class Utf16(wire.SizedLeaf):
    """An int32 count of Java chars, followed by two bytes for each; a count of 0 stands for null."""

    kind = "string"
    nullable = True

    def read(self, buf: bytes, pos: int) -> tuple[str | None, int]:
        count, start = wire.INT32.read(buf, pos)
        end = start + 2 * count
        if count < 0:
            raise DecodeError(f"string of {count} characters", pos)
        if end > len(buf):
            raise DecodeError(
                f"{end - len(buf)} of {2 * count} bytes of string are missing", start, truncated=True
            )
        return buf[start:end].decode("utf-16-be", "replace") or None, end

    def _build(self, obj: str | None, stream: BinaryIO, context: Container, path: str) -> str | None:
        data = (obj or "").encode("utf-16-be", "surrogatepass")
        wire.INT32._build(len(data) // 2, stream, context, path)
        stream_write(stream, data, len(data), path)
        return obj


JavaUtf = SizedType(ModifiedUtf8)
JavaChars = SizedType(Utf16)


_TASK = (
    "subtopology" / Int32 * "subtopology (topic group) of the task",
    "partition" / Int32 * "partition of the task",
    "named_topology" / JavaChars @ "10+" * "named topology the task belongs to; null = none",
)
_TOPIC_PARTITIONS = Array(
    "topic" / JavaUtf * "topic name",
    "partition" / Int32 * "partition",
)
_INDEXED_PARTITIONS = Array(
    "topic_index" / Int32 * "index into topic_dictionary",
    "partition" / Int32 * "partition",
)


def _hosts(partitions: Array) -> Array:
    return Array(
        "host" / JavaUtf * "host name from application.server",
        "port" / Int32 * "port from application.server",
        "partitions" / partitions * "partitions whose state the instance holds",
    )


_TASKS = (
    "version" / Int32 * "version of this format that all members can read",
    "commonly_supported_version" / Int32 @ "3+" * "newest version that all members support; a lower one in use "
    "than this asks for a rolling upgrade's second round",
    "active_tasks" / Array(*_TASK) * "tasks to run, in the order of the assigned partitions",
    "standby_tasks" / Array(
        *_TASK,
        "partitions" / _TOPIC_PARTITIONS * "changelog or source partitions to keep a copy of",
    ) * "tasks to keep a copy of the state of",
)  # fmt: skip


# The encoders of 0.10.1 and 1.0 write the hosts in version 1 too; their decoders leave them unread.
_StreamsAssignmentInfoUntil10 = Message(
    "StreamsAssignmentInfo", None, "data", "1", "none",
    *_TASKS,
    "partitions_by_host" / _hosts(_TOPIC_PARTITIONS) * "which instance holds which partitions' state",
)  # fmt: skip

StreamsAssignmentInfo = Message(
    "StreamsAssignmentInfo", None, "data", "1-11", "none",
    *_TASKS,
    "partitions_by_host" / _hosts(_TOPIC_PARTITIONS)
    @ "2-4" * "which instance holds which partitions' state (interactive queries)",
    "topic_dictionary" / Array(
        "topic_index" / Int32 * "number that stands for the topic in what follows",
        "topic" / JavaUtf * "topic name",
    ) @ "5+" * "topic names, so that each is sent once",
    "active_partitions_by_host" / _hosts(_INDEXED_PARTITIONS)
    @ "5+" * "which instance holds which partitions' state (interactive queries)",
    "standby_partitions_by_host" / _hosts(_INDEXED_PARTITIONS)
    @ "6+" * "which instance holds which partitions' standby copies (KIP-535)",
    "error_code" / Int32.of(STREAMS_ASSIGNOR_ERROR) @ "4+" * "why the leader could not assign; 0 = it could",
    "next_rebalance_ms" / Int64 @ "7+" * "when the member shall trigger a probing rebalance, ms since 1970; "
    "9223372036854775807 = not (KIP-441)",
    older=(_StreamsAssignmentInfoUntil10,),
)  # fmt: skip

# The fields that Streams reads of an unknown version (SubscriptionInfo.java, AssignmentInfo.java).
StreamsVersions = Message(
    "StreamsVersions", None, "data", "0", "none",
    "version" / Int32 * "version of the format, newer than those known",
    "latest_supported_version" / Int32 * "newest version that the sender supports",
)  # fmt: skip

_TEXTS = frozenset({"user_end_point", "key", "value"})


def streams_subscription(data: bytes) -> Layout | None:
    """Return the layout of a Streams member's subscription user data, None if it cannot be one."""
    return _layout(SubscriptionInfoData, data, texts=_TEXTS)


def streams_assignment(data: bytes) -> Layout | None:
    """Return the layout of a Streams member's assignment user data, None if it cannot be one."""
    return _layout(StreamsAssignmentInfo, data)


def _layout(message: Message, data: bytes, *, texts: frozenset[str] = frozenset()) -> Layout | None:
    if len(data) < wire.INT32.size:
        return None
    version, _ = wire.INT32.read(data, 0)
    if version < message.versions.first:
        return None
    if version > message.versions.last:
        note = f"version {version} of {message.name} is not known here: only the versions are read"
        return Layout(StreamsVersions, 0, version, prefixed=False, note=note)
    return Layout(message, version, version, prefixed=False, texts=texts)
