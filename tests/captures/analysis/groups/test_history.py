"""Whole histories: the order of exchanges does not matter, and no broken exchange makes one fail."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from captures.analysis.groups.history import GroupHistories, needed
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.vocabulary import Kind, Trigger
from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from captures.json_objects import to_json
from dissectors.api_keys import ApiKey
from dissectors.sides import SIDES
from tests.captures.analysis.groups.kit import at
from tests.captures.analysis.groups.talk import Talk, one_member, two_members
from tests.captures.analysis.groups.truth import FOLDER

RECORDINGS = (
    "21_k430_java_blocked_rebalance",
    "21_k430_ck_static",
    "21_k430_connect_eager",
    "21_k430_streams_kip1071",
    "21_k430_kip848_java",
    "21_k430_share_group",
    "31_k0901_rebalance_range",
)


@cache
def recorded(name: str) -> tuple[list[Exchange], Any]:
    capture = open_capture(str(FOLDER / f"{name}.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    return list(reader), reader.knowledge.topic_name


def told(exchanges: list[Exchange], names: Any, **more: Any) -> list[GroupTimeline]:
    histories = GroupHistories(names)
    for exchange in exchanges:
        histories.add(exchange)
    return histories.result(**more)


def lines(timelines: list[GroupTimeline]) -> list[str]:
    return [
        f"{story.group} {story.generation}: {story.sentence}"
        for each in timelines
        for story in each.rebalances
    ]


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_order_of_adding_does_not_matter_but_for_runs(name: str) -> None:
    """A live capture yields exchanges in the order of responses: a JoinGroup comes after exchanges during its wait."""
    exchanges, names = recorded(name)
    answered = sorted(exchanges, key=lambda exchange: exchange.time + (exchange.latency or 0))
    assert lines(told(answered, names)) == lines(told(exchanges, names))
    assert lines(told(exchanges, names))


@pytest.mark.parametrize("name", RECORDINGS)
def test_asking_on_the_way_changes_nothing(name: str) -> None:
    exchanges, names = recorded(name)
    histories = GroupHistories(names)
    for place, exchange in enumerate(exchanges):
        histories.add(exchange)
        if not place % 100:
            histories.result(pending=exchanges[place + 1 : place + 3])
    assert lines(histories.result()) == lines(told(exchanges, names))


# ---------------------------------------------------------------- broken exchanges
def broken(value: Any, chance: random.Random) -> Any:
    """Return a body with missing parts, as in truncated messages."""
    if isinstance(value, dict):
        kept = {name: broken(each, chance) for name, each in value.items() if chance.random() > 0.03}
        return {name: None if chance.random() < 0.02 else each for name, each in kept.items()}
    if isinstance(value, list):
        found = [None if chance.random() < 0.1 else broken(each, chance) for each in value]
        return found[: chance.randrange(len(found) + 1)] if chance.random() < 0.1 else found
    if isinstance(value, bytes) and value and chance.random() < 0.2:
        return value[: chance.randrange(len(value))]
    return value


def damaged(exchange: Exchange, chance: random.Random) -> Exchange:
    fate = chance.random()
    if fate < 0.05:
        return replace(exchange, response=None, latency=None, flag=Flag.UNANSWERED)
    if fate < 0.08:
        return replace(exchange, request=None)
    if fate < 0.10:
        return replace(exchange, request=None, api_key=None, version=None, flag=Flag.ORPHAN)
    out = exchange
    for side in SIDES:
        body = getattr(exchange, side)
        if body is not None and chance.random() < 0.5:
            value = None if chance.random() < 0.05 else broken(body.value, chance)
            out = replace(out, **{side: replace(body, value=value)})
    return out


def seeds() -> Iterator[Any]:
    for name in RECORDINGS:
        for seed in range(4):
            yield pytest.param(name, seed, id=f"{name}-{seed}")


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "seed"), seeds())
def test_broken_exchanges_are_borne(name: str, seed: int) -> None:
    exchanges, names = recorded(name)
    chance = random.Random(seed)
    harmed = [damaged(each, chance) for each in exchanges if chance.random() > 0.1]
    pending = [each for each in harmed if each.latency is None]
    for timeline in told([each for each in harmed if each.latency is not None], names, pending=pending):
        for story in timeline.rebalances:
            assert story.sentence
            assert story.causes
            assert to_json(story)["certainty"] == story.certainty
        for member in timeline.members:
            assert all(span.begin <= span.end for span in member.spans), member


# ---------------------------------------------------------------- groups
def test_each_group_has_its_own_history() -> None:
    first, second = one_member(), Talk("payments")
    second.new("p1", 0, 3, 1, leader="p1", members=["p1"])
    both = told([*first.said, *second.said], lambda _: None)
    assert [(each.group, each.kind, len(each.rebalances)) for each in both] == [
        ("orders", Kind.CLASSIC, 1),
        ("payments", Kind.CLASSIC, 1),
    ]


def test_a_group_without_a_name_is_none() -> None:
    talk = Talk("")
    talk.beat("m1", 1, 1)
    assert talk.timelines() == []


@pytest.mark.slow
def test_heartbeats_take_no_room() -> None:
    talk = one_member()
    histories = GroupHistories(lambda _: None)
    for exchange in talk.said:
        histories.add(exchange)
    (group,) = histories._groups.values()
    before = len(group.calls)
    later = Talk()
    later.beats("m1", 4, 2_000, 1)
    for exchange in later.said:
        histories.add(exchange)
    assert len(group.calls) == before + 1
    (timeline,) = histories.result()
    assert timeline.last == at(2_000.001)


def test_the_present_of_a_capture_that_goes_on_ends_sessions() -> None:
    """The capture's own clock stops when no packets arrive."""
    talk = two_members()
    talk.beats("m1", 4, 8, 1)
    talk.beats("m2", 4, 8, 1)
    assert len(talk.timeline().rebalances) == 1
    assert talk.timeline(until=20).rebalances[-1].trigger is Trigger.SESSION_TIMEOUT


