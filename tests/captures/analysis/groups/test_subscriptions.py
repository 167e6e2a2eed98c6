"""Members with different subscriptions at one time, whatever they do at the end."""

from __future__ import annotations

from captures.analysis.groups.subscriptions import differing
from dissectors.units import SECOND
from tests.captures.analysis.groups.kit import at, member, timeline


def test_a_member_that_subscribes_anew_wants_what_it_wanted_until_then() -> None:
    changed = member("m1", subscription=("a", "b"), former_subscriptions=[(("a",), at(30))])
    found = differing(timeline(members=[changed, member("m2", subscription=("a",), left=at(50))]), SECOND)
    assert found is not None
    assert (found.begin, found.end, found.lasting) == (at(30), at(50), False)
    assert {topics: [each.client for each in members] for topics, members in found.parties.items()} == {
        ("a", "b"): ["m1"],
        ("a",): ["m2"],
    }


def test_who_replaces_another_is_not_there_beside_it() -> None:
    old, new = member("m1", subscription=("a",), left=at(20)), member("m2", subscription=("b",), first=20)
    assert differing(timeline(members=[old, new]), 0) is None


def test_several_times_are_told_as_one_with_how_long_they_lasted() -> None:
    job = [
        member(f"job-{place}", subscription=("b",), first=begin, left=at(begin + 5))
        for place, begin in enumerate((10, 30))
    ]
    found = differing(timeline(members=[member("m1", subscription=("a",)), *job]), SECOND)
    assert found is not None
    assert (found.begin, found.end, found.lasted) == (at(10), at(35), 10 * SECOND)
