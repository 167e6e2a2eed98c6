"""Queries that select records."""

from __future__ import annotations

import pytest

from captures.analysis.journey import RecordQuery, place_of
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from tests.batches import batches


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("orders-3@120", ("orders", 3, 120)),
        ("a-b-3@120", ("a-b", 3, 120)),
        ("a-1-3@0", ("a-1", 3, 0)),
        ("odd@name-3@7", ("odd@name", 3, 7)),
    ],
)
def test_the_last_dash_parts_topic_and_partition(text: str, place: tuple[str, int, int]) -> None:
    found = place_of(text)
    assert found is not None
    assert (found.topic, found.partition, found.offset) == place


@pytest.mark.parametrize("text", ["orders", "orders-3", "orders@3", "kafka.pcap", "-3@1", "orders-x@1", ""])
def test_other_texts_are_no_records(text: str) -> None:
    assert place_of(text) is None


RECORD = Record(0, 5, b"key", b"some value", (("trace", b"abc-1"),))


@pytest.mark.parametrize(
    ("sought", "fits"),
    [
        (RecordQuery(key=b"key"), True),
        (RecordQuery(key=b"ke"), False),
        (RecordQuery(contains=b"me va"), True),
        (RecordQuery(contains=b"abc-1"), True),
        (RecordQuery(contains=b"ke"), True),
        (RecordQuery(key=b"key", contains=b"other"), False),
    ],
)
def test_records_by_their_content(sought: RecordQuery, *, fits: bool) -> None:
    assert sought.fits(RECORD) == fits
    for codec in (Codec.NONE, Codec.GZIP):
        (batch,) = batches(build_batch([RECORD], codec=codec))
        # compressed data may hold anything
        assert sought.may_hold(batch) or not fits
        assert codec == Codec.NONE or sought.may_hold(batch)


def test_an_uncompressed_batch_without_the_bytes_is_not_read() -> None:
    (batch,) = batches(build_batch([RECORD]))
    assert not RecordQuery(key=b"another").may_hold(batch)


def test_a_topic_id_may_turn_out_to_be_the_topic() -> None:
    topic_id = "lLiF-TMRRuSo8TJjkfl4vQ"
    sought = RecordQuery("orders")
    assert sought.may_be(topic_id, 0, lambda _: None)
    assert not sought.may_be("payments", 0, lambda _: None)
    assert not sought.may_be("?", 0, lambda _: None)
