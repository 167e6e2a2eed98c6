"""The layout of one version of a message, as Kafka's definitions give it, and the differences between two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from dissectors.schema import VersionRange

STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a layout.

    :ivar name: as Kafka writes it, or as our declarations do; only equal spellings compare
    :ivar type: Kafka's name of a primitive type, or ``struct``; of an array, the type of its elements
    :ivar tag: number in the tag section; None for a field outside
    :ivar entity: what the value names, as Kafka's ``entityType``; empty if Kafka does not say
    :ivar values: numbers with the names that Kafka's description of the field lists for them
    :ivar classic: whether the length is not compact though the version is flexible
    :ivar fields: of a struct, in the order of the bytes, the tagged ones last by their tags
    """

    name: str
    type: str
    array: bool = False
    nullable: bool = False
    tag: int | None = None
    entity: str = ""
    values: tuple[tuple[int, str], ...] = ()
    classic: bool = False
    fields: tuple[Field, ...] = ()

    def __str__(self) -> str:
        words = ["nullable"] * self.nullable + ["classic"] * self.classic
        words.append(f"[]{self.type}" if self.array else self.type)
        return " ".join(words) + ("" if self.tag is None else f" with tag {self.tag}")


@dataclass(frozen=True, slots=True)
class Layout:
    """All fields of one version.

    :ivar flexible: whether lengths are compact and structs end with a tag section (KIP-482)
    :ivar before: the release that gave this version other bytes; empty if none did
    """

    flexible: bool
    fields: tuple[Field, ...]
    before: str = ""


def in_order(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return fields in the order of their bytes."""
    return tuple(sorted(fields, key=lambda field: -1 if field.tag is None else field.tag))


def untagged(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return what decides how bytes outside tag sections are read.

    Names, entity types and listed values do not, and ``records`` are bytes, as which Kafka before 2.4 declared some.
    """
    return tuple(
        replace(
            field,
            name="",
            type=field.type.replace("records", "bytes"),
            entity="",
            values=(),
            fields=untagged(field.fields),
        )
        for field in fields
        if field.tag is None
    )


@cache
def _range(text: str) -> VersionRange:
    return VersionRange(text)


def versions(definition: dict[str, Any]) -> list[int]:
    """Return the versions that a message definition of Kafka is valid for; none for what a release removed."""
    return list(_range(definition["validVersions"]))


def expand(definition: dict[str, Any], version: int) -> Layout:
    """Return one version of a message definition.

    :param definition: Kafka's JSON; see the README beside the definitions in Kafka for its meaning
    :raises ValueError: if the definition says what this reader does not know
    """
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    structs |= dict(_inline(definition.get("fields", ())))
    flexible = version in _range(definition.get("flexibleVersions", "none"))

    def fields(of: Sequence[dict[str, Any]]) -> tuple[Field, ...]:
        return in_order([field(each) for each in of if version in _carried(each)])

    def field(said: dict[str, Any]) -> Field:
        array = said["type"].startswith("[]")
        base = said["type"].removeprefix("[]")
        is_struct = base[:1].isupper()
        if (is_struct and base not in structs) or base.startswith("["):
            raise ValueError(f"{definition['name']}.{said['name']} has the unknown type {said['type']}")
        tagged = "tag" in said and version in _range(said["taggedVersions"])
        return Field(
            said["name"],
            STRUCT if is_struct else base,
            array,
            version in _range(said.get("nullableVersions", "none")),
            int(said["tag"]) if tagged else None,
            said.get("entityType", ""),
            _values(said.get("about", "")),
            flexible and version not in _range(said.get("flexibleVersions", "0+")),
            fields(structs[base]) if is_struct else (),
        )

    return Layout(flexible, fields(definition.get("fields", ())))


def _inline(fields: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the structs that are defined where they are used: the rest of the message may name them again."""
    for field in fields:
        if "fields" in field:
            yield field["type"].removeprefix("[]"), field["fields"]
            yield from _inline(field["fields"])


def _values(about: str) -> tuple[tuple[int, str], ...]:
    """Return the values that a description lists, as in "0:Available,2:Acked" or "1=SOURCE, 2=PROCESSOR"."""
    listed = re.findall(r"(-?\d+) ?[=:] ?([A-Za-z_-]+(?: [A-Za-z_-]+)*)", about)
    return tuple((int(value), name) for value, name in listed) if len(listed) > 1 else ()


def _carried(said: dict[str, Any]) -> VersionRange:
    return _range(said["versions"] if "versions" in said else said["taggedVersions"])


def snake(name: str) -> str:
    """Return Kafka's camel-case field name as our declarations write it."""
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    out = ""
    for at, char in enumerate(name):
        new_word = char.isupper() and at and (name[at - 1].islower() or name[at - 1].isdigit())
        out += ("_" if new_word else "") + char.lower()
    return out


def in_snake_case(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Return fields under the names that our declarations give them."""
    return tuple(
        replace(field, name=snake(field.name), fields=in_snake_case(field.fields)) for field in fields
    )


def flat(fields: Sequence[Field], inside: str = "") -> Iterator[tuple[str, Field]]:
    """Yield every field with its path, such as ``Topics.Name``, outer ones first."""
    for field in fields:
        yield inside + field.name, field
        yield from flat(field.fields, f"{inside}{field.name}.")


def differences(ours: Layout, theirs: Layout, *, here: str, there: str) -> list[str]:
    """Return in sentences what differs between two layouts; none if they are the same.

    :param here: where the first layout comes from, such as "the facts"
    :param there: where the second does
    """
    said = []
    if ours.flexible != theirs.flexible:
        flexible, other = (here, there) if ours.flexible else (there, here)
        said.append(f"is flexible in {flexible}, not in {other}")
    mine, other_fields = dict(flat(ours.fields)), dict(flat(theirs.fields))
    said += [
        f"{path} ({field}) is only in {here}" for path, field in mine.items() if path not in other_fields
    ]
    said += [
        f"{path} ({field}) is only in {there}" for path, field in other_fields.items() if path not in mine
    ]
    for path, field in mine.items():
        if path in other_fields:
            said += [f"{path} {each}" for each in _field_differences(field, other_fields[path], here, there)]
    if not said and list(mine) != list(other_fields):
        said.append(
            f"the fields are in another order: {', '.join(mine)} in {here}, {', '.join(other_fields)} in {there}"
        )
    return said


def _field_differences(ours: Field, theirs: Field, here: str, there: str) -> Iterator[str]:
    if str(ours) != str(theirs):
        yield f"is {ours} in {here}, {theirs} in {there}"
    if ours.entity != theirs.entity:
        yield f"names {ours.entity or 'no entity'} in {here}, {theirs.entity or 'no entity'} in {there}"
    if ours.values != theirs.values:
        yield f"has the values {_listed(ours)} in {here}, {_listed(theirs)} in {there}"


def _listed(field: Field) -> str:
    return ", ".join(f"{value} = {name}" for value, name in field.values) or "of no list"
