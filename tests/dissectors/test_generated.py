"""Generated decoder, traced reading and building against each other, on every layout of every API.

The three are separate code for one declaration: an error in one of them contradicts the others.
"""

from __future__ import annotations

from typing import Any

import pytest

from dissectors import apis, codegen, wire
from dissectors.message_version import MessageVersion
from dissectors.trace import Node
from tests.definitions import facts
from tests.dissectors.values import Values, every_layout, label

ROUNDS = 4


def by_key() -> list[list[MessageVersion]]:
    """All layouts, one list for each API."""
    groups: dict[int, list[MessageVersion]] = {key: [] for key in range(len(apis.NAMES))}
    for layout in every_layout():
        assert layout.message.key is not None
        groups[layout.message.key].append(layout)
    return list(groups.values())


def test_all_layouts_are_met() -> None:
    known = facts.kept().of_kind("request", "response")
    count = sum(len(layouts) for message in known for layouts in message.layouts.values())
    assert sum(map(len, by_key())) == count
    assert len(set(map(label, every_layout()))) == count


@pytest.mark.sample(15)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_built_bytes_decode_to_the_value(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        for number in range(ROUNDS):
            seed = f"{label(layout)} {number}"
            value = Values(seed).draw(layout.struct)
            data = layout.build(value)
            assert layout.parse(data) == value, seed
            assert layout.build(layout.parse(data)) == data, seed


@pytest.mark.sample(55)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_position_is_kept(layouts: list[MessageVersion]) -> None:
    """Inside a larger buffer: the bytes before and after belong to other messages."""
    for layout in layouts:
        seed = f"{label(layout)} inside"
        value = Values(seed).draw(layout.struct)
        data = layout.build(value)
        after = b"" if layout.older else b"\x01\xff\x7f"
        assert layout.decode(b"\xff\x00\x05" + data + after, 3) == (value, 3 + len(data)), seed


@pytest.mark.sample(21)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_trace_covers_every_byte(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        for number in range(ROUNDS):
            seed = f"{label(layout)} {number}"
            value = Values(seed).draw(layout.struct)
            before = b"\x07" * number
            data = before + layout.build(value)
            traced = layout.trace(data, number)
            assert traced.error is None, seed
            assert traced.end == len(data), seed
            assert traced.root.to_value() == value, seed
            check_tiles(layout.struct, traced.root, data, number, len(data))


def check_tiles(con: wire.WireType, node: Node, data: bytes, start: int, end: int) -> None:
    """The node spans [start, end), its parts lie side by side in it, and each leaf's bytes are its value."""
    assert (node.start, node.end) == (start, end)
    assert node.kind == con.kind
    if isinstance(con, wire.Leaf):
        assert con.read(data, start) == (node.value, end)
        assert node.children is None
    elif isinstance(con, wire.Array):
        check_array(con, node, data)
    elif isinstance(con, wire.NullableStruct):
        present, inside = con.read_marker(data, start)
        assert present == (node.children is not None)
        if present:
            check_struct(con.struct, node, data, inside)
        else:
            assert inside == end
    elif isinstance(con, wire.Struct):
        check_struct(con, node, data, start)


def check_array(con: wire.Array, node: Node, data: bytes) -> None:
    count, pos = con.read_length(data, node.start)
    if count < 0:
        assert node.children is None
        assert node.end == pos
        return
    assert node.children is not None
    assert [child.name for child in node.children] == list(range(count))
    for child in node.children:
        check_tiles(con.element, child, data, pos, child.end)
        pos = child.end
    assert pos == node.end


def check_struct(con: wire.Struct, node: Node, data: bytes, pos: int) -> None:
    assert node.children is not None
    children = iter(node.children)
    for member in con.members:
        child = next(children)
        assert child.name == member.name
        assert child.field is member.field
        check_tiles(member.con, child, data, pos, child.end)
        pos = child.end
    if con.tagged is not None:
        count, pos = wire.read_uvarint(data, pos)
        for _ in range(count):
            child = next(children)
            assert child.start == pos
            tag, pos = wire.read_uvarint(data, pos)
            size, pos = wire.read_uvarint(data, pos)
            check_tag(con.tagged.get(tag), tag, child, data[pos : pos + size])
            pos += size
            assert child.end == pos
    assert list(children) == []
    assert pos == node.end


def check_tag(member: wire.Member | None, tag: int, node: Node, content: bytes) -> None:
    if member is None:
        assert (node.name, node.value) == (tag, content)
    else:
        assert node.name == member.name
        assert codegen.decoder(member.con)(content, 0) == (node.to_value(), len(content))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 63, 126, 127, 128, 300])
@pytest.mark.parametrize("same_shape", [True, False])
def test_arrays_of_every_length(count: int, same_shape: bool) -> None:
    """Counts around the limit of a one-byte length, with elements of one shape and of many."""
    for name, version in (
        ("Metadata", 12),
        ("Metadata", 5),
        ("Produce", 9),
        ("ListOffsets", 6),
        ("Fetch", 13),
    ):
        known = apis.api(apis.keys_by_name()[name.lower()])
        assert known is not None
        for layout in (known.request[version], known.response[version]):
            values = Values(f"{name} {version} {count}", tags=0.05)
            value = values.draw(layout.struct)
            for member in layout.struct.members:
                if isinstance(member.con, wire.Array) and not isinstance(member.con.element, wire.FixedWidth):
                    first = values.draw(member.con.element, 3)
                    value[member.name] = [
                        values.like(member.con.element, first)
                        if same_shape
                        else values.draw(member.con.element, 3)
                        for _ in range(count)
                    ]
            data = layout.build(value)
            assert layout.parse(data) == value
            assert layout.trace(data).root.to_value() == value


def test_older_layout_is_found_by_exact_fit() -> None:
    """QUIRKS of early releases: one version number, two layouts; the bytes decide (EndQuorumEpoch 2.7, ...)."""
    tried = 0
    for layout in every_layout():
        for older in layout.older:
            value: dict[str, Any] = Values(f"{label(layout)} older").draw(older.struct)
            data = older.build(value)
            if layout.exactly(data, 0) is None:
                tried += 1
                assert layout.parse(data) == value
                assert layout.trace(data).root.to_value() == value
    assert tried >= 4
