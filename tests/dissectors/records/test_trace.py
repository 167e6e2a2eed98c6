"""The traced reading: every byte is covered, and nothing is lost at an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.budget import changed as limits
from dissectors.codec import KNOWN_CODECS
from dissectors.records import Codec, Record, record_set, trace_records
from dissectors.records.build import build_batch
from dissectors.trace import Node
from tests.batches import batches
from tests.dissectors.records.strategies import (
    GZIP_V1_RELATIVE,
    HEADER_RECORD,
    LOG_APPEND_V1,
    LZ4_V0,
    MARKER,
    PADDING,
    RECORDED,
    SNAPPY_V2,
)

ROWS = [Record(n, 1000, b"key", b"value", (("h", None),)) for n in range(10)]


def leaves(nodes: list[Node]) -> Iterator[Node]:
    """The nodes that cover bytes, down to the beginning of another buffer."""
    for node in nodes:
        if node.children and node.buffer is None:
            yield from leaves(node.children)
        else:
            yield node


def assert_tiled(nodes: list[Node], start: int, end: int) -> None:
    """Assert that nodes follow each other without gap or overlap, also in decompressed buffers."""
    for leaf in leaves(nodes):
        assert leaf.start == start
        start = leaf.end
        if leaf.buffer is not None:
            assert_tiled(leaf.children, 0, len(leaf.buffer))
    assert start == end


def named(node: Node, name: str) -> Node:
    return next(child for child in node.children or () if child.name == name)


def place(node: Node) -> tuple[object, int, int]:
    return node.value, node.start, node.end


@pytest.mark.parametrize("data", RECORDED)
def test_recorded_batches_are_tiled(data: bytes) -> None:
    trace = trace_records(data)
    assert (trace.problems, trace.skipped) == ([], 0)
    assert_tiled(trace.nodes, 0, len(data))


def test_header_fields() -> None:
    (node,) = trace_records(MARKER).nodes
    assert place(named(node, "crc")) == (
        0x893697DF,
        17,
        21,
    )
    assert named(node, "attributes").value == 0x30
    assert place(named(node, "records_count")) == (1, 57, 61)
    (record,) = named(node, "records").children
    assert record.name == 0
    assert place(named(record, "value")) == (b"\x00" * 6, 71, 77)


def test_compressed_positions_count_in_the_decompressed_bytes() -> None:
    (node,) = trace_records(SNAPPY_V2).nodes
    records = named(node, "records")
    assert (records.start, records.end) == (61, len(SNAPPY_V2))
    assert records.buffer is not None
    key = named(records.children[0], "key")
    assert key.value == records.buffer[key.start : key.end] == b"key13"


def test_wrapper_positions_count_in_the_decompressed_bytes() -> None:
    (node,) = trace_records(GZIP_V1_RELATIVE).nodes
    value = named(node, "value")
    assert value.buffer is not None
    first, second = value.children
    assert named(first, "value").value == b"sweep v0"
    assert named(second, "offset").value == 1  # as on the wire: relative
    assert (first.end, second.end) == (second.start, len(value.buffer))


def test_positions_count_from_the_begin_of_the_field() -> None:
    trace = trace_records(MARKER + HEADER_RECORD)
    assert [(node.name, node.start) for node in trace.nodes] == [(0, 0), (1, 78)]
    assert_tiled(trace.nodes, 0, len(MARKER + HEADER_RECORD))


@pytest.mark.parametrize(
    ("tail", "name"),
    [(MARKER[:30], "partial"), (PADDING, "padding"), (bytes(20), "unreadable")],
)
def test_the_end_of_the_field_is_a_span(tail: bytes, name: str) -> None:
    trace = trace_records(MARKER + tail)
    assert [node.name for node in trace.nodes] == [0, name]
    assert_tiled(trace.nodes, 0, len(MARKER + tail))
    assert len(trace.problems) == (name == "unreadable")


def test_slice_that_begins_inside_a_batch() -> None:
    data = MARKER[20:] + HEADER_RECORD
    trace = trace_records(data, aligned=False)
    assert [(node.name, node.end) for node in trace.nodes] == [("unaligned", 58), (0, 133)]


def test_fault_in_a_record_keeps_the_fields_before_it() -> None:
    data = bytearray(build_batch(ROWS))
    size = (len(data) - 61) // 10
    data[61 + 3 * size + 4] = 0x7D  # key length -63
    trace = trace_records(bytes(data))
    (problem,) = trace.problems
    assert problem.field_path.endswith("records[3].key")
    records = named(trace.nodes[0], "records").children
    assert len(records) == 4
    assert [node.name for node in records[3].children][-1] == "key_length"


@pytest.mark.parametrize("codec", KNOWN_CODECS)
def test_problems_are_those_of_reading(codec: Codec) -> None:
    data = bytearray(build_batch(ROWS, codec=codec))
    data[57:61] = (11).to_bytes(4, "big")
    trace = trace_records(bytes(data))
    _, problems = batches(bytes(data))[0].read()
    assert [(p.reason, p.offset) for p in trace.problems] == [(p.reason, p.offset) for p in problems]
    assert len(problems) == 1


def test_fault_in_an_old_message() -> None:
    data = LOG_APPEND_V1[:26] + b"\x00\x00\x00\x63" + LOG_APPEND_V1[30:]
    trace = trace_records(data)
    assert [problem.field_path for problem in trace.problems] == ["message.key"]
    assert [node.name for node in trace.nodes[0].children][-1] == "key_length"


def test_broken_wrapper() -> None:
    data = bytearray(LZ4_V0)
    data[40] ^= 0x40
    trace = trace_records(bytes(data))
    assert [p.reason for p in trace.problems] == [p.reason for p in batches(bytes(data))[0].read().problems]
    assert trace.problems


def test_record_limit_over_all_batches() -> None:
    old = [row._replace(headers=()) for row in ROWS]
    data = build_batch(ROWS) + build_batch(ROWS, codec=Codec.ZSTD) + build_batch(ROWS)
    data += build_batch(old, magic=1, codec=Codec.GZIP)
    trace = trace_records(data, max_records=12)
    assert (trace.traced, trace.skipped) == (12, 8 + 10 + 10)
    assert trace.problems == []
    assert [len(node.children[-1].children or ()) for node in trace.nodes] == [10, 2, 0, 0]


def test_batch_beyond_a_limit() -> None:
    with limits(batch_bytes=10):
        trace = trace_records(MARKER + SNAPPY_V2)
    assert [(node.name, node.start) for node in trace.nodes] == [(0, 0), (1, 78)]
    assert [type(problem).__name__ for problem in trace.problems] == ["LimitReached"]


@settings(deadline=None)
@given(st.sampled_from([*RECORDED, b"".join(RECORDED), build_batch(ROWS)]), st.data())
def test_mutations_never_raise(whole: bytes, draw: st.DataObject) -> None:
    data = bytearray(whole)
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    trace = trace_records(bytes(data))
    expected = [p.reason for batch in record_set(bytes(data)) for p in batch.read()[1]]
    expected += [problem.reason for problem in record_set(bytes(data)).problems]
    assert [problem.reason for problem in trace.problems] == expected
