"""Declarations of Kafka messages: one for all versions of a message, one line per field.

::

    HeartbeatRequest = Message("HeartbeatRequest", 12, "request", "0-4", "4+",
        "group_id" / String * "the group",
        "group_instance_id" / String.null("3+") @ "3+" * "static member's name (KIP-345)",
        "topics" / Array(
            "name" / String * "topic name",
            "partitions" / Array(Int32) * "partition indexes",
        ) * "what is asked for",
    )

``/`` gives a type its field name, ``@`` the versions that carry the field (default: all), ``*`` its meaning: unit,
special values, the KIP that introduced it. Version ranges are written ``"3"``, ``"0-12"`` or ``"7+"``.

Types take modifiers: ``null`` (versions in which null is allowed), ``tag`` (number, and the versions in which the
field is tagged), ``default``, ``of`` (a :class:`~dissectors.domains.Domain` naming the values), ``unit``, ``holds``
(protocol inside the bytes) and ``secret``. Values that name a topic, group, producer, broker, transaction or cluster
have types of their own (:mod:`dissectors.entities`).

``HeartbeatRequest[4]`` is the construct of version 4, created on first use and cached.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from dissectors import wire
from dissectors.message_version import MessageVersion

if TYPE_CHECKING:
    from dissectors.domains import Domain

Kind = Literal["request", "response", "header", "data"]

Entity = Literal["topicName", "groupId", "transactionalId", "producerId", "brokerId", "clusterId"]
"""Entities that values name: ``entityType`` of Kafka's message definitions, and clusters, which Kafka does not mark."""

_OPEN_END = 32767


class VersionRange:
    """A closed range of versions; ``"3"``, ``"0-12"``, ``"7+"`` or ``"none"``."""

    __slots__ = ("first", "last")

    def __init__(self, text: str) -> None:
        if text == "none":
            self.first, self.last = 0, -1
        elif text.endswith("+"):
            self.first, self.last = int(text[:-1]), _OPEN_END
        else:
            first, _, last = text.partition("-")
            self.first, self.last = int(first), int(last or first)

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __repr__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == _OPEN_END:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


ALL = VersionRange("0+")
NONE = VersionRange("none")


class Type:
    """A declared type. Modifiers return a changed copy."""

    #: name of the type in Kafka's message definitions
    kind: str = ""
    nullable: VersionRange = NONE
    tag_number: int | None = None
    tagged: VersionRange = ALL
    domain: Domain | None = None
    unit_text: str = ""
    content: str = ""
    entity: Entity | None = None
    is_secret: bool = False
    has_default: bool = False
    default_to: Any = None

    @property
    def value(self) -> Type:
        """The type of the values: the element type of an array, otherwise the type itself."""
        return self

    @property
    def inside(self) -> Struct | None:
        """The struct type of the values, None if they are not structs."""
        return self.value if isinstance(self.value, Struct) else None

    def at(self, version: int, *, flexible: bool, tagged: bool = False) -> wire.WireType:
        """Return the wire type for one version of the message."""
        raise AssertionError("every type is bound to a version by its class")

    def __rtruediv__(self, name: str) -> Field:
        return Field(name, self)

    def _with(self, **changes: Any) -> Self:
        changed = copy.copy(self)
        changed.__dict__.update(changes)
        return changed

    def containing(self, struct: Struct) -> Type:
        """Return the same type with `struct` as its values' type."""
        return self._with(fields=struct.fields)

    def null(self, versions: str = "0+") -> Self:
        """Allow null in these versions."""
        return self._with(nullable=VersionRange(versions))

    def tag(self, number: int, versions: str = "0+") -> Self:
        """Carry the field in the tag section, under this number, in these versions."""
        return self._with(tag_number=number, tagged=VersionRange(versions))

    def default(self, value: Any) -> Self:
        """Set the value of an absent tagged field, which is also built if no value is given."""
        return self._with(has_default=True, default_to=value)

    def of(self, domain: Domain) -> Self:
        """Set the domain that names the values."""
        return self._with(domain=domain)

    def unit(self, text: str) -> Self:
        """Set the unit for display: ``ms``, ``bytes``."""
        return self._with(unit_text=text)

    def holds(self, content: str) -> Self:
        """Set the embedded protocol of the bytes (:mod:`dissectors.embedded`)."""
        return self._with(content=content)

    def names(self, entity: Entity) -> Self:
        """Set the kind of entity that the value names."""
        return self._with(entity=entity)

    def secret(self) -> Self:
        """Mask the value unless the user asks for it."""
        return self._with(is_secret=True)


