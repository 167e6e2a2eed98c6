"""The answers of ``kproxy journey`` about records, against notes of their producers and consumers (``question_truth``).

A callback comes after its response, and a request after the call that caused it; so each time on the wire must lie
between two times of the applications, which use the same clock.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from functools import cache
from math import ceil, floor
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from tests.captures.analysis.question_truth import (
    CRASH,
    JOURNEYS,
    REPLICAS,
    RETRIES,
    TRANSACTIONS,
    Place,
    Truth,
    truth,
)

ALL = [JOURNEYS, RETRIES, TRANSACTIONS, CRASH, REPLICAS]
Told = dict[str, Any]


def asked(*arguments: str) -> Told:
    ran = CliRunner().invoke(main, ["journey", "--json", *arguments])
    assert ran.exit_code in (0, 3), ran.output
    told: Told = json.loads(ran.stdout)
    return told


@cache
def journeys(name: str) -> dict[str, list[Told]]:
    """Return the journeys of every record of a recording, by key; several if it was stored more than once."""
    told = asked("--all", "--contains", "value of", truth(name).path)
    assert told["more"] == 0
    found: dict[str, list[Told]] = {}
    for each in told["journeys"]:
        found.setdefault(base64.b64decode(each["record"]["key"]).decode(), []).append(each)
    return found


@cache
def waits(name: str) -> dict[str, Told]:
    """Return the waits of each group of a recording for all records of its topic."""
    told = truth(name)
    return {each["group"]: each for each in asked("--topic", told.topic, told.path)["waits"]["groups"]}


def micros(text: str) -> float:
    """Return a time of the answer in the unit of the truth."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    seconds = datetime.fromisoformat(f"{whole}+00:00").timestamp()
    return seconds * 1_000_000 + int(fraction.ljust(9, "0")) / 1000


def place(journey: Told) -> Place:
    return Place(journey["topic"], journey["partition"], journey["offset"])


def stops(journey: Told, group: str) -> Told | None:
    return next((each for each in journey["groups"] if each["group"] == group), None)


def offsets(ranges: list[Told]) -> set[Place]:
    return {
        Place(each["topic"], each["partition"], offset)
        for each in ranges
        for offset in range(each["first"], each["last"] + 1)
    }


# ---------------------------------------------------------------- produced
@pytest.mark.parametrize("name", ALL)
def test_every_record_is_found_at_every_place_where_it_is(name):
    told = journeys(name)
    assert {key: {place(each) for each in found} for key, found in told.items()} == truth(name).stored


@pytest.mark.parametrize("name", ALL)
def test_it_was_sent_and_acknowledged_between_the_call_and_its_callback(name):
    happened = truth(name)
    for key, record in happened.written.items():
        journey = next(each for each in journeys(name)[key] if place(each) == record.place)
        sent = micros(journey["attempts"][0]["sent"])
        assert record.sent <= sent < record.delivered, key
        assert sent < micros(journey["acknowledged"]) <= record.delivered, key
        assert {each["client"] for each in journey["attempts"]} == {record.worker}


def test_only_while_the_broker_stood_still_or_was_away_was_anything_sent_twice():
    happened = truth(RETRIES)
    (stopped,), (goes_on,) = happened.moments("broker", "SIGSTOP"), happened.moments("broker", "SIGCONT")
    (killed,), (started,) = happened.moments("broker", "SIGKILL"), happened.moments("broker", "started")
    twice = {key: found[0] for key, found in journeys(RETRIES).items() if len(found[0]["attempts"]) > 1}
    assert {happened.written[key].worker for key in twice} >= {"java-idem", "java-plain", "kp-plain"}
    for key in twice:
        record = happened.written[key]
        assert record.sent < goes_on or killed - 1_000_000 < record.sent < started, key
        assert record.delivered > stopped
    for name in (JOURNEYS, TRANSACTIONS, CRASH):
        assert all(len(each["attempts"]) == 1 for found in journeys(name).values() for each in found)


