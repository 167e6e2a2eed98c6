"""The content of record batches, in words."""

from __future__ import annotations

import pytest

from kproxy.tui.detail import batches
from tests.kproxy.tui.detail.details import recorded, sides


@pytest.mark.parametrize(
    "name", ["20_k430_ck_zstd.pcap", "30_k0822_java_lz4.pcap", "32_k0102_java_snappy.pcap"]
)
def test_every_field_of_a_batch_has_a_meaning(name: str) -> None:
    structs = ("batch", "record", "message", "record header")
    seen = 0
    for _, detail in recorded(name):
        for side in sides(detail):
            for node in side.nodes.values():
                inside = node.parent is not None and node.parent.kind in structs
                if inside and node.kind not in structs:
                    assert node.doc, node.path
                    assert node.kind, node.path
                    seen += 1
    assert seen > 100


def test_attributes_in_words() -> None:
    assert batches.note("batch", "attributes", 0x34) == "zstd, transactional, control"
    assert batches.note("message", "attributes", 0x0B) == "lz4, LogAppendTime"
    assert batches.note("record", "attributes", 0) == ""


def test_timestamps_are_told_as_such_whatever_they_are() -> None:
    assert batches.note("batch", "base_timestamp", 1_772_356_443_000) == "2026-03-01 09:14:03"
    assert batches.note("batch", "max_timestamp", 2**63 - 1) == "9223372036854775807 ms"
    assert batches.note("batch", "max_timestamp", -1) == ""
