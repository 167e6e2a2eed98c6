"""How long the records of a topic wait, and which ones groups get twice or never."""

from __future__ import annotations

from captures.analysis.journey import RecordQuery
from captures.analysis.journey.totals import GroupWaits, TopicWaits
from captures.exchanges import Exchange
from tests.captures.analysis.journey.kit import TOPIC, batch, commit, fetch, produce, told
from tests.captures.analysis.kit import MS, exchange

ALL = RecordQuery(TOPIC)


def waits(exchanges: list[Exchange]) -> TopicWaits:
    found = told(ALL, exchanges).waits
    assert found is not None
    return found


def only(found: TopicWaits) -> GroupWaits:
    (group,) = found.groups
    return group


def test_each_record_counts_at_each_hop() -> None:
    found = waits(
        [
            produce(batch("a", "b", "c"), 100, at=0),  # answered after 2 ms
            produce(batch("d"), 103, at=10),
            # three records at 22 ms, and the fourth at 32 ms
            fetch(100, batch("a", "b", "c", base=100), at=20),
            fetch(103, batch("d", base=103), at=30),
            commit(101, at=40),  # of one record
            commit(104, at=60),
        ]
    )
    assert (found.sent, found.acknowledged, found.resent, found.refused) == (4, 4, 0, 0)
    assert found.waits is not None
    assert (found.waits.count, found.waits.max) == (4, 2 * MS)
    group = only(found)
    assert (group.group, group.records) == ("g", 4)
    assert group.delivered is not None
    assert (group.delivered.count, group.delivered.total) == (4, (3 * 20 + 20) * MS)
    assert group.settled is not None
    # committed at 42 and 62 ms
    assert (group.settled.count, group.settled.total) == (4, (20 + 40 + 40 + 30) * MS)
    assert (group.settled.p50, group.settled.max) == (30 * MS, 40 * MS)
    assert group.total is not None
    assert group.total.total == (3 * 22 + 22) * MS
    assert (group.refetched, group.skipped) == ([], [])


def test_records_without_an_offset_are_sent_or_refused() -> None:
    data = batch("a", "b", producer_id=9, producer_epoch=0, base_sequence=0)
    found = waits(
        [
            produce(batch("x"), error=10, at=0),
            produce(data, error=6, at=1),
            produce(data, 100, at=11),
            produce(batch("y", timestamp=9), at=20),
        ]
    )
    assert (found.sent, found.acknowledged, found.resent, found.refused) == (4, 2, 2, 1)
    assert found.waits is not None
    # from the time it was first sent
    assert (found.waits.count, found.waits.max) == (2, 12 * MS)


def test_what_is_fetched_again_is_told_with_how_often() -> None:
    def fetched(at: int, offset: int) -> Exchange:
        return fetch(offset, batch(*"abcdef", base=100), at=at)

    group = only(
        waits([fetched(0, 100), fetched(10, 104), fetched(20, 102), fetched(30, 105), commit(106, at=90)])
    )
    (again,) = group.refetched
    assert (again.first, again.last, again.records, again.times) == (102, 105, 4, 4)
    assert (again.first_number, again.again_number) == (1, 11)


def test_two_groups_that_read_the_same_do_not_read_it_again() -> None:
    found = waits(
        [
            commit(1, at=0),
            commit(1, at=1, group="h", client="other"),
            fetch(100, batch("a", base=100), at=10),
            fetch(100, batch("a", base=100), at=20, client="other", connection=3),
        ]
    )
    assert [(each.group, each.records, each.refetched) for each in found.groups] == [
        ("g", 1, []),
        ("h", 1, []),
    ]


def test_what_is_known_to_be_there_but_was_passed_over_is_skipped() -> None:
    group = only(
        waits(
            [
                produce(batch("a", "b"), 100, at=0),
                produce(batch("c", "d", timestamp=6), 102, at=1),
                produce(batch("e", timestamp=7), 104, at=2),
                fetch(100, batch("a", "b", base=100), at=10),
                fetch(104, batch("e", base=104, timestamp=7), at=20),
            ]
        )
    )
    (skipped,) = group.skipped
    assert (skipped.first, skipped.last, skipped.records, skipped.times) == (102, 103, 2, 0)
    assert (skipped.first_number, skipped.again_number) == (11, 21)


def test_a_gap_in_which_nothing_is_known_to_be_is_none() -> None:
    # transaction markers, or records that compaction removed
    group = only(waits([fetch(100, batch("a", base=100), at=1), fetch(101, batch("b", base=105), at=9)]))
    assert group.skipped == []


def test_share_groups_settle_records_one_by_one() -> None:
    def share(epoch: int, at: int, acknowledged: list[dict[str, object]], count: int) -> Exchange:
        row = {"partition_index": 3, "acknowledgement_batches": acknowledged}
        request = {
            "group_id": "s",
            "member_id": "m",
            "share_session_epoch": epoch,
            "topics": [{"topic": TOPIC, "partitions": [row]}],
        }
        acquired = [{"first_offset": 100, "last_offset": 101, "delivery_count": count}] if count else []
        told = {"partition_index": 3, "records": batch("a", "b", base=100), "acquired_records": acquired}
        response = {"error_code": 0, "responses": [{"topic": TOPIC, "partitions": [told]}]}
        return exchange(
            78, 1, request=request, response=response, time=1_000_000_000 + at * MS, number=at, connection=4
        )

    accepted = [{"first_offset": 100, "last_offset": 101, "acknowledge_types": [1, 2]}]
    group = only(waits([share(0, 10, [], 1), share(1, 20, accepted, 0), share(2, 30, [], 2)]))
    assert (group.group, group.shares, group.records) == ("s", True, 2)
    assert group.settled is not None
    # one was accepted, the other released and redelivered
    assert (group.settled.count, group.settled.max) == (1, 10 * MS)
    assert [(each.first, each.last, each.times) for each in group.refetched] == [(100, 101, 2)]


def test_nothing_sought_is_nothing() -> None:
    found = told(RecordQuery("payments"), [produce(batch("a"), 100)])
    assert found.waits is not None
    assert (found.offsets, found.waits.sent, found.waits.groups) == ({}, 0, [])
