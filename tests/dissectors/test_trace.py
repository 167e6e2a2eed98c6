"""The traced tree: names, ranges, paths, and what remains if bytes are malformed."""

from __future__ import annotations

from dissectors import apis, wire
from dissectors.message_version import MessageVersion
from dissectors.schema import Array, Field, Int8, Int16, Int32, Message, String, Struct
from dissectors.trace import Node, Trace

#: kio 0.6.5: HeartbeatRequest v4, group g1, generation 7, member größe
HEARTBEAT = b"\x03g1\x00\x00\x00\x07\x08gr\xc3\xb6\xc3\x9fe\x00\x00"


def flexible(*fields: Field) -> MessageVersion:
    return Message("Test", None, "data", "0", "0+", *fields)[0]


def heartbeat() -> MessageVersion:
    known = apis.api(12)
    assert known is not None
    return known.request[4]


def spans(traced: Trace) -> list[tuple[str, int, int]]:
    return [(path, node.start, node.end) for path, node in traced.root.walk()]


def test_ranges_of_a_message() -> None:
    traced = heartbeat().trace(HEARTBEAT)
    assert traced.error is None
    assert spans(traced) == [
        ("", 0, 17),
        ("group_id", 0, 3),
        ("generation_id", 3, 7),
        ("member_id", 7, 15),
        ("group_instance_id", 15, 16),
    ]


def test_ranges_count_from_the_buffer() -> None:
    traced = heartbeat().trace(b"\x00" * 10 + HEARTBEAT, 10)
    assert traced.end == 27
    assert spans(traced)[1] == ("group_id", 10, 13)


def test_leaves_know_value_kind_and_declaration() -> None:
    root = heartbeat().trace(HEARTBEAT).root
    assert root.kind == "struct"
    assert root.children is not None
    member_id = root.children[2]
    assert (member_id.name, member_id.value, member_id.kind) == ("member_id", "größe", "string")
    assert member_id.field is heartbeat().message.fields[2]
    assert member_id.children is None


LAYOUT = flexible(
    "parts" / Array("x" / Int8, "ids" / Array(Int16)),
    "at" / Struct("y" / Int8).null(),
    "late" / String.tag(1),
)  # fmt: skip

# one part (x 5, ids 1 and 2), no struct, tag 1 with a string, tag 9 unknown
DATA = b"\x02\x05\x03\x00\x01\x00\x02\x00" + b"\xff" + b"\x02" + b"\x01\x03\x03ab" + b"\x09\x01\x7f"


def test_arrays_structs_and_tags() -> None:
    traced = LAYOUT.trace(DATA)
    assert spans(traced) == [
        ("", 0, 18),
        ("parts", 0, 8),
        ("parts[0]", 1, 8),
        ("parts[0].x", 1, 2),
        ("parts[0].ids", 2, 7),
        ("parts[0].ids[0]", 3, 5),
        ("parts[0].ids[1]", 5, 7),
        ("at", 8, 9),
        ("late", 10, 15),
        ("_tags[9]", 15, 18),
    ]
    assert traced.root.to_value() == {
        "parts": [{"x": 5, "ids": (1, 2)}],
        "at": None,
        "late": "ab",
        "_tags": {9: b"\x7f"},
    }


def test_every_cut_keeps_what_came_before() -> None:
    whole = LAYOUT.trace(DATA).root
    for cut in range(len(DATA)):
        traced = LAYOUT.trace(DATA[:cut])
        assert traced.error is not None
        assert traced.error.truncated
        assert traced.root.end == -1
        kept = {path: (node.start, node.end) for path, node in traced.root.walk()}
        for path, node in whole.walk():
            if node.children is None and node.end <= cut:
                assert kept[path] == (node.start, node.end)


def test_error_names_the_innermost_field() -> None:
    places = {cut: LAYOUT.trace(DATA[:cut]).error for cut in (0, 1, 4, 6, 8, 9, 13, 17)}
    assert {cut: error.field_path for cut, error in places.items() if error} == {
        0: "parts",
        1: "parts[0].x",
        4: "parts[0].ids[0]",
        6: "parts[0].ids[1]",
        8: "at",
        9: "",
        13: "late",
        17: "_tags[9]",
    }
    assert [error.offset for error in places.values() if error] == [0, 1, 4, 6, 8, 9, 13, 17]


def test_cut_array_of_numbers_keeps_the_whole_ones() -> None:
    layout = flexible("ids" / Array(Int32))
    traced = layout.trace(b"\xff\xff\xff\xff\x0f" + b"\x00\x00\x00\x01" * 2 + b"\x00")
    assert traced.root.to_value() == {"ids": (1, 1, None)}
    assert traced.error is not None
    assert traced.error.field_path == "ids[2]"


def test_tag_cut_inside_its_field_keeps_the_inner_tree() -> None:
    layout = flexible("at" / Struct("a" / Int8, "b" / Int16).tag(0))
    traced = layout.trace(b"\x01\x00\x04\x05\x00")
    assert traced.root.to_value() == {"at": {"a": 5, "b": None}}
    assert traced.error is not None
    assert (traced.error.field_path, traced.error.truncated) == ("at.b", True)


def test_tag_that_announces_more_than_there_is() -> None:
    traced = flexible().trace(b"\x01\x63\x05ab")
    assert traced.error is not None
    assert traced.error.reason == "3 of 5 bytes of a tagged field are missing"
    assert traced.end == traced.error.offset == 3


def test_path_of_unknown_tags_at_depth() -> None:
    layout = flexible("parts" / Array("x" / Int8))
    paths = [path for path, _ in layout.trace(b"\x02\x01\x01\x09\x00\x00").root.walk()]
    assert paths == ["", "parts", "parts[0]", "parts[0].x", "parts[0]._tags[9]"]


def test_shift_moves_all_but_missing_ends() -> None:
    root = LAYOUT.trace(DATA[:5]).root
    before = spans(Trace(root, 0, None))
    root.shift(100)
    moved = [(path, start + 100, end + 100 if end >= 0 else -1) for path, start, end in before]
    assert spans(Trace(root, 0, None)) == moved


def test_nodes_are_compared_by_identity_and_shown_briefly() -> None:
    one, other = Node("a", 0), Node("a", 0)
    assert one != other
    one.end, one.value = 2, 7
    assert repr(one) == "<a [0:2] 7>"
    assert repr(LAYOUT.trace(DATA).root) == "< [0:18] 4 children>"
    assert one.add(other) is other
    assert one.children == [other]


def test_array_of_null_has_no_children() -> None:
    root = flexible("ids" / Array(Int8).null()).trace(b"\x00\x00").root
    assert root.to_value() == {"ids": None}


def test_leaf_alone() -> None:
    from dissectors.trace import trace

    traced = trace(wire.INT16, b"\x00\x07", name="version")
    assert (traced.root.name, traced.root.value, traced.end) == ("version", 7, 2)