def test_pending_exchanges_are_not_kept() -> None:
    talk = one_member()
    pending = talk.new("m2", 5, None, 2)
    histories = GroupHistories(lambda _: None)
    for exchange in talk.said[:-1]:
        histories.add(exchange)
    pending.number = 0  # it has none yet
    story = histories.result(now=at(6), pending=[pending])[0].rebalances[-1]
    assert story.running
    assert 0 not in story.evidence + [number for cause in story.causes for number in cause.evidence]
    assert len(histories.result(now=at(6))[0].rebalances) == 1


def test_a_group_that_is_only_pending_is_told_too() -> None:
    talk = Talk()
    pending = talk.join("m1", 1, None, 1, new=True, version=3)
    (timeline,) = GroupHistories(lambda _: None).result(now=at(2), pending=[pending])
    assert timeline.group == "orders"
    assert timeline.rebalances == [] or timeline.rebalances[0].running


def shape(timeline: GroupTimeline) -> list[Any]:
    """The parts of a running group's story that must show immediately."""
    stories = [(each.time, each.trigger, each.generation, each.running) for each in timeline.rebalances]
    members = [(each.member, each.left, each.last, each.spans) for each in timeline.members]
    return [timeline.group, timeline.state, timeline.generation, timeline.last, stories, members]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [*RECORDINGS, "21_k430_java_sigstop", "21_k430_kip848_static_java"])
def test_a_group_that_goes_on_is_told_as_if_anew(name: str) -> None:
    exchanges, names = recorded(name)
    exchanges = sorted(exchanges, key=lambda each: each.time + (each.latency or 0))
    histories = GroupHistories(names)
    for place, exchange in enumerate(exchanges):
        histories.add(exchange)
        if place % 20 == 0:
            now = exchange.time + (exchange.latency or 0)
            found = histories.result(now=now, live=True)
            assert list(map(shape, found)) == list(map(shape, histories.result(now=now)))


def test_nothing_is_told_anew_while_members_only_send_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = two_members()
    begin = max(at(0), talk.said[-1].time)
    histories, told = GroupHistories(lambda _: None), list[int]()
    timeline_of = GroupHistories._timeline

    def counted(self: GroupHistories, *of: Any) -> GroupTimeline:
        told.append(of[1])
        return timeline_of(self, *of)

    monkeypatch.setattr(GroupHistories, "_timeline", counted)
    generation = told_of(talk).generation
    told.clear()
    first = (begin - at(0)) / 1_000_000_000
    for step in range(1, 61):
        for member in ("m1", "m2"):
            talk.beat(member, first + step, generation)
    for number, exchange in enumerate(talk.said, 1):
        exchange.number = number
        histories.add(exchange)
        if exchange.time > begin:
            (timeline,) = histories.result(now=exchange.time, live=True)
            assert timeline.members[0].spans[-1].end == exchange.time
    # until the costs of the last rebalance show, and no more
    assert len(told) < 2 * 25
    assert max(told) < begin + 25_000_000_000


def told_of(talk: Talk) -> GroupTimeline:
    (timeline,) = told(talk.said, lambda _: None)
    return timeline


def test_without_members_no_exchange_is_needed() -> None:
    produce_and_fetch = np.array([0, 1, 3, 0, 1])
    assert not needed(produce_and_fetch).any()
    assert needed(np.append(produce_and_fetch, ApiKey.HEARTBEAT)).tolist() == [
        False,
        True,
        True,
        False,
        True,
        True,
    ]