class Primitive(Type):
    """A number, bool or UUID."""

    def __init__(self, con: wire.Leaf) -> None:
        self.kind = con.kind
        self._con = con

    def at(self, version: int, *, flexible: bool, tagged: bool = False) -> wire.WireType:
        return self._con


class SizedType(Type):
    """A string, bytes or records: compact in flexible versions, unless declared classic."""

    _classic = False

    def __init__(self, con: type[wire.SizedLeaf]) -> None:
        self.kind = con.kind
        self._con = con
        self._made: dict[tuple[bool, bool], wire.WireType] = {}

    def classic(self) -> Self:
        """Keep the classic length in flexible versions too: only the request header's client ID does."""
        return self._with(_classic=True)

    def at(self, version: int, *, flexible: bool, tagged: bool = False) -> wire.WireType:
        compact, nullable = flexible and not self._classic, version in self.nullable
        key = compact, nullable
        if key not in self._made:
            self._made[key] = self._con(compact=compact, nullable=nullable)
        return self._made[key]


class Struct(Type):
    """A sequence of fields as one value."""

    kind = "struct"

    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    def at(self, version: int, *, flexible: bool, tagged: bool = False) -> wire.WireType:
        struct = self.bound(version, flexible=flexible)
        return wire.NullableStruct(struct, tagged=tagged) if version in self.nullable else struct

    def every_field(self) -> Iterator[Field]:
        """Yield the fields of all versions, each before the fields inside it."""
        for field in self.fields:
            yield field
            if field.type.inside is not None:
                yield from field.type.inside.every_field()

    def bound(self, version: int, *, flexible: bool) -> wire.Struct:
        """Return the struct with the fields of one version."""
        members: list[wire.Member] = []
        tags: dict[int, wire.Member] = {}
        for field in self.fields:
            if version not in field.versions:
                continue
            number = field.type.tag_number
            if number is not None and version in field.type.tagged:
                tags[number] = field.at(version, flexible=flexible, tagged=True)
            else:
                members.append(field.at(version, flexible=flexible))
        return wire.Struct(members, tags if flexible else None)


class Array(Type):
    """A list: of one type, ``Array(Int32)``, or of structs, ``Array("name" / String, ...)``."""

    kind = "array"

    def __init__(self, *element: Type | Field) -> None:
        first = element[0]
        self.element: Type = first if isinstance(first, Type) else Struct(*element)  # type: ignore[arg-type]
        self.entity = self.element.entity

    @property
    def value(self) -> Type:
        return self.element

    def containing(self, struct: Struct) -> Type:
        return self._with(element=self.element.containing(struct))

    def at(self, version: int, *, flexible: bool, tagged: bool = False) -> wire.WireType:
        element = self.element.at(version, flexible=flexible)
        return wire.Array(element, compact=flexible, nullable=version in self.nullable)


class Field:
    """One field of a message: name, type, versions that carry it, and meaning."""

    __slots__ = ("doc", "name", "type", "versions")

    def __init__(self, name: str, type_: Type) -> None:
        self.name = name
        self.type = type_
        self.versions = ALL
        self.doc = ""

    def __matmul__(self, versions: str) -> Self:
        self.versions = VersionRange(versions)
        return self

    def __mul__(self, doc: str) -> Self:
        self.doc = doc
        return self

    def __repr__(self) -> str:
        return f"{self.name!r} / {self.type.kind} @ {str(self.versions)!r}"

    def at(self, version: int, *, flexible: bool, tagged: bool = False) -> wire.Member:
        """Bind the field to one version."""
        return wire.Member(self.name, self.type.at(version, flexible=flexible, tagged=tagged), self)

    def default_value(self, con: wire.WireType) -> Any:
        """Return the value that is built if a message has no value for the field."""
        if self.type.has_default and (self.type.default_to is not None or con.nullable):
            return self.type.default_to
        return _DEFAULTS[con.kind]()


