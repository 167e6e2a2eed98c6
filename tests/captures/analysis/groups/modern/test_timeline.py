"""Odd but possible messages of groups of the newer kinds."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.groups.call_reader import read_call
from captures.analysis.groups.calls import Call, GroupCalls
from captures.analysis.groups.vocabulary import Kind, Trigger
from tests.captures.analysis.groups.modern.talk import ModernTalk, epochs, story, streams, two

_ODD: dict[type, list[object]] = {list: [[], [None]], str: [""], dict: [{}], int: [-5, 2**31 - 1]}
"""Values of a field, besides null, in truncated or nonsensical messages."""


def odd(kind: Kind) -> tuple[ModernTalk, dict[str, dict[str, Any]]]:
    """Return a talk, and the bodies of one of its exchanges, to be modified."""
    talk = ModernTalk(kind)
    talk.enter("m1", 0, 1, {"orders": [0]})
    said = {"subscribed_topic_names": ["orders", "logs"], "topology": {"epoch": 1}, "instance_id": "i"}
    given, owned = {"orders": [0, 1]}, {"orders": [0]}
    middle = talk.heartbeat("m1", 5, 1, 2, given, owned=owned, status={1: "gone"}, request=said)
    talk.go("m1", 9)
    assert middle.request is not None
    assert middle.response is not None
    return talk, {"request": middle.request.value or {}, "response": middle.response.value or {}}


@pytest.mark.parametrize("kind", [Kind.CONSUMER, Kind.SHARE, Kind.STREAMS])
def test_messages_that_were_cut_off_or_make_no_sense_are_survived(kind: Kind) -> None:
    for side, body in odd(kind)[1].items():
        for name, value in body.items():
            for instead in (None, *_ODD.get(type(value), [])):
                talk, bodies = odd(kind)
                bodies[side][name] = instead
                talk.timelines()
            talk, bodies = odd(kind)
            del bodies[side][name]
            assert talk.timelines()


def calls_of(talk: ModernTalk) -> list[Call]:
    group = GroupCalls(talk.group)
    for exchange in talk.said:
        call = read_call(exchange, lambda _: None)
        assert call is not None
        group.add(call)
    return group.calls


@pytest.mark.parametrize("status", [{}, {1: "topic orders is missing"}])
def test_heartbeats_that_say_nothing_new_are_put_together(status: dict[int, str]) -> None:
    talk = streams()
    before = len(calls_of(talk))
    for step in range(100):
        talk.heartbeat("s1", 20 + 5 * step, 3, 3, owned={"0": [0, 1], "1": [0]}, status=status)
    assert len(calls_of(talk)) <= before + 2
    assert talk.timeline().state == ("NotReady" if status else "Stable")


def test_requests_alone_tell_who_came_and_went() -> None:
    """As in a capture of one direction only."""
    talk = ModernTalk()
    talk.enter("m1", 0, 1, answered=False)
    talk.heartbeat("m1", 5, 1, owned={"orders": [0, 1]}, answered=False)
    talk.enter("m2", 7, 2, answered=False)
    talk.heartbeat("m1", 10, 2, owned={"orders": [0]}, answered=False)
    talk.heartbeat("m2", 12, 2, owned={"orders": [1]}, answered=False)
    talk.go("m2", 15, answered=False)
    timeline = talk.timeline()
    assert [each.trigger for each in timeline.rebalances] == [
        Trigger.MEMBER_JOINED,
        Trigger.MEMBER_JOINED,
        Trigger.MEMBER_LEFT,
    ]
    assert [each.cause.client for each in timeline.rebalances] == ["m1", "m2", "m2"]


def test_a_static_member_that_an_administrator_removes() -> None:
    talk = two()
    talk.enter("s1", 41, 3, {"orders": [3]}, request={"instance_id": "i1"})
    talk.heartbeat("s1", 46, 3, 3)
    talk.leave("", 50, by="tool", gone={"group_instance_id": "i1"})
    told = story(talk)
    assert (told.generation, told.trigger, told.cause.instance) == (4, Trigger.REMOVED_BY_ADMIN, "i1")
    assert (told.cause.sentence, told.gone) == ("i1 was removed by tool", ["s1"])


def test_a_name_that_served_a_classic_group_before() -> None:
    talk = ModernTalk()
    talk.new("c1", 0, 3, 1, leader="c1", members=["c1"])
    talk.sync("c1", 3.005, 1, {"orders": [0]}, {"c1": {"orders": [0]}})
    talk.leave("c1", 10)
    talk.enter("m1", 20, 1, {"orders": [0]})
    timeline = talk.timeline()
    assert epochs(timeline) == [
        (1, Trigger.MEMBER_JOINED),
        (2, Trigger.MEMBER_LEFT),
        (1, Trigger.MEMBER_JOINED),
    ]
    assert [each.kind for each in timeline.rebalances] == [Kind.CLASSIC, Kind.CLASSIC, Kind.CONSUMER]
    assert [cause.trigger for cause in timeline.rebalances[-1].causes] == [Trigger.MEMBER_JOINED]


def test_members_that_are_told_their_epoch_later() -> None:
    """As in the mock cluster of librdkafka."""
    talk = ModernTalk()
    talk.enter("m1", 0, 0)
    talk.enter("m1", 3, 2, {"orders": [0, 1]})
    talk.enter("m2", 10, 0)
    talk.heartbeat("m1", 11, 2, 3, {"orders": [0]})
    assert epochs(talk.timeline()) == [(2, Trigger.MEMBER_JOINED), (3, Trigger.MEMBER_JOINED)]
