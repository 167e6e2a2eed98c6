"""Topics and partitions as messages name them."""

from __future__ import annotations

from captures.meaning.exchange import Body
from captures.meaning.topic_partitions import rows_by_partition

ID = "lLiF-TMRRuSo8TJjkfl4vQ"


def test_partitions_by_name_and_by_id() -> None:
    first, second, third = {"partition": 0}, {"partition_index": 1}, {"index": 2}
    body: Body = {
        "topics": [
            {"topic": "orders", "partitions": [first]},
            {"topic_id": ID, "partitions": [second]},
            {"name": "logs", "partitions": [third]},
        ]
    }
    unknown = [(("orders", 0), first), ((ID, 1), second), (("logs", 2), third)]
    assert list(rows_by_partition(body, "topics", lambda _: None)) == unknown
    named = [place for place, _ in rows_by_partition(body, "topics", {ID: "bills"}.get)]
    assert named == [("orders", 0), ("bills", 1), ("logs", 2)]


def test_arrays_have_other_names_in_other_messages() -> None:
    row = {"index": 4}
    body: Body = {"topic_data": [{"name": "orders", "partition_data": [row]}]}
    assert list(rows_by_partition(body, "topic_data", lambda _: None, "partition_data")) == [
        (("orders", 4), row)
    ]


def test_what_was_not_read_is_left_out() -> None:
    body: Body = {
        "topics": [
            None,
            {"topic": "orders", "partitions": None},
            {"topic": "orders", "partitions": [None, {}, {"partition": None}]},
            {"topic": "", "partitions": [{"partition": 0}]},
            {"partitions": [{"partition": 0}]},
        ]
    }
    assert list(rows_by_partition(body, "topics", lambda _: None)) == []
    assert list(rows_by_partition({}, "topics", lambda _: None)) == []
