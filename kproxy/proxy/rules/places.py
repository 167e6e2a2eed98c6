"""Where a response carries errors, and which values of its request it has to repeat there.

An error response repeats what the request names: ``Produce`` answers per partition, ``DescribeGroups`` per group. In
the request, these values may have other names or be nested differently, so they are matched by subject: the elements of
a response array are about a topic, a partition, a group ..., and are filled from the array of the request that is
nearest to its root and names all of these. Everything is derived from the declarations, once for each API version.

The model is ``AbstractRequest.getErrorResponse`` of Apache Kafka and its overrides (``clients/src/main/java/org/apache/
kafka/common/requests``): the same places, and the same values beside the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from dissectors import wire
from dissectors.api_keys import ApiKey
from dissectors.apis import Api
from dissectors.domains import ERROR_CODE
from dissectors.entities import PARTITION_FIELDS, TOPIC_FIELDS

_SOURCES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(TOPIC_FIELDS, TOPIC_FIELDS),
    **dict.fromkeys(PARTITION_FIELDS, PARTITION_FIELDS),
    "topic_id": ("topic_id",),
    "group_id": ("group_id",),
    "member_id": ("member_id",),
    "group_instance_id": ("group_instance_id",),
    "transactional_id": ("transactional_id",),
    "producer_id": ("producer_id",),
    "resource_type": ("resource_type",),
    "resource_name": ("resource_name",),
    "user": ("user", "name"),
    "feature": ("feature",),
    "entity": ("entity",),
    "key": ("key",),
    "id": ("id",),
    "log_dir": ("log_dir",),
}
"""Fields of responses that name the subject of an element -> names of such fields in requests."""

_ABOUT: Mapping[str, str] = {
    **dict.fromkeys((*TOPIC_FIELDS, "topic_id"), "topic"),
    **dict.fromkeys(PARTITION_FIELDS, "partition"),
    **dict.fromkeys(("member_id", "group_instance_id"), "member"),
    **dict.fromkeys(("resource_type", "resource_name"), "resource"),
}
"""Subject of such a field, if it is not its own name: a topic has a name or an ID."""

_SCALARS: Mapping[str, str] = {
    "partitions": "partition_index",
    "partition_indexes": "partition_index",
    "topic_names": "name",
    "groups": "group_id",
    "group_ids": "group_id",
    "groups_names": "group_id",
    "transactional_ids": "transactional_id",
    "coordinator_keys": "key",
}
"""Arrays of requests that hold plain values -> the name that these would have as a field of a struct."""

_ALL_SOURCES = frozenset({ApiKey.ALTER_USER_SCRAM_CREDENTIALS})
"""APIs whose response merges several arrays of the request: AlterUserScramCredentials."""

_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            "base_offset",
            "log_append_time_ms",
            "log_start_offset",
            "high_watermark",
            "last_stable_offset",
            "preferred_read_replica",
            "timestamp",
            "offset",
            "end_offset",
            "leader_epoch",
            "leader_id",
            "committed_offset",
            "committed_leader_epoch",
            "low_watermark",
            "generation_id",
            "node_id",
            "port",
            "controller_id",
            "producer_id",
            "producer_epoch",
            "num_partitions",
            "replication_factor",
        ),
        -1,
    ),
    # brokers' value for "operations were not requested"
    **dict.fromkeys(
        ("authorized_operations", "cluster_authorized_operations", "topic_authorized_operations"), -(1 << 31)
    ),
    # clients would believe a leader of 0
    "current_leader": {"leader_id": -1, "leader_epoch": -1},
    "protocol_name": None,
}
"""Values of fields that an error response leaves open, if they differ from the field's default."""


@dataclass(frozen=True, slots=True)
class Source:
    """An array of a request.

    :ivar path: names of nested arrays, from the request's root or from the element that fills the outer array
    :ivar scalar: field name for the values of the last array, if it holds plain values
    """

    path: tuple[str, ...]
    scalar: str = ""


class SubjectField(NamedTuple):
    """A field that names the subject of an element.

    :ivar source: its name in the request
    """

    name: str
    source: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class ErrorField:
    """A struct of a response with error codes, or with inner structs that have some.

    :ivar name: of the array of these structs; empty for the body
    :ivar codes: fields with error codes
    :ivar messages: fields for an error message
    :ivar defaults: values of other fields in an error response that differ from the default
    :ivar about: fields that name the subject of an element
    :ivar sources: arrays that fill this one; it stays empty if there are none
    :ivar inside: arrays in it
    """

    name: str
    codes: tuple[str, ...]
    messages: tuple[str, ...]
    defaults: Mapping[str, Any]
    about: tuple[SubjectField, ...] = ()
    sources: tuple[Source, ...] = ()
    inside: tuple[ErrorField, ...] = ()


