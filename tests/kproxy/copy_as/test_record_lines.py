"""Records of a Produce as lines."""

from __future__ import annotations

from typing import Any

from dissectors.records import Record
from dissectors.records.build import build_batch
from kproxy.copy_as.record_lines import Header, Partition, RecordRun, partitions
from kproxy.copy_as.request import asked as request_of
from tests.kproxy.copy_as.kit import asked

Given = (
    tuple[bytes | None, bytes | None]
    | tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
)


def produced(*records: Given, topic: str = "orders", **options: Any) -> Any:
    """Return a Produce of records: key, value and perhaps headers."""
    batch = build_batch([Record(at, 1000, *given) for at, given in enumerate(records)], **options)
    partition = {"index": 3, "records": batch}
    return asked(
        0,
        9,
        {
            "transactional_id": None,
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data": [{"name": topic, "partition_data": [partition]}],
        },
    )


def partition_of(*records: Given) -> Partition:
    request = request_of(produced(*records))
    assert request is not None
    (found,) = partitions(request)
    return found


def test_records_alike_are_one_run() -> None:
    found = partition_of(
        (None, b"a"), (None, b"b"), (b"k", b"c"), (b"k2", None), (b"k3", b"d", (("h", b"1"),))
    )
    assert (found.topic, found.number, found.left_out) == ("orders", 3, 0)
    assert found.runs == [
        RecordRun(False, False, (), [("", "a"), ("", "b")]),
        RecordRun(True, False, (), [("k", "c")]),
        RecordRun(True, True, (), [("k2", "")]),
        RecordRun(True, False, (Header("h", "1"),), [("k3", "d")]),
    ]


def test_what_cannot_be_typed_is_left_out() -> None:
    found = partition_of(
        (None, b"\xff"), (b"\x00", b"v"), (None, b"ok"), (b"", None), (None, b"v", (("h", None),))
    )
    assert found.left_out == 4
    assert [run.records for run in found.runs] == [[("", "ok")]]


def test_what_is_too_much_to_be_pasted_is_left_out() -> None:
    found = partition_of(*[(None, b"x")] * 501)
    assert (len(found.runs[0].records), found.left_out) == (500, 1)
    found = partition_of((None, b"x" * 40_000), (None, b"y" * 20_000), (None, b"z"))
    assert [value[0] for _, value in found.runs[0].records] == ["x", "z"]


def test_delimiters_are_not_in_what_they_divide() -> None:
    assert RecordRun(True, False, (), [("k", "v")]).delimiters() == ("\n", "\t")
    assert RecordRun(True, False, (), [("a\tb", "two\nlines")]).delimiters() == ("\x1e", ":")
    assert RecordRun(True, False, (), [("a\tb", "two\nlines")]).delimiters(("\n",)) is None
    assert RecordRun(True, False, (), [("k", "v"), ("k2", "w")]).text("\n", ":") == "k:v\nk2:w"


def test_records_are_whole_whatever_is_shown_of_them() -> None:
    exchange = produced((None, b"x" * 100))
    exchange.request.value["topic_data"][0]["partition_data"][0]["records"][0]["records"][0]["value"] = b"cut"
    request = request_of(exchange)
    assert request is not None
    (found,) = partitions(request)
    assert found.runs[0].records == [("", "x" * 100)]


def test_records_of_kafkas_own_topics_are_left_out() -> None:
    request = request_of(produced((None, b"x"), topic="__consumer_offsets"))
    assert request is not None
    (found,) = partitions(request)
    assert (found.runs, found.left_out) == ([], 1)
