"""A rebalance, fact by fact."""

from __future__ import annotations

from captures.analysis.groups.facts import (
    Tone,
    duration_text,
    facts,
    in_brief,
    manner,
    members_now,
    storm_facts,
    storm_title,
    storms,
    tone,
    who,
)
from captures.analysis.groups.labels import Labels
from captures.analysis.groups.model import (
    AwaitedMember,
    CommitFailure,
    Move,
    Rebalance,
    RepeatedFetch,
    Stop,
    TopicPartition,
    Wait,
)
from captures.analysis.groups.vocabulary import Certainty, Kind, SessionEnd, TimeoutCause, Trigger
from tests.captures.analysis.groups.kit import SECOND, at, cause, member, rebalance, timeline

MS = 1_000_000


def told(made: Rebalance, shown: int | None = 4) -> dict[str, str]:
    group = timeline(made)
    return {fact.title: fact.text for fact in facts(made, group, Labels(group), shown=shown)}


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert told(rebalance(evidence=[])) == {}


def test_who_waited_how_long() -> None:
    waits = [
        Wait("m1-id", "m1", notified=900 * MS, join=100 * MS, sync=5 * MS, total=1005 * MS, asked=900 * MS),
        Wait("m2-id", "m2", notified=0, join=1000 * MS, sync=4 * MS, total=1004 * MS, asked=0),
        Wait("m3-id", "m3"),
    ]
    found = told(rebalance(waits=waits))
    assert found["waited"] == (
        "m1 1 s (learned after 900 ms, join 100 ms, sync 5 ms); m2 1 s (join 1 s, sync 4 ms)"
    )


def test_members_of_the_newer_kinds_wait_for_their_assignments_only() -> None:
    waits = [Wait("m1-id", "m1", total=SECOND), Wait("m2-id", "m2", total=2 * SECOND)]
    found = told(rebalance(kind=Kind.CONSUMER, waits=waits))
    assert found["waited"] == "m2 2 s; m1 1 s"


def test_what_moved_stopped_and_comes_twice() -> None:
    orders = [TopicPartition("orders", number) for number in range(6)]
    made = rebalance(
        moved=[Move(place, "m1-id", "m2-id") for place in orders[:2]],
        stopped=[
            Stop(place, (number + 1) * SECOND, number != 5, 12, 19) for number, place in enumerate(orders)
        ],
        refetched=[RepeatedFetch(orders[2], 100, 140, 77)],
        commit_failures=[CommitFailure(55, at(11), "m1-id", 27, "REBALANCE_IN_PROGRESS")],
    )
    assert told(made) == {
        "moved": "orders 0-1: m1 → m2",
        "stopped": "6 partitions not consumed: orders-5 6 s and still, orders-4 5 s, orders-3 4 s, "
        "orders-2 3 s +2",
        "twice": "40 offsets fetched again: orders-2 100-139 (#77)",
        "commits": "1 failed: REBALANCE_IN_PROGRESS m1 (#55)",
        "evidence": "#17 #19",
    }
    assert told(made, None)["stopped"].endswith("orders-2 3 s, orders-1 2 s, orders-0 1 s")


def test_partitions_that_were_consumed_on_are_told_beside_those_that_were_not() -> None:
    made = rebalance(stopped=[Stop(TopicPartition("orders", 0), SECOND, True, 1, 2)], consumed_on=3)
    assert (
        told(made)["stopped"] == "1 partition not consumed: orders-0 1 s; consumption of 3 others continued"
    )


def test_a_running_rebalance_tells_who_is_awaited() -> None:
    awaited = [
        AwaitedMember("m2-id", "m2", at(12), beats=4, deadline=at(90)),
        AwaitedMember("m1-id", "m1", at(50)),
    ]
    made = rebalance(end=None, running=True, awaited=awaited)
    group = timeline(made)
    found = [fact for fact in facts(made, group, Labels(group)) if fact.title == "awaited"]
    assert [fact.text for fact in found] == [
        "m2 for 48 s; it sent 4 heartbeats meanwhile, and does not join; the group continues without it in 30 s",
        "m1 for 10 s",
    ]
    assert duration_text(made, group) == "has not ended after 50 s"
    assert tone(made) is Tone.TROUBLE


