"""The text of a field in the tree."""

from __future__ import annotations

from kproxy.tui.detail import detail_of
from kproxy.tui.detail.lines import Class, byte_class, pieces, preview, searched
from tests.kproxy.tui.detail.details import detail_at, exchange_of, node_at
from tests.kproxy.tui.detail.test_folds import metadata


def line(path: str, *, folded: bool = False) -> list[tuple[str, str]]:
    side = detail_of(
        exchange_of(12, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": 27})
    )
    where = side.response if path == "error_code" else side.request
    return [(text, str(kind)) for text, kind in pieces(node_at(where, path), folded=folded)]


def test_a_text() -> None:
    assert line("group_id") == [("group_id", "name"), (' "g"', "text")]


def test_an_error_is_named() -> None:
    assert line("error_code") == [
        ("error_code", "name"),
        (" 27", "error"),
        ("  REBALANCE_IN_PROGRESS", "error"),
    ]


def test_a_folded_element_says_what_is_inside() -> None:
    side = metadata(2)
    topic = node_at(side, "topics[1]")
    assert pieces(topic, folded=True)[-1][0] == '  error_code 0  name "t1"  is_internal false  partitions (0)'
    assert pieces(topic, folded=False) == [("[1]", Class.NAME)]
    broker = node_at(side, "brokers[0]")
    assert preview(broker) == ('node_id 0  host "b0"  port 9092  rack null', True)


def test_an_error_inside_shows_on_what_is_folded() -> None:
    side = metadata(5, error=3)
    assert ("  ! error inside", Class.ERROR) in pieces(node_at(side, "topics"), folded=True)
    assert ("  ! error inside", Class.ERROR) not in pieces(node_at(side, "brokers"), folded=True)


def test_previews_are_short() -> None:
    side = metadata(300)
    assert len(preview(node_at(side, "topics"))[0]) < 100
    assert not preview(node_at(side, "topics"))[1]


def test_a_search_looks_at_whole_values() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).response
    value = node_at(side, "responses[0].partitions[2].records[0].records[70].value")
    assert value.value.decode()[-20:] in searched(value)


def test_bytes_have_the_class_of_their_field() -> None:
    side = metadata(1)
    assert byte_class(node_at(side, "topics")) is Class.STRUCTURE
    assert byte_class(node_at(side, "topics[0].name")) is Class.TEXT
    assert byte_class(node_at(side, "controller_id")) is Class.NUMBER
