"""The formats in which a field can be copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from captures.exchanges import ExchangeReader
from kproxy.copy_as import Context
from kproxy.tui.detail.field_formats import field_formats
from kproxy.tui.detail.nodes import FieldNode, SideDetail
from tests.kproxy.tui.detail.details import capture_of, detail_at

REBALANCE = "../../../captures/samples/rebalance.pcap"
JOIN = 18


def every(side: SideDetail) -> Iterator[FieldNode]:
    """Yield all fields of a side."""
    waiting = [] if side.root is None else [side.root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children


def copied(number: int, path: str) -> dict[str, str]:
    """Return the copied texts for a field of a request, by format."""
    capture = capture_of(REBALANCE)
    exchange = ExchangeReader(capture).exchange(number - 1)
    node = next(each for each in every(detail_at(REBALANCE, number).request) if each.path == path)
    return {each.name: each.text([exchange], Context(capture)) for each in field_formats(node)}


def test_a_field_is_copied_as_value_path_or_filter() -> None:
    assert copied(JOIN, "request.group_id") == {
        "field-value": "gr2-java_eager_range\n",
        "field-path": "request.group_id\n",
        "field-filter": "group == gr2-java_eager_range\n",
    }


def test_of_a_struct_it_is_the_path() -> None:
    assert list(copied(JOIN, "request.protocols[0]")) == ["field-path"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\x1b[2Jb\u202e", '"a\\u001b[2Jb\\u202e"\n'),
        (b"a\x07", '"a\\u0007"\n'),
        ("one\n\ttwo é", "one\n\ttwo é\n"),
    ],
)
def test_a_value_that_would_drive_a_terminal_is_copied_as_json(value: str | bytes, text: str) -> None:
    capture = capture_of(REBALANCE)
    exchange = ExchangeReader(capture).exchange(JOIN - 1)
    node = next(each for each in every(detail_at(REBALANCE, JOIN).request) if each.leaf)
    (form, *_) = field_formats(replace(node, value=value))
    assert form.text([exchange], Context(capture)) == text


def test_a_masked_value_is_not_copied() -> None:
    detail = detail_at("24_k430_franz_scramsha256.pcap", 4)
    masked = [
        node
        for side in (detail.request, detail.response)
        for node in every(side)
        if node.masked and node.leaf
    ]
    assert masked
    assert {each.name for node in masked for each in field_formats(node)} == {"field-path"}
