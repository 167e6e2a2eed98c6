"""The costs of rebalances: against what was done to recorded groups, and with synthetic fetches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.groups.call_reader import read_call
from captures.analysis.groups.calls import GroupCalls
from captures.analysis.groups.consumption import Consumption
from captures.analysis.groups.effects import fill_effects
from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import (
    Cause,
    GroupTimeline,
    Move,
    Rebalance,
    RepeatedFetch,
    TopicPartition,
)
from captures.analysis.groups.vocabulary import Certainty, Kind, Trigger
from captures.exchanges import Exchange, ExchangeReader, open_capture
from dissectors.records import record_set
from tests.captures.analysis.groups.cut import cut
from tests.captures.analysis.groups.fetches import GROUP, TOPIC, commit, fetch, heartbeat
from tests.captures.analysis.groups.kit import SECOND, at, member, places, rebalance, timeline

RECORDED = Path(__file__).parents[3] / "data" / "groups"
END = 60


def filled(
    *exchanges: Exchange, rebalances: list[Rebalance], end: float = END, **fields: Any
) -> GroupTimeline:
    """Fill in the costs of rebalances of the group of ``m1`` and ``m2``."""
    members = [
        member(name, host=host, member=f"{name}-id")
        for name, host in (("m1", "10.0.0.1"), ("m2", "10.0.0.2"), ("m3", "10.0.0.3"))
    ]
    made = timeline(*rebalances, group=GROUP, members=members, **fields)
    consumption, calls = Consumption(lambda _: None), GroupCalls(GROUP)
    for each in sorted(exchanges, key=lambda each: each.time):
        consumption.add(each)
        call = read_call(each, lambda _: None)
        if call is not None:
            calls.add(call)
    fill_effects(made, calls, consumption.by_group().get(made.group, {}), at(end))
    return made


def fetching(
    client: str, begin: float, end: float, *partitions: int, offset: int = 0, number: int = 100
) -> list[Exchange]:
    """Fetches every 100 ms; each returns one record of every partition."""
    count = round((end - begin) * 10)
    return [
        fetch(
            client,
            begin + step / 10,
            dict.fromkeys(partitions, offset + step),
            got=dict.fromkeys(partitions, 1),
            number=number + step,
            took=0.095,
        )
        for step in range(count)
    ]


def everybody() -> list[Exchange]:
    return [heartbeat(name, 0) for name in ("m1", "m2", "m3")]


def of(trigger: Trigger, who: str, seconds: float) -> Cause:
    return Cause(trigger, Certainty.OBSERVED, at(seconds), "why", member=who, client=who.removesuffix("-id"))


def taken_over(begin: float = 10, end: float = 13, **fields: Any) -> Rebalance:
    """A rebalance that moves partition 0 from m1 to m2."""
    moved = [Move(TopicPartition(TOPIC, 0), "m1-id", "m2-id")]
    return rebalance(
        begin=begin, end=end, moved=moved, **{"assigned": {"m2-id": places(TOPIC, 0, 1)}} | fields
    )


# ---------------------------------------------------------------- partitions that no member consumed
def test_a_partition_stops_from_the_last_fetch_before_to_the_first_after() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0, number=100),
        *fetching("m2", 1, 20, 1, number=1000),
        *fetching("m2", 13.2, 20, 0, offset=80, number=2000),
        rebalances=[taken_over()],
    )
    (stop,) = known.rebalances[0].stopped
    assert (stop.tp, stop.ended, stop.before, stop.after) == (TopicPartition(TOPIC, 0), True, 179, 2000)
    assert stop.duration == pytest.approx(4.205 * SECOND, abs=SECOND // 1000)


def test_what_goes_on_does_not_stop() -> None:
    known = filled(
        *everybody(), *fetching("m1", 1, 13, 0), *fetching("m2", 13.1, 20, 0), rebalances=[taken_over()]
    )
    assert (known.rebalances[0].stopped, known.rebalances[0].consumed_on) == ([], 1)


def test_partitions_that_are_consumed_all_the_while_are_counted() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0),  # stops
        *fetching("m2", 13.2, 20, 0, offset=80),
        *fetching("m2", 1, 20, 1, 2),  # continue
        *fetching("m3", 12, 20, 3),  # was not consumed before
        *fetching("m3", 1, 11, 4),  # is not consumed after
        rebalances=[taken_over()],
    )
    assert known.rebalances[0].consumed_on == 2


def test_a_pause_apart_from_a_rebalance_is_not_its_fault() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 5, 0),
        *fetching("m1", 8, 13, 0, offset=40),
        *fetching("m2", 13.1, 20, 0, offset=90),
        *fetching("m2", 30, 40, 0, offset=160),
        rebalances=[taken_over()],
    )
    assert known.rebalances[0].stopped == []


def test_a_consumer_that_always_pauses_so_long_stops_for_no_rebalance() -> None:
    slow = [
        each
        for step in range(12)
        for each in fetching("m1", step * 4 + 0.5, step * 4 + 1, 0, offset=step * 5)
    ]
    known = filled(*everybody(), *slow, rebalances=[rebalance(begin=10, end=10.1)])
    assert known.rebalances[0].stopped == []


def test_nobody_fetches_up_to_the_end() -> None:
    known = filled(
        *everybody(), *fetching("m1", 1, 9, 0), *fetching("m2", 1, 20, 1), rebalances=[taken_over()]
    )
    (stop,) = known.rebalances[0].stopped
    assert (stop.ended, stop.after, stop.duration) == (
        False,
        None,
        pytest.approx(51.005 * SECOND, abs=SECOND // 1000),
    )


def test_a_group_that_everybody_left_is_not_waited_for() -> None:
    gone = rebalance(begin=9.1, end=None, emptied=True, moved=[Move(TopicPartition(TOPIC, 0), "m1-id", "")])
    known = filled(*everybody(), *fetching("m1", 1, 9, 0), rebalances=[gone])
    assert known.rebalances[0].stopped == []


def test_a_partition_that_is_not_wanted_any_more_is_not_waited_for() -> None:
    other = rebalance(begin=9.1, end=9.3, assigned={"m1-id": places("another", 0)})
    known = filled(*everybody(), *fetching("m1", 1, 9, 0), rebalances=[other])
    assert known.rebalances[0].stopped == []


def test_a_stop_counts_once_for_the_rebalance_that_moved_the_partition() -> None:
    first = rebalance(begin=10, end=10.5, assigned={"m1-id": places(TOPIC, 0)})
    second = taken_over(12, 13)
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0),
        *fetching("m2", 13.1, 20, 0, offset=80),
        rebalances=[first, second],
    )
    assert [len(each.stopped) for each in known.rebalances] == [0, 1]


def test_cooperative_rounds_do_not_stop_what_a_member_keeps() -> None:
    """m1 pauses for its own reasons; an eager round would have revoked its partition."""
    exchanges = [*everybody(), *fetching("m1", 1, 9.9, 0), *fetching("m1", 12, 20, 0, offset=89)]

    def stops(**fields: Any) -> int:
        story = rebalance(begin=10, end=10.2, assigned={"m1-id": places(TOPIC, 0)}, **fields)
        return len(filled(*exchanges, rebalances=[story]).rebalances[0].stopped)

    assert stops(cooperative=False) == 1
    assert stops(cooperative=True) == 0
    assert stops(kind=Kind.CONSUMER) == 0


def test_a_rebalance_that_goes_on_has_a_cost_already() -> None:
    before = rebalance(begin=1, end=2, assigned={"m1-id": places(TOPIC, 0)}, members=["m1-id"], size=1)
    running = rebalance(begin=10, end=None, running=True, generation=-1)
    known = filled(*everybody(), *fetching("m1", 2.1, 11, 0), rebalances=[before, running], end=30)
    (stop,) = known.rebalances[1].stopped
    assert (stop.ended, round(stop.duration / SECOND)) == (False, 19)


def test_a_partition_that_stands_still_twice_in_a_rebalance_counts_once() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0),
        *fetching("m1", 10.5, 11, 0, offset=80),
        *fetching("m2", 13.2, 20, 0, offset=85),
        rebalances=[taken_over()],
    )
    (stop,) = known.rebalances[0].stopped
    assert round(stop.duration / SECOND, 1) == 2.2


def test_a_new_owner_whose_fetches_are_not_in_the_capture_may_well_consume() -> None:
    """No Fetch of m2 was captured: whether it consumes partition 0 is unknown."""
    exchanges = [*everybody(), *fetching("m1", 1, 9, 0), *fetching("m1", 30, 40, 0, offset=200)]
    back = rebalance(
        begin=29, end=29.5, assigned={"m1-id": places(TOPIC, 0)}, previous_generation=2, generation=3
    )
    known = filled(*exchanges, rebalances=[taken_over(), back])
    assert [each.stopped for each in known.rebalances] == [[], []]


def test_who_has_a_partition_may_be_unknown() -> None:
    """The capture shows only m1, which gave up partition 0: either of the other two members may have it."""
    gave_up = rebalance(
        begin=10, end=11, assigned={"m1-id": frozenset()}, members=["m1-id"], size=3, moved=[]
    )
    known = filled(*everybody(), *fetching("m1", 1, 9, 0), rebalances=[gave_up])
    assert known.rebalances[0].stopped == []


# ---------------------------------------------------------------- records read twice
def test_what_was_fetched_and_not_committed_is_fetched_again() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0),
        commit("m1", 7, {0: 60}, number=900),
        *fetching("m2", 13.2, 20, 0, offset=60, number=2000),
        rebalances=[taken_over(causes=[of(Trigger.SESSION_TIMEOUT, "m1-id", 10)])],
    )
    assert known.rebalances[0].refetched == [RepeatedFetch(TopicPartition(TOPIC, 0), 60, 80, 2000)]
    assert known.rebalances[0].refetched[0].count == 20


def test_what_was_committed_as_it_was_given_up_comes_once() -> None:
    """The old owner had fetched further than it consumed, and commits its position as it gives up the partition."""
    exchanges = [
        *everybody(),
        *fetching("m1", 1, 9, 0),
        commit("m1", 10.5, {0: 60}, number=900),
        *fetching("m2", 13.2, 20, 0, offset=60),
    ]
    assert filled(*exchanges, rebalances=[taken_over()]).rebalances[0].refetched == []
    # it was expelled, so it continued to consume after its commit
    expelled = taken_over(causes=[of(Trigger.MAX_POLL_EXCEEDED, "m1-id", 10)])
    assert len(filled(*exchanges, rebalances=[expelled]).rebalances[0].refetched) == 1


def test_going_on_where_it_ended_repeats_nothing() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0),
        *fetching("m2", 13.2, 20, 0, offset=80),
        rebalances=[taken_over()],
    )
    assert known.rebalances[0].refetched == []


def test_going_back_long_after_is_the_applications_own_will() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0),
        *fetching("m2", 13.2, 40, 0, offset=80),
        *fetching("m2", 40.1, 45, 0, offset=0),
        rebalances=[taken_over()],
    )
    assert known.rebalances[0].refetched == []


def test_a_former_member_that_fetches_on_is_not_the_new_owner() -> None:
    known = filled(
        *everybody(),
        *fetching("m1", 1, 9, 0),
        *fetching("m1", 10.5, 12, 0, offset=20),
        *fetching("m2", 13.2, 20, 0, offset=80),
        rebalances=[taken_over()],
    )
    assert known.rebalances[0].refetched == []


def test_what_somebody_reached_long_ago_does_not_count_after_a_reset() -> None:
    """Offsets were reset to 0 and everything read again; the next rebalance repeats nothing of the first reading."""
    known = filled(
        *everybody(),
        *fetching("m3", 1, 9, 0, offset=5000),
        *fetching("m1", 25, 30, 0, offset=0),
        *fetching("m2", 33.2, 40, 0, offset=50),
        rebalances=[taken_over(31, 33)],
    )
    assert known.rebalances[0].refetched == []


def test_another_group_that_reads_the_topic_hides_nothing() -> None:
    """m3 of another group fetches all the time; m1 died, and its session lasted 45 s."""
    known = filled(
        *everybody(),
        heartbeat("m3", 0, group="audit"),
        *fetching("m1", 1, 9, 0),
        *fetching("m3", 1, 60, 0, number=5000),
        *fetching("m2", 56.2, 60, 0, offset=60, number=2000),
        rebalances=[taken_over(54, 56, causes=[of(Trigger.SESSION_TIMEOUT, "m1-id", 54)])],
        end=70,
    )
    assert known.rebalances[0].refetched == [RepeatedFetch(TopicPartition(TOPIC, 0), 60, 80, 2000)]


# ---------------------------------------------------------------- failed commits
@pytest.mark.parametrize("code", [22, 25, 27, 82, 110, 113])
def test_commits_that_fail_belong_to_the_round_that_made_them_out_of_date(code: int) -> None:
    first, second = (
        rebalance(begin=10, end=11),
        rebalance(begin=30, end=31, previous_generation=2, generation=3),
    )
    known = filled(
        *everybody(),
        commit("m1", 10.4, {0: 5}, number=50, code=code, generation=1),
        commit("m2", 32, {0: 5}, number=60, code=code, generation=1),
        commit("m2", 33, {0: 5}, number=61, code=code, generation=2),
        rebalances=[first, second],
    )
    numbers = [[failure.number for failure in each.commit_failures] for each in known.rebalances]
    assert numbers == [[50, 60], [61]]
    failure = known.rebalances[0].commit_failures[0]
    assert (failure.error, failure.member, failure.time) == (code, "m1-id", at(10.4))


def test_a_former_member_that_says_no_generation_was_put_out_by_a_rebalance() -> None:
    """As with KIP-848 consumers that return from a slow poll."""
    out = rebalance(begin=10, end=11, gone=["m1-id"])
    later = rebalance(begin=20, end=21, previous_generation=2, generation=3)
    known = filled(
        *everybody(),
        commit("m1", 25, {0: 5}, number=50, code=25, generation=-1),
        commit("m2", 50, {0: 5}, number=51, code=25, generation=-1),
        rebalances=[out, later],
    )
    assert [[failure.number for failure in each.commit_failures] for each in known.rebalances] == [[50], []]


def test_other_errors_of_commits_have_other_reasons() -> None:
    known = filled(
        *everybody(),
        commit("m1", 10.4, {0: 5}, number=50, code=16),
        commit("m1", 10.5, {0: 5}, number=51, code=12),
        rebalances=[rebalance(begin=10, end=11)],
    )
    assert known.rebalances[0].commit_failures == []


def test_a_commit_that_fails_long_after_any_round_belongs_to_none() -> None:
    known = filled(
        *everybody(),
        commit("m1", 50, {0: 5}, number=50, code=82, generation=7),
        rebalances=[rebalance(begin=10, end=11)],
    )
    assert known.rebalances[0].commit_failures == []


# ---------------------------------------------------------------- recordings
def read(path: Path) -> dict[str, GroupTimeline]:
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    histories = GroupHistories(reader.knowledge.topic_name, capture)
    for exchange in reader:
        histories.add(exchange)
    return {each.group: each for each in histories.result()}


def told(name: str) -> tuple[GroupTimeline, dict[str, Any]]:
    truth = json.loads((RECORDED / "truth" / f"{name}.json").read_text())
    return read(RECORDED / f"{name}.pcap.zst")[truth["group"]], truth


_POLL = 0.55
"""s; a Fetch sent earlier may be answered this long after its sender was killed or stopped."""


@pytest.mark.parametrize(
    "name",
    [
        "21_k430_java_eager_range",
        "21_k430_java_sticky",
        "21_k430_java_sigstop",
        "27_k391_java_eager_range",
        "41_k430_host_gone",
    ],
)
def test_partitions_stop_from_the_blow_to_the_next_assignment(name: str) -> None:
    timeline, truth = told(name)
    events = truth["events"]
    blow = next(each for each in events if each["what"] in ("SIGKILL", "SIGSTOP", "host gone"))
    victim, time = blow["who"], blow["t"]
    had = [
        each for each in events if each["who"] == victim and each["what"] == "assigned" and each["t"] < time
    ]
    lost = {int(partition) for partition in re.findall(r"-(\d+)[\],]", had[-1]["data"])}
    new = [each["t"] for each in events if each["what"] == "assigned" and each["who"] != victim]
    taken_over = min(each for each in new if each > time + 1)

    (story,) = [each for each in timeline.rebalances if each.trigger is Trigger.SESSION_TIMEOUT]
    stops = {stop.tp.partition: stop.duration / SECOND for stop in story.stopped if stop.duration > SECOND}
    assert set(stops) == lost
    for duration in stops.values():
        assert taken_over - time - _POLL < duration < taken_over - time + _POLL


def test_a_blocked_rebalance_stops_everybody() -> None:
    """m2 is busy for 15 s and does not join; m3 joins meanwhile (truth/21_k430_java_blocked_rebalance.json)."""
    timeline, _ = told("21_k430_java_blocked_rebalance")
    story = next(each for each in timeline.rebalances if each.duration and each.duration > 10 * SECOND)
    assert sorted(stop.tp.partition for stop in story.stopped) == [0, 1, 2, 3, 4, 5]
    assert min(stop.duration for stop in story.stopped) > 11 * SECOND


def test_a_paused_member_commits_in_vain() -> None:
    timeline, _ = told("21_k430_java_sigstop")
    (story,) = [each for each in timeline.rebalances if each.commit_failures]
    assert story.trigger is Trigger.SESSION_TIMEOUT
    assert [failure.name for failure in story.commit_failures] == ["UNKNOWN_MEMBER_ID"]


def test_a_clean_close_repeats_nothing() -> None:
    timeline, _ = told("21_k430_java_eager_range")
    left = [each for each in timeline.rebalances if each.trigger is Trigger.MEMBER_LEFT]
    assert left
    assert all(each.refetched == [] for each in left)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("21_k430_java_eager_range", "m1"),
        ("21_k430_java_eager_range", "m3"),
        ("21_k430_java_sigstop", "m1"),
        ("21_k430_java_sigstop", "m2"),
        ("21_k430_franz_coop", "m1"),
        ("21_k430_kip848_java", "m1"),
        ("21_k430_kip848_java", "m4"),
        ("21_k430_share_group", "m1"),
        ("27_k391_java_maxpoll", "m1"),
    ],
)
def test_with_one_member_of_many_no_stop_is_invented(name: str, client: str, tmp_path: Path) -> None:
    whole, _ = told(name)
    real = {(stop.tp, round(stop.duration / SECOND, 1)) for each in whole.rebalances for stop in each.stopped}
    assert real
    path = cut(name, tmp_path / "cut.pcapng", clients=frozenset({client}))
    for each in read(Path(path))[whole.group].rebalances:
        for stop in each.stopped:
            assert (stop.tp, round(stop.duration / SECOND, 1)) in real


def delivered(name: str) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Return the records in Fetch responses: partition -> exchange number and offset of each record."""
    capture = open_capture(str(RECORDED / f"{name}.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for each in reader:
        value = each.response.value if each.api_key == 1 and each.response else None
        for topic in (value or {}).get("responses", ()):
            named = topic.get("topic") or reader.knowledge.topic_name(topic["topic_id"])
            for row in topic["partitions"]:
                for held in record_set(row["records"] or b"").batches:
                    offsets = range(held.base_offset, held.last_offset + 1)
                    place = TopicPartition(named, row["partition_index"])
                    found.setdefault(place, []).extend((each.number, offset) for offset in offsets)
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "name",
    [
        "21_k430_java_eager_range",
        "21_k430_kp_range",
        "21_k430_ck_crashloop",
        "21_k430_ck_maxpoll",
        "21_k430_ck_static",
        "27_k391_java_maxpoll",
        "41_k430_host_gone",
        "41_k430_several_stopped",
    ],
)
def test_what_is_said_to_come_twice_was_on_the_wire_twice(name: str) -> None:
    timeline, _ = told(name)
    twice = [again for each in timeline.rebalances for again in each.refetched]
    assert twice
    on_the_wire = delivered(name)
    for again in twice:
        for offset in range(again.begin, again.end):
            numbers = [number for number, each in on_the_wire[again.tp] if each == offset]
            assert min(numbers) < again.number <= max(numbers)
