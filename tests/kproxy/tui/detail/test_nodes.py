"""Nodes, and the bytes that belong to each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dissectors.domains import LEADER_EPOCH
from dissectors.masks import merged, zeroed
from dissectors.schema import Int32, Int64
from kproxy.tui.detail import ByteBuffer, FieldNode, Role, SideDetail


def node(name: str, start: int, end: int, *inside: FieldNode) -> FieldNode:
    made = FieldNode(name, f"request.{name}", Role.FIELD, "", None, 0, start, end, leaf=not inside)
    made.children, made.wire = list(inside), len(inside)
    for child in inside:
        child.parent = made
    return made


def side_of(root: FieldNode, *inflated: FieldNode) -> SideDetail:
    """Return a side whose bytes are as long as the root; of ten bytes are those that others open."""
    buffers = [ByteBuffer("frame", bytes(root.end), root)]
    buffers += [ByteBuffer("inflated", bytes(10), each) for each in inflated]
    return SideDetail("request", "Fetch v12", root, buffers=tuple(buffers))


def test_the_innermost_field_has_the_byte_and_empty_ones_have_none() -> None:
    inner = node("inner", 4, 8, node("a", 4, 6), node("empty", 6, 6), node("b", 6, 7))
    side = side_of(node("root", 0, 12, node("head", 0, 4), inner, node("last", 10, 10)))
    found = [side.run(0, offset) for offset in range(12)]
    assert [each.name for each, _ in found] == ["head"] * 4 + ["a"] * 2 + ["b", "inner"] + ["root"] * 4
    assert [end for _, end in found] == [4] * 4 + [6, 6, 7, 8, 10, 10, 12, 12]
    assert side.at(0, 12) is None
    assert side.at(0, -1) is None
    assert side.at(1, 0) is None


def test_what_was_decompressed_is_found_in_its_own_bytes() -> None:
    value = node("value", 2, 5)
    value.buffer = 1
    records = node("records", 4, 8, value)
    records.opened = 1
    side = side_of(node("root", 0, 8, records), records)
    assert side.at(0, 4) is records
    assert side.at(1, 2) is value
    assert side.run(1, 0) == (records, 2)
    assert side.run(1, 7) == (records, 10)


def test_segments_and_masks() -> None:
    root = node("root", 0, 10)
    buffer = ByteBuffer("frame", bytes(10), root, masked=((2, 4), (6, 7)), segments=(0, 3))
    assert [offset for offset in range(10) if buffer.is_masked(offset)] == [2, 3, 6]
    assert [offset for offset in range(10) if buffer.begins_segment(offset)] == [0, 3]


def test_values_have_their_unit_but_special_ones() -> None:
    field = node("max_wait_ms", 0, 4)
    field.declared, field.value = "max_wait_ms" / Int32, 500
    assert field.text() == "500 ms"
    field.value, field.note = -1, "NONE"
    assert field.text() == "-1"
    size = node("size", 0, 4)
    size.declared, size.value = "size" / Int32.unit("bytes"), 12
    assert size.text() == "12 bytes"
    epoch = node("epoch", 0, 8)
    epoch.declared, epoch.value = "epoch" / Int64.of(LEADER_EPOCH), 3
    assert epoch.text() == "3"
    stamp = node("base_timestamp_ms", 0, 8)
    stamp.declared, stamp.value = "base_timestamp_ms" / Int64, 3
    assert stamp.text() == "3"


def test_elements_have_an_index_and_others_none() -> None:
    assert node("[12]", 0, 1).index == 12
    assert node("name", 0, 1).index is None
    assert node("[x]", 0, 1).index is None


def test_a_secret_is_not_in_the_text_of_a_node() -> None:
    hidden = node("password", 0, 4)
    hidden.value, hidden.masked = "swordfish", True
    assert hidden.text() == "(masked)"
    assert "swordfish" not in repr(hidden)


RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted).map(tuple), max_size=8)


@given(RANGES)
def test_exactly_what_is_masked_is_zero(ranges: list[tuple[int, int]]) -> None:
    masked = merged(ranges)
    data = zeroed(b"\xff" * 50, masked)
    wanted = {offset for start, end in ranges for offset in range(start, end)}
    assert [byte == 0 for byte in data] == [offset in wanted for offset in range(50)]
    root = FieldNode("", "", Role.FIELD, "frame", None, 0, 0, 50)
    buffer = ByteBuffer("frame", data, root, masked)
    assert [buffer.is_masked(offset) for offset in range(50)] == [offset in wanted for offset in range(50)]
