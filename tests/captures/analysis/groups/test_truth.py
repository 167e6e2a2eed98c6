"""The rebalances of every recording are those that happened: none missed, none invented, each with its cause.

The truth comes from notes made during recording (:mod:`.truth`), never from the output of the program.
"""

from __future__ import annotations

from functools import cache

import pytest

from captures.analysis.groups.model import GroupTimeline, Rebalance, TopicPartition
from captures.analysis.groups.vocabulary import Certainty, TimeoutCause, Trigger
from tests.captures.analysis.groups.compare import HEARTBEAT, fits, is_of, listing, opens, pairs, read_groups
from tests.captures.analysis.groups.exceptions import NAMES, others, rebalances
from tests.captures.analysis.groups.truth import FOLDER, SECOND, ExpectedRebalance, Truth, read


@cache
def told(name: str) -> dict[str, GroupTimeline]:
    """Return the program's groups of a recording."""
    return read_groups(str(FOLDER / f"{name}.pcap.zst"))


def stories(name: str) -> list[Rebalance]:
    return told(name)[read(name).group].rebalances


def of(name: str) -> list[tuple[ExpectedRebalance, Rebalance]]:
    """Return the pairs of a recording; fail if there are none."""
    both = pairs(rebalances(name), stories(name))
    assert both, listing(rebalances(name), stories(name))
    return both


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_none_is_missed_or_invented(name: str) -> None:
    expected, found = rebalances(name), stories(name)
    happened = [(None if each.running else each.generation, each.emptied, each.running) for each in expected]
    said = [(None if each.running else each.generation, each.emptied, each.running) for each in found]
    assert said == happened, listing(expected, found)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_each_was_opened_by_what_opened_it(name: str) -> None:
    for expected, story in of(name):
        assert opens(read(name), expected, story), f"{story.cause}{listing([expected], [story])}"


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_what_else_joined_in(name: str) -> None:
    truth = read(name)
    for expected, story in of(name):
        said = listing([expected], [story])
        for happened in expected.causes:
            assert any(fits(truth, happened, story)), f"{happened} is not told{said}"
        known = [*expected.causes, *expected.perhaps]
        for cause in story.causes:
            true = [
                each
                for each in known
                if each.trigger == cause.trigger
                and is_of(truth, each, cause.client, cause.instance, cause.member)
            ]
            assert true, f"{cause.sentence!r} did not happen{said}"


UNSEEN = {("46_k430_broker_killed", 4)}
"""Sessions that ended between the broker's loading of the group and its first connections: no packet shows when."""


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_times_are_right_to_a_heartbeat(name: str) -> None:
    interval = HEARTBEAT[told(name)[read(name).group].kind]
    for expected, story in of(name):
        if (name, story.generation) in UNSEEN:
            continue
        time = story.time / SECOND
        assert expected.earliest - interval <= time <= expected.latest + interval, listing(
            [expected], [story]
        )


@pytest.mark.sample(36)
@pytest.mark.parametrize("name", NAMES)
def test_members_are_as_many_as_there_were(name: str) -> None:
    for expected, story in of(name):
        if expected.size is not None:
            assert story.size == expected.size, listing([expected], [story])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_assignments_are_what_the_listeners_said(name: str) -> None:
    truth, timeline = read(name), told(name)[read(name).group]
    for expected, story in of(name):
        said = listing([expected], [story])
        if story.emptied:
            assert not any(story.assigned.values()), said
        has = {
            each: places
            for member, places in story.assigned.items()
            if member in story.members
            for each in _names(timeline, member)
        }
        for who, places in expected.assigned.items():
            assert has.get(truth.instance(who)) == places, f"{who}: {sorted(places)} but {has}{said}"


def _names(timeline: GroupTimeline, member_id: str) -> set[str]:
    member = timeline.member(member_id)
    assert member is not None, member_id
    return {member.client.partition("-StreamThread")[0], *([member.instance] if member.instance else [])}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [name for name in NAMES if "share" not in name])
def test_what_moved_went_from_whom_had_it_to_whom_has_it(name: str) -> None:
    truth, timeline = read(name), told(name)[read(name).group]
    has: dict[TopicPartition, str] = {}
    for expected, story in of(name):
        before = dict(has)
        if not _goes_on(truth, has, expected):
            break
        changed = {
            place: (before.get(place, ""), has.get(place, ""))
            for place in before.keys() | has.keys()
            if before.get(place) != has.get(place)
        }
        moved = {
            each.tp: (_name(timeline, truth, each.before), _name(timeline, truth, each.after))
            for each in story.moved
        }
        # a process that returns is another member, but not another client
        others = {place: both for place, both in moved.items() if both[0] != both[1]}
        assert others == changed, listing([expected], [story])


#: after which a member has no partitions
GOING = {
    Trigger.MEMBER_LEFT,
    Trigger.SESSION_TIMEOUT,
    Trigger.REBALANCE_TIMEOUT,
    Trigger.MAX_POLL_EXCEEDED,
    Trigger.PROTOCOL_DOWNGRADED,
}


