"""Calls read from the exchanges of members, and their grouping in runs."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from captures.analysis.groups.call_reader import read_call
from captures.analysis.groups.calls import (
    Call,
    Commit,
    GroupCalls,
    HeartbeatRun,
    Join,
    Leave,
    Run,
    Sync,
    WorkerOrders,
    group_of,
)
from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.vocabulary import Kind
from captures.exchanges import Exchange
from dissectors.embedded.connect import ConnectAssignment
from tests.captures.analysis import kit
from tests.captures.analysis.groups.kit import places
from tests.captures.analysis.groups.talk import Talk, seconds


def call(exchange: Exchange, protocol_type: str = "") -> Call:
    found = read_call(exchange, lambda _: None, protocol_type)
    assert found is not None
    return found


def group(talk: Talk) -> GroupCalls:
    out = GroupCalls(talk.group)
    for exchange in talk.said:
        out.add(call(exchange, out.protocol_type))
    return out


# ---------------------------------------------------------------- reading
def test_a_join_group_of_a_leader() -> None:
    found = call(
        Talk().join(
            "m1",
            1,
            4,
            7,
            leader="m1",
            members=["m1", "m2"],
            topics=["orders", "logs"],
            owned={"orders": [1, 0]},
            reason="why not",
            instance="inst-1",
        )
    )
    assert isinstance(found, Join)
    assert (found.member, found.asked_as, found.instance, found.reason) == ("m1", "m1", "inst-1", "why not")
    assert (found.answered, found.leader, found.chosen) == (7, "m1", "range")
    assert (seconds(found.time), seconds(found.end)) == (1, 4)
    assert (found.session_timeout, found.rebalance_timeout) == (6_000_000_000, 60_000_000_000)
    assert not found.one_timeout
    assert found.subscription is not None
    assert found.subscription.topics == ("logs", "orders")
    assert found.subscription.owned == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert found.members == {"m1": None, "m2": None}
    assert found.subscriptions["m2"].topics == ("logs", "orders")


def test_a_first_join_group_is_of_the_member_that_it_makes() -> None:
    found = call(Talk().join("m1", 1, 1.1, -1, new=True, error=79))
    assert isinstance(found, Join)
    assert (found.member, found.asked_as, found.answered, found.error) == ("m1", "", -1, 79)


def test_before_kip_62_there_was_one_timeout() -> None:
    found = call(Talk().join("m1", 1, 2, 1, version=0, request={"rebalance_timeout_ms": None}))
    assert isinstance(found, Join)
    assert (found.rebalance_timeout, found.one_timeout) == (6_000_000_000, True)


def test_a_sync_group_tells_what_is_handed_out() -> None:
    given = {"m1": {"orders": [0]}, "m2": {"orders": [1]}}
    found = call(Talk().sync("m1", 1, 7, {"orders": [0]}, given))
    assert isinstance(found, Sync)
    assert (found.generation, found.gives_all) == (7, True)
    assert found.assigned == {TopicPartition("orders", 0)}
    assert found.given == {"m1": {TopicPartition("orders", 0)}, "m2": {TopicPartition("orders", 1)}}


def test_a_failed_sync_group_assigns_nothing() -> None:
    found = call(Talk().sync("m2", 1, 7, error=27))
    assert isinstance(found, Sync)
    assert (found.assigned, found.gives_all, found.error) == (None, False, 27)


def worker(protocol: int, **orders: Any) -> bytes:
    """Return what the leader of a Connect cluster sends a worker (ConnectProtocol.java, KIP-415)."""
    value = {
        "error": 0,
        "leader": "w1",
        "leader_url": "http://w1:8083/",
        "config_offset": 5,
        "assigned": [],
        "revoked": None,
        "delay": 0,
    }
    return struct.pack(">h", protocol) + ConnectAssignment[protocol].build(value | orders)


@pytest.mark.parametrize(
    ("orders", "told"),
    [
        ({}, WorkerOrders()),
        ({"revoked": [{"connector": "sink", "tasks": [0]}]}, WorkerOrders(revoked=places("sink", 0))),
        ({"assigned": [{"connector": "sink", "tasks": [-1, 0]}]}, WorkerOrders(runs=places("sink", -1, 0))),
        ({"delay": 300_000}, WorkerOrders(delay=300_000_000_000)),
        ({"error": 1}, WorkerOrders(behind=True)),
    ],
)
def test_a_worker_of_connect_is_told_more(orders: dict[str, Any], told: WorkerOrders) -> None:
    request = {
        "group_id": "orders",
        "protocol_type": "connect",
        "protocol_name": "compatible",
        "member_id": "w1",
        "generation_id": 3,
    }
    response = {"error_code": 0, "assignment": worker(1, **orders)}
    found = call(kit.exchange(14, 5, request=request, response=response))
    assert isinstance(found, Sync)
    assert (found.orders, found.assigned) == ({"w1": told}, None)


def test_a_leave_group_may_be_about_several() -> None:
    gone = [
        {"member_id": "m1", "group_instance_id": None, "reason": "bye"},
        {"member_id": "", "group_instance_id": "inst-2", "reason": None},
    ]
    answers = [{"member_id": "m1", "error_code": 0}, {"member_id": "", "error_code": 25}]
    found = call(
        kit.exchange(
            13,
            5,
            request={"group_id": "orders", "members": gone},
            response={"error_code": 0, "members": answers},
        )
    )
    assert isinstance(found, Leave)
    assert found.gone == [("m1", None, "bye", 0), ("", "inst-2", "", 25)]
    assert (found.member, found.error) == ("", 0)


def test_a_leave_group_of_old_is_about_who_sends_it() -> None:
    exchange = kit.exchange(
        13, 1, request={"group_id": "orders", "member_id": "m1"}, response={"error_code": 0}
    )
    found = call(exchange)
    assert isinstance(found, Leave)
    assert (found.member, found.gone) == ("m1", [("m1", None, "", 0)])


def test_a_commit_fails_with_its_first_error() -> None:
    talk = Talk()
    assert [call(talk.commit("m1", 1, 3, error)).error for error in (0, 22)] == [0, 22]


def test_what_is_no_call_of_a_member() -> None:
    assert read_call(kit.exchange(3, 12, request={}, response={}), lambda _: None) is None
    assert read_call(kit.exchange(12, 4, response={}), lambda _: None) is None
    assert read_call(kit.exchange(12, 4, request={}, response={}), lambda _: None) is None
    assert group_of(kit.exchange(12, 4, response={})) == ""


def test_what_was_cut_off_is_left_open() -> None:
    found = call(kit.exchange(11, 9, request={"group_id": "orders", "protocols": [None]}))
    assert isinstance(found, Join)
    assert (found.member, found.session_timeout, found.subscription, found.answered) == ("", None, None, -1)
    broken = {
        "group_id": "orders",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0"}],
    }
    found = call(kit.exchange(11, 9, request=broken))
    assert isinstance(found, Join)
    assert found.subscription is None


# ---------------------------------------------------------------- runs
def runs(found: GroupCalls) -> list[tuple[type[Call], str, int]]:
    return [(type(each), each.member, each.count) for each in found.calls if isinstance(each, Run)]


def test_heartbeats_that_say_nothing_new_are_one_run() -> None:
    talk = Talk()
    for step in range(5):
        talk.beat("m1", step, 1)
        talk.beat("m2", step + 0.1, 1)
        talk.commit("m1", step + 0.2, 1)
    talk.beat("m1", 9, 1)
    found = group(talk)
    assert runs(found) == [(HeartbeatRun, "m1", 6), (HeartbeatRun, "m2", 5), (Commit, "m1", 5)]
    first = found.calls[0]
    assert isinstance(first, HeartbeatRun)
    assert (seconds(first.time), seconds(first.last), seconds(first.last_end)) == (0, 9, 9.001)
    assert (first.number, first.last_number) == (1, 16)
    assert first.longest == 5_000_000_000  # between consecutive calls
    assert first.latest == first.last_end


def test_another_answer_or_generation_begins_another_run() -> None:
    talk = Talk()
    for time, generation, error in ((0, 1, 0), (1, 1, 0), (2, 1, 27), (3, 1, 27), (4, 2, 0)):
        talk.beat("m1", time, generation, error)
    assert [count for _, _, count in runs(group(talk))] == [2, 2, 1]


def test_what_else_a_member_does_ends_its_runs() -> None:
    talk = Talk()
    talk.beat("m1", 1, 1)
    talk.beat("m2", 1, 1)
    talk.join("m1", 2, 2.1, 1)
    talk.beat("m1", 3, 1)
    talk.beat("m2", 3, 1)
    assert runs(group(talk)) == [(HeartbeatRun, "m1", 1), (HeartbeatRun, "m2", 2), (HeartbeatRun, "m1", 1)]


def test_failed_commits_stand_alone() -> None:
    talk = Talk()
    for time in range(3):
        talk.commit("m1", time, 1, error=22)
    assert [count for _, _, count in runs(group(talk))] == [1, 1, 1]


def test_kinds_are_those_of_calls_by_which_members_join() -> None:
    talk = Talk()
    talk.commit("m1", 0, 1)
    assert group(talk).kinds == set()
    talk.join("m1", 1, 2, 1)
    found = group(talk)
    assert (found.kinds, found.protocol_type) == ({Kind.CLASSIC}, "consumer")


def test_calls_that_may_still_be_answered_are_added_to_a_copy() -> None:
    talk = Talk()
    talk.beat("m1", 1, 1)
    known = group(talk)
    also = known.and_also([call(talk.join("m1", 2, None, 1))])
    assert (len(known.calls), len(also.calls)) == (1, 2)
    assert (known.kinds, also.kinds) == (set(), {Kind.CLASSIC})


def test_calls_are_ordered_by_their_requests() -> None:
    talk = Talk()
    talk.beat("m1", 5, 1)
    talk.join("m2", 1, 6, 1)
    assert [each.member for each in group(talk).ordered()] == ["m2", "m1"]
