"""kproxy's own declarations as layouts, to compare them with the facts."""

from __future__ import annotations

from functools import cache

from dissectors import apis, headers, wire
from dissectors.message_version import MessageVersion
from dissectors.schema import Message
from tests.definitions import facts
from tests.definitions.layouts import Field, Layout, differences, in_order, in_snake_case
from tests.dissectors.embedded.declarations import KAFKAS, OURS, messages

HERE = "the declaration"

_RENAMED = {"LegacyOffsetCommitKey": "OffsetCommitKey", "LegacyOffsetCommitValue": "OffsetCommitValue"}
"""Messages that Kafka declares twice, for the same bytes."""


def declaration(message: facts.Message) -> Message | None:
    """Return our declaration of a message of Kafka; None if there is none."""
    if message.kind not in ("request", "response"):
        return _others().get(_RENAMED.get(message.name, message.name))
    known = apis.api(message.key) if isinstance(message.key, int) else None
    return None if known is None else known.request if message.kind == "request" else known.response


@cache
def _others() -> dict[str, Message]:
    both = (headers.RequestHeader, headers.ResponseHeader)
    return messages(*KAFKAS, *OURS) | {header.name: header for header in both}


def layout(declared: MessageVersion) -> Layout:
    """Return a declared version as a layout."""
    return Layout(declared.flexible, _fields(declared.struct, flexible=declared.flexible))


def _fields(struct: wire.Struct, *, flexible: bool) -> tuple[Field, ...]:
    members: list[tuple[wire.Member, int | None]] = [(member, None) for member in struct.members]
    members += [(member, tag) for tag, member in (struct.tagged or {}).items()]
    return in_order([_field(member, tag, flexible=flexible) for member, tag in members])


def _field(member: wire.Member, tag: int | None, *, flexible: bool) -> Field:
    con = member.con
    element = con.element if isinstance(con, wire.Array) else con
    struct = element.struct if isinstance(element, wire.NullableStruct) else element
    lengths = [each.compact for each in (con, element) if isinstance(each, wire.SizePrefixed)]
    return Field(
        member.name,
        element.kind,
        isinstance(con, wire.Array),
        bool(con.nullable),
        tag,
        classic=any(compact != flexible for compact in lengths),
        fields=_fields(struct, flexible=flexible) if isinstance(struct, wire.Struct) else (),
    )


def drift(known: facts.Message) -> list[str]:
    """Return in sentences where our declaration of a message and Kafka's differ; none if they do not."""
    declared = declaration(known)
    if declared is None:
        return [f"{known.kind} {known.name} is not declared"]
    said = []
    for version, theirs in known.layouts.items():
        # what 4.0 and older called the version of a record's key is its type
        ours_version = declared.versions.first if known.kind == "coordinator-key" else version
        if ours_version not in declared.versions:
            said.append(f"{known.name} v{version} is not declared")
            continue
        made = declared[ours_version]
        ours = [*reversed(made.older), made]
        if len(ours) != len(theirs):
            said.append(f"{known.name} v{version} is declared in {len(ours)} forms, Kafka had {len(theirs)}")
        for mine, other in zip(ours[::-1], theirs[::-1], strict=False):
            before = f" before {other.before}" if other.before else ""
            said += [
                f"{known.name} v{version}{before}: {each}"
                for each in differences(layout(mine), _comparable(other), here=HERE, there="Kafka")
            ]
    return said


def _comparable(theirs: Layout) -> Layout:
    """Leave out what declarations say of a field in all versions: entity types and values."""
    return Layout(theirs.flexible, facts.bare(in_snake_case(theirs.fields)))
