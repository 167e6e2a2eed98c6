"""Exchange filters applied to single records."""

from __future__ import annotations

import pytest

from captures.filters import compile_filter
from captures.filters.records import RecordFilter
from captures.meaning.topic_partitions import TopicPartition
from dissectors.records import Record

PLACE = TopicPartition("orders", 3)
RECORD = Record(7, 1000, b"customer-17", b"order 4711", (("trace", b"4bf9"), ("none", None)))
EMPTY = Record(8, 1000, None, None, ())


@pytest.mark.parametrize(
    ("text", "fits", "empty"),
    [
        ("topic == orders", True, True),
        ("topic == payments", False, False),
        ("topic in {payments, orders}", True, True),
        ("topic ~ ord", True, True),
        ("not topic == orders", False, False),
        ("partition == 3 and topic_partition == orders-3", True, True),
        ("partition > 3", False, False),
        ("key == customer-17", True, False),
        ("not key == customer-17", False, True),
        ("value contains 4711", True, False),
        ("value contains 4712 or key contains customer", True, False),
        ("header == trace", True, False),
        ("header.value contains 4bf", True, False),
        # conditions on the exchange stay open
        ("api == Fetch", True, True),
        ("api == Fetch and topic == payments", False, False),
        ("api == Fetch or topic == payments", True, True),
        ("not api == Fetch", True, True),
        ("@marked and value contains 4712", False, False),
        ("~all", True, True),
        ("orders", True, True),
        ("payments", True, True),
        ("latency > 1s and not (client_id == app or key == customer-17)", False, True),
        ("", True, True),
    ],
)
def test_what_a_record_can_be_is_decided_by_it_alone(text: str, fits: bool, empty: bool) -> None:
    asked = RecordFilter(compile_filter(text))
    assert asked.may_fit(PLACE, RECORD) is fits
    assert asked.may_fit(PLACE, EMPTY) is empty