@cache
def error_places(known: Api, version: int) -> ErrorField:
    """Return the places for errors in a response, starting with its body.

    :raises KeyError: if the version was never released
    """
    request = known.request[version].struct
    return _Finder(every=known.key in _ALL_SOURCES).place(
        "", known.response[version].struct, _FillSource((), (), request)
    )


@dataclass(frozen=True, slots=True)
class _FillSource:
    """How an array is filled, and the struct from which its inner arrays are filled."""

    about: tuple[SubjectField, ...]
    sources: tuple[Source, ...]
    request: wire.Struct | None


class _Finder:
    def __init__(self, *, every: bool) -> None:
        self._every = every

    def place(self, name: str, struct: wire.Struct, filling: _FillSource) -> ErrorField:
        inside = []
        for member in struct.members:
            element = _element(member)
            if element is not None and _has_errors(element):
                inside.append(self.place(member.name, element, self._filling(element, filling.request)))
        names = {member.name for member in struct.members}
        codes = tuple(member.name for member in struct.members if member.field.type.domain is ERROR_CODE)
        messages = [code.replace("code", "message") for code in codes]
        filled = {about.name for about in filling.about}
        return ErrorField(
            name,
            codes,
            tuple(message for message in messages if message in names),
            {name: value for name, value in _defaults(struct) if name not in filled},
            filling.about,
            filling.sources,
            tuple(inside),
        )

    def _filling(self, element: wire.Struct, request: wire.Struct | None) -> _FillSource:
        wanted = [member for member in element.members if member.name in _SOURCES]
        best, chosen = 0 if wanted else -1, []
        for source, names, struct in _arrays(request):
            known = {_ABOUT.get(about.name, about.name) for about in _matched(wanted, names)}
            if len(known) > best and (wanted or struct is not None):
                best, chosen = len(known), [(source, names, struct)]
            elif self._every and len(known) == best and chosen and len(source.path) == len(chosen[0][0].path):
                chosen.append((source, names, struct))
        if not chosen:
            return _FillSource((), (), None)
        _, names, struct = chosen[0]
        return _FillSource(tuple(_matched(wanted, names)), tuple(source for source, _, _ in chosen), struct)


def _defaults(struct: wire.Struct) -> Iterator[tuple[str, Any]]:
    """Yield fields and their values in an error response, if these differ from the default."""
    for member in struct.members:
        if member.name in _DEFAULTS and (_DEFAULTS[member.name] is not None or member.con.nullable):
            yield member.name, _DEFAULTS[member.name]


def _matched(members: Sequence[wire.Member], names: frozenset[str]) -> list[SubjectField]:
    """Return the fields in `members` that can be filled from fields called `names`."""
    return [
        SubjectField(member.name, source, member.con.nullable)
        for member in members
        if (source := next((name for name in _SOURCES[member.name] if name in names), ""))
    ]


def _element(member: wire.Member) -> wire.Struct | None:
    con = member.con
    if isinstance(con, wire.Array) and isinstance(con.element, wire.Struct):
        return con.element
    return None


def _has_errors(struct: wire.Struct) -> bool:
    """Return whether a struct carries errors. Tagged fields are not considered, they have other subjects."""
    return any(
        member.field.type.domain is ERROR_CODE
        or ((inner := _element(member)) is not None and _has_errors(inner))
        for member in struct.members
    )


def _arrays(request: wire.Struct | None) -> Iterator[tuple[Source, frozenset[str], wire.Struct | None]]:
    """Yield the arrays inside a struct, breadth first, with the names of all fields in them and around them."""
    level: list[tuple[tuple[str, ...], frozenset[str], wire.Struct]] = []
    if request is not None:
        level.append(((), frozenset(), request))
    while level:
        deeper = []
        for path, known, struct in level:
            for member in struct.members:
                if not isinstance(member.con, wire.Array):
                    continue
                inner, to_it = _element(member), (*path, member.name)
                if inner is not None:
                    names = known | {one.name for one in inner.members}
                    deeper.append((to_it, names, inner))
                    yield Source(to_it), names, inner
                elif member.name in _SCALARS:
                    scalar = _SCALARS[member.name]
                    yield Source(to_it, scalar), known | {scalar}, None
        level = deeper


def rows(source: Source, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the elements of a request's array, each merged with the fields of the elements around it."""
    level: list[Mapping[str, Any]] = [request]
    for name in source.path:
        level = [
            {**outer, **_fields(element, source)} for outer in level for element in outer.get(name) or ()
        ]
    yield from map(dict, level)


def _fields(element: Any, source: Source) -> Mapping[str, Any]:
    return element if isinstance(element, Mapping) else {source.scalar: element}
