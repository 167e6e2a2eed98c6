"""Fields of messages by their path: the declarations behind ``request.topics.partitions.partition``.

A path names the fields from the body's root, in all versions ever released; arrays are not named, ``[2]`` selects an
element. After a records field come the batches and their records, as shown by ``kproxy read --json``; after a field
that holds an embedded protocol come its fields, which are not declared here and not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import cast

import msgspec

from captures.filters.errors import did_you_mean
from dissectors import schema
from dissectors.api_keys import ApiKey
from dissectors.apis import NAMES, api
from dissectors.domains import TIMESTAMP_MS, Domain
from dissectors.entities import PARTITION_FIELDS
from dissectors.schema import Field, Message, Struct
from dissectors.sides import SIDES, Side

Step = tuple[str, int | None]
"""Name of a field, and index of the element in its array; None means any."""

_STEP = re.compile(r"([^.\[\]]+)(?:\[([0-9]+)\])?")

_RECORD = Struct(
    "offset" / schema.Int64 * "offset in the partition",
    "timestamp" / schema.Int64.of(TIMESTAMP_MS) * "ms since 1970",
    "key" / schema.Bytes * "key",
    "value" / schema.Bytes * "value",
    "headers"
    / schema.Array("key" / schema.String * "name", "value" / schema.Bytes * "value")
    * "headers of the record",
)
BATCH = Struct(
    "base_offset" / schema.Int64 * "offset of the first record",
    "last_offset" / schema.Int64 * "offset of the last record",
    "magic" / schema.Int8 * "message format: 0, 1 or 2",
    "codec" / schema.String * "name of its compression codec",
    "crc_valid" / schema.Bool * "whether the checksum matches",
    "timestamp_type" / schema.String * "create or log_append",
    "base_timestamp" / schema.Int64.of(TIMESTAMP_MS) * "ms since 1970",
    "max_timestamp" / schema.Int64.of(TIMESTAMP_MS) * "ms since 1970",
    "partition_leader_epoch" / schema.Int32 * "epoch of the leader that appended it",
    "producer_id" / schema.Int64 * "producer ID, -1 = none",
    "producer_epoch" / schema.Int16 * "producer epoch, -1 = none",
    "base_sequence" / schema.Int32 * "sequence number of the first record, -1 = none",
    "transactional" / schema.Bool * "part of a transaction",
    "control" / schema.Bool * "holds control records",
    "size" / schema.Int32 * "bytes of the batch",
    "count" / schema.Int32 * "records in it",
    "records" / schema.Array(*_RECORD.fields) * "the records",
)
"""The shape of :class:`dissectors.record_values.RecordValues`."""


class Path(msgspec.Struct, frozen=True):
    """A path that some message has.

    :ivar steps: fields from the body's root
    :ivar apis: keys of the APIs that have it
    :ivar leaves: declarations of the last field, by API in order; empty after an embedded protocol
    :ivar records_at: number of steps up to and including a records field that the path goes through, or 0
    :ivar embedded_at: the same for a field with an embedded protocol
    """

    side: Side
    steps: tuple[Step, ...]
    apis: frozenset[int]
    leaves: tuple[Field, ...]
    records_at: int = 0
    embedded_at: int = 0

    @property
    def need(self) -> str:
        """The path as written, which is the need of :mod:`captures.exchanges.projected_reader` for it."""
        steps = (name if index is None else f"{name}[{index}]" for name, index in self.steps)
        return ".".join((self.side, *steps))

    @property
    def in_columns(self) -> bool:
        """Whether its values make a column: not structs, and not bytes, which may be large."""
        kinds = {field.type.value.kind for field in self.leaves}
        return self.projectable and not kinds & {"bytes", "records"} and not any(map(inner, self.leaves))

    @property
    def projectable(self) -> bool:
        """Whether the fields alone suffice: nothing inside records or embedded protocols, no secrets to mask."""
        secret = any(field.type.is_secret or field.type.content == "config_value" for field in self.leaves)
        return not (self.records_at or self.embedded_at or secret)


class UnknownStepError(LookupError):
    """No message has the path.

    :ivar offset: position in the text of the step that no message has
    :ivar length: length of the step
    """

    def __init__(self, message: str, offset: int, length: int, hint: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.length = length
        self.hint = hint


def is_path(name: str) -> bool:
    """Return whether a field name is a path into a body."""
    return name.startswith(("request.", "response."))


def find(text: str) -> Path:
    """Return the path of a text such as ``response.topics[0].name``.

    :raises UnknownStepError: if no message has it
    """
    side_text, _, rest = text.partition(".")
    side = cast(Side, side_text)
    structs: dict[int, list[Struct]] = {key: list(_roots(key, side)) for key in range(len(NAMES))}
    leaves: dict[int, list[Field]] = {}
    steps: list[Step] = []
    records_at = 0
    offset = len(side_text) + 1
    for part in rest.split("."):
        name, index = _step(part)
        if leaves and not any(structs.values()) and _holds_protocol(leaves):
            inside = [_step(each) for each in text[offset:].split(".")]
            return Path(side, (*steps, *inside), frozenset(leaves), (), records_at, len(steps))
        steps.append((name, index))
        leaves = _fields(structs, name)
        if not leaves:
            raise _unknown(name, offset, side, text, structs)
        structs = _inside(leaves)
        if any(is_records(field) for fields in leaves.values() for field in fields):
            records_at = len(steps)
        offset += len(part) + 1
    unique = {id(field): field for fields in leaves.values() for field in fields}
    # if the records field itself is the last step, nothing has to be decoded
    records_at = records_at if records_at < len(steps) else 0
    return Path(side, tuple(steps), frozenset(leaves), tuple(unique.values()), records_at)


def _step(part: str) -> Step:
    found = _STEP.fullmatch(part)
    assert found is not None, "the lexer makes nothing else"
    return found[1], None if found[2] is None else int(found[2])


def _holds_protocol(leaves: Mapping[int, list[Field]]) -> bool:
    """Return whether one of the fields may hold an embedded protocol, whose fields are not declared."""
    types = [field.type for fields in leaves.values() for field in fields]
    return any(each.content and isinstance(each, schema.SizedType) for each in types)


def _roots(key: int, side: Side) -> Iterator[Struct]:
    known = api(key)
    if known is None:
        return
    message: Message = getattr(known, side)
    yield message.struct
    for older in message.older:
        yield older.struct


def inner(field: Field) -> Struct | None:
    """Return the struct inside a field, if it is a struct, an array of structs, or records."""
    return BATCH if is_records(field) else field.type.inside


def is_records(field: Field) -> bool:
    """Return whether a field holds record batches."""
    return field.type.kind == "records" or field.type.content == "unaligned_records"


def _fields(structs: Mapping[int, list[Struct]], name: str) -> dict[int, list[Field]]:
    """Return the fields of a name in structs, by API; without the APIs that have none."""
    found = {
        key: [field for struct in each for field in struct.fields if field.name == name]
        for key, each in structs.items()
    }
    return {key: fields for key, fields in found.items() if fields}


def _inside(leaves: Mapping[int, list[Field]]) -> dict[int, list[Struct]]:
    """Return the structs inside fields, by API."""
    return {
        key: [deeper for field in fields if (deeper := inner(field)) is not None]
        for key, fields in leaves.items()
    }


def _unknown(
    name: str, offset: int, side: Side, text: str, before: Mapping[int, list[Struct]]
) -> UnknownStepError:
    known = {field.name for structs in before.values() for struct in structs for field in struct.fields}
    parent = text[: offset - 1]
    if not known:
        return UnknownStepError(f"{parent} has no fields inside", offset, len(name), "")
    where = f"no {side}" if parent == side else f"no {parent}"
    hint = did_you_mean(name, known)
    if not hint:
        hint = f"there are {', '.join(sorted(known)[:6])}{' ...' if len(known) > 6 else ''}"
    return UnknownStepError(f"{where} has a field {name}", offset, len(name), hint)


def children(prefix: str, keys: Iterable[int] | None = None) -> dict[str, Field]:
    """Return the fields that may follow ``request.`` or ``request.topics.``, by name; for completion.

    :param keys: the APIs to consider, all if None
    """
    side, _, rest = prefix.partition(".")
    if side not in SIDES:
        return {}
    wanted = range(len(NAMES)) if keys is None else keys
    reached = {key: list(_roots(key, side)) for key in wanted}
    for part in filter(None, rest.split(".")):
        found = _STEP.fullmatch(part)
        if found is None:
            return {}
        reached = _inside(_fields(reached, found[1]))
    return {
        field.name: field for structs in reached.values() for struct in structs for field in struct.fields
    }


def domain_of(field: Field) -> Domain | None:
    """Return the domain that names the values of a field or of the elements of an array."""
    return field.type.domain or field.type.value.domain


# ---------------------------------------------------------------- APIs by the things they can mention
_MENTIONS: dict[str, Callable[[Field], bool]] = {
    "topic": lambda field: (
        field.type.entity == "topicName"
        or field.type.content == "topic_id"
        or field.name.startswith("resource_name")
        or field.name in PARTITION_FIELDS
    ),
    "group": lambda field: field.type.entity == "groupId",
    "member": lambda field: field.name == "member_id",
    "transaction": lambda field: field.type.entity == "transactionalId",
    "producer": lambda field: field.type.entity == "producerId" or is_records(field),
    "records": is_records,
    "throttle": lambda field: field.name == "throttle_time_ms",
    "acks": lambda field: field.name == "acks",
}
"""Returns whether a field may mention a thing of the kind."""


@cache
def apis_with(kind: str) -> frozenset[int]:
    """Return the keys of the APIs whose messages may mention a ``topic``, ``group``, ``member`` ...

    They may be too many, never too few: the others need no decoding to know that they do not.
    """
    mentions = _MENTIONS[kind]
    found = {
        key
        for key in range(len(NAMES))
        if any(
            mentions(field) for side in SIDES for root in _roots(key, side) for field in root.every_field()
        )
    }
    if kind in ("group", "transaction"):
        found.add(ApiKey.FIND_COORDINATOR)
    if kind == "group":
        found |= {0, 1}  # inferred
    return frozenset(found)
