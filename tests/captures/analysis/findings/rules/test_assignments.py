"""Assignment of partitions to members: none for some, most for one, differing subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.rebalances import (
    DifferingSubscriptions,
    MembersWithoutPartitions,
    SkewedAssignment,
)
from captures.analysis.groups.model import GroupTimeline, Rebalance, TopicPartition
from captures.analysis.groups.vocabulary import Kind
from tests.captures.analysis.findings.group_kit import made, of_recording, of_timelines
from tests.captures.analysis.groups.kit import at, member, places, rebalance, timeline


def assigned(*counts: int, **fields: Any) -> GroupTimeline:
    """A group whose members m1, m2 ... have these numbers of partitions."""
    begins = [sum(counts[:place]) for place in range(len(counts))]
    given = {
        f"m{place + 1}-id": frozenset(
            TopicPartition("orders", number) for number in range(begin, begin + count)
        )
        for place, (begin, count) in enumerate(zip(begins, counts, strict=True))
    }
    known: dict[str, Any] = {"members": [member(f"m{place + 1}") for place in range(len(counts))]}
    of_last = {"size": len(counts), "protocol": "range", **fields.pop("last", {})}
    last = rebalance(assigned=given, **of_last)
    return timeline(last, **known | fields)


def test_more_members_than_partitions() -> None:
    (found,) = of_timelines(MembersWithoutPartitions, assigned(1, 1, 0))
    assert found.severity is Severity.LOW
    assert found.sentence == (
        "1 of 3 members of group orders has had no partition for 47 s (m3): the group has 2 partitions."
    )


def test_who_may_be_without_partitions() -> None:
    for told in (
        assigned(1, 1, 0, kind=Kind.SHARE),  # share groups share partitions
        assigned(1, 1, 0, last={"end": 58}),  # only just
        assigned(1, 1, 0, last={"size": 4}),  # there is one more member, which may have none either
        assigned(1, 1, 0, last={"end": None, "running": True}),
        assigned(0, 0),  # the topic does not exist yet
        assigned(1, 1),
    ):
        assert of_timelines(MembersWithoutPartitions, told) == []


def test_one_member_has_most() -> None:
    (found,) = of_timelines(SkewedAssignment, assigned(8, 2, 1, 1))
    assert found.sentence == (
        "In group orders m1 has 8 partitions, others as few as 1; 12 among 4 members would be 3.0 each "
        "(assignor range)."
    )
    assert of_timelines(SkewedAssignment, assigned(2, 1, 1)) == []
    assert of_timelines(SkewedAssignment, assigned(5, 3, 2, 2)) == []
    assert (
        len(of_timelines(SkewedAssignment, assigned(5, 3, 2, 2), limits={"skewed_assignment.ratio": 150}))
        == 1
    )


@pytest.mark.parametrize(
    ("kind", "protocol", "advice"),
    [
        (Kind.CLASSIC, "range", "CooperativeStickyAssignor"),
        (Kind.CONSUMER, "range", "group.remote.assignor"),
        (Kind.CLASSIC, "stream", "num.stream.threads"),
        (Kind.STREAMS, "", "num.stream.threads"),
    ],
)
def test_advice_fits_the_protocol_of_the_group(kind: Kind, protocol: str, advice: str) -> None:
    (found,) = of_timelines(SkewedAssignment, assigned(8, 2, 1, 1, kind=kind, protocol=protocol))
    assert advice in found.advice


def test_members_that_want_different_topics_are_not_compared() -> None:
    members = [member("m1", subscription=("orders",)), member("m2", subscription=("orders", "audit"))]
    assert of_timelines(SkewedAssignment, assigned(8, 0, members=members)) == []


def test_subscriptions_that_differ() -> None:
    members = [
        member("m1", subscription=("audit", "orders")),
        member("m2", subscription=("audit", "orders")),
        member("m3", subscription=("orders",), first=5, last=50),
    ]
    (found,) = of_timelines(DifferingSubscriptions, timeline(members=members[:3]))
    assert found.sentence == (
        "Members of group orders subscribe to 2 different sets of topics (m1, m2: audit, orders; m3: orders)."
    )
    assert of_timelines(DifferingSubscriptions, timeline(members=members[:2])) == []


def test_subscriptions_that_differed_are_told_though_the_others_have_left() -> None:
    other = member("m4", subscription=("gone",), first=5, left=at(20))
    members = [member("m1", subscription=("orders",)), member("m5"), other]
    (found,) = of_timelines(DifferingSubscriptions, timeline(members=members))
    assert found.sentence == (
        "Members of group orders subscribed to 2 different sets of topics for 15 s (m1: orders; m4: gone)."
    )
    assert (found.first, found.last) == (at(5), at(20))
    # a rollout of a few seconds is not reported
    rolled = [
        member("m1", subscription=("orders",), left=at(20)),
        member("m2", subscription=("audit",), first=12),
    ]
    assert of_timelines(DifferingSubscriptions, timeline(members=rolled)) == []


def test_groups_that_were_not_seen_whole() -> None:
    assert made(MembersWithoutPartitions).blind() == made(DifferingSubscriptions).blind() != ""
    part = timeline(rebalance(assigned={"m1-id": places("orders", 0)}, size=3))
    assert "assignments of all" in made(SkewedAssignment, part).blind()
    assert made(DifferingSubscriptions, part).blind() == ""


def test_what_lasts_longest_counts() -> None:
    def after(begin: float, end: float, *counts: int) -> Rebalance:
        return assigned(*counts, last={"begin": begin, "end": end}).rebalances[0]

    assert len(of_timelines(SkewedAssignment, timeline(after(10, 13, 8, 0), after(55, 56, 3, 3)))) == 1
    assert of_timelines(SkewedAssignment, timeline(after(10, 13, 8, 0), after(15, 16, 3, 3))) == []


@pytest.mark.slow
def test_recordings_of_members_alike() -> None:
    for rule in (SkewedAssignment, DifferingSubscriptions):
        assert of_recording("21_k430_java_inconsistent", rule) == []