def test_a_deadline_that_is_over() -> None:
    made = rebalance(end=None, running=True, awaited=[AwaitedMember("m2-id", "m2", at(12), deadline=at(55))])
    assert told(made)["awaited"] == "m2 for 48 s; its time was over 5 s ago"


def test_doubt_is_told() -> None:
    causes = [
        cause(
            Trigger.SESSION_TIMEOUT,
            Certainty.POSSIBLE,
            "m2 was silent",
            session_end=SessionEnd(TimeoutCause.UNKNOWN),
        ),
        cause(Trigger.MEMBER_JOINED, Certainty.INFERRED, "m3 joined"),
    ]
    found = told(rebalance(causes=causes, alternatives=["it left unseen", "it was removed"]))
    assert found["or else"] == "it left unseen; it was removed"
    assert found["also"] == "member_joined (inferred)"
    assert found["silence"] == "the capture does not show why it fell silent"


def test_how_many_members_there_are() -> None:
    assert members_now(timeline()) == 2
    assert members_now(timeline(members=[member("m1"), member("m2", left=at(50))])) == 1
    told = [rebalance(size=3), rebalance(begin=50, end=None, running=True)]
    assert members_now(timeline(*told)) == 3


def test_a_group_in_brief() -> None:
    assert in_brief(timeline()) == "classic group, range, Stable, generation 2, 2 members"
    connect = timeline(protocol_type="connect\n", protocol="", generation=-1, members=[])
    assert in_brief(connect) == "classic group of type connect\ufffd, Stable, 0 members"


def test_how_it_is_called() -> None:
    group = timeline()
    made = rebalance(cooperative=True)
    assert (manner(made), duration_text(made, group), tone(made)) == ("cooperative", "took 3 s", Tone.PLAIN)
    assert who(made, Labels(group)) == "m2"
    assert manner(rebalance()) == ""
    assert duration_text(rebalance(end=None), group) == "end not seen"
    assert duration_text(rebalance(end=10), group) == ""
    assert tone(rebalance(causes=[cause(Trigger.UNKNOWN)])) is Tone.ODD


def test_evidence_that_is_much_is_counted() -> None:
    assert told(rebalance(evidence=list(range(1, 21))))["evidence"].endswith("#12 +8")
    assert told(rebalance(evidence=list(range(1, 21))), None)["evidence"].endswith("#19 #20")


def crashes(
    count: int, client: str = "crash", begin: float = 20, storm: int | None = None
) -> list[Rebalance]:
    return [
        rebalance(
            begin=begin + 2 * index,
            end=begin + 2 * index + 1,
            previous_generation=index,
            generation=index + 1,
            storm=count if storm is None else storm,
            causes=[cause(client=client, member=f"{client}-{index}")],
            stopped=[Stop(TopicPartition("orders", index), (index + 1) * SECOND, True, 1, 2)],
            refetched=[RepeatedFetch(TopicPartition("orders", 0), 0, 10, 7)],
            evidence=[100 + index, 200],
        )
        for index in range(count)
    ]


def test_the_rebalances_of_a_storm_are_one_block_at_the_place_of_the_first() -> None:
    storm, other = crashes(5), rebalance(begin=23, end=24)
    mixed = [storm[0], other, *storm[1:]]
    assert storms(mixed) == [storm, [other]]


def test_storms_of_one_client_one_after_another_are_two_blocks() -> None:
    first, second = crashes(4), crashes(4, begin=600)
    assert storms(first + second) == [first, second]


def test_rebalances_alike_that_are_no_storm_stay_apart() -> None:
    alike = crashes(3, storm=0)
    assert storms(alike) == [[each] for each in alike]


def test_what_a_storm_cost() -> None:
    storm = crashes(5)
    assert storm_title(storm, Labels(timeline())) == "storm of 5 rebalances: member_joined crash"
    assert {fact.title: fact.text for fact in storm_facts(storm)} == {
        "cost": "one every 2 s, 5 s spent in rebalances",
        "stopped": "longest orders-4 5 s",
        "twice": "50 offsets fetched again",
        "evidence": "#100 #101 #102 #103 #104",
    }
