"""The entities that a message names: topics with partitions, groups, members, transactions, producers.

The declarations identify them in every API and version, for filters and for following one of them through a capture.
The content of byte fields (subscriptions, record values) is not searched, except for the producers of record batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from captures.meaning import topic_partitions
from captures.meaning.exchange import Body, Names
from captures.meaning.payload import headers
from captures.meaning.plans import Choice, FieldPlan, paths, plan, walk
from dissectors import wire
from dissectors.api_keys import ApiKey
from dissectors.entities import PARTITION_FIELDS, TOPIC_FIELDS, fields_naming, topic_fields
from dissectors.sides import Side

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_TOPIC_RESOURCE = 2
_LITERAL = 3
_PATTERNS = ("pattern_type", "resource_pattern_type", "pattern_type_filter")


class Producer(NamedTuple):
    """A producer's identity: ID and epoch, -1 if unknown."""

    producer_id: int
    epoch: int


# ---------------------------------------------------------------- topics
def _topic_fields(struct: wire.Struct) -> tuple[str, ...]:
    by_name = {member.name: member for member in struct.all_members}
    own = topic_fields(struct)
    found = [name for name in fields_naming(struct, "topicName") if name not in own]
    if own or "topic_id" in by_name:
        found.append("")  # the struct itself
    for resource in ("resource", "resource_filter"):
        kind, name = (
            resource.replace("resource", "resource_type"),
            resource.replace("resource", "resource_name"),
        )
        if {kind, name} <= by_name.keys():
            found.append(name)
    return tuple(found)


def topics_in(
    key: int, version: int, body: Body | None, names: Names, side: Side = "request"
) -> dict[str, list[int]]:
    """Return the topics that a message names, with their named partitions, in order of appearance.

    A topic whose ID no message has named is returned by its ID. Topics of ACLs and configurations count if
    they are named in full.

    :param version: version in which the body was decoded
    :param side: the side of the body
    """
    if not body:
        return {}
    out: dict[str, dict[int, None]] = {}
    for struct, fields in walk(topic_plan(key, version, side), body):
        for field in fields:
            if not field:
                _add_topic(out, struct, names)
            elif field.startswith("resource_name"):
                _add_resource(out, struct, field)
            else:
                for name in _texts((struct.get(field),)):
                    out.setdefault(name, {})
    return {name: list(numbers) for name, numbers in out.items()}


def topic_plan(key: int, version: int, side: Side) -> FieldPlan:
    """Return the plan of the fields that name topics, with "" for a struct that represents a topic itself."""
    return plan(_topic_fields, key, version, side)


def topic_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths that :func:`topics_in` reads in a body."""
    return paths(_topic_paths, key, version, side)


def _topic_paths(struct: wire.Struct) -> tuple[str, ...]:
    """Return the fields to read in a struct: its own, and those with partitions in its arrays."""
    found: list[str] = []
    for field in _topic_fields(struct):
        if not field:
            found += _place_fields(struct)
        elif field.startswith("resource_name"):
            found += (field, field.replace("name", "type"), *_PATTERNS)
        else:
            found.append(field)
    return tuple(found)


def _place_fields(struct: wire.Struct) -> Iterator[str]:
    """Yield the fields of a topic's struct that contain name and partitions."""
    yield from (*TOPIC_FIELDS, "topic_id", *PARTITION_FIELDS)
    for member in struct.all_members:
        if member.name in topic_partitions.PARTITION_ARRAYS:
            inside = wire.struct_inside(member.con)
            if inside is None:
                yield member.name
            else:
                yield from (f"{member.name}.{index}" for index in PARTITION_FIELDS)


def _add_topic(out: dict[str, dict[int, None]], struct: Body, names: Names) -> None:
    name = topic_partitions.topic(struct, lambda uuid: names(uuid) or uuid)
    if name == "?":
        return
    alone = topic_partitions.index(struct)
    out.setdefault(name, {}).update(
        dict.fromkeys(topic_partitions.partitions(struct) if alone is None else (alone,))
    )


