"""The cost of group stories is linear in the number of rebalances."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from captures.analysis.groups.history import GroupHistories
from tests.captures.analysis.groups.modern.talk import ModernTalk
from tests.captures.analysis.groups.talk import Talk

pytestmark = pytest.mark.slow

FEW, TIMES = 60, 4


def rejoining(count: int) -> Talk:
    """The leader of two members rejoins over and over."""
    talk = Talk()
    for generation in range(1, count + 1):
        begin = 2.0 * generation
        talk.join("a", begin, begin + 0.5, generation, leader="a", members=["a", "b"])
        talk.join("b", begin + 0.2, begin + 0.5, generation, leader="a")
        for member in ("a", "b"):
            talk.sync(member, begin + 0.6, generation, {"orders": [0]}, {"a": {"orders": [0]}})
            talk.beat(member, begin + 1, generation)
    return talk


def coming_and_going(count: int) -> Talk:
    """One member stays; new ones join and leave."""
    talk = Talk()
    for generation in range(1, count + 1, 2):
        begin, other = 4.0 * generation, f"b/{generation}"
        talk.new(other, begin, begin + 0.5, generation, leader="a")
        talk.join("a", begin + 0.2, begin + 0.5, generation, leader="a", members=["a", other])
        talk.sync(
            "a", begin + 0.6, generation, {"orders": [0]}, {"a": {"orders": [0]}, other: {"orders": [1]}}
        )
        talk.leave(other, begin + 2)
        talk.join("a", begin + 3, begin + 3.1, generation + 1, leader="a", members=["a"])
        talk.sync("a", begin + 3.2, generation + 1, {"orders": [0, 1]}, {"a": {"orders": [0, 1]}})
    return talk


def of_a_newer_kind(count: int) -> ModernTalk:
    """The same with KIP-848; every second member falls silent and is removed."""
    talk = ModernTalk()
    talk.enter("a", 0, 1, {"orders": [0, 1]})
    for epoch in range(1, count, 2):
        begin, other = 60.0 * epoch, f"b{epoch}"
        talk.enter(other, begin, epoch + 1, {"orders": [1]})
        talk.heartbeat("a", begin + 0.1, epoch, epoch + 1, {"orders": [0]})
        if epoch % 4 == 1:
            talk.go(other, begin + 1)
        talk.quiet("a", begin + 5, begin + 49, epoch + 1)
        talk.heartbeat("a", begin + 50, epoch + 1, epoch + 2, {"orders": [0, 1]})
    return talk


def steps(talk: Talk, least: int) -> int:
    """Return how many functions are called and generators resumed to tell of a group."""
    histories = GroupHistories(lambda _: None)
    for number, exchange in enumerate(talk.said, 1):
        exchange.number = number
        histories.add(exchange)
    count = 0

    def called(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        (timeline,) = histories.result()
    finally:
        sys.setprofile(None)
    assert len(timeline.rebalances) >= least
    return count


@pytest.mark.parametrize("talk", [rejoining, coming_and_going, of_a_newer_kind])
def test_telling_grows_no_faster_than_rebalances_do(talk: Callable[[int], Talk]) -> None:
    few, many = steps(talk(FEW), FEW - 1), steps(talk(TIMES * FEW), TIMES * FEW - 1)
    assert many < 1.2 * TIMES * few
