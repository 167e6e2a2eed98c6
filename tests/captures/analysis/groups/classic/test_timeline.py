"""Rebalances of classic groups, most of them synthetic; test_truth.py has those of recordings."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import GroupTimeline, Rebalance, TopicPartition
from captures.analysis.groups.vocabulary import Certainty, Phase, Trigger
from captures.exchanges import ExchangeReader, open_capture
from captures.json_objects import to_json
from dissectors.embedded.connect import ConnectAssignment, ConnectMetadata
from tests.captures.analysis.groups.kit import at
from tests.captures.analysis.groups.talk import Talk, one_member, seconds, two_members

pytestmark = pytest.mark.quick

RECORDINGS = Path(__file__).resolve().parents[4] / "data" / "findings"
PLACE_0, PLACE_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def last(talk: Talk, until: float | None = None) -> Rebalance:
    return talk.timeline(until).rebalances[-1]


def triggers(story: Rebalance) -> list[Trigger]:
    return [cause.trigger for cause in story.causes]


# ---------------------------------------------------------------- joining members
def test_the_first_generation_is_that_of_its_first_member() -> None:
    timeline = two_members().timeline()
    (story,) = timeline.rebalances
    assert (story.previous_generation, story.generation, story.size, story.leader) == (-1, 1, 2, "m1")
    assert (triggers(story), story.joined) == ([Trigger.MEMBER_JOINED] * 2, ["m1", "m2"])
    assert story.certainty is Certainty.OBSERVED
    # the JoinGroup with the ID adds the member, not the first one
    assert (seconds(story.time), seconds(story.end)) == (0.002, 3.008)
    assert (story.protocol, story.cooperative) == ("range", False)
    assert story.assigned == {"m1": {PLACE_0}, "m2": {PLACE_1}}
    assert (timeline.state, timeline.generation, timeline.complete) == ("Stable", 1, True)


def test_a_member_that_is_only_given_an_id_began_nothing() -> None:
    talk = one_member()
    talk.join("m2", 5, 5.001, -1, new=True, error=79)
    talk.beats("m1", 5, 20, 1)
    assert len(talk.timeline().rebalances) == 1
    assert [member.client for member in talk.timeline().members] == ["m1"]


@pytest.mark.parametrize("error", [23, 81])
def test_a_member_that_is_refused_began_nothing(error: int) -> None:
    talk = one_member()
    talk.join("m2", 5, 5.001, -1, new=True, error=79)
    talk.join("m2", 5.002, 5.003, -1, error=error)
    talk.beats("m1", 5, 20, 1)
    assert len(talk.timeline().rebalances) == 1


def test_partitions_go_over_to_who_joins() -> None:
    talk = one_member()
    talk.new("m2", 5, 7.51, 2, leader="m1")
    talk.beat("m1", 7, 1, 27)
    talk.join("m1", 7.5, 7.51, 2, leader="m1", members=["m1", "m2"])
    talk.sync("m2", 7.52, 2, {"orders": [1]}, took=0.02)
    talk.sync("m1", 7.53, 2, {"orders": [0]}, {"m1": {"orders": [0]}, "m2": {"orders": [1]}})
    story = last(talk)
    (moved,) = story.moved
    assert (moved.tp, moved.before, moved.after) == (PLACE_1, "m1", "m2")
    waits = {wait.member: wait for wait in story.waits}
    assert [seconds(story.time + (wait.notified or 0)) for wait in waits.values()] == [5.002, 7.001]
    assert round(waits["m2"].join or 0, -6) == 2_508_000_000
    assert round(waits["m2"].sync or 0, -6) == 20_000_000
    assert round(waits["m1"].asked or 0, -6) == 2_498_000_000
    assert story.slowest is waits["m1"]
    assert (
        "The others waited 2 s for m1, which learned of the rebalance from its next heartbeat"
        in story.sentence
    )
    assert "m2 took over orders-1" in story.sentence


def test_a_member_that_came_too_late_for_a_generation_is_in_the_next() -> None:
    """Its request was in flight when the coordinator answered the others."""
    talk = Talk()
    talk.new("m1", 0, 3, 1, leader="m1", members=["m1"])
    talk.join("m2", 2.999, 4, 2, new=True, leader="m1", version=3)
    talk.sync("m1", 3.01, 1, error=27)
    talk.join("m1", 3.5, 4, 2, leader="m1", members=["m1", "m2"])
    first, story = talk.timeline().rebalances
    assert [cause.member for cause in first.causes] == ["m1"], "m2 has no part in it"
    assert (triggers(story), story.cause.member) == ([Trigger.MEMBER_JOINED], "m2")
    assert seconds(story.time) == 3


# ---------------------------------------------------------------- leaving members
def test_who_left_gave_its_reason() -> None:
    talk = two_members()
    talk.leave("m2", 5, reason="the consumer is being closed")
    story = rejoined_alone(talk, 6)
    assert (story.trigger, story.cause.member, story.certainty) == (
        Trigger.MEMBER_LEFT,
        "m2",
        Certainty.OBSERVED,
    )
    assert story.gone == ["m2"]
    assert story.sentence.startswith('m2 left (it says: "the consumer is being closed").')
    assert seconds(story.time) == 5


def rejoined_alone(talk: Talk, time: float, generation: int = 2) -> Rebalance:
    """Let m1 learn of a rebalance and rejoin alone; return the resulting rebalance."""
    talk.beat("m1", time, generation - 1, 27)
    talk.join("m1", time + 0.01, time + 0.02, generation, leader="m1", members=["m1"])
    talk.sync("m1", time + 0.03, generation, {"orders": [0, 1]}, {"m1": {"orders": [0, 1]}})
    return last(talk)


def test_the_poll_interval_was_exceeded_by_its_own_words() -> None:
    talk = two_members()
    talk.leave("m2", 5, reason="consumer poll timeout has expired.")
    story = rejoined_alone(talk, 6)
    assert (story.trigger, story.certainty) == (Trigger.MAX_POLL_EXCEEDED, Certainty.OBSERVED)
    assert not story.alternatives


@pytest.mark.parametrize(
    ("left", "trigger", "certainty"),
    [
        # max.poll.interval.ms is 60 s, and m2 polled at second 3
        (65, Trigger.MAX_POLL_EXCEEDED, Certainty.POSSIBLE),
        (55, Trigger.MEMBER_LEFT, Certainty.OBSERVED),
    ],
)
def test_who_leaves_without_a_reason_and_comes_back_was_slow_perhaps(
    left: float, trigger: Trigger, certainty: Certainty
) -> None:
    talk = two_members()
    talk.beats("m1", 4, left, 1)
    talk.beats("m2", 4, left, 1)
    talk.leave("m2", left + 0.5)
    rejoined_alone(talk, left + 1)
    # on the connection of m2, with another ID
    again = left + 20
    place = {"connection": 1, "client_id": "m2", "client": "10.0.0.11:4000"}
    talk.join("m2-b", again, again + 0.001, -1, new=True, error=79, **place)
    story = talk.timeline().rebalances[1]
    assert (story.trigger, story.certainty) == (trigger, certainty)
    assert bool(story.alternatives) is (trigger is Trigger.MAX_POLL_EXCEEDED)


def test_who_leaves_without_a_reason_and_stays_away_just_left() -> None:
    talk = two_members()
    talk.leave("m2", 5)
    story = rejoined_alone(talk, 6)
    assert (story.trigger, story.certainty) == (Trigger.MEMBER_LEFT, Certainty.OBSERVED)


def test_somebody_else_removed_a_member() -> None:
    talk = two_members()
    talk.leave("m2", 5, by="admin")
    story = rejoined_alone(talk, 6)
    assert (story.trigger, story.cause.member) == (Trigger.REMOVED_BY_ADMIN, "m2")
    assert story.cause.client == "m2"


def test_somebody_else_removed_a_static_member() -> None:
    """Admin clients name static members by their instance IDs (KIP-345)."""
    talk = Talk()
    for member in ("s-1", "s-2"):
        talk.join(member, 0, 3, 1, new=True, leader="s-1", members=["s-1", "s-2"], instance=f"i{member}")
        talk.beats(member, 4, 5, 1)
    gone = {"member_id": "", "group_instance_id": "is-2", "reason": "member was removed by an admin"}
    talk.leave("s-2", 5.5, by="admin", gone=gone)
    talk.beat("s-1", 6, 1, 27)
    talk.join("s-1", 6.1, 6.2, 2, leader="s-1", members=["s-1"])
    story = last(talk)
    assert (triggers(story), story.cause.instance) == ([Trigger.REMOVED_BY_ADMIN], "is-2")


def test_how_long_a_silent_member_had_may_not_be_known() -> None:
    """The requests before the session timeout were cut off."""
    talk = Talk()
    for member in ("m1", "m2"):
        talk.join(
            member, 0, 3, 1, new=True, leader="m1", members=["m1", "m2"], request={"session_timeout_ms": None}
        )
    talk.beats("m1", 4, 14, 1)
    talk.beats("m2", 4, 6, 1)
    talk.join("m3", 14.5, 15.5, 2, new=True, leader="m1", request={"session_timeout_ms": None})
    talk.beat("m1", 14.9, 1, 27)
    talk.join("m1", 15, 15.5, 2, leader="m1", members=["m1", "m3"], request={"session_timeout_ms": None})
    silent = last(talk).causes[-1]
    assert (silent.trigger, silent.certainty, silent.member) == (
        Trigger.SESSION_TIMEOUT,
        Certainty.POSSIBLE,
        "m2",
    )
    assert "it did not join in time" in last(talk).alternatives


def test_who_removed_a_member_was_not_captured() -> None:
    talk = two_members()
    talk.beats("m1", 4, 6, 1)
    talk.beats("m2", 4, 6, 1)
    talk.beat("m2", 7, 1, 25)
    story = rejoined_alone(talk, 7.5)
    assert triggers(story) == [Trigger.UNKNOWN]
    assert story.cause.member == "m2"
    assert "an admin client removed it" in story.alternatives


def test_who_is_unknown_before_its_session_is_over_did_not_time_out() -> None:
    """Only a follower was captured: it had been removed when it wanted to leave (``41_k430_stuck``)."""
    talk = Talk()
    talk.join("m2", 0, 3, 2, new=True, leader="m1")
    talk.beats("m2", 4, 9, 2, error=27)
    talk.leave("m2", 10, reason="consumer poll timeout has expired.", error=25)
    talk.join("m2/b", 20, 21, 4, new=True, leader="m1")
    assert Trigger.SESSION_TIMEOUT not in triggers(last(talk))


def test_who_was_fenced_did_not_time_out() -> None:
    """The other member with its instance ID was not captured."""
    talk = Talk()
    talk.join("s-1", 0, 3, 1, new=True, leader="s-1", members=["s-1"], instance="s")
    talk.sync("s-1", 3.01, 1, {"orders": [0]}, {"s-1": {"orders": [0]}})
    talk.beat("s-1", 4, 1, 82)
    assert len(talk.timeline(until=60).rebalances) == 1


def test_a_static_member_may_have_been_there_before() -> None:
    talk = Talk()
    talk.join("s-1", 0, 3, 7, new=True, leader="m1", instance="s")
    story = last(talk)
    assert (story.trigger, story.certainty) == (Trigger.MEMBER_JOINED, Certainty.POSSIBLE)
    assert story.alternatives


def test_a_leave_that_was_refused_removed_nobody() -> None:
    talk = two_members()
    talk.leave("m2", 5, error=25)
    talk.beats("m2", 6, 20, 1)
    talk.beats("m1", 6, 20, 1)
    assert len(talk.timeline().rebalances) == 1


def test_a_silent_member_is_gone_after_its_session() -> None:
    talk = two_members()
    talk.beats("m2", 4, 6, 1)
    talk.beats("m1", 4, 12, 1)
    story = rejoined_alone(talk, 12.5)
    cause = story.cause
    assert (cause.trigger, cause.certainty, cause.member) == (
        Trigger.SESSION_TIMEOUT,
        Certainty.INFERRED,
        "m2",
    )
    assert (seconds(story.time), cause.silence) == (12.001, 6_000_000_000)
    assert "m2 was removed after 6 s without a heartbeat, its session timeout" in story.sentence
    spans = next(member for member in talk.timeline().members if member.client == "m2").spans
    assert (spans[-1].phase, seconds(spans[-1].begin), seconds(spans[-1].end)) == (
        Phase.SILENT,
        6.001,
        12.001,
    )


def test_commits_keep_a_session_alive_but_not_before_kip_62() -> None:
    """As 0.9.0.1 does it (``31_k0901_rebalance_range``)."""
    ends = []
    for version in (0, 9):
        talk = Talk()
        for member, begin in (("m1", 0), ("m2", 1)):
            talk.join(
                member,
                begin,
                3,
                1,
                new=True,
                leader="m1",
                members=["m1", "m2"],
                version=version,
                request={"rebalance_timeout_ms": None} if not version else {},
            )
        talk.sync("m1", 3.1, 1, given={"m1": {}, "m2": {}})
        talk.sync("m2", 3.1, 1)
        talk.commit("m2", 5, 1)
        talk.beats("m1", 4, 11, 1)
        ends.append(seconds(rejoined_alone(talk, 11.5).time))
    assert ends == [9.102, 11.001]


def test_a_member_that_did_not_join_in_time_is_left_out() -> None:
    talk = two_members()
    talk.new("m3", 5, 65.002, 2, leader="m1")
    talk.beat("m1", 5.5, 1, 27)
    talk.join("m1", 5.6, 65.002, 2, leader="m1", members=["m1", "m3"])
    talk.beats("m2", 6, 65, 1, 27)
    talk.beat("m2", 66, 1, 25)
    story = last(talk)
    assert triggers(story) == [Trigger.MEMBER_JOINED, Trigger.REBALANCE_TIMEOUT]
    late = story.causes[1]
    assert (late.member, late.certainty, seconds(late.time)) == ("m2", Certainty.INFERRED, 65.002)
    assert "60 heartbeats" in late.sentence
    assert story.gone == ["m2"]
    left_out = talk.timeline().by_id()["m2"]
    assert seconds(left_out.left) == 65.002
    assert (left_out.spans[-1].phase, seconds(left_out.spans[-1].end)) == (Phase.NOT_JOINING, 65.002)


# ---------------------------------------------------------------- rejoining members
def again(talk: Talk, time: float, generation: int = 2, **more: object) -> Rebalance:
    """Let the leader m1 rejoin of its own accord, and m2 because it is told to."""
    talk.join("m1", time, time + 1.1, generation, leader="m1", members=["m1", "m2"], **more)
    talk.beat("m2", time + 1, generation - 1, 27)
    talk.join("m2", time + 1.01, time + 1.1, generation, leader="m1")
    talk.sync("m1", time + 1.2, generation, {"orders": [0]}, {"m1": {"orders": [0]}, "m2": {"orders": [1]}})
    talk.sync("m2", time + 1.2, generation, {"orders": [1]})
    return last(talk)


def test_the_leader_joined_again_for_no_reason_that_is_known() -> None:
    story = again(two_members(), 5)
    assert (triggers(story), story.cause.member) == ([Trigger.LEADER_REJOINED], "m1")
    assert seconds(story.time) == 5


def test_the_leader_joined_again_because_there_are_more_partitions() -> None:
    talk = two_members()
    talk.metadata("m1", 2, {"orders": 2})
    news = talk.metadata("m1", 4.5, {"orders": 4})
    story = again(talk, 5)
    assert triggers(story) == [Trigger.PARTITIONS_CHANGED]
    assert news.number in story.cause.evidence
    assert "orders has 4 partitions now, 2 before" in story.sentence


def test_metadata_of_other_topics_is_no_reason() -> None:
    talk = two_members()
    talk.metadata("m1", 2, {"orders": 2, "logs": 2})
    talk.metadata("m1", 4.5, {"orders": 2, "logs": 4})
    assert triggers(again(talk, 5)) == [Trigger.LEADER_REJOINED]


def test_a_topic_that_came_into_being_is_a_reason() -> None:
    talk = two_members()
    talk.metadata("m1", 2, {"orders": 0})
    talk.metadata("m1", 4.5, {"orders": 4})
    story = again(talk, 5)
    assert triggers(story) == [Trigger.PARTITIONS_CHANGED]
    assert "orders exists now, with 4 partitions" in story.sentence


@pytest.mark.parametrize(("back", "deleted"), [(4.9, False), (30.0, True)])
def test_metadata_that_lacks_a_topic_for_a_moment_is_no_deletion(back: float, deleted: bool) -> None:
    talk = two_members()
    talk.metadata("m1", 2, {"orders": 2})
    talk.metadata("m1", 4.5, {"orders": 0})
    story = again(talk, 5) if deleted else None
    talk.metadata("m1", back, {"orders": 2})
    if story is None:
        story = again(talk, 5)
        assert "Metadata lacked orders for 400 ms, as it does after a broker was restarted" in story.sentence
    else:
        assert "orders no longer exists" in story.sentence
    assert triggers(story) == [Trigger.PARTITIONS_CHANGED]
    assert story.certainty is (Certainty.OBSERVED if deleted else Certainty.INFERRED)


def test_a_round_that_the_next_one_overtakes_says_so() -> None:
    talk = two_members()
    talk.join("m1", 5, 6.1, 2, leader="m1", members=["m1", "m2"])
    talk.beat("m2", 6, 1, 27)
    talk.join("m2", 6.01, 6.1, 2, leader="m1")
    talk.sync("m1", 6.2, 2, {"orders": [0]}, {"m1": {"orders": [0]}, "m2": {"orders": [1]}})
    talk.sync("m2", 6.2, 2, error=27)
    story = next(each for each in talk.timeline().rebalances if each.generation == 2)
    assert (story.end, story.overtaken) == (None, True)
    assert (
        "The next rebalance began before this one ended" in story.sentence
        or "the next rebalance" in story.sentence
    )


def test_a_member_wants_other_topics() -> None:
    story = again(two_members(), 5, topics=["orders", "logs"])
    assert (triggers(story), story.certainty) == ([Trigger.SUBSCRIPTION_CHANGED], Certainty.OBSERVED)
    assert "m1 joined again: it subscribes to logs now" in story.sentence


def test_a_member_that_was_told_may_change_its_topics_too() -> None:
    talk = two_members()
    talk.new("m3", 5, 6.1, 2, leader="m1")
    talk.beat("m1", 5.5, 1, 27)
    talk.join("m1", 6, 6.1, 2, leader="m1", members=["m1", "m2", "m3"], topics=["logs"])
    talk.beat("m2", 5.6, 1, 27)
    talk.join("m2", 6, 6.1, 2, leader="m1")
    assert triggers(last(talk)) == [Trigger.MEMBER_JOINED, Trigger.SUBSCRIPTION_CHANGED]


def test_a_second_round_is_told_by_its_reason() -> None:
    talk = two_members("cooperative-sticky")
    story = again(talk, 5, reason="need to revoke partitions and re-join")
    assert (triggers(story), story.certainty) == ([Trigger.COOPERATIVE_FOLLOW_UP], Certainty.OBSERVED)
    assert story.cooperative


def test_a_second_round_without_a_reason_follows_from_what_was_given_up() -> None:
    """As with librdkafka, whose version of JoinGroup has no reason."""
    talk = Talk(protocol="cooperative-sticky")
    talk.new("m1", 0, 3, 1, leader="m1", members=["m1"])
    talk.sync("m1", 3.01, 1, {"orders": [0, 1]}, {"m1": {"orders": [0, 1]}})
    talk.new("m2", 5, 6, 2, leader="m1")
    talk.beat("m1", 5.5, 1, 27)
    talk.join("m1", 5.9, 6, 2, leader="m1", members=["m1", "m2"], owned={"orders": [0, 1]})
    talk.sync("m1", 6.1, 2, {"orders": [0]}, {"m1": {"orders": [0]}, "m2": {}})
    talk.sync("m2", 6.1, 2, {})
    talk.join("m1", 6.2, 7, 3, leader="m1", members=["m1", "m2"], owned={"orders": [0]})
    talk.beat("m2", 6.9, 2, 27)
    talk.join("m2", 6.95, 7, 3, leader="m1")
    story = last(talk)
    assert (triggers(story), story.certainty) == ([Trigger.COOPERATIVE_FOLLOW_UP], Certainty.INFERRED)
    # the first round took a partition from m1 and gave it to nobody
    (moved,) = talk.timeline().rebalances[1].moved
    assert (moved.tp, moved.before, moved.after) == (PLACE_1, "m1", "")


def connect(orders: dict[str, object]) -> tuple[Talk, dict[str, object]]:
    """Two workers of Connect; w2 gets an additional assignment. Also return its metadata."""
    metadata = struct.pack(">h", 1) + ConnectMetadata[1].build({"url": "http://w2:8083/", "config_offset": 5})
    request = {"protocol_type": "connect", "protocols": [{"name": "compatible", "metadata": metadata}]}
    told = {
        "error": 0,
        "leader": "w1",
        "leader_url": "http://w1:8083/",
        "config_offset": 5,
        "assigned": [],
        "revoked": None,
        "delay": 0,
    }
    assigned = struct.pack(">h", 1) + ConnectAssignment[1].build(told | orders)
    talk = Talk(protocol="compatible")
    for worker in ("w1", "w2"):
        talk.join(worker, 0, 3, 1, new=True, leader="w1", members=["w1", "w2"], request=dict(request))
    for worker in ("w1", "w2"):
        sync = talk.sync(worker, 3.01, 1)
        assert sync.request is not None
        assert sync.response is not None
        assert sync.request.value is not None
        assert sync.response.value is not None
        sync.request.value["protocol_type"] = "connect"
        sync.response.value["assignment"] = assigned
    return talk, request


@pytest.mark.parametrize(
    ("orders", "trigger", "why"),
    [
        ({"revoked": [{"connector": "sink", "tasks": [0]}]}, Trigger.COOPERATIVE_FOLLOW_UP, "second round"),
        ({"delay": 300_000}, Trigger.LEADER_REJOINED, "the delay for a lost worker was over (5 min,"),
        ({"error": 1}, Trigger.LEADER_REJOINED, "configuration was older"),
        ({}, Trigger.LEADER_REJOINED, "leader, w1, joined again"),
    ],
)
def test_workers_of_connect_join_again_by_order(
    orders: dict[str, object], trigger: Trigger, why: str
) -> None:
    talk, request = connect(orders)
    talk.join("w1", 5, 6, 2, leader="w1", members=["w1", "w2"], request=dict(request))
    talk.beat("w2", 5.5, 1, 27)
    talk.join("w2", 5.9, 6, 2, leader="w1", request=dict(request))
    story = last(talk)
    assert triggers(story) == [trigger]
    assert why in story.sentence
    assert story.cooperative
    assert story.assigned == {}


def test_a_leave_behind_a_join_in_flight_belongs_to_the_next_generation() -> None:
    """Brokers answer one request of a connection before they read the next: the LeaveGroup waits for the round."""
    talk = two_members()
    talk.new("m3", 5, 7, 2, leader="m1")
    talk.beat("m1", 5.5, 1, 27)
    talk.join("m1", 5.6, 7, 2, leader="m1", members=["m1", "m2", "m3"])
    talk.beat("m2", 6.5, 1, 27)
    talk.join("m2", 6.6, 7, 2, leader="m1")
    talk.leave("m1", 6.8)
    talk.join("m2", 8, 9, 3, leader="m2", members=["m2", "m3"])
    talk.join("m3", 8, 9, 3, leader="m2")
    _, second, third = talk.timeline().rebalances
    assert (triggers(second), second.size) == ([Trigger.MEMBER_JOINED], 3)
    assert (third.cause.trigger, third.cause.client, seconds(third.time)) == (Trigger.MEMBER_LEFT, "m1", 7.0)


# ---------------------------------------------------------------- connectors and tasks
class Workers(Talk):
    """Workers of Kafka Connect with the cooperative protocol, which send what they run and receive what to run."""

    def __init__(self) -> None:
        super().__init__(protocol="compatible")

    def round(self, time: float, generation: int, **workers: dict[str, object]) -> None:
        """Let workers join and get assignments; the first one leads and started the round.

        :param workers: client ID -> what it ran, and its assignment
        """
        metadata = {name: self._metadata(told.get("runs")) for name, told in workers.items()}
        leader = next(iter(workers))
        for place, name in enumerate(workers):
            request = {
                "protocol_type": "connect",
                "protocols": [{"name": "compatible", "metadata": metadata[name]}],
            }
            if place:
                self.beat(name, time + 0.05, generation - 1, 27)
            begin = time + 0.1 * bool(place)
            made = self.join(
                name,
                begin,
                time + 1,
                generation,
                leader=leader,
                members=workers,
                new=generation == 1,
                request=request,
            )
            assert made.response is not None
            assert made.response.value is not None
            for row in made.response.value["members"]:
                row["metadata"] = metadata[row["member_id"]]
        for name, told in workers.items():
            sync = self.sync(name, time + 1.01, generation)
            assert sync.request is not None
            assert sync.response is not None
            assert sync.request.value is not None
            assert sync.response.value is not None
            sync.request.value["protocol_type"] = "connect"
            sync.response.value["assignment"] = self._orders(told)

    @staticmethod
    def _metadata(runs: object) -> bytes:
        allocation = None if runs is None else Workers._orders({"assigned": runs})
        value = {"url": "http://w:8083/", "config_offset": 5, "allocation": allocation}
        return struct.pack(">h", 1) + ConnectMetadata[1].build(value)

    @staticmethod
    def _orders(told: dict[str, object]) -> bytes:
        value = {
            "error": 0,
            "leader": "w1",
            "leader_url": "http://w:8083/",
            "config_offset": 5,
            "assigned": told.get("assigned", []),
            "revoked": told.get("revoked"),
            "delay": told.get("delay", 0),
        }
        return struct.pack(">h", 1) + ConnectAssignment[1].build(value)


def of_sink(*tasks: int) -> list[dict[str, object]]:
    """Return connector ``sink`` with tasks; -1 is the connector itself."""
    return [{"connector": "sink", "tasks": list(tasks)}]


def test_what_a_lost_worker_ran_waits_for_it_and_runs_nowhere() -> None:
    talk = Workers()
    talk.round(0, 1, w1={"assigned": of_sink(-1, 0)}, w2={"assigned": of_sink(1)})
    talk.beats("w1", 2, 29, 1)
    talk.beats("w2", 2, 10, 1)
    talk.round(17, 2, w1={"runs": of_sink(-1, 0), "delay": 10_000})
    talk.beats("w1", 19, 27, 2)
    talk.round(28, 3, w1={"runs": of_sink(-1, 0), "assigned": of_sink(1)})
    _, lost, over = talk.timeline().rebalances
    task = TopicPartition("sink", 1)
    assert triggers(lost) == [Trigger.SESSION_TIMEOUT]
    assert (lost.delay, lost.unassigned) == (10_000_000_000, [task])
    (stop,) = lost.stopped
    # from its last heartbeat to the answer that gives the task to the other
    assert (stop.tp, seconds(stop.begin), seconds(stop.end), stop.ended) == (task, 10.001, 29.012, True)
    assert "No worker ran sink-1 for 19 s" in lost.sentence
    assert [(move.tp, move.before, move.after) for move in over.moved] == [(task, "", "w1")]
    assert "the delay for a lost worker was over (10 s, scheduled.rebalance.max.delay.ms)" in over.sentence
    assert (over.delay, over.unassigned, over.stopped) == (None, [], [])


def test_what_is_still_waited_for_runs_nowhere_up_to_the_end() -> None:
    talk = Workers()
    talk.round(0, 1, w1={"assigned": of_sink(-1, 0)}, w2={"assigned": of_sink(1)})
    talk.beats("w1", 2, 19, 1)
    talk.beats("w2", 2, 10, 1)
    talk.round(17, 2, w1={"runs": of_sink(-1, 0), "delay": 10_000})
    lost = talk.timeline(until=20).rebalances[-1]
    ((ended, length),) = [(stop.ended, stop.duration) for stop in lost.stopped]
    assert (ended, round(length, -8)) == (False, 10_000_000_000)
    assert "No worker has run sink-1 for 10 s so far" in lost.sentence


def test_a_connector_that_was_deleted_is_not_missed() -> None:
    talk = Workers()
    talk.round(0, 1, w1={"assigned": of_sink(-1, 0)})
    talk.beats("w1", 2, 4, 1)
    talk.round(5, 2, w1={"runs": of_sink(-1, 0), "revoked": of_sink(-1, 0)})
    talk.round(7, 3, w1={"runs": []})
    talk.beats("w1", 9, 30, 3)
    _, deleted, follow_up = talk.timeline().rebalances
    assert [str(move.tp) for move in deleted.moved] == ["connector sink", "sink-0"]
    assert "it has stopped connector sink, sink-0" in follow_up.sentence
    assert (deleted.stopped, follow_up.stopped) == ([], [])


def test_a_worker_without_tasks_has_none() -> None:
    talk = Workers()
    talk.round(0, 1, w1={"assigned": of_sink(-1, 0)}, w2={})
    (first,) = talk.timeline().rebalances
    assert first.assigned == {
        "w1": {TopicPartition("sink", -1), TopicPartition("sink", 0)},
        "w2": frozenset(),
    }
    assert [member.spans[-1].assigned for member in talk.timeline().members][1] == frozenset()


def test_streams_look_whether_tasks_can_be_moved() -> None:
    talk = two_members("stream")
    story = again(talk, 5, reason="Scheduled probing rebalance")
    assert triggers(story) == [Trigger.COOPERATIVE_FOLLOW_UP]


def test_a_follower_that_joins_again_unchanged_is_no_rebalance() -> None:
    """The coordinator answers it from the current generation."""
    talk = two_members()
    talk.join("m2", 5, 5.001, 1, leader="m1")
    talk.sync("m2", 5.01, 1, {"orders": [1]})
    talk.beats("m1", 4, 9, 1)
    assert len(talk.timeline().rebalances) == 1


# ---------------------------------------------------------------- static members
def test_a_static_member_that_returns_is_the_same_member() -> None:
    talk = Talk()
    talk.join("s-1", 0, 3, 1, new=True, leader="s-1", members=["s-1"], instance="s")
    talk.sync("s-1", 3.01, 1, {"orders": [0, 1]}, {"s-1": {"orders": [0, 1]}})
    talk.join("s-2", 6, 6.001, 1, new=True, leader="s-2", members=["s-2"], instance="s")
    talk.sync("s-2", 6.01, 1, {"orders": [0, 1]})
    timeline = talk.timeline()
    assert len(timeline.rebalances) == 1
    (member,) = timeline.members
    assert (member.member, member.former, member.instance) == ("s-2", ["s-1"], "s")
    assert timeline.member("s-1") is member


def test_a_static_member_that_returned_has_what_it_had() -> None:
    talk = Talk()
    talk.join("s-1", 0, 3, 1, new=True, leader="s-1", members=["s-1"], instance="s")
    talk.sync("s-1", 3.01, 1, {"orders": [0, 1]}, {"s-1": {"orders": [0, 1]}})
    talk.join("s-2", 6, 6.001, 1, new=True, leader="s-1", instance="s")
    talk.sync("s-2", 6.01, 1, {"orders": [0, 1]})
    talk.new("m2", 8, 9, 2, leader="s-2")
    talk.beat("s-2", 8.5, 1, 27)
    talk.join("s-2", 8.9, 9, 2, leader="s-2", members=["s-2", "m2"], instance="s")
    talk.sync("s-2", 9.1, 2, {"orders": [0]}, {"s-2": {"orders": [0]}, "m2": {"orders": [1]}})
    first, second = talk.timeline().rebalances
    assert first.assigned == {"s-1": {PLACE_0, PLACE_1}}
    assert [(move.tp, move.before, move.after) for move in second.moved] == [(PLACE_1, "s-2", "m2")]
    assert (second.joined, second.gone) == (["m2"], [])


@pytest.mark.parametrize(
    ("fenced", "trigger"), [(False, Trigger.STATIC_MEMBER_RETURNED), (True, Trigger.INSTANCE_FENCED)]
)
def test_a_static_member_that_returns_with_another_assignor_begins_a_rebalance(
    fenced: bool, trigger: Trigger
) -> None:
    talk = Talk()
    talk.join("s-1", 0, 3, 1, new=True, leader="s-1", members=["s-1"], instance="s")
    talk.sync("s-1", 3.01, 1, {"orders": [0, 1]}, {"s-1": {"orders": [0, 1]}})
    talk.protocol = "roundrobin"
    talk.join("s-2", 6, 6.01, 2, new=True, leader="s-2", members=["s-2"], instance="s")
    talk.sync("s-2", 6.02, 2, {"orders": [0, 1]}, {"s-2": {"orders": [0, 1]}})
    if fenced:
        talk.beat("s-1", 7, 1, 82)
    story = last(talk)
    assert (triggers(story), story.cause.instance) == ([trigger], "s")
    # the returning member has the same partitions
    assert (story.joined, story.gone, story.moved) == ([], [], [])


# ---------------------------------------------------------------- the group as a whole
def test_the_emptying_of_a_group_counts() -> None:
    talk = two_members()
    talk.leave("m1", 5)
    talk.leave("m2", 5.2)
    timeline = talk.timeline()
    story = timeline.rebalances[-1]
    assert (story.previous_generation, story.generation, story.emptied, story.size) == (1, 2, True, 0)
    assert triggers(story) == [Trigger.MEMBER_LEFT] * 2
    assert (seconds(story.time), seconds(story.end)) == (5, 5.2)
    assert {move.after for move in story.moved} == {""}
    assert (timeline.state, timeline.generation) == ("Empty", 2)


def test_a_group_that_was_empty_goes_on_counting() -> None:
    talk = one_member()
    talk.leave("m1", 5)
    talk.new("m2", 9, 12, 3, leader="m2", members=["m2"])
    assert [(story.previous_generation, story.generation) for story in talk.timeline().rebalances] == [
        (-1, 1),
        (1, 2),
        (2, 3),
    ]


def test_a_group_that_was_forgotten_counts_anew() -> None:
    talk = one_member()
    talk.leave("m1", 5)
    talk.new("m2", 900, 903, 1, leader="m2", members=["m2"])
    assert talk.timeline().generation == 1
    assert [(story.previous_generation, story.generation) for story in talk.timeline().rebalances] == [
        (-1, 1),
        (1, 2),
        (-1, 1),
    ]


def test_sessions_of_all_members_end() -> None:
    talk = two_members()
    talk.beats("m1", 4, 6, 1)
    talk.beats("m2", 4, 8, 1)
    story = last(talk, until=30)
    assert (triggers(story), story.emptied) == ([Trigger.SESSION_TIMEOUT] * 2, True)
    assert (seconds(story.time), seconds(story.end)) == (12.001, 14.001)


def test_sessions_that_end_after_the_capture_did_not_end() -> None:
    talk = two_members()
    talk.beats("m1", 4, 8, 1)
    talk.beats("m2", 4, 8, 1)
    assert len(talk.timeline(until=14).rebalances) == 1


def test_who_was_lost_to_the_capture_did_not_time_out() -> None:
    """Nothing more of m2 was captured, but m1 would have been told if m2 had left."""
    talk = two_members()
    talk.beats("m1", 4, 40, 1)
    talk.beats("m2", 4, 8, 1)
    assert len(talk.timeline().rebalances) == 1


def test_commits_alone_are_no_rebalances() -> None:
    talk = Talk()
    talk.commit("", 1, -1)
    talk.commit("", 2, -1)
    timeline = talk.timeline()
    assert (timeline.rebalances, timeline.members, timeline.generation) == ([], [], -1)
    assert (seconds(timeline.first), seconds(timeline.last)) == (1, 2.001)


# ---------------------------------------------------------------- running rebalances
def blocked() -> Talk:
    talk = two_members()
    talk.new("m3", 5, None, 2)
    talk.beat("m1", 5.5, 1, 27)
    talk.join("m1", 5.6, None, 2)
    talk.beats("m2", 6, 14, 1, 27)
    return talk


def test_who_holds_up_a_rebalance_is_named() -> None:
    timeline = blocked().timeline(until=14.5)
    story = timeline.rebalances[-1]
    assert (story.running, story.generation, story.previous_generation, story.end) == (True, -1, 1, None)
    (awaited,) = story.awaited
    assert (awaited.member, seconds(awaited.since), awaited.beats) == ("m2", 6.001, 9)
    assert seconds(awaited.deadline) == 65.002
    assert "the coordinator waits for m2, which still sends heartbeats (9 since)" in story.sentence
    assert timeline.state == "PreparingRebalance"
    spans = {member.client: member.spans for member in timeline.members}
    assert (spans["m2"][-1].phase, seconds(spans["m2"][-1].end)) == (Phase.NOT_JOINING, 14.5)
    assert spans["m1"][-1].phase is Phase.JOINING


def test_what_may_still_be_answered_counts_for_one_result() -> None:
    talk = one_member()
    pending = talk.new("m2", 5, None, 2)
    assert talk.timeline(until=6, pending=[pending]).rebalances[-1].running
    histories = talk.timeline(until=6, pending=[pending])
    assert histories.rebalances[-1].cause.member == "m2"


def test_a_silent_member_is_awaited_until_its_session_ends() -> None:
    talk = two_members()
    talk.beats("m2", 4, 6, 1)
    talk.new("m3", 9, None, 2)
    talk.beat("m1", 9.5, 1, 27)
    talk.join("m1", 9.6, None, 2)
    (awaited,) = last(talk, until=11).awaited
    assert (awaited.member, awaited.beats, seconds(awaited.deadline)) == ("m2", 0, 12.001)


def test_a_leader_that_hands_nothing_out_is_awaited() -> None:
    talk = two_members()
    talk.new("m3", 5, 6.1, 2, leader="m1")
    talk.beat("m1", 5.5, 1, 27)
    talk.beat("m2", 5.6, 1, 27)
    talk.join("m1", 6, 6.1, 2, leader="m1", members=["m1", "m2", "m3"])
    talk.join("m2", 6.05, 6.1, 2, leader="m1")
    talk.sync("m2", 6.11, 2, took=None)
    talk.sync("m3", 6.11, 2, took=None)
    timeline = talk.timeline(until=8)
    story = timeline.rebalances[-1]
    assert (story.running, story.generation, story.end) == (True, 2, None)
    assert [awaited.member for awaited in story.awaited] == ["m1"]
    assert timeline.state == "CompletingRebalance"


def test_a_rebalance_that_was_overtaken_has_no_end() -> None:
    talk = two_members()
    talk.new("m3", 5, 6.1, 2, leader="m1")
    talk.beat("m1", 5.5, 1, 27)
    talk.beat("m2", 5.6, 1, 27)
    talk.join("m1", 6, 6.1, 2, leader="m1", members=["m1", "m2", "m3"])
    talk.join("m2", 6.05, 6.1, 2, leader="m1")
    talk.sync("m2", 6.11, 2, error=27, took=0.03)
    talk.new("m4", 6.12, 7, 3, leader="m1")
    for member in ("m1", "m2", "m3"):
        talk.join(member, 6.5, 7, 3, leader="m1", members=["m1", "m2", "m3", "m4"])
    stories = talk.timeline().rebalances
    assert [(story.generation, story.end, story.running) for story in stories[1:]] == [
        (2, None, False),
        (3, None, True),
    ]
    assert triggers(stories[2]) == [Trigger.MEMBER_JOINED]


# ---------------------------------------------------------------- missing packets
def test_a_capture_that_begins_in_the_middle_tells_no_first_rebalance() -> None:
    talk = Talk()
    talk.beats("m1", 0, 4, 7)
    talk.beats("m2", 0, 4, 7)
    timeline = talk.timeline()
    assert (timeline.rebalances, timeline.generation, timeline.state) == ([], 7, "Stable")
    assert "the capture begins in generation 7" in timeline.seen
    assert not timeline.complete


def test_what_began_it_was_not_captured() -> None:
    """One follower of a group learns of a rebalance, but never of its cause."""
    talk = Talk()
    talk.beats("m2", 0, 4, 7)
    talk.beat("m2", 5, 7, 27)
    talk.join("m2", 5.1, 6, 8, leader="m1")
    talk.sync("m2", 6.1, 8, {"orders": [1]})
    story = last(talk)
    assert (story.trigger, story.certainty) == (Trigger.UNKNOWN, Certainty.POSSIBLE)
    assert (story.previous_generation, story.generation, seconds(story.time)) == (7, 8, 5.001)
    assert story.alternatives


def test_the_leader_alone_knows_who_came_and_who_went() -> None:
    talk = one_member()
    talk.beat("m1", 5, 1, 27)
    talk.join("m1", 5.1, 6, 2, leader="m1", members=["m1", "m2-4d50d8a3-1be2-487d-9b7d-8430244b3233"])
    came = last(talk)
    assert (came.trigger, came.certainty, came.cause.client) == (
        Trigger.MEMBER_JOINED,
        Certainty.INFERRED,
        "m2",
    )
    talk.beat("m1", 7, 2, 27)
    talk.join("m1", 7.1, 8, 3, leader="m1", members=["m1"])
    went = last(talk)
    assert (went.trigger, went.cause.client) == (Trigger.UNKNOWN, "m2")
    assert "its session ended" in went.alternatives
    assert "requests of 1 of 2 members were captured" in talk.timeline().seen


def test_generations_in_between_are_not_invented() -> None:
    """m1 was away while others rebalanced; the number of rebalances is unknown."""
    talk = one_member()
    talk.leave("m1", 5)
    talk.join("m1/b", 50, 50.1, 9, new=True, leader="m2")
    stories = talk.timeline().rebalances
    assert [story.generation for story in stories] == [1, 2, 9]
    # m2 may have been a member all the time
    assert not stories[1].emptied


def test_a_member_whose_group_goes_on_unseen() -> None:
    talk = Talk()
    talk.join("m2", 0, 3, 4, new=True, leader="m1")
    talk.sync("m2", 3.1, 4, {"orders": [1]})
    talk.leave("m2", 6)
    story = last(talk, until=60)
    assert (story.trigger, story.generation, story.running, story.emptied) == (
        Trigger.MEMBER_LEFT,
        5,
        False,
        False,
    )
    assert story.end is None


# ---------------------------------------------------------------- coordinators
def moved_to_another(talk: Talk, time: float) -> None:
    talk.beat("m1", time, 1, 16)
    talk.find_coordinator("m1", time + 0.1, "broker2")


def test_a_group_that_moves_goes_on_in_its_generation() -> None:
    talk = one_member()
    talk.beats("m1", 4, 6, 1)
    moved_to_another(talk, 7)
    talk.beat("m1", 8, 1, broker="10.0.0.2:9092")
    timeline = talk.timeline()
    assert len(timeline.rebalances) == 1
    assert [seen.broker for seen in timeline.coordinators] == ["10.0.0.1:9092", "10.0.0.2:9092"]


def test_a_leader_that_lost_its_coordinator_begins_anew_with_another() -> None:
    talk = one_member()
    moved_to_another(talk, 7)
    talk.beat("m1", 8, 1, broker="10.0.0.2:9092")
    talk.join("m1", 8.1, 8.2, 2, leader="m1", members=["m1"], broker="10.0.0.2:9092")
    story = last(talk)
    assert triggers(story) == [Trigger.COORDINATOR_MOVED, Trigger.LEADER_REJOINED]
    assert story.certainty is Certainty.INFERRED


def test_every_story_has_its_evidence() -> None:
    talk = blocked()
    for story in talk.timeline(until=15).rebalances:
        assert story.evidence == sorted(set(story.evidence))
        assert {number for cause in story.causes for number in cause.evidence} <= {*story.evidence}
        assert all(cause.time <= at(15) for cause in story.causes)
        assert to_json(story)["trigger"] == story.trigger


def test_the_members_of_a_timeline_know_their_timeouts() -> None:
    talk = two_members()
    talk.beats("m1", 4, 12, 1)
    first: GroupTimeline = talk.timeline()
    m1, m2 = first.members
    assert (m1.session_timeout, m1.rebalance_timeout) == (6_000_000_000, 60_000_000_000)
    assert (m1.interval, m2.interval) == (1_000_000_000, None)
    assert m1.subscription == ("orders",)
    assert [span.phase for span in m1.spans] == [Phase.JOINING, Phase.SYNCING, Phase.STABLE]


def test_a_coordinator_that_is_gone_ends_no_session() -> None:
    """The only broker was killed (INDEX of the recordings): nobody could have removed the member."""
    capture = open_capture(str(RECORDINGS / "25_k430_broker_sigkill.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    histories = GroupHistories(reader.knowledge.topic_name, capture)
    for exchange in reader:
        histories.add(exchange)
    (timeline,) = histories.result()
    assert [story.trigger for story in timeline.rebalances] == [Trigger.MEMBER_JOINED]
    assert timeline.state == "Stable"
    assert [member.left for member in timeline.members] == [None]
    assert any("sent nothing more" in said for said in timeline.seen)