def _add_resource(out: dict[str, dict[int, None]], struct: Body, field: str) -> None:
    name = struct.get(field)
    if not name or name == "*" or struct.get(field.replace("name", "type")) != _TOPIC_RESOURCE:
        return
    if all(struct.get(pattern, _LITERAL) == _LITERAL for pattern in _PATTERNS):
        out.setdefault(name, {})


# ---------------------------------------------------------------- groups, members, transactions
_COORDINATOR = frozenset({"key_type", "key", "coordinator_keys"})


class _Mentions:
    """The names of one kind of entity in messages.

    :param choice: fields that hold them
    :param key_types: types of FindCoordinator's keys that are such names, too
    """

    def __init__(self, choice: Choice, *key_types: int) -> None:
        self._choice = choice
        self._key_types = key_types

    def paths(self, key: int, version: int, side: Side) -> frozenset[str]:
        """Return the paths that :meth:`names` reads in a body."""
        found = paths(self._choice, key, version, side)
        return found | _COORDINATOR if self._asks_coordinator(key, side) else found

    def names(self, key: int, version: int, body: Body | None, side: Side = "request") -> list[str]:
        """Return the names in a message, each once, FindCoordinator's keys included."""
        if not body:
            return []
        kind = body.get("key_type", _GROUP) if self._asks_coordinator(key, side) else None
        if kind in self._key_types:
            keys = _texts((body.get("key"), body.get("coordinator_keys")))
            # "group:topicId:partition" (SharePartitionKey.java)
            return list(dict.fromkeys(name.rsplit(":", 2)[0] for name in keys)) if kind == _SHARE else keys
        found = walk(plan(self._choice, key, version, side), body)
        return _texts(struct.get(field) for struct, fields in found for field in fields)

    def _asks_coordinator(self, key: int, side: Side) -> bool:
        return bool(self._key_types) and key == ApiKey.FIND_COORDINATOR and side == "request"


def _texts(values: Iterable[object]) -> list[str]:
    out: dict[str, None] = {}
    for value in values:
        for text in value if isinstance(value, list) else (value,):
            if text and isinstance(text, str):
                out[text] = None
    return list(out)


_GROUPS = _Mentions(lambda struct: fields_naming(struct, "groupId"), _GROUP, _SHARE)
_MEMBERS = _Mentions(
    lambda struct: tuple(each.name for each in struct.all_members if each.name == "member_id")
)
_TRANSACTIONS = _Mentions(lambda struct: fields_naming(struct, "transactionalId"), _TRANSACTION)
group_paths, groups_in = _GROUPS.paths, _GROUPS.names
member_paths, members_in = _MEMBERS.paths, _MEMBERS.names
transaction_paths, transactional_ids_in = _TRANSACTIONS.paths, _TRANSACTIONS.names


# ---------------------------------------------------------------- producers
def _producer_fields(struct: wire.Struct) -> tuple[str, ...]:
    found = fields_naming(struct, "producerId")
    records = [member.name for member in struct.all_members if isinstance(member.con, wire.Records)]
    return (*found, *records)


def producer_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths that :func:`producers_in` reads in a body."""
    found = paths(_producer_fields, key, version, side)
    return found | {path.replace("producer_id", "producer_epoch") for path in found}


def producers_in(key: int, version: int, body: Body | None, side: Side = "request") -> list[Producer]:
    """Return the producers that a message names, including those in the headers of its record batches."""
    out: dict[Producer, None] = {}
    for struct, fields in walk(plan(_producer_fields, key, version, side), body) if body else ():
        for field in fields:
            value = struct.get(field)
            if isinstance(value, bytes):
                for batch in headers(value):
                    out[Producer(batch.producer_id, batch.producer_epoch)] = None
            elif isinstance(value, list | tuple):
                out |= {Producer(each, -1): None for each in value if isinstance(each, int)}
            elif isinstance(value, int):
                epoch = struct.get(field.replace("producer_id", "producer_epoch"))
                out[Producer(value, epoch if isinstance(epoch, int) else -1)] = None
    return [producer for producer in out if producer.producer_id >= 0]
