"""Fields of embedded protocols are at their stated positions."""

from __future__ import annotations

import pytest

from kproxy.tui.detail import Role
from tests.kproxy.tui.detail.details import detail_at, node_at, recorded, sides


def test_assignments_have_their_bytes() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 27).request
    data = side.buffers[0].data
    topic = node_at(side, "assignments[0].assignment.assigned_partitions[0].topic")
    assert data[topic.start : topic.end] == b"\0\x0aqc-ck-zstd"
    assert topic.kind == "string"
    partitions = node_at(side, "assignments[0].assignment.assigned_partitions[0].partitions")
    assert data[partitions.start : partitions.end] == bytes.fromhex("00000003 00000000 00000001 00000002")
    assert side.at(0, partitions.start + 5) is partitions


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["20_k430_ck_zstd.pcap", "36_k251_sweep.pcap.zst"])
def test_what_has_bytes_lies_in_what_it_belongs_to(name: str) -> None:
    seen = 0
    for _, detail in recorded(name):
        for side in sides(detail):
            for node in side.nodes.values():
                if node.role is Role.INNER and node.parent is not None:
                    assert node.parent.start <= node.start <= node.end <= node.parent.end
                    seen += node.parent.wire > 0
    assert seen


def test_what_does_not_agree_with_the_bytes_gets_none() -> None:
    from kproxy.tui.detail.fields import locate

    side = detail_at("20_k430_ck_zstd.pcap", 25).request
    metadata = node_at(side, "protocols[0].metadata")
    for child in metadata.children:
        child.start, child.end = metadata.start, metadata.end
    metadata.wire = 0
    node_at(side, "protocols[0].metadata.topics").value = ["another"]
    locate(metadata, metadata.value)
    topics = node_at(side, "protocols[0].metadata.topics")
    assert (metadata.wire, topics.start, topics.end) == (0, metadata.start, metadata.end)
    version = node_at(side, "protocols[0].metadata.version")
    assert version.end - version.start == 2
