"""Labels of members and partitions."""

from __future__ import annotations

from captures.analysis.groups.labels import Labels, Transfer, counter_of, partitions, step, transfers
from captures.analysis.groups.model import Move, TopicPartition
from captures.analysis.groups.vocabulary import Kind
from tests.captures.analysis.groups.kit import member, places, rebalance, timeline

UUIDS = [f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "12"]


def test_a_member_is_called_by_its_client_id() -> None:
    labels = Labels(timeline())
    assert labels.of("m1-id") == "m1"


def test_members_with_one_client_id_are_told_apart() -> None:
    both = [member("app", member=f"app-{uuid}") for uuid in UUIDS]
    labels = Labels(timeline(members=both))
    assert [labels.of(each.member) for each in both] == ["app m-1111", "app m-2222"]


def test_a_static_member_is_called_by_its_instance_id_whatever_its_member_id() -> None:
    static = member("app", instance="app-0", former=["old-id"])
    labels = Labels(timeline(members=[static, member("app", member="other-id")]))
    assert labels.of("app-id") == labels.of("old-id") == "app-0"


def test_a_member_that_the_timeline_does_not_have() -> None:
    labels = Labels(timeline())
    assert labels.of(f"x-{UUIDS[0]}", "x") == "x m-1111"
    assert labels.of("", "x") == "x"
    assert labels.of("") == ""


def test_names_from_the_wire_cannot_break_a_line() -> None:
    labels = Labels(timeline(members=[member("a\x1b[31m\nb" * 50)]))
    (label,) = {labels.of(each) for each in labels._labels}
    assert label.isprintable()
    assert len(label) <= 40


def test_several_members() -> None:
    labels = Labels(timeline())
    assert labels.several(["m1-id", "m2-id"]) == "m1, m2"
    assert labels.several(["m1-id", "m2-id", "x"], 1) == "m1 +2"


def test_partitions_by_topic() -> None:
    found = places("orders", 0, 1, 2, 5) | places("logs", 3)
    assert partitions(found) == "logs-3, orders 0-2,5"
    assert partitions(found, 1) == "logs-3 +1"
    assert partitions([]) == ""


def test_tasks_of_streams() -> None:
    assert partitions(places("0", 0, 1, 2) | places("1", 3)) == "tasks 0_0-2, 1_3"
    assert partitions(places("0", 1)) == "task 0_1"


def test_what_moved_by_giver_and_taker() -> None:
    moved = [
        Move(TopicPartition("orders", 1), "m1-id", "m2-id"),
        Move(TopicPartition("orders", 2), "", "m2-id"),
        Move(TopicPartition("orders", 0), "m1-id", "m2-id"),
        Move(TopicPartition("orders", 3), "m1-id", ""),
    ]
    assert transfers(moved, Labels(timeline())) == [
        Transfer("m1", "m2", (TopicPartition("orders", 0), TopicPartition("orders", 1))),
        Transfer("nobody", "m2", (TopicPartition("orders", 2),)),
        Transfer("m1", "nobody", (TopicPartition("orders", 3),)),
    ]


def test_from_what_to_what_a_rebalance_led() -> None:
    assert step(rebalance()) == "generation 1 → 2"
    assert step(rebalance(previous_generation=-1, kind=Kind.CONSUMER, generation=7)) == "epoch ? → 7"
    assert step(rebalance(), rebalance(generation=9)) == "generation 1 → 9"
    assert [counter_of(kind) for kind in Kind] == ["generation", "epoch", "epoch", "epoch"]
