"""The recordings of ``tests/data/questions`` cover their questions, according to the truth files alone."""

from __future__ import annotations

import pytest

from tests.captures.analysis.question_truth import CRASH, JOURNEYS, RETRIES, TRANSACTIONS, truth


@pytest.mark.parametrize("name", [JOURNEYS, RETRIES, TRANSACTIONS, CRASH])
def test_each_record_was_sent_before_it_was_acknowledged_and_consumed_after_it_was_sent(name):
    told = truth(name)
    assert all(record.sent < record.delivered for record in told.written.values())
    for places in told.received.values():
        for each in places.values():
            assert all(told.written[received.key].sent < received.time for received in each)


def test_without_trouble_each_group_has_every_record_where_its_producer_says_it_is():
    told = truth(JOURNEYS)
    places = {record.key: {record.place} for record in told.written.values()}
    assert told.stored == places
    for group in told.groups - {"g-skip"}:
        assert {key for each in told.received[group].values() for key in [each[0].key]} == set(places)


def test_one_group_skips_three_records_of_each_partition_and_one_has_the_first_ones_twice():
    told = truth(JOURNEYS)
    everything = {record.place for record in told.written.values()}
    skipped = everything - set(told.received["g-skip"])
    assert {number: sum(place.partition == number for place in skipped) for number in range(3)} == {
        0: 3,
        1: 3,
        2: 3,
    }
    assert sum(len(each) > 1 for each in told.received["g-seek"].values()) == 24


def test_stopping_the_broker_has_stored_records_twice_but_none_of_idempotent_producers():
    told = truth(RETRIES)
    twice = {told.written[key].worker for key, places in told.stored.items() if len(places) > 1}
    assert twice == {"java-plain", "kp-plain"}
    assert len(told.written) == 160


def test_who_reads_committed_records_has_those_of_committed_transactions_only():
    told = truth(TRANSACTIONS)
    ends = [each.end for each in told.transactions.values()]
    assert (ends.count("commit"), ends.count("abort")) == (9, 4)
    here = {record.place: record for record in told.written.values() if record.place.topic == told.topic}
    committed = {place for place, record in here.items() if told.committed(record)}
    assert len(committed) < len(here)
    assert set(told.received["g-java-committed"]) == set(told.received["g-rd-committed"]) == committed
    assert set(told.received["g-java-all"]) == set(here)


def test_who_comes_after_a_crash_reads_again_what_was_not_committed():
    told = truth(CRASH)
    for group in told.groups:
        again = {place for place, each in told.received[group].items() if len(each) > 1}
        last = [each for each in told.commits[group] if each.worker.endswith("-first")][-1]
        assert len(again) == 12
        assert all(place.offset >= last.offsets.get(place.partition, 0) for place in again)
