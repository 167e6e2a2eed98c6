"""Coordinators of a group, from the brokers that answered its members."""

from __future__ import annotations

from captures.analysis.groups.context import MOST_STINTS, Coordinators
from captures.analysis.groups.model import GroupTimeline, ObservedCoordinator
from captures.analysis.groups.vocabulary import Kind
from tests.captures.analysis.groups.compare import read_groups
from tests.captures.analysis.groups.kit import at
from tests.captures.analysis.groups.talk import seconds
from tests.captures.analysis.groups.truth import FOLDER, read


def told(*answers: tuple[float, str]) -> list[tuple[float | None, str, int]]:
    found = Coordinators()
    for number, (time, broker) in enumerate(answers, 1):
        found.answered("orders", broker, at(time), number)
    return [(seconds(seen.time), seen.broker, seen.number) for seen in found.of("orders")]


def test_a_coordinator_is_told_once() -> None:
    assert told((0, "b1"), (1, "b1"), (500, "b1")) == [(0, "b1", 1)]
    assert told() == []


def test_another_one_takes_over() -> None:
    assert told((0, "b1"), (1, "b1"), (9, "b2"), (10, "b2")) == [(0, "b1", 1), (9, "b2", 3)]


def test_the_former_one_may_come_back() -> None:
    answers = [(0, "b1"), (10, "b2"), (20, "b2"), (90, "b1"), (91, "b1")]
    assert [broker for _, broker, _ in told(*answers)] == ["b1", "b2", "b1"]


def test_the_coordinator_at_a_time() -> None:
    timeline = GroupTimeline(group="orders", kind=Kind.CLASSIC)
    assert timeline.coordinator_at(at(0)) is None
    timeline.coordinators += [ObservedCoordinator(at(1), "b1", 1), ObservedCoordinator(at(9), "b2", 3)]
    assert [timeline.coordinator_at(at(each)) for each in (0, 1, 8, 9, 99)] == ["b1", "b1", "b1", "b2", "b2"]


def test_listeners_of_one_broker_are_one_coordinator() -> None:
    answers = [(step, f"b1:909{step % 2}") for step in range(100)]
    assert told(*answers) == [(0, "b1:9090", 1)]
    # and the next one is told, whoever speaks with which listener
    assert [broker for _, broker, _ in told(*answers, (120, "b2:9090"))] == ["b1:9090", "b2:9090"]


def test_an_answer_that_was_late_is_no_move_back() -> None:
    assert [broker for _, broker, _ in told((0, "b1"), (10, "b2"), (10.2, "b1"), (30, "b2"))] == ["b1", "b2"]


def test_the_order_of_noting_does_not_matter() -> None:
    assert told((1, "b1"), (9, "b2"), (0, "b1"), (10, "b2")) == [(0, "b1", 3), (9, "b2", 2)]


def test_what_is_kept_is_bounded() -> None:
    found = Coordinators()
    for step in range(5 * MOST_STINTS):
        found.answered("orders", f"b{step % 3}", at(step * 100), step)
    (stints,) = found._stints.values()
    assert len(stints) == MOST_STINTS


def test_the_coordinator_was_killed() -> None:
    """``41_k430_coordinator_killed``: another of three brokers took over."""
    name = "41_k430_coordinator_killed"
    timeline = read_groups(str(FOLDER / f"{name}.pcap.zst"))[read(name).group]
    killed = next(event["t"] for event in read(name).events if event["what"] == "SIGKILL")
    first, second = timeline.coordinators
    assert first.broker != second.broker
    assert first.time / 1e9 < killed < second.time / 1e9
