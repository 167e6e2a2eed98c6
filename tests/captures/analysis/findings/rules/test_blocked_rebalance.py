"""Rebalances that do not complete."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.rebalances import BlockedRebalance
from captures.analysis.groups.model import AwaitedMember
from captures.analysis.groups.vocabulary import Kind
from tests.captures.analysis.findings.group_kit import of_recording, of_timelines
from tests.captures.analysis.groups.kit import at, rebalance, timeline


def test_who_is_awaited_and_until_when() -> None:
    awaited = [AwaitedMember("m1-id", "m1", at(12), beats=9, deadline=at(90))]
    running = rebalance(end=None, running=True, generation=-1, awaited=awaited, evidence=[0, 17, 19])
    (found,) = of_timelines(BlockedRebalance, timeline(running))
    assert (found.severity, found.subject, found.evidence) == (Severity.HIGH, "group orders", (17, 19))
    assert found.sentence == (
        "A rebalance of group orders has been running for 50 s, and no member consumes the partitions that it took "
        "away. It waits for m1, which sent 9 heartbeats meanwhile and did not join; in 30 s the coordinator continues "
        "without."
    )
    assert "m1" in found.advice


def test_members_of_newer_groups_give_partitions_up() -> None:
    running = rebalance(end=None, running=True, awaited=[AwaitedMember("m1-id", "m1", at(12), beats=1)])
    (found,) = of_timelines(BlockedRebalance, timeline(running, kind=Kind.CONSUMER))
    assert "m1, which sent 1 heartbeat meanwhile and did not give up partitions for others." in found.sentence


def test_nobody_is_known_to_be_awaited() -> None:
    running = rebalance(end=None, running=True)
    (found,) = of_timelines(BlockedRebalance, timeline(running))
    assert found.sentence.endswith("took away.")


def test_a_rebalance_may_take_its_time() -> None:
    running = rebalance(begin=55, end=None, running=True)
    assert of_timelines(BlockedRebalance, timeline(running)) == []
    assert (
        len(of_timelines(BlockedRebalance, timeline(running), limits={"blocked_rebalance.longest": 5_000}))
        == 1
    )


def test_only_the_latest_one_counts() -> None:
    assert of_timelines(BlockedRebalance, timeline(rebalance(end=50))) == []
    assert of_timelines(BlockedRebalance, timeline()) == []


def test_one_that_ended_is_none() -> None:
    assert of_recording("21_k430_java_blocked_rebalance", BlockedRebalance) == []
