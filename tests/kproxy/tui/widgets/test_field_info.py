"""The description of a field."""

from __future__ import annotations

from kproxy.tui.detail import detail_of
from kproxy.tui.widgets.field_info import about
from tests.kproxy.tui.detail.details import detail_at, exchange_of, node_at


def test_type_place_value_and_meaning() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).request
    said = [line.plain for line in about(side, node_at(side, "isolation_level"))]
    assert said[0] == "isolation_level 1  READ_COMMITTED  int8  byte 34"
    assert said[-1] == "request.isolation_level"
    assert "0 = read uncommitted" in said[1] or len(said) > 2


def test_decompressed_bytes_say_of_what() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).response
    node = node_at(side, "responses[0].partitions[2].records[0].records[70].value")
    head, *_, value, path = [line.plain for line in about(side, node)]
    assert head.endswith("of responses[0].partitions[2].records[0] decompressed")
    assert value == node.value.decode()
    assert path == node.path


def test_a_long_value_is_cut_and_a_hostile_one_harmless() -> None:
    hostile = "\x1b[2J[red]\u202e" * 1000
    side = detail_of(exchange_of(12, 4, {"group_id": hostile, "generation_id": 1, "member_id": "m"})).request
    for line in about(side, node_at(side, "group_id")):
        assert line.plain.isprintable()
        assert len(line.plain) <= 2000
        assert "[red]" in line.plain or "\x1b" not in line.plain


def test_an_incomplete_field_says_so() -> None:
    side = detail_at("09_snaplen128.pcap", 1).request
    head = about(side, node_at(side, "client_software_version"))[0].plain
    assert head == "client_software_version (incomplete)  string  byte 45, incomplete"
