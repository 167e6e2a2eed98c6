"""Names of fields in filters: every field with a name can be used in a filter."""

from __future__ import annotations

import pytest

from captures.filters import compile_filter
from kproxy.tui.detail.filter_names import filter_field
from tests.kproxy.tui.detail.details import detail_at, node_at, recorded, sides


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["20_k430_ck_zstd.pcap", "36_k251_sweep.pcap.zst", "32_k0102_java_snappy.pcap"]
)
def test_what_has_a_name_can_stand_in_a_filter(name: str) -> None:
    names = {
        field
        for _, detail in recorded(name)
        for side in sides(detail)
        for node in side.nodes.values()
        if node.leaf and (field := filter_field(node)) is not None
    }
    assert len(names) > 50
    for each in names:
        compile_filter(each)


def test_names() -> None:
    detail = detail_at("20_k430_ck_zstd.pcap", 34)
    response = detail.response
    partition = "responses[0].partitions[1]"
    assert filter_field(node_at(response, f"{partition}.high_watermark")) == (
        "response.responses.partitions.high_watermark"
    )
    assert filter_field(node_at(response, f"{partition}.records[0].records[3].key")) == (
        "response.responses.partitions.records.records.key"
    )
    assert filter_field(node_at(response, f"{partition}.records[0].crc")) is None
    assert filter_field(node_at(detail.request, "header.client_id")) == "client_id"
    assert filter_field(node_at(detail.request, "header.size")) is None
    assert detail.request.root is not None
    assert filter_field(detail.request.root) is None
    subscription = detail_at("20_k430_ck_zstd.pcap", 25).request
    assert filter_field(node_at(subscription, "protocols[0].metadata.topics")) == (
        "request.protocols.metadata.topics"
    )
