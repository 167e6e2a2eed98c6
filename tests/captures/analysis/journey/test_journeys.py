"""Journeys of single records in synthetic exchanges; ``test_question_truth_journey`` has recordings."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.journey import Journeys, RecordQuery
from captures.analysis.journey.hops import hops
from captures.analysis.journey.model import Journey, Settlement
from captures.exchanges import Exchange
from captures.json_objects import to_json
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from tests.captures.analysis.journey.kit import BEGIN, TOPIC, batch, commit, fetch, produce, told
from tests.captures.analysis.kit import MS, exchange

pytestmark = pytest.mark.quick

PLACE = RecordQuery(TOPIC, 3, 121)
TOPIC_ID = "lLiF-TMRRuSo8TJjkfl4vQ"
IDEMPOTENT = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 4}


def one(exchanges: list[Exchange], sought: RecordQuery = PLACE, **names: Any) -> Journey:
    (found,) = told(sought, exchanges, **names).journeys
    return found


def names_of(found: Journey) -> list[str]:
    return [hop.name for hop in hops(found)]


def test_a_record_from_its_producer_to_a_commit() -> None:
    found = one(
        [
            # it waits for records, so it has a lower number than they do
            fetch(120, batch("a", "b", "c", base=120), at=0, latency=13 * MS, ends=(123, 123)),
            produce(batch("a", "b", "c"), 120, at=10),
            commit(123, at=40),
        ]
    )
    assert found.record is not None
    assert (found.offset, found.batch.index, found.record.value) == (121, 1, b"b")
    assert [(each.number, each.base_offset) for each in found.attempts] == [(11, 120)]
    assert found.acknowledged is not None
    assert found.acknowledged.answered == BEGIN + 12 * MS
    assert found.readable is not None
    assert found.readable.time == BEGIN + 13 * MS
    (group,) = found.groups
    assert (group.group, group.deliveries[0].time, group.deliveries[0].member) == (
        "g",
        BEGIN + 13 * MS,
        "m-1",
    )
    assert group.commit is not None
    assert (group.commit.offset, group.commit.time) == (123, BEGIN + 42 * MS)
    assert names_of(found) == ["sent", "acknowledged", "readable", "delivered", "committed"]


def test_only_the_commit_above_a_record_counts() -> None:
    (group,) = one(
        [
            produce(batch("a", "b"), 120),
            commit(121, at=1),
            fetch(120, batch("a", "b", base=120), at=2),
            commit(122, at=9, error=25),
            commit(122, at=20),
        ]
    ).groups
    assert group.commit is not None
    assert (group.commit.number, group.committed_before) == (21, None)


def test_a_commit_from_before_the_delivery_says_that_it_was_read_again() -> None:
    (group,) = one([commit(500, at=1), fetch(100, batch("a", "b", base=120), at=5)]).groups
    assert group.committed_before is not None
    assert group.commit is None
    assert names_of(one([commit(500, at=1), fetch(100, batch("a", "b", base=120), at=5)])) == [
        "committed",
        "delivered",
        "not committed",
    ]


def test_what_lies_before_the_offset_asked_for_is_not_delivered() -> None:
    found = one([produce(batch("a", "b", "c"), 120), fetch(122, batch("a", "b", "c", base=120), at=5)])
    assert found.groups == []


def test_an_idempotent_batch_that_is_sent_again() -> None:
    data = batch("a", "b", **IDEMPOTENT)
    found = one(
        [
            produce(data, error=6, at=0),
            produce(data, at=10),
            produce(data, 120, at=20),
            produce(data, 120, at=30),
            produce(data, error=46, at=40),
        ]
    )
    assert [each.error for each in found.attempts] == [6, 0, 0, 0, 46]
    assert found.copies == []
    assert names_of(found) == [
        *("sent", "refused", "sent again", "no answer", "sent again", "acknowledged"),
        *("sent again", "acknowledged", "sent again", "duplicate"),
    ]


def test_a_batch_without_sequence_that_is_written_twice() -> None:
    data = batch("a", "b")
    exchanges = [
        produce(data, at=0),
        produce(data, 130, at=10, connection=1, client="10.0.0.9:4001"),
        fetch(120, batch("a", "b", base=120), at=20),
    ]
    found = one(exchanges)
    assert [(each.base_offset, each.found_at) for each in found.attempts] == [(None, 120), (130, None)]
    assert found.copies == [131]
    # the answer is about the other copy
    assert found.acknowledged is None
    assert one(exchanges, RecordQuery(TOPIC, 3, 131)).copies == [121]


def test_equal_batches_of_a_client_that_had_its_answers_are_different_records() -> None:
    data = batch("a", "b")
    found = one([produce(data, 120, at=0), produce(data, 122, at=1)])
    assert (len(found.attempts), found.copies) == (1, [])


def test_the_checksum_tells_the_offset_where_no_answer_does() -> None:
    found = one(
        [
            produce(batch("a", "b", timestamp=8), acks=0),
            fetch(120, batch("a", "b", base=120, timestamp=8), at=5),
        ]
    )
    assert [(each.acks, each.found_at) for each in found.attempts] == [(0, 120)]
    assert "written" in names_of(found)
    other = one([produce(batch("a", "b"), acks=0), fetch(120, batch("a", "b", base=120, timestamp=8), at=5)])
    assert other.attempts == []


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_message_sets(magic: Any, codec: Codec) -> None:
    sent = build_batch([Record(n, 5, None, b"%d" % n) for n in range(3)], magic=magic, codec=codec)
    # brokers write absolute offsets with magic 0; with magic 1, relative to the wrapper, which has the last one
    first = 0 if magic and codec else 120
    inner = [Record(first + n, 5, None, b"%d" % n) for n in range(3)]
    stored = build_batch(inner, magic=magic, codec=codec, last_offset=122 if codec else None)
    for exchanges in (
        [produce(sent, 120)],
        [fetch(120, stored, at=9)],
        [produce(sent, 120), fetch(120, stored, at=9)],
    ):
        found = one(exchanges)
        assert found.record is not None
        assert found.record.value == b"1"
        # uncompressed messages are batches of their own
        assert found.batch.index == (1 if codec or found.attempts else 0)


def test_by_key_and_text_each_record_once() -> None:
    exchanges = [
        fetch(120, batch("apple", "pear", base=120), at=0, latency=9 * MS),
        produce(batch("apple", "pear"), 120, at=3),
        fetch(120, batch("apple", "pear", base=120), at=20, client="other", connection=5),
    ]
    found = told(RecordQuery(TOPIC, contains=b"ea"), exchanges).journeys
    assert [(each.offset, len(each.attempts), len(each.groups)) for each in found] == [(121, 1, 2)]
    assert [each.offset for each in told(RecordQuery(key=b"k"), exchanges).journeys] == [120, 121]
    assert told(RecordQuery(key=b"x"), exchanges).journeys == []


def test_a_record_that_was_never_written_has_no_offset() -> None:
    found = one([produce(batch("a", "b"), error=10)], RecordQuery(contains=b"b"))
    assert (found.offset, found.acknowledged) == (None, None)
    assert names_of(found) == ["sent", "refused"]


def end_txn(*, at: int, commit: bool, producer: int = 9) -> Exchange:
    request = {"transactional_id": "tx", "producer_id": producer, "producer_epoch": 0, "committed": commit}
    return exchange(26, 3, request=request, response={"error_code": 0}, time=BEGIN + at * MS, number=at + 1)


def marker(offset: int, *, commit: bool) -> bytes:
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    record = Record(offset, 5, key, b"\0\0\0\0\0\0")
    return build_batch([record], producer_id=9, producer_epoch=0, control=True, transactional=True)


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_and_when_it_could_be_read(*, commit: bool) -> None:
    data = batch("a", "b", transactional=True, **IDEMPOTENT)
    stored = batch("a", "b", base=120, transactional=True, **IDEMPOTENT)
    found = one(
        [
            produce(data, 120, at=0, transaction="tx"),
            fetch(120, stored, at=3, ends=(122, 120)),
            end_txn(at=10, commit=commit),
            fetch(
                120, stored + marker(122, commit=commit), at=15, ends=(123, 123), isolation=1, connection=2
            ),
        ]
    )
    transaction = found.transaction
    assert transaction is not None
    assert (transaction.transactional_id, transaction.committed, transaction.marker_offset) == (
        "tx",
        commit,
        122,
    )
    assert transaction.ended is not None
    assert (transaction.ended.number, transaction.end_answered) == (11, BEGIN + 12 * MS)
    assert found.readable is not None
    assert found.stable is not None
    assert (found.readable.time, found.stable.time) == (BEGIN + 5 * MS, BEGIN + 17 * MS)


def write_markers(*, at: int, commit: bool) -> Exchange:
    topics = [{"name": TOPIC, "partition_indexes": [3]}]
    markers = [{"producer_id": 9, "producer_epoch": 0, "transaction_result": commit, "topics": topics}]
    request = {"markers": markers}
    return exchange(27, 1, request=request, response={}, time=BEGIN + at * MS, number=at + 1)


@pytest.mark.parametrize("ends", [True, False])
def test_the_marker_of_the_transaction_before_may_be_written_after_a_record_was_sent(*, ends: bool) -> None:
    found = one(
        [
            end_txn(at=0, commit=True),
            produce(batch("a", "b", transactional=True, **IDEMPOTENT), 120, at=4, latency=9 * MS),
            write_markers(at=6, commit=True),
            *([end_txn(at=20, commit=False)] if ends else []),
            write_markers(at=26, commit=False),
        ]
    )
    assert found.transaction is not None
    assert found.transaction.written is not None
    assert (found.transaction.committed, found.transaction.written.number) == (False, 27)


def txn_commit(offset: int, *, at: int) -> Exchange:
    rows = [{"partition_index": 3, "committed_offset": offset}]
    request = {
        "transactional_id": "tx",
        "group_id": "g",
        "member_id": "m-1",
        "topics": [{"name": TOPIC, "partitions": rows}],
    }
    response = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 3, "error_code": 0}]}]}
    return exchange(28, 3, request=request, response=response, time=BEGIN + at * MS, number=at + 1)


def test_offsets_of_a_transaction_count_once_it_is_committed() -> None:
    brought = fetch(120, batch("a", "b", base=120), at=1)
    aborted = [brought, txn_commit(122, at=5), end_txn(at=6, commit=False)]
    # the client of a transaction is not the consumer: the group of its fetches is unknown
    assert [each.commit for each in one(aborted).groups] == [None]
    found = one([*aborted, txn_commit(122, at=15), end_txn(at=16, commit=True)])
    done = next(each.commit for each in found.groups if each.group == "g")
    assert done is not None
    assert (done.kind, done.sent, done.time) == (Settlement.IN_TRANSACTION, BEGIN + 15 * MS, BEGIN + 18 * MS)


def test_replicas_are_no_consumers() -> None:
    found = one(
        [
            produce(batch("a", "b"), 120),
            fetch(120, batch("a", "b", base=120), at=1, replica=2, ends=(120, 120)),
        ]
    )
    assert (list(found.replicas), found.groups) == ([2], [])


def test_a_group_that_is_known_only_later() -> None:
    (group,) = one([fetch(120, batch("a", "b", base=120), at=1), commit(130, at=50)]).groups
    assert (group.group, group.deliveries[0].member) == ("g", "m-1")


def test_a_topic_whose_name_is_told_later() -> None:
    known: dict[str, str] = {}
    journeys = Journeys(PLACE, known.get)
    journeys.add(fetch(120, batch("a", "b", base=120), at=1, topic={"topic_id": TOPIC_ID}))
    assert journeys.result().journeys == []
    journeys.add(produce(batch("a", "b"), 120, at=0))
    known[TOPIC_ID] = TOPIC
    for _ in range(2):  # requested again, as by a view that is redrawn
        (found,) = journeys.result().journeys
        assert (len(found.attempts), len(found.groups), len(found.groups[0].deliveries)) == (1, 1, 1)


def test_a_record_that_came_with_an_unreadable_batch_is_told_without_its_content() -> None:
    stored = bytearray(build_batch([Record(120 + n, 5, None, b"x" * 90) for n in range(3)], codec=Codec.GZIP))
    stored[61:] = b"\xff" * (len(stored) - 61)
    found = one([fetch(120, bytes(stored), at=1)])
    assert (found.record, len(found.groups)) == (None, 1)


@pytest.mark.parametrize(
    "broken",
    [
        exchange(0, 9, request=None, response=None),
        exchange(0, 9, request={}, response={}),
        exchange(0, 9, request={"topic_data": [None, {}, {"name": TOPIC, "partition_data": [None, {}]}]}),
        produce(b"\0" * 40, 1),
        produce(None, 1),
        produce(batch("a", base=2**63 - 1), 2**63 - 1),
        exchange(1, 11, request={"topics": None}, response={"responses": [None, {"partitions": [None]}]}),
        fetch(2**63 - 1, batch("a", base=2**63 - 1)),
        fetch(-5, b"\xff" * 100),
        exchange(8, 8, request={"topics": [None]}, response={}),
        exchange(26, 3, request={}, response={}),
        exchange(27, 1, request={"markers": [None, {"topics": [None, {"partition_indexes": [None, 1]}]}]}),
        exchange(28, 3, request=None, response={}),
        exchange(78, 1, request={"topics": [None]}, response={"responses": [{}]}),
        exchange(79, 1, request={}, response={}),
        exchange(None, None),
    ],
)
@pytest.mark.parametrize("sought", [PLACE, RecordQuery(contains=b"a"), RecordQuery()])
def test_nothing_raises_for_what_is_broken(broken: Exchange, sought: RecordQuery) -> None:
    found = told(sought, [broken, produce(batch("a", "b"), 120), broken])
    assert to_json(found)["partitions"]
    for journey in found.journeys:
        hops(journey)
