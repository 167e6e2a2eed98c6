"""Numbers, sizes, ranges and identifiers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.meaning import topic_partitions, words


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0k"),
        (3277, "3.2k"),
        (10_240, "10k"),
        (1 << 20, "1.0M"),
        (1023 * 1024, "1.0M"),
        (5 << 30, "5.0G"),
        ((1 << 63) - 1, "8.0E"),
    ],
)
def test_size(count: int, said: str) -> None:
    assert words.size(count) == said


def test_volume() -> None:
    found = [words.volume(count) for count in (0, 812, 3_300, 14 << 20, 5 << 30)]
    assert found == ["0 B", "812 B", "3.2 KiB", "14 MiB", "5.0 GiB"]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((), ""),
        ((3,), "3"),
        ((0, 1, 2, 5), "0-2,5"),
        ((5, 2, 1, 0, 1), "0-2,5"),
        ((0, 2, 4, 6, 8, 10), "0,2,4,6,8,10"),
        (tuple(range(0, 80, 2)), "0,2,4,6,8,10…(40)"),
        (range(1000), "0-999"),
    ],
)
def test_ranges(numbers: tuple[int, ...], said: str) -> None:
    assert words.ranges(numbers) == said


@given(st.sets(st.integers(0, 60)))
def test_runs_hold_the_numbers(numbers: set[int]) -> None:
    held = []
    for run in words.runs(numbers):
        first, _, last = run.partition("-")
        held.extend(range(int(first), int(last or first) + 1))
    assert held == sorted(numbers)


@pytest.mark.parametrize(
    ("member_id", "said"),
    [
        # client ID and UUID, as the coordinator makes them (KIP-394)
        ("consumer-audit-1-2f9c1a3e-77d1-4c6e-9b3e-0123456789ab", "m-2f9c"),
        ("1uVVxrAYT4CKZv7iGo9u5g", "m-1uVV"),  # KIP-848: the client's own UUID, base64url
        ("m1", "m1"),
        ("a-member-with-a-name-of-its-own", "a-member-with-a…"),
        ("", ""),
        (None, ""),
    ],
)
def test_member(member_id: str | None, said: str) -> None:
    assert words.member(member_id) == said


@pytest.mark.parametrize(
    ("ms", "said"),
    [(0, "0ms"), (500, "500ms"), (1500, "1.5s"), (30_000, "30s"), (60_000, "1min"), (604_800_000, "7d")],
)
def test_duration(ms: int, said: str) -> None:
    assert words.duration(ms) == said


def test_figure() -> None:
    assert (words.figure(1204), words.figure(0), words.figure(None, "-")) == ("1,204", "", "-")


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_int64_is_a_moment_and_a_duration(value: int) -> None:
    assert words.moment(value)
    assert words.duration(value)


def test_some() -> None:
    assert words.some([]) == ""
    assert words.some(["a", "b", "c"]) == "a b c"
    assert words.some(["a", "b", "c", "d", "e"]) == "a b c +2"


def nameless(_: str) -> None:
    return None


def test_many_topics_are_counted() -> None:
    topics = [{"name": f"t{n}", "partitions": (0, 1)} for n in range(5)]
    assert topic_partitions.topics_text(topics, nameless) == "t0 0-1 +4 topics (10 partitions)"
    assert topic_partitions.topics_text(topics[:2], nameless) == "t0 0-1, t1 0-1"


def test_topic_without_a_name() -> None:
    assert (
        topic_partitions.topics_text([{"topic_id": "LRVDUOgqQ3mAiOsYz1lN3w", "partitions": (3,)}], nameless)
        == "LRVDUO…-3"
    )
    assert topic_partitions.topics_text([{"topic_id": "A" * 22}], nameless) == "?"
    assert topic_partitions.topics_text([{"partitions": (1,)}], nameless) == "?-1"
