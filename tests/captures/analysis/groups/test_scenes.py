"""Rebalances with their context."""

from __future__ import annotations

from captures.analysis.groups.consumption import Owner
from captures.analysis.groups.effects import RebalanceContexts
from captures.analysis.groups.model import Rebalance
from tests.captures.analysis.groups.kit import at, member, places, rebalance, timeline

M1, M2 = Owner("m1", "10.0.0.9"), Owner("m2", "10.0.0.9")


def contexts(
    *rebalances: Rebalance, fetching: tuple[Owner, ...] = (M1, M2), end: float = 60
) -> RebalanceContexts:
    return RebalanceContexts(
        timeline(*rebalances, members=[member("m1"), member("m2")]), set(fetching), at(end)
    )


def seconds(known: RebalanceContexts) -> list[tuple[float, float]]:
    return [((context.end - at(0)) / 1e9, (context.next - at(0)) / 1e9) for context in known.every]


def test_an_end_that_was_not_seen_is_the_next_beginning() -> None:
    known = contexts(
        rebalance(begin=10, end=None), rebalance(begin=20, end=21), rebalance(begin=30, end=None)
    )
    assert seconds(known) == [(20, 20), (21, 30), (60, 60)]


def test_one_that_goes_on_lasts_until_now() -> None:
    assert seconds(contexts(rebalance(begin=20, end=None, running=True), end=45)) == [(45, 45)]


def test_those_that_meet_a_time() -> None:
    """The second one is overtaken by the third, and ends after it."""
    known = contexts(
        rebalance(begin=10, end=11),
        rebalance(begin=20, end=33),
        rebalance(begin=25, end=26),
        rebalance(begin=40, end=41),
    )

    def meeting(begin: float, end: float) -> list[int]:
        return [known.every.index(context) for context in known.meeting(at(begin), at(end))]

    assert meeting(0, 5) == []
    assert meeting(0, 10) == [0]
    assert meeting(12, 19) == []
    assert meeting(27, 30) == [1]
    assert meeting(10.5, 25) == [0, 1, 2]
    assert meeting(0, 60) == [0, 1, 2, 3]
    assert meeting(50, 60) == []


def test_owners_are_processes() -> None:
    (context,) = contexts(rebalance(assigned={"m1-id": places("t", 0), "other-id": places("t", 1)})).every
    ((first, second),) = [sorted(context.owners.items())]
    assert (first[1], second[1]) == ({M1}, set())
    (place,) = places("t", 1)
    assert (context.hidden, context.shows(place)) == ({place}, False)


def test_who_had_a_partition_before_counts_too() -> None:
    (place,) = places("t", 0)
    given = rebalance(begin=10, end=11, assigned={"m2-id": places("t", 0)})
    back = rebalance(begin=30, end=31, assigned={"m1-id": places("t", 0)})
    assert contexts(given, back).shown(place, at(15), at(31))
    assert not contexts(given, back, fetching=(M1,)).shown(place, at(15), at(31))
    assert contexts(given, back, fetching=(M1,)).shown(place, at(30), at(31)) is False
    assert contexts(given, back, fetching=(M1,)).shown(place, at(32), at(40))


def test_what_nobody_is_known_to_have_is_shown_if_everybody_is_seen() -> None:
    (place,) = places("t", 7)
    members = ["m1-id", "m2-id"]

    def shown(fetching: tuple[Owner, ...], **fields: object) -> bool:
        (context,) = contexts(rebalance(**fields), fetching=fetching).every
        return context.shows(place)

    assert shown((M1, M2), members=members, size=2)
    assert not shown((M1,), members=members, size=2)
    assert shown((M1,), members=members, size=2, assigned={"m2-id": frozenset()})
    assert not shown((M1, M2), members=members, size=3)
    assert not shown((M1, M2), members=members, size=None)
    assert shown((), members=[], emptied=True)


def test_of_a_running_one_the_members_before_are_wanted() -> None:
    before = rebalance(begin=1, end=2, members=["m1-id"], size=1, assigned={"m1-id": places("t", 0)})
    running = rebalance(begin=10, end=None, running=True)
    context = contexts(before, running).every[1]
    assert context.whole
    assert context.wanted == places("t", 0)
