"""Upgrade and downgrade of a group, and odd members, as logged by a real coordinator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from captures.analysis.groups.model import GroupTimeline, Move, TopicPartition
from captures.analysis.groups.vocabulary import Certainty, Kind, Phase, TimeoutCause, Trigger
from tests.captures.analysis.groups.compare import read_groups
from tests.captures.analysis.groups.kit import SECOND
from tests.captures.analysis.groups.modern.talk import ModernTalk

RECORDINGS = Path(__file__).resolve().parents[4] / "data" / "findings"


BEGIN = 1795341000
"""2026-11-22T09:50:00Z."""


@cache
def recorded(name: str) -> GroupTimeline:
    (timeline,) = read_groups(str(RECORDINGS / f"43_k430_{name}.pcap.zst")).values()
    return timeline


# seconds after 2026-11-22T09:50:00Z, epoch or generation, causes, members after it: from the log of the coordinator
UPGRADE = [
    (60.531, 1, "member_joined c1", 1),
    (64.505, 2, "member_joined c2", 2),
    (64.646, 3, "cooperative_follow_up c1", 2),
    (68.825, 4, "protocol_upgraded n1, member_joined n1", 3),
    (75.635, 5, "member_joined c3", 4),
    (81.825, 6, "member_left c1", 3),
    (86.334, 7, "protocol_downgraded n1, member_left n1", 2),
    (92.602, 8, "protocol_upgraded n2, member_joined n2", 3),
    (104.722, 9, "protocol_downgraded n2, session_timeout n2", 2),
    (109.902, 10, "member_left c2", 1),
    (113.404, 11, "member_left c3", 0),
]
CHANGES = [
    (121.748, 2, "member_joined m1", 1),
    (125.812, 3, "member_joined m2", 2),
    (129.145, 4, "subscription_changed m1", 2),
    (139.971, 5, "max_poll_exceeded m2", 1),
    (143.946, 6, "member_joined m2", 2),
    (153.363, 7, "session_timeout m2", 1),
    (159.128, 8, "member_joined m2", 2),
    (165.631, 9, "member_joined m3", 3),
    (174.074, 10, "subscription_changed m1", 3),
    (177.840, 11, "member_left m1", 2),
    (180.345, 12, "member_left m2", 1),
    (183.344, 13, "member_left m3", 0),
]


@pytest.mark.parametrize(("name", "happened"), [("upgrade", UPGRADE), ("changes", CHANGES)])
def test_every_epoch_is_told_as_the_coordinator_logged_it(
    name: str, happened: list[tuple[float, int, str, int]]
) -> None:
    told = [
        (each.generation, ", ".join(f"{cause.trigger} {cause.client}" for cause in each.causes), each.size)
        for each in recorded(name).rebalances
    ]
    assert told == [tuple(each[1:]) for each in happened]
    for (time, *_), each in zip(happened, recorded(name).rebalances, strict=True):
        # heartbeats came every second
        assert each.time / SECOND - BEGIN == pytest.approx(time, abs=1)


def test_an_upgraded_group_goes_on_as_one() -> None:
    timeline = recorded("upgrade")
    assert (timeline.kind, timeline.state, timeline.complete) == (Kind.CONSUMER, "Empty", True)
    assert [member.client for member in timeline.members] == ["c1", "c2", "n1", "c3", "n2"]
    befores = [each.previous_generation for each in timeline.rebalances]
    assert befores[1:] == [each.generation for each in timeline.rebalances[:-1]]
    kinds = [each.kind for each in timeline.rebalances]
    assert kinds == [Kind.CLASSIC] * 3 + [Kind.CONSUMER] * 3 + [
        Kind.CLASSIC,
        Kind.CONSUMER,
        *[Kind.CLASSIC] * 3,
    ]


def test_what_moves_by_an_upgrade_and_back_goes_from_hand_to_hand() -> None:
    timeline = recorded("upgrade")
    names = {member.member: member.client for member in timeline.members} | {"": ""}
    for epoch, expected in ((4, {2: ("c1", "n1"), 5: ("c2", "n1")}), (7, {2: ("n1", "c3"), 5: ("n1", "c2")})):
        told = next(each for each in timeline.rebalances if each.generation == epoch)
        moved = {each.tp.partition: (names[each.before], names[each.after]) for each in told.moved}
        assert moved == expected


def test_a_member_that_was_stopped_comes_back_as_itself() -> None:
    timeline = recorded("changes")
    assert [member.client for member in timeline.members] == ["m1", "m2", "m3"]
    told = next(each for each in timeline.rebalances if each.generation == 7)
    assert told.cause.timeout_cause is TimeoutCause.PROCESS_PAUSED
    # the session timeout of the group was six seconds
    assert told.cause.silence == 6 * SECOND
    phases = [span.phase for span in timeline.members[1].spans if span.phase is Phase.SILENT]
    assert phases == [Phase.SILENT]


def test_who_leaves_and_joins_again_may_have_been_slow_to_poll() -> None:
    told = next(each for each in recorded("changes").rebalances if each.generation == 5)
    assert told.certainty is Certainty.POSSIBLE
    assert told.alternatives == ["its application unsubscribed, and subscribed again"]


# ---------------------------------------------------------------- synthetic
def classic() -> ModernTalk:
    """c1 leads generation 1 alone, with all partitions from second 3.007 on."""
    talk = ModernTalk()
    talk.new("c1", 0, 3, 1, leader="c1", members=["c1"])
    talk.sync("c1", 3.005, 1, {"orders": [0, 1]}, {"c1": {"orders": [0, 1]}})
    talk.beats("c1", 4, 9, 1)
    return talk


def test_a_round_that_the_upgrade_overtakes_is_part_of_it() -> None:
    talk = classic()
    talk.join("c2", 9.5, None, -1)
    talk.enter("n1", 10, 2)
    talk.join("c1", 10.5, 10.502, 2)
    talk.sync("c1", 10.51, 2, {"orders": [0]})
    talk.heartbeat("n1", 15, 2, 2, {"orders": [1]})
    first, second = talk.timeline().rebalances
    assert (first.generation, first.trigger) == (1, Trigger.MEMBER_JOINED)
    assert (second.previous_generation, second.generation) == (1, 2)
    assert [(cause.trigger, cause.client) for cause in second.causes] == [
        (Trigger.PROTOCOL_UPGRADED, "n1"),
        (Trigger.MEMBER_JOINED, "n1"),
        (Trigger.MEMBER_JOINED, "c2"),
    ]
    assert second.moved == [Move(TopicPartition("orders", 1), "c1", "n1")]


def test_a_group_may_be_upgraded_before_the_capture_begins() -> None:
    talk = ModernTalk()
    talk.beat("c1", 0, 7)
    talk.heartbeat("n1", 1, 7, 7)
    talk.beat("c1", 3, 7)
    talk.go("n1", 4)
    talk.beat("c1", 6, 7, 27)
    talk.join("c1", 6.1, 6.2, 8, leader="c1", members=["c1"])
    talk.sync("c1", 6.21, 8, {"orders": [0]}, {"c1": {"orders": [0]}})
    (story,) = talk.timeline().rebalances
    assert (story.previous_generation, story.generation, story.kind) == (7, 8, Kind.CLASSIC)
    assert [cause.trigger for cause in story.causes] == [Trigger.PROTOCOL_DOWNGRADED, Trigger.MEMBER_LEFT]
