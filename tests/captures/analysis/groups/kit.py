"""Synthetic timelines: a group ``orders`` of two members that a third one joins."""

from __future__ import annotations

from typing import Any

from captures.analysis.groups.model import (
    Cause,
    GroupMember,
    GroupTimeline,
    ObservedCoordinator,
    Rebalance,
    Span,
    TopicPartition,
)
from captures.analysis.groups.vocabulary import Certainty, Kind, Phase, Trigger

SECOND = 1_000_000_000
BEGIN = 1_790_000_000 * SECOND
"""2026-09-21T14:13:20Z."""


def at(seconds: float) -> int:
    """Return the time this many seconds after the beginning."""
    return BEGIN + round(seconds * SECOND)


def places(topic: str, *numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


def cause(
    trigger: Trigger = Trigger.MEMBER_JOINED,
    certainty: Certainty = Certainty.OBSERVED,
    sentence: str = "m2 joined",
    **fields: Any,
) -> Cause:
    return Cause(trigger, certainty, fields.pop("time", at(10)), sentence, **fields)


def rebalance(*, begin: float = 10, end: float | None = 13, **fields: Any) -> Rebalance:
    made: dict[str, Any] = {
        "group": "orders",
        "kind": Kind.CLASSIC,
        "generation": 2,
        "previous_generation": 1,
        "time": at(begin),
        "end": None if end is None else at(end),
        "causes": [cause(member="m2-id", client="m2", time=at(begin), evidence=(17,))],
        "sentence": "m2 joined; all members joined anew.",
        "evidence": [17, 19],
    }
    return Rebalance(**made | fields)


def member(name: str = "m1", *, first: float = 0, last: float = 60, **fields: Any) -> GroupMember:
    made: dict[str, Any] = {
        "member": f"{name}-id",
        "client": name,
        "host": "10.0.0.9",
        "first": at(first),
        "last": at(last),
        "spans": [Span(at(first), at(last), Phase.STABLE, 1, 3, places("orders", 0, 1))],
    }
    return GroupMember(**made | fields)


def timeline(*rebalances: Rebalance, **fields: Any) -> GroupTimeline:
    made: dict[str, Any] = {
        "group": "orders",
        "kind": Kind.CLASSIC,
        "protocol_type": "consumer",
        "protocol": "range",
        "state": "Stable",
        "generation": 2,
        "members": [member("m1"), member("m2", first=10)],
        "rebalances": list(rebalances),
        "coordinators": [ObservedCoordinator(at(0), "10.0.0.1:9092", 3)],
        "first": at(0),
        "last": at(60),
    }
    return GroupTimeline(**made | fields)
