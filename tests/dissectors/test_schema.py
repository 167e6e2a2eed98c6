"""Declarations: version ranges, modifiers, and their form in one version."""

from __future__ import annotations

import pytest

from dissectors import wire
from dissectors.domains import Domain
from dissectors.schema import Array, Bytes, Int8, Int32, Message, String, Struct, Type, Uuid, VersionRange

pytestmark = pytest.mark.quick

Example = Message(
    "ExampleRequest", 99, "request", "1-4", "3+",
    "name" / String.null("2+") * "what it is called",
    "old" / Int32 @ "0-2",
    "ids" / Array(Uuid) @ "2+",
    "parts" / Array("index" / Int32 * "number", "extra" / Bytes.null() @ "4+") * "its parts",
    "cursor" / Struct("at" / Int32).null("4+") @ "2+",
    "late" / Int8.default(-1).tag(0, "4+") @ "3+",
    "region" / String.null().tag(1).default(None) @ "3+",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("3", [3], [2, 4, -1]),
        ("0-12", [0, 12], [-1, 13]),
        ("7+", [7, 32767], [6, 32768]),
        ("none", [], [-1, 0, 1]),
    ],
)
def test_version_range(text: str, inside: list[int], outside: list[int]) -> None:
    versions = VersionRange(text)
    assert repr(versions) == text
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_version_range_is_iterable() -> None:
    assert list(VersionRange("2-4")) == [2, 3, 4]
    assert list(VersionRange("none")) == []


def names(version: int) -> list[str]:
    return [member.name for member in Example[version].struct.members]


def test_fields_come_and_go() -> None:
    assert names(1) == ["name", "old", "parts"]
    assert names(2) == ["name", "old", "ids", "parts", "cursor"]
    assert names(3) == ["name", "ids", "parts", "cursor", "late"]
    assert names(4) == ["name", "ids", "parts", "cursor"]


def test_tags_by_version() -> None:
    assert Example[2].struct.tagged is None
    assert {tag: member.name for tag, member in (Example[3].struct.tagged or {}).items()} == {1: "region"}
    assert {tag: member.name for tag, member in (Example[4].struct.tagged or {}).items()} == {
        0: "late",
        1: "region",
    }


def test_null_by_version() -> None:
    assert [Example[version].struct.members[0].con.nullable for version in Example.versions] == [0, 1, 1, 1]
    cursors = [Example[version].struct.members[names(version).index("cursor")].con for version in (2, 3, 4)]
    assert [type(con) for con in cursors] == [wire.Struct, wire.Struct, wire.NullableStruct]


def test_compact_from_the_flexible_version_on() -> None:
    compact = [
        getattr(Example[version].struct.members[0].con, "compact", None) for version in Example.versions
    ]
    assert compact == [False, False, True, True]


def test_classic_stays_classic() -> None:
    """RequestHeader.client_id has flexibleVersions "none", alone in all of Kafka's definitions."""
    con = String.classic().null().at(2, flexible=True)
    assert isinstance(con, wire.String)
    assert not con.compact
    assert con.nullable


def test_struct_in_a_tag_has_a_varint_marker() -> None:
    con = Struct("cursor" / Struct("at" / Int32).null().tag(0)).bound(0, flexible=True)
    inner = (con.tagged or {})[0].con
    assert isinstance(inner, wire.NullableStruct)
    assert inner.tagged


def test_modifiers_leave_the_original_alone() -> None:
    kinds = Domain("kind", {1: "first"}, "what kind it is")
    changed = Int32.null("1+").default(5).of(kinds).unit("ms").secret()
    assert (changed.default_to, changed.unit_text, changed.is_secret) == (5, "ms", True)
    assert changed.domain is kinds
    assert Bytes.holds("token").content == "token"
    assert not Int32.has_default
    assert Int32.domain is None
    assert 1 not in Int32.nullable
    assert Int32.kind == changed.kind == "int32"


def test_field_text() -> None:
    field = "max_wait_ms" / Int32 @ "1-2" * "how long to wait"  # an operator of ours
    assert repr(field) == "'max_wait_ms' / int32 @ '1-2'"
    assert field.doc == "how long to wait"


def test_version_is_made_once() -> None:
    assert Example[2] is Example[2]
    assert repr(Example[2]) == "<ExampleRequest v2>"
    assert repr(Example) == "<ExampleRequest 1-4>"


@pytest.mark.parametrize("version", [0, 5, -1])
def test_unknown_version(version: int) -> None:
    with pytest.raises(KeyError, match=f"ExampleRequest has versions 1-4, not {version}"):
        Example[version]


@pytest.mark.parametrize(("version", "nearest"), [(-3, 1), (0, 1), (1, 1), (3, 3), (4, 4), (99, 4)])
def test_nearest(version: int, nearest: int) -> None:
    assert Example.nearest(version) == nearest


def test_defaults_where_null_is_not_yet_allowed() -> None:
    """A default of null stands only in versions that allow null; the type's zero in the others."""
    message = Message("M", None, "data", "0-1", "none", "name" / String.null("1+").default(None))
    assert message[0].build({}) == b"\x00\x00"
    assert message[1].build({}) == b"\xff\xff"


def test_base_type_is_not_bound() -> None:
    with pytest.raises(AssertionError, match="bound to a version"):
        Type().at(0, flexible=False)
