"""Projections against the full decoder: every layout of every API, random fields of random messages.

Other tests compare the full decoder with independent ones; a projection gives its result without the other fields.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dissectors import apis, wire
from dissectors.errors import DecodeError
from dissectors.message_version import MessageVersion
from dissectors.projection import Projection, pick, tree
from tests.dissectors.test_generated import by_key
from tests.dissectors.values import Values, label

ROUNDS = 4


def paths_of(con: wire.WireType, prefix: str = "") -> list[str]:
    """The paths of all fields of a struct, including nested ones."""
    if isinstance(con, wire.Array):
        con = con.element
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if not isinstance(con, wire.Struct):
        return []
    found = []
    for member in con.all_members:
        path = f"{prefix}{member.name}"
        found += [path, *paths_of(member.con, f"{path}.")]
    return found


def tags_of(con: wire.WireType) -> list[str]:
    """The names of all tagged fields."""
    if isinstance(con, wire.Array):
        con = con.element
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if not isinstance(con, wire.Struct):
        return []
    found = [member.name for member in (con.tagged or {}).values()]
    return found + [name for member in con.members for name in tags_of(member.con)]


def left(value: Any, paths: list[str], prefix: str = "") -> Any:
    """The part of a decoded value on the paths, computed without the code under test."""
    if isinstance(value, list):
        return [left(item, paths, prefix) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        path = f"{prefix}{name}"
        if path in paths:
            out[name] = item
        elif any(wanted.startswith(f"{path}.") for wanted in paths):
            out[name] = left(item, paths, f"{path}.")
    return out


@pytest.mark.sample(4)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_any_fields_of_any_message(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        fields = paths_of(layout.struct)
        for number in range(ROUNDS):
            seed = f"{label(layout)} projection {number}"
            value = Values(seed).draw(layout.struct)
            data = layout.build(value)
            wanted = Random(seed).sample(fields, min(len(fields), number))
            projection = Projection(layout, [*wanted, "no_such_field.in_this_version"])
            expected = left(layout.parse(data), wanted)
            assert projection.parse(data) == expected, (seed, wanted)
            assert projection.exactly(data) == expected, (seed, wanted)
            assert projection.exactly(b"\x07\x00" + data, 2) == expected, (seed, wanted)
            assert projection.exactly(data + b"\x00") is None, (seed, wanted)
            assert pick(value, tree(wanted)) == expected, (seed, wanted)


@pytest.mark.sample(14)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_bytes_that_end_early(layouts: list[MessageVersion]) -> None:
    """Cut anywhere: the error of the full decoder, or the value if all of it was there before the cut."""
    for layout in layouts:
        fields = paths_of(layout.struct)
        seed = f"{label(layout)} cut"
        random = Random(seed)
        value = Values(seed).draw(layout.struct)
        data = layout.build(value)
        wanted = random.sample(fields, min(len(fields), 2))
        projection = Projection(layout, wanted)
        for end in sorted(random.sample(range(len(data)), min(len(data), 12))):
            cut = data[:end]
            assert projection.exactly(cut) is None or layout.exactly(cut, 0) is not None, (seed, end)
            check_like_the_full_decoder(projection, layout, cut, left(value, wanted), f"{seed} {end}")


def check_like_the_full_decoder(
    projection: Projection, layout: MessageVersion, data: bytes, whole: Any, seed: str
) -> None:
    refused = refusal(projection.parse, data)
    if refused:
        assert refusal(layout.decode, data) == refused, seed
    elif not layout.older:  # those are distinguished by the whole message
        assert projection.parse(data) == whole, seed


def refusal(decode: Callable[[bytes], Any], data: bytes) -> str:
    """The message of the DecodeError, empty if there is none."""
    try:
        decode(data)
    except DecodeError as error:
        return str(error)
    return ""


@pytest.mark.sample(16)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_damaged_bytes(layouts: list[MessageVersion]) -> None:
    """A byte changed: nothing but a value or a DecodeError, and never more than the full decoder accepts."""
    for layout in layouts:
        fields = paths_of(layout.struct)
        seed = f"{label(layout)} damaged"
        random = Random(seed)
        data = bytearray(layout.build(Values(seed).draw(layout.struct)))
        if not data:
            continue
        wanted = random.sample(fields, min(len(fields), 2))
        tagged = set(tags_of(layout.struct))
        projection = Projection(layout, wanted)
        for _ in range(8):
            at, byte = random.randrange(len(data)), random.choice((0, 1, 0x7F, 0x80, 0xFF))
            damaged = bytes(data[:at]) + bytes([byte]) + bytes(data[at + 1 :])
            full = layout.exactly(damaged, 0)
            exact = projection.exactly(damaged)
            if full is not None:
                assert exact == left(full, wanted), (seed, at, byte)
            elif exact is not None:
                # skipped data was not checked: texts, and the content of tags
                with pytest.raises(DecodeError) as caught:
                    layout.parse(damaged)
                assert "UTF-8" in caught.value.reason or tagged & set(caught.value.field_path.split("."))
            refused = refusal(projection.parse, damaged)
            assert not refused or refusal(layout.decode, damaged) == refused, (seed, at, byte)


def test_a_path_includes_what_is_below_it() -> None:
    for paths in (["topics", "topics.name"], ["topics.name", "topics"]):
        assert tree(paths) == {"topics": None}
    assert tree(["a.b", "c", "a.d.e"]) == {"a": {"b": None, "d": {"e": None}}, "c": None}


def test_nothing_is_read_behind_the_last_wanted_field() -> None:
    known = apis.api(12)
    assert known is not None
    heartbeat = known.request[4]
    # bytes of kio 0.6.5, cut off and garbled after the generation
    data = b"\x03g1\x00\x00\x00\x07\xff\xff"
    assert Projection(heartbeat, ["generation_id"]).parse(data) == {"generation_id": 7}
    with pytest.raises(DecodeError, match="member_id"):
        Projection(heartbeat, ["member_id"]).parse(data)
    assert Projection(heartbeat, ["generation_id"]).exactly(data) is None
