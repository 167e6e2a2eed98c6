"""The count of members of different applications equals that of a pairwise comparison."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from captures.analysis.groups.model import GroupMember, GroupTimeline, Span
from captures.analysis.groups.vocabulary import Kind, Phase
from captures.analysis.incidents.of_groups import shared_group_id
from dissectors.units import SECOND


def timeline(rng: Random) -> GroupTimeline:
    members = []
    for number in range(rng.randrange(2, 9)):
        begin = rng.randrange(20) * SECOND // 2
        end = begin + rng.randrange(12) * SECOND // 2
        members.append(
            GroupMember(
                member=f"m-{number}",
                client=rng.choice(["app", "web", "job"]),
                host="10.0.0.1",
                first=begin,
                last=end,
                subscription=(rng.choice(["orders", "payments"]),),
                spans=[Span(begin, end, Phase.STABLE, 1, number + 1)],
            )
        )
    return GroupTimeline(group="billing", kind=Kind.CLASSIC, members=members, last=100 * SECOND)


@pytest.mark.parametrize("seed", range(60))
def test_parties_and_times_are_those_that_comparing_each_with_each_finds(seed: int) -> None:
    told = timeline(Random(seed))
    together = [
        (one, max(one.first, other.first), min(one.gone, other.gone))
        for one, other in permutations(told.members, 2)
        if one.subscription != other.subscription
        and one.client != other.client
        and min(one.gone, other.gone) - max(one.first, other.first) >= SECOND
    ]
    found = shared_group_id(told)
    if not together:
        assert found is None
        return
    assert found is not None
    assert found.begin == min(begin for _, begin, _ in together)
    assert found.end == max(end for _, _, end in together)
    numbers = {one.spans[0].number for one, _, _ in together}
    assert found.evidence == tuple(sorted(numbers))
