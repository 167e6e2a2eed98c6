"""Positions of fields found by locators, against those of the traced reading, which is independent code."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dissectors import apis, wire
from dissectors.errors import DecodeError
from dissectors.locator import FieldLocation, FieldLocator, FieldSearch, response_structs
from dissectors.message_version import MessageVersion
from dissectors.schema import Int8, Int32, Message, String, Struct
from dissectors.trace import Node
from tests.dissectors.test_generated import by_key
from tests.dissectors.values import Values, label

ROUNDS = 3
FETCH, SHARE_FETCH = 1, 78


def leaves_of(con: wire.WireType, prefix: str = "") -> list[str]:
    """The paths of all single values in a struct, without indexes."""
    if isinstance(con, wire.Array):
        con = con.element
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    found: list[str] = []
    if isinstance(con, wire.Struct):
        for member in con.all_members:
            path = f"{prefix}{member.name}"
            found += [path] if isinstance(member.con, wire.Leaf) else leaves_of(member.con, f"{path}.")
    return found


def without_indexes(path: str) -> str:
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))


def traced(layout: MessageVersion, data: bytes, wanted: list[str]) -> list[tuple[str, int, Any]]:
    """Path, end and value of all wanted fields."""
    trace = layout.trace(data)
    assert trace.error is None
    nodes = [(path, node.end, node.value) for path, node in trace.root.walk()]
    return [found for found in nodes if without_indexes(found[0]) in wanted]


def located(layout: MessageVersion, data: bytes, wanted: list[str]) -> list[tuple[str, int, Any]]:
    locations = FieldLocator.to_fields([layout.struct], wanted).find(data)
    for location in locations:
        assert location.con.read(data, location.start) == (location.value, location.end)
    return [(location.path, location.end, location.value) for location in locations]


def pieces(data: bytes, rng: Random) -> list[bytes]:
    """Bytes cut anywhere."""
    cuts = sorted(rng.sample(range(len(data) + 1), min(len(data), rng.choice((1, 5, 20)))))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.sample(13)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_any_fields_of_any_message(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        fields = leaves_of(layout.struct)
        for number in range(ROUNDS):
            seed = f"{label(layout)} locate {number}"
            rng = Random(seed)
            data = layout.build(Values(seed).draw(layout.struct))
            wanted = rng.sample(fields, min(len(fields), rng.choice((1, 2, 5))))
            assert located(layout, data, wanted) == traced(layout, data, wanted), (seed, wanted)


@pytest.mark.sample(43)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_bytes_that_come_in_pieces(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        fields = leaves_of(layout.struct)
        seed = f"{label(layout)} pieces"
        rng = Random(seed)
        data = layout.build(Values(seed).draw(layout.struct))
        locator = FieldLocator.to_fields([layout.struct], rng.sample(fields, min(len(fields), 3)))
        expected = [(location.start + 7, location.end + 7, location.value) for location in locator.find(data)]
        search = FieldSearch(locator, 7)
        for piece in pieces(b"before " + data, rng):
            if search.feed(piece) is not None:
                break
        assert [(location.start, location.end, location.value) for location in search.found] == expected, seed


@pytest.mark.sample(44)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_the_beginning_of_any_part(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        seed = f"{label(layout)} part"
        rng = Random(seed)
        data = layout.build(Values(seed).draw(layout.struct))
        trace = layout.trace(data)
        starts = {node.name: node.start for node in trace.root.children or ()}
        names = [member.name for member in layout.struct.members]
        if layout.struct.tagged is not None:
            starts["_tags"] = section_start(layout, trace.root)
            names.append("_tags")
        for name in names:
            locator = FieldLocator.up_to([layout.struct], name)
            search, fed = FieldSearch(locator), 0
            for piece in pieces(data, rng):
                found = search.feed(piece)
                fed += len(piece)
                if found is not None:
                    break
            assert found == starts[name], (seed, name)


def section_start(layout: MessageVersion, root: Node) -> int:
    """Where the tag section of a message begins: after its last untagged field."""
    untagged = {member.name for member in layout.struct.members}
    return max((node.end for node in root.children or () if node.name in untagged), default=0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_damaged_bytes(layouts: list[MessageVersion]) -> None:
    """Only positions or a DecodeError, the same whole and in pieces."""
    for layout in layouts:
        seed = f"{label(layout)} locate damaged"
        rng = Random(seed)
        data = layout.build(Values(seed).draw(layout.struct))
        fields = leaves_of(layout.struct)
        locator = FieldLocator.to_fields([layout.struct], rng.sample(fields, min(len(fields), 3)))
        for _ in range(8):
            damaged = bytearray(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data)
            if damaged:
                damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            check_whole_and_in_pieces(locator, bytes(damaged), rng, seed)


def check_whole_and_in_pieces(locator: FieldLocator, data: bytes, rng: Random, seed: str) -> None:
    whole = outcome(lambda: locator.find(data))
    found = outcome(lambda: walked(locator, data, rng))
    assert found == whole, (seed, data.hex())


def walked(locator: FieldLocator, data: bytes, rng: Random) -> list[FieldLocation]:
    search = FieldSearch(locator)
    ends = (search.feed(piece) for piece in pieces(data, rng))
    end = next((end for end in ends if end is not None), 0 if locator.is_empty else len(data) + 1)
    if end > len(data):
        raise DecodeError("the bytes end early", len(data), truncated=True)
    return search.found


def outcome(find: Callable[[], list[FieldLocation]]) -> Any:
    """The result, or the message of the DecodeError."""
    try:
        return [location[:5] for location in find()]
    except DecodeError as error:
        return error.reason, error.offset, error.truncated


@pytest.mark.slow
def test_no_more_is_kept_than_the_beginning_of_a_partition() -> None:
    known = apis.api(FETCH)
    assert known is not None
    locator = FieldLocator.up_to(response_structs(known.response, 17), "_tags")
    partitions = [{"partition_index": number, "records": bytes(100_000)} for number in range(3)]
    body = known.response[17].build({"responses": [{"topic_id": wire.ZERO_UUID, "partitions": partitions}]})
    search = FieldSearch(locator)
    for byte in b"\x00\x00\x00\x01\x00" + body[:-2]:
        assert search.feed(bytes([byte])) is None
        assert len(search._buf) - search._pos < 64
    # the section is one byte, and its place is known when the last topic has ended
    assert search.feed(body[-2:-1]) == 5 + len(body) - 1


def test_what_is_not_there_is_left_out() -> None:
    known = apis.api(SHARE_FETCH)
    assert known is not None
    locator = FieldLocator.to_fields(
        response_structs(known.response, 1), ["no_such_field", "node_endpoints.no_such_field"]
    )
    assert locator.is_empty
    assert locator.find(b"anything") == []
    with pytest.raises(ValueError, match="no_such_field"):
        FieldLocator.up_to(response_structs(known.response, 1), "no_such_field")


def test_the_tag_section_of_a_header_is_passed_over() -> None:
    known = apis.api(10)
    assert known is not None
    # correlation ID, one unknown tag 9 of three bytes; then FindCoordinator v3: throttle, error, message, 1, h, 9092
    data = bytes.fromhex("00000007 01 09 03 aabbcc00000000 0000 00 00000001 0268 00002384 00")
    locations = FieldLocator.to_fields(response_structs(known.response, 3), ["host", "port"]).find(data)
    assert [
        (location.path, location.value, data[location.start : location.end]) for location in locations
    ] == [
        ("host", "h", b"\x02h"),
        ("port", 9092, b"\x00\x00\x23\x84"),
    ]


NAMED = Message("Named", None, "data", "0", "0+", "name" / String.tag(1) * "n", "last" / Int8 * "l")[0]


def test_a_tagged_field_of_another_size_than_announced() -> None:
    locator = FieldLocator.to_fields([NAMED.struct], ["name"])
    (location,) = locator.find(bytes.fromhex("07 01 01 03 03 6161"))
    assert (location.value, location.start, location.end) == ("aa", 4, 7)
    for size in (2, 4):
        with pytest.raises(
            DecodeError, match=f"{size} bytes are announced for the tagged field, it has 3 at byte 4"
        ):
            locator.find(bytes.fromhex(f"07 01 01 0{size} 03 6161 00"))


def test_a_null_struct_before_a_number() -> None:
    """Without tag sections the number follows the struct at once, or the marker."""
    layout = Message(
        "Nullable", None, "data", "0", "none",
        "struct" / Struct("number" / Int32 * "n").null() * "s", "last" / Int8 * "l", "text" / String * "t",
    )[0]  # fmt: skip
    for struct, start in ((None, 2), ({"number": 5}, 6)):
        data = layout.build({"struct": struct, "last": 7, "text": "t"})
        locations = FieldLocator.to_fields([layout.struct], ["last", "text"]).find(data)
        assert [(location.path, location.start, location.value) for location in locations] == [
            ("last", start - 1, 7),
            ("text", start, "t"),
        ]
