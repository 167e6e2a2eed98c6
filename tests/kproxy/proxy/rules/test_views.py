"""Limits on the cost of rules and holds: records and elements of a frame, whoever sends it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dissectors import budget
from dissectors.budget import LimitReached
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch
from kproxy.proxy.rules import views
from kproxy.proxy.rules.engine import Rules
from kproxy.proxy.rules.holds import Holds
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.rules.views import MeasuredRecords, measure
from kproxy.proxy.verdicts import UNCHANGED, Frame
from tests.kproxy.proxy.rules.frames import request, response

SMALL = {"rule_records": 10, "rule_bytes": 10_000, "elements": 20}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setitem(budget.IN_FORCE, name, value)
    monkeypatch.setattr(views, "_SURELY_FEW", 0)


def records(count: int, value: bytes = b"v") -> list[Record]:
    return [Record(number, 0, b"k%d" % number, value, ()) for number in range(count)]


def produce(*partitions: bytes) -> Frame:
    data = [{"index": index, "records": field} for index, field in enumerate(partitions)]
    body = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": data}]}
    return request("Produce", 9, body)


def told_by(rule: str, *frames: Frame) -> tuple[Rules, list[str]]:
    told: list[str] = []
    rules = Rules(TopicNames(), chance=Random("measured"), notify=told.append)
    rules.add(rule)
    assert [rules.decide(frame) for frame in frames] == [UNCHANGED] * len(frames)
    return rules, told


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ([build_batch(records(11))], "rule_records (10 records)"),
        ([build_batch(records(3))] * 4, "rule_records (10 records)"),  # together, a batch counting as one
        ([build_batch(records(1)) * 11], "rule_records (10 records)"),
        ([build_batch(records(1, bytes(20_000)), codec=Codec.ZSTD)], "rule_bytes (10,000 bytes)"),
        ([build_batch(records(1, bytes(6_000)), codec=Codec.GZIP)] * 2, "rule_bytes (10,000 bytes)"),
        ([build_batch(records(1, bytes(20_000)))], "rule_bytes (10,000 bytes)"),
        ([build_batch(records(11), magic=1, codec=Codec.GZIP)], "rule_"),
        ([build_batch(records(1, bytes(20_000)), magic=1, codec=Codec.GZIP)], "rule_bytes (10,000 bytes)"),
    ],
)
@pytest.mark.parametrize("condition", ["key == k99", "value contains zzz", "header == zzz"])
def test_of_more_records_than_may_be_looked_at_a_rule_is_undecided(
    fields: list[bytes], limit: str, condition: str
) -> None:
    frame = produce(*fields)
    rules, told = told_by(f"api == Produce and {condition} => drop", frame, frame, frame)
    (shown,) = rules.to_json()
    assert (shown["hits"], shown["undecided"], shown["failures"]) == (0, 3, 3)
    assert f"limit {limit}" in shown["failure"]
    (sentence,) = told
    assert sentence.startswith("rule 1 could not decide about a frame, which was forwarded: ")
    assert rules.undecided == 3


def test_a_condition_on_the_path_of_records_is_measured_too() -> None:
    path = "request.topic_data.partition_data.records.records.key == k99"
    rules, told = told_by(f"api == Produce and {path} => drop", produce(build_batch(records(11))))
    assert rules.undecided == len(told) == 1


def test_what_stays_within_the_limits_is_decided() -> None:
    rules = Rules(TopicNames(), chance=Random("measured"))
    rules.add("api == Produce and key == k1 and value == v => drop")  # the records are decoded once for both
    assert rules.decide(produce(build_batch(records(4)), build_batch(records(3)))).data == b""
    assert rules.decide(produce(build_batch(records(1)))) is UNCHANGED
    assert rules.undecided == 0


def test_a_rule_that_asks_for_no_records_does_not_count_them() -> None:
    rules = Rules(TopicNames(), chance=Random("measured"))
    rules.add("api == Produce and topic == orders => drop")
    assert rules.decide(produce(build_batch(records(500)))).data == b""


def test_headers_of_batches_count_too() -> None:
    rules, _ = told_by("api == Produce and codec == zstd => drop", produce(build_batch(records(1)) * 11))
    assert rules.undecided == 1


@pytest.mark.parametrize("side", ["request", "response"])
def test_of_more_elements_than_may_be_decoded_a_rule_is_undecided(side: str) -> None:
    def metadata(count: int) -> Frame:
        topics: list[dict[str, Any]] = [{"name": "a"}] * count
        if side == "request":
            return request("Metadata", 12, {"topics": topics})
        return response(
            "Metadata", 12, {"brokers": [], "topics": [{**each, "partitions": []} for each in topics]}
        )

    measure(metadata(20))
    with pytest.raises(LimitReached, match="an array of 21 would go over the limit elements"):
        measure(metadata(21))
    rules, told = told_by(f"{side}: api == Metadata and topic == a => drop", metadata(21))
    assert rules.undecided == len(told) == 1


def test_elements_that_are_all_as_wide_count_too() -> None:
    partition = {"partition": 1, "current_leader_epoch": 1, "leader_epoch": 1}
    topics = [{"topic": "a", "partitions": [partition] * 200}]
    with pytest.raises(LimitReached, match="an array of 200 "):
        measure(request("OffsetForLeaderEpoch", 3, {"topics": topics}))


def test_a_hold_filter_is_undecided_too() -> None:
    told: list[str] = []
    holds = Holds(TopicNames(), notify=told.append)
    holds.set_filter("api == Produce and key == k1")
    frame = produce(build_batch(records(11)))
    assert holds.decide(frame) is holds.decide(frame) is UNCHANGED
    assert (holds.undecided, holds.failures, len(told)) == (2, 2, 1)


def test_a_field_is_paid_for_once() -> None:
    read = MeasuredRecords()
    field = build_batch(records(9))
    assert len(read(field, True)[0]["records"]) == 9
    assert read(field, True) is read(field, True)
    assert read(field, False)[0]["count"] == 9
