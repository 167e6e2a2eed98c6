"""Drift test: every layout of every API against the facts of Kafka's own message definitions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dissectors import apis, wire
from dissectors.versioned import Versioned
from tests.reference import REFERENCE, needs_reference

FIELD_COUNTS = {"request": 368, "response": 368}  # coverage.tsv: versions of requests and responses


def snake(name: str) -> str:
    """Kafka's camel-case field name as this project writes it."""
    name = name.replace("KRaft", "Kraft").replace("2Pc", "_2pc")
    out = ""
    for at, char in enumerate(name):
        new_word = char.isupper() and at and (name[at - 1].islower() or name[at - 1].isdigit())
        out += ("_" if new_word else "") + char.lower()
    return out


def ours(con: wire.WireType) -> Any:
    """The layout of a wire type in the shape of :func:`theirs`."""
    if isinstance(con, wire.NullableStruct):
        return ours(con.struct)
    if isinstance(con, wire.Array):
        return [ours(con.element)]
    if not isinstance(con, wire.Struct):
        return con.kind
    fields = [(member, None) for member in con.members]
    fields += [(member, tag) for tag, member in (con.tagged or {}).items()]
    return [
        (
            member.name,
            tag,
            bool(member.con.nullable),
            getattr(member.con, "compact", None),
            ours(member.con),
        )
        for member, tag in fields
    ]


def theirs(fields: list[dict[str, Any]], *, flexible: bool) -> Any:
    out = []
    for field in sorted(fields, key=lambda field: int(field.get("tag", -1))):
        depth, base = 0, field["type"]
        while base.startswith("[]"):
            depth, base = depth + 1, base[2:]
        is_struct = "fields" in field
        layout: Any = theirs(field["fields"], flexible=flexible) if is_struct else base
        # the reference writes arrays of numbers as "[][]int32"
        for _ in range(min(depth, 1)):
            layout = [layout]
        sized = depth > 0 or (not is_struct and base in ("string", "bytes", "records"))
        tag = int(field["tag"]) if "tag" in field else None
        nullable = bool(field.get("nullable", False))
        out.append(
            (snake(field["name"]), tag, nullable, bool(field.get("compact")) if sized else None, layout)
        )
    return out


def reference_layouts(kinds: tuple[str, ...]) -> list[dict[str, Any]]:
    assert REFERENCE is not None
    with (REFERENCE / "protocol" / "layouts.jsonl").open() as lines:
        return [layout for layout in map(json.loads, lines) if layout["type"] in kinds]


def versioned(layout: dict[str, Any]) -> Versioned:
    """Our construct for a reference layout, the early variants included."""
    known = apis.api(layout["api_key"])
    assert known is not None
    message = known.request if layout["type"] == "request" else known.response
    made = message[layout["version"]]
    variants = [*reversed(made.older), made]
    return variants[layout["variant"]] if "variant" in layout else made


@needs_reference
@pytest.mark.parametrize("kind", ["request", "response"])
def test_every_layout_is_kafkas(kind: str) -> None:
    seen = set()
    for layout in reference_layouts((kind,)):
        made = versioned(layout)
        label = f"{layout['message']} v{layout['version']} variant {layout.get('variant')}"
        assert made.flexible == layout["flexible"], label
        assert ours(made.struct) == theirs(layout["fields"], flexible=layout["flexible"]), label
        seen.add((layout["api_key"], layout["version"]))
    assert len(seen) == FIELD_COUNTS[kind]


@pytest.mark.parametrize("kind", ["request", "response"])
def test_no_version_is_missing(kind: str) -> None:
    messages = [getattr(apis.api(key), kind) for key in range(len(apis.NAMES))]
    assert sum(len(list(message.versions)) for message in messages) == FIELD_COUNTS[kind]


@pytest.mark.parametrize("key", range(len(apis.NAMES)))
def test_every_field_says_what_it_means(key: int) -> None:
    known = apis.api(key)
    assert known is not None
    assert known.doc.startswith(f"{known.name} (key {key})")

    def undocumented(struct: Any, path: str) -> list[str]:
        found = []
        for field in struct.fields:
            here = f"{path}.{field.name}"
            if not field.doc:
                found.append(here)
            inner = getattr(field.type, "element", field.type)
            if hasattr(inner, "fields"):
                found += undocumented(inner, here)
        return found

    assert (
        undocumented(known.request.struct, "request") + undocumented(known.response.struct, "response") == []
    )
