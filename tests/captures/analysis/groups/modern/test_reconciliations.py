"""Reconciliation in groups of the newer kinds: who gives up what, who gets it, who is awaited."""

from __future__ import annotations

from captures.analysis.groups.model import AwaitedMember, Move, TopicPartition
from captures.analysis.groups.vocabulary import Certainty, Phase, Trigger
from tests.captures.analysis.groups.kit import SECOND, at, places
from tests.captures.analysis.groups.modern.talk import ModernTalk, epochs, story, two
from tests.captures.analysis.groups.talk import seconds


def test_partitions_go_over_once_they_were_given_up() -> None:
    timeline = two().timeline()
    first, second = timeline.rebalances
    assert (first.previous_generation, first.generation, first.size, first.joined) == (-1, 1, 1, ["m1"])
    assert (second.previous_generation, second.generation, second.size, second.joined) == (1, 2, 2, ["m2"])
    assert second.moved == [
        Move(TopicPartition("orders", 2), "m1", "m2"),
        Move(TopicPartition("orders", 3), "m1", "m2"),
    ]
    assert second.assigned == {"m1": places("orders", 0, 1), "m2": places("orders", 2, 3)}
    assert (seconds(second.time), seconds(second.end), second.cooperative) == (10, 15.002, True)
    waits = {wait.member: (wait.notified, wait.total) for wait in second.waits}
    ms = SECOND // 1000
    assert waits == {"m1": (1002 * ms, 2002 * ms), "m2": (2 * ms, 5002 * ms)}
    assert (timeline.state, timeline.complete, timeline.seen) == ("Stable", True, [])


def test_a_member_revokes_until_it_says_that_it_has() -> None:
    timeline = two().timeline()
    spans = timeline.members[0].spans
    revoking = [(seconds(span.begin), seconds(span.end)) for span in spans if span.phase is Phase.REVOKING]
    assert revoking == [(11.002, 12)]
    assert spans[-1].assigned == places("orders", 0, 1)
    assert seconds(spans[-1].end) == seconds(max(timeline.last, spans[-1].end))


def test_who_held_a_reconciliation_up_is_named() -> None:
    talk = two()
    talk.enter("m3", 41, 3)
    talk.heartbeat("m2", 42, 2, 2, {"orders": [2]})
    talk.heartbeat("m2", 43, 2, 3, owned={"orders": [2]})
    talk.heartbeat("m1", 44, 2, 2, {"orders": [0]})
    talk.quiet("m1", 46, 54, 2)
    talk.heartbeat("m1", 56, 2, 3, owned={"orders": [0]})
    talk.heartbeat("m3", 57, 3, 3, {"orders": [1, 3]})
    told = story(talk)
    assert told.held_up is not None
    assert (told.held_up.member, round(told.held_up.duration / SECOND)) == ("m1", 12)
    assert told.slowest is not None
    assert told.slowest.member == "m1"
    assert "all members had their partitions after 16 s: m1 took 12 s to give up orders-1" in (
        told.sentence.lower()
    )


def test_who_did_not_release_its_partitions_before_the_next_rebalance_is_named() -> None:
    talk = two()
    talk.enter("m3", 41, 3)
    talk.heartbeat("m2", 43, 2, 3)
    talk.heartbeat("m1", 44, 2, 2, {"orders": [0]})
    talk.quiet("m1", 46, 54, 2)
    talk.go("m3", 56)
    told = talk.timeline().rebalances[-2]
    assert (told.end, told.overtaken) == (None, True)
    assert "m1 had not given up orders-1 12 s after it was asked to" in told.sentence
    assert "the next rebalance began before this one ended" in told.sentence


def test_a_subscription_that_a_heartbeat_tells_is_the_trigger_also_where_the_capture_begins() -> None:
    talk = ModernTalk()
    talk.heartbeat("m1", 0, 9, 9)
    talk.heartbeat("m2", 1, 9, 9)
    talk.heartbeat("m1", 5, 9, 10, request={"subscribed_topic_names": ["orders", "logs"]})
    talk.heartbeat("m2", 6, 9, 10)
    told = story(talk)
    assert (told.generation, told.trigger, told.certainty) == (
        10,
        Trigger.SUBSCRIPTION_CHANGED,
        Certainty.INFERRED,
    )
    assert "m1 subscribes to logs, orders now" in told.sentence
    assert "an earlier heartbeat failed" in told.alternatives[0]


