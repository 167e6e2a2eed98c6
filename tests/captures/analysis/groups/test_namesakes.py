"""Bisection finds the same namesakes as a check of each member."""

from __future__ import annotations

from random import Random

import pytest

from captures.analysis.groups.model import GroupMember
from captures.analysis.groups.namesakes import Namesakes


def members(rng: Random) -> list[GroupMember]:
    begins = rng.sample(range(1_000), 12)
    return [
        GroupMember(
            member=f"m-{number}",
            client=rng.choice(["app", "web"]),
            host=rng.choice(["10.0.0.1", "10.0.0.2"]),
            first=begin,
            last=begin + rng.randrange(300),
            left=begin + 400 if rng.random() < 0.3 else None,
        )
        for number, begin in enumerate(begins)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_namesakes_are_those_that_looking_at_each_finds(seed: int) -> None:
    rng = Random(seed)
    every = members(rng)
    namesakes = Namesakes(every)
    for member in every:
        others = [
            each
            for each in every
            if each is not member and (each.client, each.host) == (member.client, member.host)
        ]
        for time in rng.sample(range(1_500), 40):
            later = [each for each in others if each.first > max(member.first, time)]
            assert namesakes.after(member, time) is min(later, key=lambda each: each.first, default=None)
            assert namesakes.beside(member, time) == any(each.first <= time <= each.gone for each in others)
            assert namesakes.before(member, time) == any(each.first < time for each in [*others, member])