def test_who_has_no_idempotence_has_records_at_two_offsets_and_who_has_is_answered_with_one():
    happened = truth(RETRIES)
    for key, found in journeys(RETRIES).items():
        worker = happened.written[key].worker
        if worker.endswith("idem"):
            assert len(found) == 1
            assert found[0]["copies"] == []
        elif len(happened.stored[key]) == 2:
            first, second = sorted(happened.stored[key])
            assert {first.offset, second.offset} in ({each["offset"], *each["copies"]} for each in found), key


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_record_is_the_same_by_its_place_by_its_key_and_by_what_is_in_it(name):
    happened = truth(name)
    for key in sorted(happened.written)[::29]:
        (by_place,) = asked(str(happened.written[key].place), happened.path)["journeys"]
        by_key = asked("--key", key, happened.path)["journeys"]
        assert by_place in by_key
        assert sorted(map(place, by_key)) == sorted(map(place, journeys(name)[key]))


# ---------------------------------------------------------------- consumed
@pytest.mark.parametrize("name", ALL)
def test_it_was_delivered_first_to_the_member_that_had_it_and_before_the_application_did(name):
    happened = truth(name)
    for group, places in happened.received.items():
        for where, received in places.items():
            journey = next(each for each in journeys(name)[received[0].key] if place(each) == where)
            stop = stops(journey, group)
            assert stop is not None, (group, where)
            first = stop["deliveries"][0]
            assert first["client"] == received[0].worker, (group, where)
            assert happened.written[received[0].key].sent < micros(first["time"]) <= received[0].time


@pytest.mark.parametrize("name", [JOURNEYS, CRASH])
def test_it_was_delivered_to_each_application_as_often_as_to_its_group(name):
    happened = truth(name)
    for group, places in happened.received.items():
        for where, received in places.items():
            journey = next(each for each in journeys(name)[received[0].key] if place(each) == where)
            stop = stops(journey, group)
            assert stop is not None
            clients = [each["client"] for each in stop["deliveries"]]
            assert clients == [each.worker for each in received], (group, where)


def commits_above(happened: Truth, group: str, where: Place) -> list[Any]:
    return [
        each
        for each in happened.commits[group]
        if each.offsets.get(where.partition, -1) > where.offset
        and (each.transaction is None or happened.transactions[each.worker, each.transaction].end == "commit")
    ]


@pytest.mark.parametrize("name", ALL)
def test_the_first_commit_above_it_is_the_one_that_its_consumer_knows_of(name):
    happened = truth(name)
    for group, places in happened.received.items():
        for where, received in places.items():
            journey = next(each for each in journeys(name)[received[0].key] if place(each) == where)
            stop = stops(journey, group)
            assert stop is not None
            known = commits_above(happened, group, where)
            if stop["commit"] is None:
                assert not known, (group, where)
                continue
            assert stop["commit"]["offset"] > where.offset
            assert stop["commit"]["kind"] == ("in_transaction" if group == "g-copier" else "committed")
            if known:
                assert micros(stop["commit"]["time"]) <= known[0].done, (group, where)
            if known and known[0].begun is not None:
                assert stop["commit"]["offset"] == known[0].offsets[where.partition]
                assert known[0].begun <= micros(stop["commit"]["sent"])


# ---------------------------------------------------------------- transactions
@pytest.mark.parametrize("name", [TRANSACTIONS, REPLICAS])
def test_records_of_transactions_are_told_to_be_committed_or_aborted_and_nothing_else_is(name):
    happened = truth(name)
    for key, record in happened.written.items():
        told = journeys(name)[key][0]["transaction"]
        if record.transaction is None:
            assert told is None
            continue
        assert told is not None
        transaction = happened.transactions[record.worker, record.transaction]
        assert told["committed"] is (transaction.end == "commit"), key
        assert told["transactional_id"] == f"x-{record.worker.partition('-')[0]}"
        assert transaction.told <= micros(told["ended"]["time"]) <= transaction.done
        assert micros(told["ended"]["time"]) < micros(told["end_answered"]) <= transaction.done
    for name in (JOURNEYS, RETRIES, CRASH):
        assert all(each["transaction"] is None for found in journeys(name).values() for each in found)


def test_read_committed_consumers_had_it_once_it_was_stable_and_not_before_its_transaction_ended():
    happened = truth(TRANSACTIONS)
    for group in ("g-java-committed", "g-rd-committed"):
        for where, received in happened.received[group].items():
            (journey,) = journeys(TRANSACTIONS)[received[0].key]
            assert place(journey) == where
            record = happened.written[received[0].key]
            ended = happened.transactions[record.worker, record.transaction].told
            assert ended < micros(journey["stable"]["time"]) <= received[0].time
            assert micros(journey["readable"]["time"]) <= micros(journey["stable"]["time"])


