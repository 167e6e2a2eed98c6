"""Searching in fields and bytes, forward and backward, with wrap-around."""

from __future__ import annotations

import pytest

from kproxy.tui.detail import ByteBuffer, FieldNode, Role, SideDetail, detail_of
from kproxy.tui.detail.search import ByteMatch, next_bytes, next_field
from kproxy.tui.search import parse_search
from tests.kproxy.tui.detail.details import detail_at, exchange_of, node_at

MEGABYTE = 1 << 20


def side_of(*buffers: bytes) -> SideDetail:
    root = FieldNode("Fetch", "response", Role.FIELD, "frame", None, 0, 0, len(buffers[0]))
    return SideDetail(
        "response", "Fetch", root, buffers=tuple(ByteBuffer("frame", data, root) for data in buffers)
    )


def test_fields_are_found_one_after_the_other_and_around() -> None:
    detail = detail_of(
        exchange_of(
            12, 4, {"group_id": "look", "generation_id": 1, "member_id": "look too"}, {"error_code": 0}
        )
    )
    sides = [detail.request, detail.response]
    found, after = [], detail.request.root
    for _ in range(3):
        hit = next_field(parse_search("look"), sides, after, forward=True)
        assert hit is not None
        after = hit[1]
        found.append(after.path)
    assert found == ["request.group_id", "request.member_id", "request.group_id"]
    hit = next_field(parse_search("look"), sides, after, forward=False)
    assert hit is not None
    assert hit[1].path == "request.member_id"


def test_the_other_side_comes_next() -> None:
    detail = detail_at("20_k430_ck_zstd.pcap", 34)
    sides = [detail.request, detail.response]
    after = node_at(detail.request, "rack_id")
    hit = next_field(parse_search("high_watermark"), sides, after, forward=True)
    assert hit is not None
    assert (hit[0].side, hit[1].path) == ("response", "response.responses[0].partitions[0].high_watermark")
    assert next_field(parse_search("no such thing"), sides, after, forward=True) is None


@pytest.mark.parametrize("at", [0, 5, MEGABYTE - 2, MEGABYTE, 3 * MEGABYTE - 4])
def test_bytes_are_found_wherever_they_lie(at: int) -> None:
    data = bytearray(3 * MEGABYTE)
    data[at : at + 4] = b"\x0a\x0b\x0c\x0d"
    side, wanted = side_of(bytes(data)), parse_search("0x0a0b0c0d")
    assert next_bytes(wanted, side, 0, 3 * MEGABYTE - 1, forward=True) == ByteMatch(0, at, at + 4)
    assert next_bytes(wanted, side, 0, 3 * MEGABYTE - 1, forward=False) == ByteMatch(0, at, at + 4)


def test_bytes_of_other_buffers_come_next() -> None:
    side, wanted = side_of(b"..ab..ab", b"xab"), parse_search("ab")
    places = []
    place = ByteMatch(0, 0, 0)
    for _ in range(4):
        found = next_bytes(wanted, side, place.buffer, place.start, forward=True)
        assert found is not None
        place = found
        places.append((place.buffer, place.start))
    assert places == [(0, 2), (0, 6), (1, 1), (0, 2)]
    back = next_bytes(wanted, side, 0, 2, forward=False)
    assert back == ByteMatch(1, 1, 3)
