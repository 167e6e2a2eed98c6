"""Storms: rebalances that belong to one problem."""

from __future__ import annotations

import pytest

from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.storms import LEAST, LEAST_REJOINED, MOST_APART, mark_storms
from captures.analysis.groups.vocabulary import Trigger
from tests.captures.analysis.groups.compare import read_groups
from tests.captures.analysis.groups.kit import SECOND, at, cause, member, rebalance, timeline
from tests.captures.analysis.groups.truth import FOLDER, read

APART = MOST_APART / SECOND


def looping(count: int, *, apart: float = 30, trigger: Trigger = Trigger.MEMBER_JOINED) -> GroupTimeline:
    """The same client joins over and over, each time with another member ID."""
    members = [member("m1"), *(member("crash", first=step, member=f"crash-{step}") for step in range(count))]
    return timeline(
        *(
            rebalance(
                begin=step * apart,
                causes=[cause(trigger, member=f"crash-{step}", client="crash", time=at(step * apart))],
            )
            for step in range(count)
        ),
        members=members,
    )


def storms(told: GroupTimeline) -> list[int]:
    mark_storms(told)
    return [each.storm for each in told.rebalances]


def test_one_cause_again_and_again_is_a_storm() -> None:
    assert storms(looping(LEAST)) == [LEAST] * LEAST
    assert storms(looping(LEAST + 3)) == [LEAST + 3] * (LEAST + 3)


def test_a_few_are_no_storm() -> None:
    assert storms(looping(LEAST - 1)) == [0] * (LEAST - 1)


def test_what_comes_once_in_a_while_is_no_storm() -> None:
    assert storms(looping(LEAST, apart=APART + 1)) == [0] * LEAST
    assert storms(looping(LEAST, apart=APART)) == [LEAST] * LEAST


def test_a_pause_ends_a_storm() -> None:
    told = looping(LEAST + 1)
    told.rebalances[-1].time = at(LEAST * 30 + 2 * APART)
    assert storms(told) == [LEAST] * LEAST + [0]


def test_members_that_join_one_after_another_are_no_storm() -> None:
    """A deployment of many instances, each with its own client ID."""
    names = [f"m{number}" for number in range(2 * LEAST)]
    told = timeline(
        *(
            rebalance(begin=step, causes=[cause(member=f"{name}-id", client=name)])
            for step, name in enumerate(names)
        ),
        members=[member(name) for name in names],
    )
    assert storms(told) == [0] * len(names)


def test_instances_on_several_hosts_may_share_a_client_id() -> None:
    told = looping(LEAST)
    for number, each in enumerate(told.members):
        each.host = f"10.0.1.{number}"
    assert storms(told) == [0] * LEAST


def test_a_static_member_is_told_by_its_instance() -> None:
    told = looping(LEAST)
    for number, each in enumerate(told.rebalances):
        each.causes = [
            cause(Trigger.MEMBER_LEFT, member=f"x{number}", client=f"c{number}", instance="inst-1")
        ]
    assert storms(told) == [LEAST] * LEAST


@pytest.mark.parametrize(
    "trigger", [Trigger.SESSION_TIMEOUT, Trigger.MAX_POLL_EXCEEDED, Trigger.REBALANCE_TIMEOUT]
)
def test_slow_members_are_one_cause_whoever_it_is(trigger: Trigger) -> None:
    told = looping(LEAST, trigger=trigger)
    for number, each in enumerate(told.rebalances):
        each.causes = [cause(trigger, member=f"m{number}", client=f"m{number}")]
    assert storms(told) == [LEAST] * LEAST


@pytest.mark.parametrize("trigger", [Trigger.UNKNOWN, Trigger.COOPERATIVE_FOLLOW_UP])
def test_what_is_no_cause_of_its_own_makes_no_storm(trigger: Trigger) -> None:
    assert storms(looping(2 * LEAST, trigger=trigger)) == [0] * 2 * LEAST


def test_leaders_that_join_again_need_more() -> None:
    few, many = LEAST_REJOINED - 1, LEAST_REJOINED
    assert storms(looping(few, trigger=Trigger.LEADER_REJOINED)) == [0] * few
    assert storms(looping(many, trigger=Trigger.LEADER_REJOINED)) == [many] * many


@pytest.mark.parametrize(
    ("name", "storm"),
    # a client that was started and killed five times; Connect, which begins with several generations
    [("21_k430_ck_crashloop", 5), ("21_k430_connect_eager", 0), ("21_k430_java_eager_range", 0)],
)
def test_storms_of_recordings(name: str, storm: int) -> None:
    told = read_groups(str(FOLDER / f"{name}.pcap.zst"))[read(name).group]
    assert max(each.storm for each in told.rebalances) == storm
    assert sum(1 for each in told.rebalances if each.storm) == storm