# ---------------------------------------------------------------- replicas
def test_all_followers_had_it_before_it_was_acknowledged_and_the_leader_is_none_of_them():
    happened = truth(REPLICAS)
    (cluster,) = (each for each in happened.events if each["what"] == "leaders")
    leaders = dict(cluster["leaders"])
    for key, record in happened.written.items():
        (journey,) = journeys(REPLICAS)[key]
        followers = {each["node"]: micros(each["time"]) for each in journey["replicas"]}
        assert set(followers) == set(cluster["nodes"]) - {leaders[record.place.partition]}, key
        # with acks=all, the leader waits until all in-sync replicas fetch beyond it
        assert all(time < micros(journey["acknowledged"]) for time in followers.values()), key


def test_the_coordinator_had_the_marker_written_after_the_producer_ended_the_transaction():
    happened = truth(REPLICAS)
    seen = 0
    for key, record in happened.written.items():
        told = journeys(REPLICAS)[key][0]["transaction"]
        if told is not None and told["marker_written"] is not None:
            ended = happened.transactions[record.worker, record.transaction].told
            assert ended < micros(told["ended"]["time"]) <= micros(told["marker_written"]["time"])
            assert told["marker_offset"] is None or told["marker_offset"] > record.place.offset
            seen += 1
    assert seen


# ---------------------------------------------------------------- all records of a topic
@pytest.mark.parametrize("name", ALL)
def test_all_records_of_the_topic_are_counted_and_those_of_every_group(name):
    happened = truth(name)
    mine = [each for each in happened.written.values() if each.place.topic == happened.topic]
    told = asked("--topic", happened.topic, happened.path)["waits"]
    assert (told["sent"], told["acknowledged"]) == (len(mine), len(mine))
    assert set(waits(name)) == happened.groups
    for group in happened.groups_of_all:
        assert waits(name)[group]["records"] == len(happened.received[group]), group


@pytest.mark.parametrize("name", [JOURNEYS, CRASH])
def test_what_a_group_had_again_and_what_it_never_had_is_told_as_it_happened(name):
    happened = truth(name)
    everything = {each.place for each in happened.written.values()}
    for group, places in happened.received.items():
        again = {where for where, received in places.items() if len(received) > 1}
        assert offsets(waits(name)[group]["delivered_again"]) == again, group
        last = {
            number: max((each.offset for each in places if each.partition == number), default=-1)
            for number in range(3)
        }
        skipped = {each for each in everything - set(places) if each.offset < last[each.partition]}
        assert offsets(waits(name)[group]["skipped"]) == skipped, group


PERCENTILES = {"p50_ns": 0.5, "p95_ns": 0.95, "p99_ns": 0.99, "max_ns": 1.0}


def check_waits(told: Told, least: list[int], most: list[int]) -> None:
    """If each of many durations lies between two others, so does each percentile. In microseconds."""
    assert told["count"] == len(most)
    for name, share in PERCENTILES.items():
        below, above = floor(share * (len(least) - 1)), ceil(share * (len(most) - 1))
        assert sorted(least)[below] <= told[name] / 1000 <= sorted(most)[above], name


@pytest.mark.parametrize("name", [JOURNEYS, CRASH])
def test_records_wait_on_the_wire_no_longer_than_applications_saw(name):
    happened = truth(name)
    told = asked("--topic", happened.topic, happened.path)["waits"]
    waited = [each.delivered - each.sent for each in happened.written.values()]
    check_waits(told["sent_to_acknowledged"], [0] * len(waited), waited)
    for group, places in happened.received.items():
        firsts = [each[0] for each in places.values()]
        waited = [each.time - happened.written[each.key].sent for each in firsts]
        check_waits(waits(name)[group]["sent_to_delivered"], [0] * len(waited), waited)


def test_until_a_commit_that_was_ordered_they_wait_as_long_as_the_application_took():
    happened = truth(JOURNEYS)
    least, most = [], []
    for where, received in happened.received["g-rd"].items():
        commit = commits_above(happened, "g-rd", where)[0]
        least.append(commit.begun - received[0].time)
        most.append(commit.done - happened.written[received[0].key].sent)
    check_waits(waits(JOURNEYS)["g-rd"]["delivered_to_committed"], least, most)
