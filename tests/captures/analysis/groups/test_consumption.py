"""Who fetched which partition and when, in runs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from captures.analysis.groups.consumption import MOST_LINES, MOST_OWNERS, MOST_RUNS, Consumption, FetchRun
from captures.exchanges import Exchange
from tests.captures.analysis.groups.fetches import GROUP, TOPIC, by, commit, fetch, heartbeat
from tests.captures.analysis.groups.kit import BEGIN, SECOND
from tests.captures.analysis.kit import exchange


def learned(*exchanges: Exchange) -> Consumption:
    consumption = Consumption(lambda _: None)
    for each in exchanges:
        consumption.add(each)
    return consumption


def runs(consumption: Consumption, partition: int = 0, group: str = GROUP) -> list[FetchRun]:
    return consumption.by_group().get(group, {}).get((TOPIC, partition), [])


def seconds(run: FetchRun) -> tuple[float, float]:
    begin, end = ((time - BEGIN) / SECOND for time in (run.begin, run.end))
    return round(begin, 3), round(end, 3)


def test_fetches_without_a_pause_are_one_run() -> None:
    every = [fetch("m1", 1 + n / 2, {0: n}, number=n + 2, got={0: 1}, took=0.49) for n in range(10)]
    (run,) = runs(learned(heartbeat("m1", 0), *every))
    assert seconds(run) == (1.0, 5.99)
    assert (run.first, run.last, run.offset, run.reached) == (2, 11, 0, 10)


def test_a_pause_ends_a_run() -> None:
    early, late = fetch("m1", 1, {0: 5}, number=2), fetch("m1", 3, {0: 7}, number=3)
    first, second = runs(learned(heartbeat("m1", 0), early, late))
    assert (seconds(first), first.last) == ((1.0, 1.001), 2)
    assert (seconds(second), second.offset) == ((3.0, 3.001), 7)
    assert [(each.owner.client, each.reached) for each in second.before] == [("m1", 5)]


def test_going_back_begins_a_run_without_a_pause() -> None:
    forward, back = fetch("m1", 1, {0: 5}, number=2, got={0: 3}), fetch("m1", 1.01, {0: 6}, number=3)
    first, second = runs(learned(heartbeat("m1", 0), forward, back))
    assert first.reached == 8
    assert (second.offset, second.first) == (6, 3)


def test_partitions_that_are_dropped_are_fetched_no_more() -> None:
    both, one = fetch("m1", 1, {0: 1, 1: 1}, number=2), fetch("m1", 1.1, {1: 1}, number=3)
    known = learned(heartbeat("m1", 0), both, one, fetch("m1", 1.2, {1: 1}, number=4))
    assert [(run.open, run.last) for run in runs(known, 0)] == [(False, 2)]
    assert [(run.open, run.last) for run in runs(known, 1)] == [(True, 4)]


def test_what_is_dropped_for_a_moment_goes_on() -> None:
    offsets = ({0: 1, 1: 1}, {1: 1}, {0: 1, 1: 1})
    every = [fetch("m1", 1 + n / 10, each, number=n + 2) for n, each in enumerate(offsets)]
    (run,) = runs(learned(heartbeat("m1", 0), *every))
    assert (run.open, run.last) == (True, 4)


def test_a_session_keeps_all_its_partitions_going() -> None:
    def in_session(time: float, epoch: int, *named: int) -> Exchange:
        asked = {
            "session_id": 9 if epoch else 0,
            "session_epoch": epoch,
            "topics": [{"topic": TOPIC, "partitions": [{"partition": n, "fetch_offset": 4} for n in named]}],
        }
        return exchange(
            1, 12, request=asked, response={"session_id": 9, "responses": []}, **by("m1", time, epoch + 2)
        )

    known = learned(
        heartbeat("m1", 0), in_session(1, 0, 0, 1), in_session(1.1, 1), in_session(1.2, 2), in_session(5, 3)
    )
    assert [seconds(run) for run in runs(known, 1)] == [(1.0, 1.201), (5.0, 5.001)]


def test_followers_do_not_consume() -> None:
    follower = fetch("m1", 1, {0: 5}, number=2)
    assert follower.request is not None
    follower.request.value["replica_id"] = 2
    assert runs(learned(heartbeat("m1", 0), follower)) == []


def test_a_run_knows_its_own_group_only() -> None:
    known = learned(
        heartbeat("m1", 0),
        heartbeat("m2", 0, group="other"),
        fetch("m2", 1, {0: 5}, number=2, got={0: 3}),
        commit("m1", 2, {0: 6}, number=3),
        commit("m2", 2, {0: 7}, number=4, group="other"),
        fetch("m1", 3, {0: 6}, number=5),
        fetch("m2", 4, {0: 8}, number=6),
    )
    (mine,), others = runs(known), runs(known, group="other")
    assert (mine.before, [*mine.committed]) == ((), [GROUP])
    assert ([each.reached for each in others[-1].before], [*others[-1].committed]) == ([8], ["other"])


def test_the_latest_commit_by_then_stands_beside_a_run() -> None:
    known = learned(
        heartbeat("m1", 0),
        fetch("m1", 1, {0: 5}, number=2),
        commit("m1", 2, {0: 6}, number=3),
        commit("m1", 3, {0: 9}, number=4, code=25),
        fetch("m1", 5, {0: 7}, number=5),
    )
    first, second = runs(known)
    assert first.committed == {}
    committed = second.committed[GROUP]
    assert (committed.offset, committed.member, committed.number) == (6, "m1-id", 3)


def test_a_fetch_before_its_group_is_known_counts_once_it_is() -> None:
    known = learned(fetch("m1", 1, {0: 5}, number=1), heartbeat("m1", 1.1, 2))
    assert runs(known) == []
    known.add(fetch("m1", 1.15, {0: 5}, number=3))
    (run,) = runs(known)
    assert run.first == 1


def test_clients_of_no_group_belong_to_none() -> None:
    assert learned(fetch("m1", 1, {0: 5}, number=1)).by_group()[""] != {}
    assert runs(learned(fetch("m1", 1, {0: 5}, number=1))) == []


def test_one_client_id_in_two_groups_belongs_to_neither() -> None:
    elsewhere = heartbeat("m1", 0, 2, group="other", connection=8)
    assert runs(learned(heartbeat("m1", 0, connection=7), elsewhere, fetch("m1", 1, {0: 5}, number=3))) == []


@pytest.mark.slow
def test_runs_are_bounded() -> None:
    """A pause every 5 s, and a single long one worth keeping."""
    times = [n * 5 + (600 if n >= 700 else 0) for n in range(1000)]
    every = [fetch("m1", time, {0: n}, number=n + 2, got={0: 1}) for n, time in enumerate(times, 1)]
    kept = runs(learned(heartbeat("m1", 0), *every))
    assert len(kept) <= MOST_RUNS
    assert kept[0].begin == every[0].time
    assert kept[-1].reached == 1001
    pauses = [later.begin - run.end for run, later in pairwise(kept)]
    assert max(pauses) > 600 * SECOND


@pytest.mark.slow
def test_a_client_that_connects_again_and_again_is_one_process() -> None:
    """Each of its connections sends one Fetch and stays open."""
    every = [fetch("m1", n * 5, {0: n}, number=n + 2, got={0: 1}, connection=n + 10) for n in range(1, 1000)]
    kept = runs(learned(heartbeat("m1", 0), *every))
    assert len(kept) <= MOST_RUNS
    assert (kept[0].begin, kept[-1].reached) == (every[0].time, 1000)


@pytest.mark.slow
def test_connections_that_are_idle_are_given_up_first() -> None:
    steady = [heartbeat("m1", 0), fetch("m1", 1, {0: 5}, number=2)]
    crowd = [
        fetch("m2", 1 + n / 100_000, {1: 0}, number=n, connection=n + 10) for n in range(3, MOST_LINES + 3)
    ]
    known = learned(heartbeat("m2", 0), *steady, *crowd)
    (given_up,) = runs(known)
    assert (given_up.open, seconds(given_up)) == (False, (1.0, 1.001))
    known.add(fetch("m1", 1.1, {0: 5}, number=9_999))
    assert [seconds(run) for run in runs(known)] == [(1.0, 1.001), (1.1, 1.101)]


def test_processes_that_come_and_go_are_forgotten() -> None:
    """Each has a client ID of its own, as with random IDs."""
    every = [
        each
        for n in range(MOST_OWNERS + 50)
        for each in (
            heartbeat("m1", n * 20, 1, client_id=f"c-{n}"),
            fetch("m1", n * 20 + 1, {0: n}, number=2 * n, client_id=f"c-{n}", connection=n),
        )
    ]
    kept = runs(learned(*every))
    assert len(kept) == MOST_OWNERS
    assert kept[-1].offset == MOST_OWNERS + 49
    assert [each.owner.client for each in kept[-1].before] == [f"c-{MOST_OWNERS + 48}"]


def test_processes_of_other_groups_leave_no_less_room() -> None:
    others = [
        each
        for n in range(MOST_OWNERS + 50)
        for each in (
            heartbeat("m1", n, 1, client_id=f"c-{n}", group=f"g-{n}"),
            fetch("m1", n + 1, {0: n}, number=2 * n, client_id=f"c-{n}", connection=n),
        )
    ]
    mine = fetch("m1", 1, {0: 5}, number=1, connection=1_000)
    known = learned(heartbeat("m1", 0, connection=1_000), mine, *others)
    assert [run.offset for run in runs(known)] == [5]
    assert len(known.by_group()) == MOST_OWNERS + 51
    unknown = learned(
        heartbeat("m1", 0), mine, *others, fetch("m2", 400, {0: 1}, number=9_999, connection=1_001)
    )
    assert len(runs(unknown, group="")[-1].before) == MOST_OWNERS