def test_a_subscription_that_is_told_again_makes_no_epoch() -> None:
    talk = ModernTalk()
    talk.heartbeat("m1", 0, 9, 9)
    talk.heartbeat("m1", 5, 9, 9, request={"subscribed_topic_names": ["orders"]})
    talk.heartbeat("m1", 10, 9, 9)
    assert talk.timeline().rebalances == []


def test_who_was_not_told_yet_is_awaited() -> None:
    talk = two()
    talk.enter("m3", 41, 3)
    told = story(talk, until=42)
    assert (told.running, told.end) == (True, None)
    assert told.awaited == [
        AwaitedMember("m1", "m1", at(41)),
        AwaitedMember("m2", "m2", at(41)),
    ]
    assert talk.timeline(until=42).state == "Reconciling"


def test_who_does_not_give_up_partitions_is_awaited_until_its_rebalance_timeout() -> None:
    talk = two()
    talk.enter("m3", 41, 3)
    talk.heartbeat("m2", 45, 2, 3)
    talk.heartbeat("m1", 47, 2, 2, {"orders": [0]})
    for time in (52, 57, 62):
        talk.heartbeat("m1", time, 2, 2)
    told = story(talk, until=63)
    assert told.running
    assert told.awaited == [AwaitedMember("m1", "m1", at(47.002), beats=3, deadline=at(107.002))]
    # what it has not given up is still its own
    assert told.assigned["m1"] == places("orders", 0, 1)
    assert told.moved == []


def test_who_does_not_give_up_partitions_in_time_is_removed() -> None:
    talk = two()
    talk.enter("m3", 41, 3)
    talk.heartbeat("m2", 45, 2, 3)
    talk.heartbeat("m1", 47, 2, 2, {"orders": [0]})
    talk.quiet("m2", 50, 105, 3)
    for time in range(52, 108, 5):
        talk.heartbeat("m1", time, 2, 2)
    talk.heartbeat("m3", 108, 3, 4, {"orders": [0, 1]})
    talk.heartbeat("m1", 112, 2, error=25)
    told = story(talk)
    assert (told.generation, told.trigger, told.certainty) == (
        4,
        Trigger.REBALANCE_TIMEOUT,
        Certainty.INFERRED,
    )
    assert (told.cause.member, seconds(told.time)) == ("m1", 107.002)
    assert told.gone == ["m1"]


def test_a_rebalance_that_another_overtakes_has_no_end() -> None:
    talk = two()
    talk.enter("m3", 41, 3)
    talk.go("m3", 42)
    talk.heartbeat("m1", 45, 2, 4)
    talk.heartbeat("m2", 46, 2, 4)
    joined, left = talk.timeline().rebalances[-2:]
    assert (joined.generation, joined.end, joined.running) == (3, None, False)
    assert (left.generation, seconds(left.end), left.trigger) == (4, 46.002, Trigger.MEMBER_LEFT)


def test_the_last_that_leaves_empties_the_group() -> None:
    talk = two()
    talk.go("m1", 41)
    talk.go("m2", 41.5)
    timeline = talk.timeline()
    assert epochs(timeline)[2:] == [(3, Trigger.MEMBER_LEFT), (4, Trigger.MEMBER_LEFT)]
    assert (story(talk).emptied, story(talk).size, timeline.state) == (True, 0, "Empty")


def test_partitions_that_are_on_their_way_keep_a_rebalance_from_its_end() -> None:
    talk = ModernTalk()
    talk.enter("m1", 0, 1, {"orders": [0, 1]})
    talk.heartbeat("m1", 1, 1, 1, owned={"orders": [0, 1]})
    talk.enter("m2", 10, 2)
    talk.heartbeat("m1", 11, 1, 1, {"orders": [0]})
    talk.heartbeat("m1", 12, 1, 2, owned={"orders": [0]})
    told = story(talk, until=13)
    assert (told.running, told.end, told.awaited) == (True, None, [])
    # nobody takes it
    assert not story(talk, until=40).running