_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), int),
    "float64": float,
    "bool": bool,
    "uuid": lambda: wire.ZERO_UUID,
    "string": str,
    "bytes": bytes,
    "records": bytes,
    "array": list,
    "struct": dict,
}

Int8 = Primitive(wire.INT8)
Int16 = Primitive(wire.INT16)
Int32 = Primitive(wire.INT32)
Int64 = Primitive(wire.INT64)
Uint16 = Primitive(wire.UINT16)
Float64 = Primitive(wire.FLOAT64)
Bool = Primitive(wire.BOOL)
Uuid = Primitive(wire.UUID)
String = SizedType(wire.String)
Bytes = SizedType(wire.Bytes)
Records = SizedType(wire.Records)


class EarlierLayout(NamedTuple):
    """The encoding of a message in earlier releases, as its differences from the later declaration.

    :ivar without: fields that were added later
    :ivar instead: replacements of a field, by its path; the field itself may be among them

    Both name fields by their paths, such as ``topics.partitions.leader_epoch``.
    """

    versions: str
    flexible: str
    without: tuple[str, ...] = ()
    instead: Mapping[str, tuple[Field, ...]] = MappingProxyType({})

    def of(self, later: Message) -> Message:
        """Return the earlier declaration of a message."""
        changes = {**dict.fromkeys(self.without, ()), **self.instead}
        fields = _with_changes(later.fields, changes, "")
        return Message(later.name, later.key, later.kind, self.versions, self.flexible, *fields)


def _with_changes(
    fields: Iterable[Field], changes: Mapping[str, tuple[Field, ...]], outer: str
) -> Iterator[Field]:
    """Yield `fields`, with some of them replaced.

    :param changes: replacements by path
    :param outer: path of the struct that has the fields, with a dot, or empty
    """
    for field in fields:
        path = f"{outer}{field.name}"
        inside = field.type.inside
        if path in changes:
            yield from changes[path]
        elif inside is not None and any(each.startswith(f"{path}.") for each in changes):
            changed = Struct(*_with_changes(inside.fields, changes, f"{path}."))
            other = copy.copy(field)
            other.type = field.type.containing(changed)
            yield other
        else:
            yield field


class Message:
    """A message and all its versions.

    :param name: Kafka's name for it, as in its message definitions
    :param key: API key of a request or response; record type of a coordinator or metadata record; else None
    :param kind: ``request``, ``response``, ``header`` or ``data`` (records and embedded protocols)
    :param versions: versions ever released
    :param flexible: versions with compact lengths and tag sections (KIP-482)
    :param older: declarations of earlier releases that encoded the same version numbers differently, newest first; each
        is tried if this one does not match, and has to account for every byte
    """

    def __init__(
        self,
        name: str,
        key: int | None,
        kind: Kind,
        versions: str,
        flexible: str,
        *fields: Field,
        older: tuple[Message | EarlierLayout, ...] = (),
    ) -> None:
        self.name = name
        self.key = key
        self.kind = kind
        self.versions = VersionRange(versions)
        self.flexible = VersionRange(flexible)
        self.struct = Struct(*fields)
        self.older = tuple(each if isinstance(each, Message) else each.of(self) for each in older)
        self._made: dict[int, MessageVersion] = {}

    @property
    def fields(self) -> tuple[Field, ...]:
        """The top-level fields of all versions, in declaration order."""
        return self.struct.fields

    def __getitem__(self, version: int) -> MessageVersion:
        """Return the construct of one version; raise KeyError for a version never released."""
        made = self._made.get(version)
        if made is None:
            if version not in self.versions:
                raise KeyError(f"{self.name} has versions {self.versions!r}, not {version}")
            made = self._made[version] = MessageVersion(self, version)
        return made

    def nearest(self, version: int) -> int:
        """Return the known version closest to ``version``."""
        return min(max(version, self.versions.first), self.versions.last)

    def __repr__(self) -> str:
        return f"<{self.name} {self.versions!r}>"
