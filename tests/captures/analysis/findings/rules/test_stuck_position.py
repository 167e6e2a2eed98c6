"""Consumers that do not advance although there is more to read."""

from __future__ import annotations

from typing import Any

from captures.analysis.findings.common import NO_FETCH
from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.positions import StuckPosition
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import (
    NOW,
    SECOND,
    batch,
    commit,
    fetch,
    of_recording,
    produce,
)


def fetches(
    count: int = 15, *, every: int = 3, offset: int = 40, grows: int = 1, **what: Any
) -> list[Exchange]:
    """Return fetches every few seconds from the same offset."""
    return [
        fetch(offset=offset, end=100 + at * grows, number=at + 1, time=NOW + at * every * SECOND, **what)
        for at in range(count)
    ]


def test_a_consumer_that_gets_nothing() -> None:
    (found,) = of_exchanges(StuckPosition, *fetches())
    assert (found.subject, found.count, found.evidence[0]) == ("client app, orders-0", 15, 1)
    assert (found.severity, found.certainty) == (Severity.MEDIUM, Certainty.INFERRED)
    assert (
        "from offset 40 for 42 s (15 answers), while the partition grew from 100 to 114, without"
        in found.sentence
    )


def test_a_consumer_that_cannot_use_what_it_gets() -> None:
    (found,) = of_exchanges(StuckPosition, *fetches(records=batch(3, 40)))
    assert "15 answers held records, but it asked for the same again" in found.sentence


def test_a_consumer_that_waits_for_a_transaction() -> None:
    (found,) = of_exchanges(StuckPosition, *fetches(stable=40, committed=True))
    assert "it reads only committed records, and a transaction is open from there on" in found.sentence


def test_who_does_not_stand_still() -> None:
    assert of_exchanges(StuckPosition, *fetches(9)) == []
    assert of_exchanges(StuckPosition, *fetches(grows=0)) == []
    assert of_exchanges(StuckPosition, *fetches(replica=3)) == []
    at_the_end = [fetch(offset=100, end=100, time=NOW + at * 2 * SECOND) for at in range(30)]
    assert of_exchanges(StuckPosition, *at_the_end) == []
    moving = [fetch(offset=at, end=100 + at, time=NOW + at * 2 * SECOND) for at in range(30)]
    assert of_exchanges(StuckPosition, *moving) == []
    assert of_exchanges(StuckPosition, *fetches(15), limits={"stuck_position.fetched": 60_000.0}) == []


def test_a_consumer_that_waited_long_at_the_end_has_not_stood_still() -> None:
    idle = [fetch(offset=100, end=100, time=NOW + at * SECOND) for at in range(0, 90, 10)]
    new = [fetch(offset=100, end=101 + at, time=NOW + (100 + at) * SECOND) for at in range(4)]
    assert of_exchanges(StuckPosition, *idle, *new) == []
    idle = [commit(100, time=NOW + at * SECOND) for at in range(0, 90, 10)]
    written = [produce(batch(1), base=100 + at, time=NOW + (100 + at) * SECOND) for at in range(4)]
    late = [commit(100, time=NOW + (100 + at) * SECOND) for at in range(4)]
    mixed = [each for pair in zip(written, late, strict=True) for each in pair]
    assert of_exchanges(StuckPosition, produce(batch(1), base=99), *idle, *mixed) == []


def test_a_partition_that_is_left_out_is_paused() -> None:
    before, after = fetches(9), fetches(9)
    for each in after:
        each.time += 40 * SECOND
    paused = fetch(topic="other", time=NOW + 30 * SECOND)
    assert of_exchanges(StuckPosition, *before, paused, *after) == []
    assert of_exchanges(StuckPosition, *before, *after)


def test_the_same_commit_while_records_are_written() -> None:
    working = [
        each
        for at in range(0, 90, 5)
        for each in (
            produce(batch(10), base=100 + 10 * at, time=NOW + at * SECOND),
            commit(40, number=at + 1, time=NOW + at * SECOND + 1),
        )
    ]
    (found,) = of_exchanges(StuckPosition, *working)
    assert (found.subject, found.certainty) == ("group audit, orders-0", Certainty.POSSIBLE)
    assert "committed offset 40 of orders-0 18 times in 85 s" in found.sentence
    assert found.severity is Severity.LOW
    (long,) = of_exchanges(StuckPosition, *working, limits={"stuck_position.committed": 15_000.0})
    assert long.severity is Severity.MEDIUM
    assert of_exchanges(StuckPosition, *[each for each in working if each.api_key == 8]) == []


def test_healthy_consumers_move() -> None:
    for name in (
        "20_k430_java_none",
        "26_k430_steady_clients",
        "21_k430_java_eager_range",
        "27_k391_java_maxpoll",
    ):
        assert of_recording(name, StuckPosition) == []


def test_what_it_cannot_judge() -> None:
    assert made(StuckPosition, exchanges=[produce(batch(1)), fetch(replica=1)]).blind() == NO_FETCH
    assert made(StuckPosition, exchanges=[fetch()]).blind() == ""
