"""Stories of groups of the newer kinds from partial captures."""

from __future__ import annotations

from captures.analysis.groups.vocabulary import Certainty, Trigger
from tests.captures.analysis.groups.modern.talk import ModernTalk, epochs, story, two
from tests.captures.analysis.groups.talk import seconds


def test_epochs_that_nothing_explains_are_one_story() -> None:
    talk = two()
    talk.heartbeat("m1", 42, 2, 7, {"orders": [0]})
    told = story(talk)
    assert (told.previous_generation, told.generation, told.trigger, told.size) == (
        2,
        7,
        Trigger.UNKNOWN,
        None,
    )
    assert told.cause.sentence == "the epoch increased by 5, and the capture does not show why"
    # its time is unknown: between the two heartbeats
    assert 37 < (seconds(told.time) or 0) < 42


def test_another_coordinator_may_be_the_reason() -> None:
    talk = two()
    talk.heartbeat("m1", 42, 2, 3, broker="10.0.0.2:9092")
    told = story(talk)
    assert (told.trigger, told.certainty) == (Trigger.COORDINATOR_MOVED, Certainty.POSSIBLE)
    assert told.alternatives


def test_who_has_no_partitions_that_were_seen_was_not_captured() -> None:
    talk = ModernTalk()
    talk.metadata("m1", -1, {"orders": 4})
    talk.quiet("m1", 0, 10, 5)
    talk.heartbeat("m1", 15, 5, 6, {"orders": [0]})
    talk.quiet("m1", 20, 40, 6)
    timeline = talk.timeline()
    assert (timeline.complete, story(talk).trigger, story(talk).size) == (False, Trigger.UNKNOWN, None)
    assert timeline.seen == [
        "the capture begins in epoch 5",
        "orders 1-3 belong to members that were not captured",
    ]


def test_of_a_member_alone_it_is_not_known_whether_it_empties_the_group() -> None:
    talk = ModernTalk()
    talk.quiet("m1", 0, 10, 5)
    talk.go("m1", 12)
    told = story(talk)
    assert (told.previous_generation, told.generation, told.emptied, told.size) == (5, 6, False, None)


def test_who_leaves_first_of_all_makes_the_epoch_after_that_of_the_others() -> None:
    talk = ModernTalk()
    talk.go("m2", 0)
    talk.heartbeat("m1", 1, 5, 6, {"orders": [0]})
    assert epochs(talk.timeline()) == [(6, Trigger.MEMBER_LEFT)]


def test_a_join_whose_answer_was_not_captured() -> None:
    talk = two()
    talk.enter("m3", 41, 3, answered=False)
    talk.heartbeat("m3", 46, 3, 3, {"orders": [3]})
    told = story(talk)
    assert (told.generation, told.trigger, told.certainty) == (3, Trigger.MEMBER_JOINED, Certainty.INFERRED)
    assert seconds(told.time) == 41


def test_a_join_that_may_still_be_answered_is_none_yet() -> None:
    talk = two()
    waiting = talk.enter("m3", 41, 3, answered=False)
    assert len(talk.timeline(until=42, pending=[waiting]).rebalances) == 2


def test_a_group_that_was_deleted_begins_anew() -> None:
    talk = two()
    talk.go("m1", 41)
    talk.go("m2", 41.5)
    talk.enter("m4", 50, 1, {"orders": range(4)})
    told = story(talk)
    assert (told.previous_generation, told.generation, told.trigger) == (-1, 1, Trigger.MEMBER_JOINED)
