"""Removed members of groups of the newer kinds, and static ones that return."""

from __future__ import annotations

import pytest

from captures.analysis.groups.modern.removals import SessionTimeout
from captures.analysis.groups.vocabulary import Certainty, Phase, TimeoutCause, Trigger
from tests.captures.analysis.groups.kit import SECOND
from tests.captures.analysis.groups.modern.talk import ModernTalk, epochs, story, two
from tests.captures.analysis.groups.talk import seconds


# ---------------------------------------------------------------- removed members
def test_a_silent_member_times_out_after_the_default_if_nothing_speaks_against_it() -> None:
    talk = two()
    talk.quiet("m1", 42, 82, 2)
    talk.heartbeat("m1", 87, 2, 3, {"orders": range(4)})
    told = story(talk)
    assert (told.trigger, told.certainty, told.cause.member) == (
        Trigger.SESSION_TIMEOUT,
        Certainty.INFERRED,
        "m2",
    )
    # its last heartbeat was at second 40
    assert (seconds(told.time), told.cause.silence) == (85, 45 * SECOND)
    assert told.cause.timeout_cause is TimeoutCause.UNKNOWN
    member = talk.timeline().member("m2")
    assert member is not None
    assert seconds(member.left) == 85
    assert [seconds(member.spans[-1].begin), member.spans[-1].phase] == [40, Phase.SILENT]


def test_members_that_time_out_together_are_two_epochs() -> None:
    talk = two()
    talk.enter("m3", 41, 3)
    talk.heartbeat("m3", 46, 3, 3)
    talk.quiet("m3", 51, 85, 3)
    talk.heartbeat("m3", 90, 3, 5, {"orders": range(4)})
    one, other = talk.timeline().rebalances[-2:]
    assert {one.cause.member, other.cause.member} == {"m1", "m2"}
    assert [each.trigger for each in (one, other)] == [Trigger.SESSION_TIMEOUT] * 2
    assert (one.generation, other.generation, other.members) == (4, 5, ["m3"])


def test_a_member_that_goes_on_is_never_taken_for_silent() -> None:
    talk = two()
    talk.heartbeat("m1", 42, 2, 3, {"orders": []})
    talk.quiet("m2", 45, 60, 2)
    told = story(talk)
    assert (told.generation, told.trigger) == (3, Trigger.UNKNOWN)
    assert told.alternatives


def test_a_member_that_its_coordinator_does_not_know_any_more() -> None:
    talk = two()
    talk.heartbeat("m2", 45, 2, error=25)
    told = story(talk)
    assert (told.trigger, told.certainty, told.cause.member) == (Trigger.UNKNOWN, Certainty.POSSIBLE, "m2")
    assert "it was removed by an administrator" in told.alternatives


def test_partitions_of_a_silent_member_are_given_to_others_only_once_it_was_removed() -> None:
    """As in the mock cluster of librdkafka, which bumps the epoch once for both."""
    talk = two()
    talk.quiet("m1", 42, 60, 2)
    talk.enter("m3", 62, 3, {"orders": [2, 3]})
    told = story(talk)
    assert [cause.trigger for cause in told.causes] == [Trigger.MEMBER_JOINED, Trigger.SESSION_TIMEOUT]
    assert (told.joined, told.gone, told.size) == (["m3"], ["m2"], 2)


# ---------------------------------------------------------------- static members
def static(talk: ModernTalk) -> None:
    talk.enter("s1", 41, 3, {"orders": [3]}, request={"instance_id": "i1"})
    talk.heartbeat("s1", 46, 3, 3, request={"instance_id": "i1"})
    talk.heartbeat("m1", 47, 2, 3)
    talk.heartbeat("m2", 47, 2, 3, {"orders": [2]}, owned={"orders": [2]})


def test_a_static_member_that_comes_back_changes_nothing() -> None:
    talk = two()
    static(talk)
    talk.go("s1", 50, -2, request={"instance_id": "i1"})
    talk.enter("s2", 55, 3, {"orders": [3]}, request={"instance_id": "i1"})
    timeline = talk.timeline()
    assert epochs(timeline)[-1] == (3, Trigger.MEMBER_JOINED)
    member = timeline.member("s1")
    assert member is not None
    assert (member.member, member.former, member.left) == ("s2", ["s1"], None)


def test_a_static_member_that_comes_back_with_another_subscription_makes_an_epoch() -> None:
    talk = two()
    static(talk)
    talk.go("s1", 50, -2, request={"instance_id": "i1"})
    talk.enter("s2", 55, 4, {"orders": [3]}, topics=("orders", "logs"), request={"instance_id": "i1"})
    told = story(talk)
    assert (told.generation, told.trigger, told.cause.instance) == (4, Trigger.STATIC_MEMBER_RETURNED, "i1")
    assert (told.joined, told.cause.sentence) == ([], "i1 came back, and subscribes to logs, orders now")


def test_a_static_member_that_does_not_come_back_times_out() -> None:
    talk = two()
    static(talk)
    talk.go("s1", 50, -2, request={"instance_id": "i1"})
    talk.quiet("m1", 52, 92, 3)
    talk.quiet("m2", 52, 97, 3)
    talk.heartbeat("m1", 97, 3, 4, {"orders": [0, 1, 3]})
    told = story(talk)
    assert (told.trigger, told.cause.instance, seconds(told.time)) == (Trigger.SESSION_TIMEOUT, "i1", 95)
    assert "it had left for a while (member epoch -2), and did not come back in time" in told.cause.sentence


def test_who_is_refused_for_its_instance_id_is_no_member() -> None:
    talk = two()
    static(talk)
    talk.enter("s2", 55, 0, request={"instance_id": "i1"}, error=111)
    timeline = talk.timeline()
    assert timeline.member("s2") is None
    assert epochs(timeline)[-1] == (3, Trigger.MEMBER_JOINED)


def test_a_member_that_is_not_known_any_more_explains_the_epoch_before() -> None:
    talk = two()
    talk.heartbeat("m1", 42, 2, 3, {"orders": range(4)})
    talk.heartbeat("m2", 45, 2, error=25)
    assert [each.generation for each in talk.timeline().rebalances] == [1, 2, 3]
    told = story(talk)
    assert (told.cause.member, told.gone, told.certainty) == ("m2", ["m2"], Certainty.POSSIBLE)
    assert told.members == ["m1"]


@pytest.mark.parametrize(
    ("known", "low", "high", "told"),
    [
        ([], 8.2, 10.2, 10),  # the roundest that fits
        ([], 5.1, 6.1, 6),
        ([], 40, 46, 45),  # the default
        ([], 0.1, 11.2, 11.2),  # not enough evidence
        ([(5.1, 6.1)], 4, 6.4, 6),  # all members share one setting
        ([(5.1, 6.1)], 29, 31, 30),  # which may be changed
    ],
)
def test_the_session_timeout_is_what_fits_all_that_was_seen(
    known: list[tuple[float, float]], low: float, high: float, told: float
) -> None:
    timeout = SessionTimeout()
    for bounds in known:
        timeout.learn(*(round(each * SECOND) for each in bounds))
    assert timeout.ended(round(low * SECOND), round(high * SECOND)) == round(told * SECOND)
