"""Partial recordings: nothing is invented, and certainties are honest.

With one member's connections of many, or from the middle on, ``unknown`` may be the right answer. A cause that is
reported as observed or inferred must be one that happened.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Certainty, Phase, TimeoutCause, Trigger
from tests.captures.analysis.groups.compare import HEARTBEAT, is_of, listing, pairs, read_groups
from tests.captures.analysis.groups.cut import cut
from tests.captures.analysis.groups.exceptions import NAMES, rebalances
from tests.captures.analysis.groups.truth import FOLDER, SECOND, ExpectedRebalance, Truth, read

#: one member of many: one stays, one leaves, one is killed
ALONE = [
    ("21_k411_kip848_ck", "m1"),
    ("21_k411_kip848_ck", "m3"),
    ("21_k430_aio_roundrobin", "m1"),
    ("21_k430_ck_crashloop", "m1"),
    ("21_k430_ck_crashloop", "crash"),
    ("21_k430_ck_fenced_instance", "m2"),
    ("21_k430_ck_maxpoll", "m1"),
    ("21_k430_ck_static", "m1"),
    ("21_k430_ck_static", "m2"),
    ("21_k430_franz_coop", "m1"),
    ("21_k430_java_blocked_rebalance", "m3"),
    ("21_k430_java_eager_range", "m1"),
    ("21_k430_java_eager_range", "m2"),
    ("21_k430_java_eager_range", "m3"),
    ("21_k430_java_eager_range", "m4"),
    ("21_k430_java_sigstop", "m1"),
    ("21_k430_java_sigstop", "m2"),
    ("21_k430_kip848_java", "m1"),
    ("21_k430_kip848_java", "m4"),
    ("21_k430_kip848_regex_topicchange", "m2"),
    ("21_k430_kip848_static_java", "m1"),
    ("21_k430_share_group", "m1"),
    ("21_k430_streams_classic", "s1-StreamThread-1-consumer"),
    ("21_k430_streams_kip1071", "s1-StreamThread-1-consumer"),
    ("27_k391_java_maxpoll", "m1"),
    ("32_k0102_rebalance_roundrobin", "m1"),
    ("35_k282_rebalance_mixed", "kp"),
    ("36_k231_rebalance_static", "m2"),
    ("36_k263_rebalance_coop", "m1"),
]


#: seconds within which every member is heard once, in groups of all kinds
ONCE = 2.4


def quiet(name: str) -> int | None:
    """Return the first rebalance of the second half after a quiet period, which ends everything that is cut off."""
    happened = rebalances(name)
    for place in range(len(happened) // 2, len(happened)):
        if happened[place].earliest - happened[place - 1].latest > ONCE + 1 and not happened[place].emptied:
            return place
    return None


#: no member was told the epochs of its second half, and the topics had been requested before
UNTOLD = "21_k430_kip848_regex_topicchange"
#: recordings with enough left
LATER = [name for name in NAMES if len(rebalances(name)) > 4 and quiet(name) is not None and name != UNTOLD]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cut")


@cache
def alone(folder: Path, name: str, who: str) -> GroupTimeline:
    groups = read_groups(cut(name, folder / f"{name}-{who}.pcapng", clients=frozenset({who})))
    return groups[read(name).group]


@cache
def later(folder: Path, name: str) -> tuple[GroupTimeline, list[ExpectedRebalance]]:
    """Return the reported and the actual rebalances of the second half of a recording.

    A member that is about to time out may already be silent.
    """
    happened, half = rebalances(name), quiet(name)
    assert half is not None
    since = happened[half].earliest - ONCE
    groups = read_groups(cut(name, folder / f"{name}-later.pcapng", since=since))
    return groups[read(name).group], happened[half:]


def untrue(
    truth: Truth, expected: ExpectedRebalance, story: Rebalance, *, possible: Certainty = Certainty.POSSIBLE
) -> list[str]:
    """Return the causes that are reported as certain and did not happen.

    :param possible: another certainty that causes which did not happen may have
    """
    known = [*expected.causes, *expected.perhaps]
    if story.alternatives:
        # a member that leaves without a reason was seen to leave
        known += [replace(each, trigger=Trigger.MEMBER_LEFT) for each in expected.causes if not each.told]
    return [
        f"{cause.certainty}: {cause.sentence}"
        for cause in story.causes
        if cause.certainty not in (Certainty.POSSIBLE, possible) and cause.trigger is not Trigger.UNKNOWN
        if not any(
            each.trigger == cause.trigger
            and (not cause.client or is_of(truth, each, cause.client, cause.instance, cause.member))
            for each in known
        )
    ]


def matched(
    truth: Truth, happened: list[ExpectedRebalance], who: str, found: list[Rebalance]
) -> list[tuple[ExpectedRebalance, Rebalance]]:
    """Return stories with the actual rebalances, by generation; a member is not told the result of its leaving."""
    both: list[tuple[ExpectedRebalance, Rebalance]] = []
    for story in found:
        left = [each for each in happened if _left(truth, each, story, who)]
        same = [each for each in happened if each.generation == story.generation]
        both += [(each, story) for each in (left or same)[:1]]
    return both


def _left(truth: Truth, expected: ExpectedRebalance, story: Rebalance, who: str) -> bool:
    first, cause = expected.causes[0], story.cause
    leaves = (
        first.trigger in (Trigger.MEMBER_LEFT, Trigger.MAX_POLL_EXCEEDED) and story.trigger == first.trigger
    )
    at_once = abs(expected.earliest - story.time / SECOND) < 1
    return (
        leaves
        and at_once
        and cause.client == who
        and is_of(truth, first, cause.client, cause.instance, cause.member)
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "who"), ALONE)
def test_of_one_member_alone_nothing_is_invented(folder: Path, name: str, who: str) -> None:
    timeline, truth = alone(folder, name, who), read(name)
    both = matched(truth, rebalances(name), who, timeline.rebalances)
    said = listing(rebalances(name), timeline.rebalances)
    assert len(both) == len({id(expected) for expected, _ in both}) == len(timeline.rebalances), said
    for expected, story in both:
        assert not untrue(truth, expected, story), said
        assert story.size in (None, expected.size), said
        assert story.emptied <= expected.emptied, said


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "who"), ALONE)
def test_of_one_member_alone_its_own_rebalances_are_told(folder: Path, name: str, who: str) -> None:
    """It took part in those after which its listener reported its partitions, and began those that name it."""
    timeline = alone(folder, name, who)
    told = [expected for expected, _ in matched(read(name), rebalances(name), who, timeline.rebalances)]
    mine = [each for each in rebalances(name) if who in each.assigned or who in each.causes[0].who]
    # a silent member does not see the consequences
    seen = [each for each in mine if who not in each.causes[0].who or not _is_silence(each)]
    missing = [each for each in seen if each not in told]
    assert not missing, listing(missing, timeline.rebalances)


def _is_silence(expected: ExpectedRebalance) -> bool:
    return expected.causes[0].trigger is Trigger.SESSION_TIMEOUT


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "who"), ALONE)
def test_of_one_member_alone_no_silence_of_another_is_observed(folder: Path, name: str, who: str) -> None:
    timeline = alone(folder, name, who)
    for story in timeline.rebalances:
        for cause in story.causes:
            if cause.trigger is Trigger.SESSION_TIMEOUT and cause.client != who:
                assert cause.certainty is not Certainty.OBSERVED, cause.sentence
                assert cause.timeout_cause is TimeoutCause.UNKNOWN, cause.sentence
            if cause.trigger is Trigger.UNKNOWN:
                assert story.alternatives, story.sentence


@pytest.mark.sample(18)
@pytest.mark.parametrize(("name", "who"), [each for each in ALONE if each[0] != "21_k430_ck_crashloop"])
def test_of_one_member_alone_it_says_how_much_it_saw(folder: Path, name: str, who: str) -> None:
    timeline = alone(folder, name, who)
    most = max((story.size or 0 for story in timeline.rebalances), default=0)
    if most > 1:
        assert timeline.seen


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", LATER)
def test_from_the_middle_on_nothing_is_invented_or_missed(folder: Path, name: str) -> None:
    timeline, happened = later(folder, name)
    said = listing(happened, timeline.rebalances)
    ended = [each.generation for each in happened if not each.running]
    assert [story.generation for story in timeline.rebalances if not story.running] == ended, said


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", LATER)
def test_from_the_middle_on_what_is_told_for_sure_happened(folder: Path, name: str) -> None:
    timeline, happened = later(folder, name)
    truth, interval = read(name), HEARTBEAT[timeline.kind]
    both = pairs(happened, timeline.rebalances)
    assert both
    for expected, story in both:
        said = listing([expected], [story])
        assert not untrue(truth, expected, story), said
        assert expected.earliest - interval <= story.time / SECOND <= expected.latest + interval, said


@pytest.mark.sample(17)
@pytest.mark.parametrize("name", LATER)
def test_from_the_middle_on_what_came_whole_is_known(folder: Path, name: str) -> None:
    """Members that joined after the beginning were seen to join, as was everything they did later."""
    timeline, happened = later(folder, name)
    for expected, story in pairs(happened, timeline.rebalances):
        first = expected.causes[0]
        if first.trigger in (Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT, Trigger.COOPERATIVE_FOLLOW_UP):
            assert story.trigger == first.trigger, listing([expected], [story])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", LATER)
def test_from_the_middle_on_it_says_that_it_did_not_see_the_beginning(folder: Path, name: str) -> None:
    timeline, _ = later(folder, name)
    assert timeline.seen


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_of_a_while_in_the_middle_nothing_is_observed_that_did_not_happen(tmp_path: Path, name: str) -> None:
    """The cuts are at arbitrary times, in the middle of a rebalance or not."""
    truth, happened = read(name), rebalances(name)
    first, last = truth.events[0]["t"], truth.events[-1]["t"]
    third = (last - first) / 3
    groups = read_groups(cut(name, tmp_path / "while.pcapng", since=first + third, until=last - third))
    if truth.group not in groups:
        return
    found = groups[truth.group].rebalances
    said = listing(happened, found)
    for story in found:
        same = [each for each in happened if story.running or each.generation == story.generation]
        assert same, said
        wrong = [set(untrue(truth, each, story, possible=Certainty.INFERRED)) for each in same]
        assert not set.intersection(*wrong), said


def contradictions(name: str, timeline: GroupTimeline) -> list[str]:
    """Return contradictions between a part of a recording and the whole: assignments, stops, records read twice."""
    wholly = {story.generation: story for story in whole(name).rebalances}
    known = whole(name).by_id()

    def member(of: str) -> str:
        return (known[of].instance or of) if of in known else of

    found = []
    for story in timeline.rebalances:
        true = wholly.get(story.generation)
        if true is None:
            continue
        moved = {move.tp: (move.before, move.after) for move in true.moved}
        for move in story.moved:
            told = [end if end is None else member(end) for end in (move.before, move.after)]
            stayed = (told[0], told[0]) if told[0] is not None else (told[1], told[1])
            ends = zip(moved.get(move.tp, stayed), told, strict=True)
            wrong = any(one is not None and one != member(other or "") for other, one in ends)
            found += [f"generation {story.generation}: {move}"] if wrong else []
        again = {each.tp: each.count for each in true.refetched}
        found += [f"twice: {each}" for each in story.refetched if each.count > again.get(each.tp, 0)]
        stopped = {stop.tp: stop.duration for stop in true.stopped}
        found += [
            f"stopped: {stop}"
            for stop in story.stopped
            if stop.tp in stopped and stop.duration > stopped[stop.tp] + SECOND
        ]
    return found


@cache
def whole(name: str) -> GroupTimeline:
    return read_groups(str(FOLDER / f"{name}.pcap.zst"))[read(name).group]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "who"), ALONE)
def test_of_one_member_alone_owners_and_costs_are_true_or_unknown(folder: Path, name: str, who: str) -> None:
    assert contradictions(name, alone(folder, name, who)) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", LATER)
def test_from_the_middle_on_owners_and_costs_are_true_or_unknown(folder: Path, name: str) -> None:
    timeline, _ = later(folder, name)
    assert contradictions(name, timeline) == []


#: recording, seconds after its beginning, who is awaited, its heartbeats until then, seconds until it is removed: the
#: longest max.poll.interval.ms of all members counts from the beginning of the round, unless a session ends before
AWAITED = [
    # busy; the default of the others is 300 s, its own 60 s
    ("21_k430_java_blocked_rebalance", 20.0, "m2", 5, 300.0),
    # stuck in its listener; all have 8 s
    ("41_k430_stuck", 18.0, "m2", 2, 8.0),
    # busy; all have 60 s
    ("41_k430_subscription_while_slow", 18.0, "m2", 3, 60.0),
    # a dead predecessor, whose session lasts for another 3.9 s
    ("21_k430_ck_crashloop", 13.0, "crash", 0, 3.9),
]


@pytest.mark.parametrize(("name", "seconds", "who", "beats", "deadline"), AWAITED)
def test_a_rebalance_that_goes_on_names_whom_it_waits_for(
    tmp_path: Path, name: str, seconds: float, who: str, beats: int, deadline: float
) -> None:
    truth = read(name)
    until = truth.events[0]["t"] + seconds
    timeline = read_groups(cut(name, tmp_path / "begun.pcapng", until=until))[truth.group]
    story = timeline.rebalances[-1]
    begun = [each for each in rebalances(name) if each.latest < until][-1]
    assert story.running
    assert story.trigger == begun.causes[0].trigger
    assert is_of(truth, begun.causes[0], story.cause.client, story.cause.instance, story.cause.member)
    (waited,) = story.awaited
    assert waited.client == who
    assert waited.since / SECOND == pytest.approx(begun.earliest, abs=1)
    assert waited.beats >= beats
    assert waited.deadline is not None
    assert waited.deadline / SECOND == pytest.approx(begun.earliest + deadline, abs=0.2)
    member = timeline.member(waited.member)
    assert member is not None
    assert any(span.phase is Phase.NOT_JOINING for span in member.spans) == (beats > 0)
