"""The lines of a tree."""

from __future__ import annotations

from itertools import pairwise

from kproxy.tui.detail import FieldNode, SideDetail, detail_of
from kproxy.tui.detail.folds import ELEMENTS, ROOM, Fold, FoldedLines
from tests.kproxy.tui.detail.details import detail_at, exchange_of, node_at


def metadata(topics: int, *, error: int = 0) -> SideDetail:
    """Return a Metadata response, whose last topic may have an error."""
    listed = [
        {"error_code": error if index == topics - 1 else 0, "name": f"t{index}", "partitions": []}
        for index in range(topics)
    ]
    brokers = [{"node_id": index, "host": f"b{index}", "port": 9092} for index in range(3)]
    body = {"brokers": brokers, "controller_id": 1, "topics": listed}
    return detail_of(exchange_of(3, 1, {"topics": []}, body)).response


def shown(folding: FoldedLines) -> list[FieldNode]:
    return [line.node for line in folding.lines if not line.more]


def test_a_small_message_is_unfolded_but_for_its_header() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 28).request
    folding = FoldedLines(side, {})
    header = node_at(side, "header")
    assert [node.name for node in shown(folding)][1:] == [
        "header", "group_id", "generation_id", "member_id", "group_instance_id",
    ]  # fmt: skip
    assert folding.fold_of(header) is Fold.FOLDED


def test_of_a_large_array_the_first_elements_are_shown() -> None:
    side = metadata(1000)
    folding = FoldedLines(side, {})
    assert len(folding.lines) <= ROOM + 5
    topics = node_at(side, "topics")
    assert folding.fold_of(topics) is Fold.FIRST
    (more,) = [line for line in folding.lines if line.more]
    assert (more.node, more.more) == (topics, 1000 - ELEMENTS)
    folding.wish(topics, Fold.OPEN)
    assert not any(line.more for line in folding.lines)
    assert len(shown(folding)) > 1000


def test_lines_are_in_the_order_of_the_tree() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).response
    assert side.root is not None
    folding = FoldedLines(side, {})
    folding.wish(side.root, Fold.DEEP)
    assert shown(folding) == list(side.root.walk())
    assert all(after.depth <= line.depth + 1 for line, after in pairwise(folding.lines))
    assert all(line.depth == len(list(line.node.ancestors())) for line in folding.lines)


def test_folding_and_unfolding_gives_the_same_lines_again() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).response
    folding = FoldedLines(side, {})
    before = shown(folding)
    partition = node_at(side, "responses[0].partitions[1]")
    folding.wish(partition, Fold.FOLDED)
    assert node_at(side, "responses[0].partitions[1].high_watermark") not in shown(folding)
    assert partition in shown(folding)
    folding.wish(partition, Fold.OPEN)
    assert shown(folding) == before


def test_what_was_folded_by_hand_stays_so_for_the_next_exchange() -> None:
    wished: dict[str, Fold] = {}
    first = FoldedLines(detail_at("20_k430_ck_zstd.pcap", 33).response, wished)
    side = detail_at("20_k430_ck_zstd.pcap", 33).response
    first = FoldedLines(side, wished)
    first.wish(node_at(side, "header"), Fold.OPEN)
    first.wish(node_at(side, "responses"), Fold.FOLDED)
    other = detail_at("20_k430_ck_zstd.pcap", 34).response
    second = FoldedLines(other, wished)
    assert second.fold_of(node_at(other, "header")) is Fold.OPEN
    assert second.line_of(node_at(other, "responses[0]")) is None


def test_whatever_is_revealed_gets_a_line_and_is_not_remembered() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).response
    wished: dict[str, Fold] = {}
    for path in (
        "responses[0].partitions[2].records[0].records[70].value",
        "header.correlation_id",
        "responses[0].partitions[1].records[0].records[2].headers_count",
    ):
        folding = FoldedLines(side, wished)
        node = node_at(side, path)
        assert folding.lines[folding.reveal(node)].node is node
    assert wished == {}


def test_an_element_with_an_error_is_unfolded_and_others_say_so() -> None:
    side = metadata(8, error=3)
    folding = FoldedLines(side, {})
    assert folding.fold_of(node_at(side, "topics[0]")) is Fold.FOLDED
    assert folding.fold_of(node_at(side, "topics[7]")) is Fold.OPEN


def test_a_side_without_a_frame_has_no_lines() -> None:
    folding = FoldedLines(SideDetail("response", "Heartbeat v4", absent="no answer"), {})
    assert folding.lines == []
