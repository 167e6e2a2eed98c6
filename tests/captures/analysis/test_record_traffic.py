"""The data in Produce and Fetch exchanges, by partition."""

from __future__ import annotations

from captures.analysis.record_traffic import RecordTraffic
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.findings.record_kit import batch, fetch, made, produce


def traffic() -> RecordTraffic:
    return RecordTraffic({"id-of-orders": "orders"}.get)


def test_a_produce_with_its_answer() -> None:
    whole, refused = traffic().produced(produce(batch(3), batch(2), error=10, base=-1))
    assert (whole.topic, whole.partition, whole.records, whole.error, whole.base_offset) == (
        "orders",
        0,
        3,
        10,
        -1,
    )
    assert (refused.partition, refused.size, refused.records) == (1, len(batch(2)), 2)
    (silent,) = traffic().produced(produce(batch(3), acks=0))
    assert (silent.error, silent.base_offset) == (0, -1)


def test_a_fetch_answer_with_a_batch_that_is_cut_off() -> None:
    (part,) = traffic().fetched(fetch(batch(3) + batch(9)[:-5], end=40, stable=30, begin=7))
    assert (part.records, len(part.batches), part.high_watermark, part.last_stable_offset) == (3, 1, 40, 30)
    assert part.trailing is not None
    assert (part.trailing.kind, part.log_start) == ("partial", 7)
    (empty,) = traffic().fetched(fetch())
    assert (empty.size, empty.records, empty.trailing) == (0, 0, None)


def test_records_that_are_not_told() -> None:
    (part,) = traffic().produced(produce(batch(5, magic=1, codec=1)))
    assert part.records is None


def test_topics_by_their_ids() -> None:
    partitions = [{"partition_index": 0, "error_code": 0, "high_watermark": 3, "records": None}]
    known, unknown = (
        {"topic_id": topic_id, "partitions": partitions} for topic_id in ("id-of-orders", "new")
    )
    nameless = {"partitions": partitions}
    found = traffic().fetched(made(1, 13, {}, {"responses": [known, unknown, nameless]}))
    assert [part.topic for part in found] == ["orders", "new"]


def test_other_apis_carry_nothing() -> None:
    records = traffic()
    assert (records.produced(fetch(batch(1))), records.fetched(produce(batch(1)))) == ([], [])
    assert records.seen(produce(batch(1))) is None


def test_a_session_is_followed_though_several_ask() -> None:
    records = traffic()
    opened, again = fetch(offset=7), fetch(offset=9)
    for at, each in enumerate((opened, again)):
        assert each.request is not None
        assert each.response is not None
        each.request.value.update(session_id=5 * at, session_epoch=at)
        each.response.value["session_id"] = 5
    first = records.seen(opened)
    assert first is not None
    assert records.seen(opened) is first
    later = records.seen(again)
    assert later is not None
    assert later.session is first.session
    assert later.session.partitions == {("orders", 0): 9}


def behind(records: bytes | None) -> int:
    (part,) = traffic().fetched(fetch(records))
    return part.behind


def records_of(first: int, count: int) -> bytes:
    return build_batch([Record(first + place, 0, b"k", b"v") for place in range(count)])


def test_records_end_behind_the_last_whole_batch() -> None:
    first, second = records_of(5, 2), records_of(7, 1)
    assert behind(first + second) == 8
    assert behind(first + second[:-3]) == 7
    for nothing in (None, b"", b"xx"):
        assert behind(nothing) == -1


def test_markers_behind_the_records_do_not_count() -> None:
    marker = build_batch([Record(7, 0, bytes(4), bytes(6))], control=True, transactional=True, producer_id=1)
    assert behind(records_of(5, 2) + marker) == 7
    assert behind(marker) == -1
