"""Changes of subscriptions and topics; share groups and streams groups."""

from __future__ import annotations

from captures.analysis.groups.model import Move, TopicPartition
from captures.analysis.groups.vocabulary import Certainty, Kind, Trigger
from tests.captures.analysis.groups.kit import at, places
from tests.captures.analysis.groups.modern.talk import ModernTalk, epochs, story, streams, two


# ---------------------------------------------------------------- subscriptions and topics
def test_another_subscription() -> None:
    talk = two()
    talk.heartbeat("m1", 42, 2, 3, request={"subscribed_topic_names": ["orders", "logs"]})
    told = story(talk)
    assert (told.generation, told.trigger, told.certainty) == (
        3,
        Trigger.SUBSCRIPTION_CHANGED,
        Certainty.OBSERVED,
    )
    assert told.cause.sentence == "m1 subscribes to logs, orders now"


def test_the_same_subscription_said_again_is_none() -> None:
    talk = two()
    talk.heartbeat("m1", 42, 2, 2, request={"subscribed_topic_names": ["orders"]})
    assert len(talk.timeline().rebalances) == 2


def test_more_partitions_are_told_by_metadata() -> None:
    talk = two()
    number = talk.metadata("m1", 41, {"orders": 6}).number
    talk.heartbeat("m1", 43, 2, 3, {"orders": [0, 1, 4]})
    told = story(talk)
    assert (told.trigger, told.certainty) == (Trigger.PARTITIONS_CHANGED, Certainty.OBSERVED)
    assert told.cause.sentence == "orders has 6 partitions instead of 4"
    assert number in told.cause.evidence


def test_more_partitions_show_in_what_members_are_given() -> None:
    talk = two()
    talk.heartbeat("m1", 43, 2, 3, {"orders": [0, 1, 4]})
    told = story(talk)
    assert (told.trigger, told.certainty) == (Trigger.PARTITIONS_CHANGED, Certainty.INFERRED)
    assert told.moved == [Move(TopicPartition("orders", 4), "", "m1")]


def test_the_first_topic_of_a_group_shows_in_what_members_are_given() -> None:
    """Its members subscribed before the topic existed, and request its metadata by ID, if at all."""
    talk = ModernTalk()
    talk.enter("m1", 0, 1)
    talk.quiet("m1", 5, 20, 1)
    talk.heartbeat("m1", 25, 1, 2, {"orders": [0, 1, 2]})
    told = story(talk)
    assert (told.trigger, told.certainty) == (Trigger.PARTITIONS_CHANGED, Certainty.INFERRED)
    assert told.cause.sentence == "orders 0-2 appeared: the topic is new to the group"
    assert told.moved == [Move(place, "", "m1") for place in sorted(places("orders", 0, 1, 2))]


def test_a_change_of_topics_explains_one_epoch() -> None:
    talk = two()
    talk.metadata("m1", 41, {"orders": 6})
    talk.heartbeat("m1", 43, 2, 3, {"orders": [0, 1, 4]})
    talk.heartbeat("m1", 48, 3, 4, {"orders": [0, 1]})
    assert epochs(talk.timeline())[2:] == [(3, Trigger.PARTITIONS_CHANGED), (4, Trigger.UNKNOWN)]


# ---------------------------------------------------------------- share groups
def test_in_a_share_group_only_what_a_member_gained_or_lost_has_moved() -> None:
    talk = ModernTalk(Kind.SHARE)
    talk.enter("m1", 0, 1)
    talk.heartbeat("m1", 5, 1, 2, {"orders": [0, 1, 2]})
    talk.enter("m2", 8, 3, {"orders": [0, 1]})
    talk.heartbeat("m1", 10, 2, 3, {"orders": [0, 2]})
    timeline = talk.timeline()
    assert epochs(timeline) == [
        (1, Trigger.MEMBER_JOINED),
        (2, Trigger.PARTITIONS_CHANGED),
        (3, Trigger.MEMBER_JOINED),
    ]
    moved = timeline.rebalances[-1].moved
    assert moved == [
        Move(TopicPartition("orders", 0), "", "m2"),
        Move(TopicPartition("orders", 1), "m1", "m2"),
    ]
    assert timeline.rebalances[-1].end == at(10.002)


# ---------------------------------------------------------------- streams groups
def test_tasks_of_a_streams_group_take_the_place_of_partitions() -> None:
    joined, ready = streams().timeline().rebalances
    assert (joined.generation, joined.trigger, joined.cause.sentence) == (
        2,
        Trigger.MEMBER_JOINED,
        "s1 joined",
    )
    assert (ready.generation, ready.trigger) == (3, Trigger.PARTITIONS_CHANGED)
    assert ready.assigned == {"s1": places("0", 0, 1) | places("1", 0)}


def test_what_keeps_a_streams_group_from_running_is_told() -> None:
    talk = ModernTalk(Kind.STREAMS)
    talk.enter("s1", 0, 1, {}, topics=None, status={1: "topic orders is missing", 5: ""})
    talk.heartbeat("s1", 5, 1, 1, status={1: "topic orders is missing"})
    timeline = talk.timeline()
    assert timeline.state == "NotReady"
    assert timeline.rebalances[0].cause.sentence == (
        "s1 joined; the coordinator says MISSING_SOURCE_TOPICS (topic orders is missing)"
    )
    assert timeline.rebalances[0].status == [
        "MISSING_SOURCE_TOPICS (topic orders is missing) for at least 5 s",
        "ASSIGNMENT_DELAYED for 5 s",
    ]


def test_another_topology_is_another_subscription() -> None:
    talk = streams()
    talk.heartbeat("s1", 20, 3, 4, request={"topology": {"epoch": 1}})
    told = story(talk)
    assert (told.generation, told.trigger) == (4, Trigger.SUBSCRIPTION_CHANGED)
    assert told.cause.sentence == "s1 has another topology (epoch 1 instead of 0)"


def test_the_topics_that_a_topology_reads_are_its_subscription() -> None:
    talk = ModernTalk(Kind.STREAMS)
    parts = [{"subtopology_id": "0", "source_topics": ["orders"], "source_topic_regex": ["logs-.*"]}]
    topology = {"topology": {"epoch": 0, "subtopologies": parts}}
    talk.metadata("s1", -1, {"orders": 2})
    talk.enter("s1", 0, 2, {"0": [0, 1]}, topics=None, request=topology)
    talk.quiet("s1", 5, 20, 2)
    talk.metadata("s1", 21, {"orders": 3})
    talk.heartbeat("s1", 25, 2, 3, {"0": [0, 1, 2]})
    timeline = talk.timeline()
    assert timeline.members[0].subscription == ("orders", "/logs-.*/")
    assert timeline.rebalances[-1].cause.sentence == "orders has 3 partitions instead of 2"