def _goes_on(truth: Truth, has: dict[TopicPartition, str], expected: ExpectedRebalance) -> bool:
    """Update who has what after a rebalance; return whether that is known of every member."""
    gone = (
        Trigger.MEMBER_LEFT,
        Trigger.SESSION_TIMEOUT,
        Trigger.MAX_POLL_EXCEEDED,
        Trigger.PROTOCOL_DOWNGRADED,
    )
    left = {truth.instance(who) for cause in expected.causes if cause.trigger in gone for who in cause.who}
    assigned = {truth.instance(who): places for who, places in expected.assigned.items()}
    for place, who in list(has.items()):
        if who in left or who in assigned:
            del has[place]
    has.update({place: who for who, places in assigned.items() for place in places})
    return (bool(assigned) and len(set(has.values()) | set(assigned)) == expected.size) or expected.emptied


def _name(timeline: GroupTimeline, truth: Truth, member_id: str) -> str:
    member = timeline.member(member_id)
    return "" if member is None else truth.called(member.client, member.instance)


def test_every_trigger_is_among_the_recordings() -> None:
    triggers = {cause.trigger for name in NAMES for each in rebalances(name) for cause in each.causes}
    assert set(Trigger) - triggers == {Trigger.UNKNOWN, Trigger.KPROXY_INTERVENED}


#: recording, generation, and members that were kept busy then
SLOW = [
    ("21_k430_java_blocked_rebalance", 2, "m2"),
    ("41_k430_subscription_while_slow", 4, "m2"),
    ("41_k430_coordinator_killed", 3, "m2"),
]


@pytest.mark.parametrize(("name", "generation", "who"), SLOW)
def test_the_slowest_member_is_named(name: str, generation: int, who: str) -> None:
    (story,) = (story for story in stories(name) if story.generation == generation)
    events = [event for event in read(name).events if event["who"] == who]
    (slow,) = (event["t"] for event in events if event["what"] == "slow-end")
    assert story.slowest is not None
    assert story.slowest.client == who
    assert story.slowest.notified is not None
    assert (story.time + story.slowest.notified) / SECOND <= slow + 1
    assert story.slowest.total is not None
    assert (story.time + story.slowest.total) / SECOND >= slow


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_the_coordinators_are_those_that_there_were(name: str) -> None:
    brokers = [each.broker for each in told(name)[read(name).group].coordinators]
    events = read(name).events
    killed = [event for event in events if event.get("who", "").startswith("broker ")]
    # a killed controller is also a broker, and may be the coordinator
    perhaps = [
        event for event in events if event["what"] == "SIGKILL" and event["who"].startswith("controller ")
    ]
    assert 0 <= len(brokers) - 1 - len(killed) <= len(perhaps), brokers


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_known_why_members_were_silent(name: str) -> None:
    truth = read(name)
    for expected, story in of(name):
        for happened in (each for each in expected.causes if each.why is not None):
            (end,) = [
                cause.session_end
                for cause in story.causes
                if is_of(truth, happened, cause.client, cause.instance, cause.member)
            ]
            assert end is not None
            if (
                name == "52_k430_host_frozen"
            ):  # its clock went on, and its client had nothing to send: no packet decides
                assert end.certainty is Certainty.POSSIBLE
                assert any("suspended" in other for other in end.alternatives)
            else:
                assert end.cause is happened.why, listing([expected], [story])
        for cause in story.causes:
            assert (cause.timeout_cause is None) == (cause.trigger is not Trigger.SESSION_TIMEOUT), cause


@pytest.mark.parametrize("name", NAMES)
def test_it_says_how_sure_it_is(name: str) -> None:
    for expected, story in of(name):
        said = listing([expected], [story])
        assert story.trigger is not Trigger.UNKNOWN, said
        if expected.causes[0].told:
            assert story.certainty is not Certainty.POSSIBLE, said
        else:
            assert story.certainty is not Certainty.OBSERVED, said
            assert story.alternatives, said


@pytest.mark.parametrize("name", NAMES)
def test_other_groups_are_told_as_well(name: str) -> None:
    timelines = {group: timeline for group, timeline in told(name).items() if group != read(name).group}
    expected = others(name)
    assert set(timelines) >= set(expected)
    for group, timeline in timelines.items():
        found, happened = timeline.rebalances, expected.get(group, [])
        said = listing(happened, found)
        numbers = [-1 if each.generation is None else each.generation for each in happened]
        assert [each.generation for each in found] == numbers, said
        for each, story in zip(happened, found, strict=True):
            assert each.earliest - 3 <= story.time / SECOND <= each.latest + 3, said
            if each.causes[0].trigger is Trigger.UNKNOWN:
                assert story.certainty is not Certainty.OBSERVED, said
            else:
                assert story.trigger == each.causes[0].trigger, said


def test_every_way_to_fall_silent_is_among_the_recordings() -> None:
    why = {cause.why for name in NAMES for each in rebalances(name) for cause in each.causes}
    assert why >= {TimeoutCause.PROCESS_DIED, TimeoutCause.PROCESS_PAUSED, TimeoutCause.UNREACHABLE}


def test_every_recording_has_a_truth() -> None:
    recordings = {path.name.removesuffix(".pcap.zst") for path in FOLDER.glob("*.pcap.zst")}
    assert recordings == set(NAMES)
