"""The costs of rebalances: stopped partitions, records read twice."""

from __future__ import annotations

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.rebalances import LongStops, RecordsDoubled
from captures.analysis.groups.model import Rebalance, RepeatedFetch, Stop, TopicPartition
from captures.analysis.groups.vocabulary import Certainty
from tests.captures.analysis.findings.group_kit import of_recording, of_timelines
from tests.captures.analysis.groups.kit import SECOND, at, rebalance, timeline


def stopped(*seconds: float, ended: bool = True) -> Rebalance:
    return rebalance(
        stopped=[
            Stop(TopicPartition("orders", number), round(each * SECOND), ended, 5, 30, at(10))
            for number, each in enumerate(seconds)
        ]
    )


def test_a_rebalance_that_was_held_up() -> None:
    (found,) = of_recording("21_k430_java_blocked_rebalance", LongStops)
    assert found.severity is Severity.MEDIUM
    assert "r2-java_blocked_rebalance 0-5" in found.sentence


def test_short_stops_are_none() -> None:
    assert of_recording("21_k430_java_eager_range", LongStops) == []
    assert of_timelines(LongStops, timeline(stopped(3, 9.9))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("48_k430_share_slow", "group.share.session.timeout.ms"),
        ("48_k430_streams_standby", "standby replicas"),
    ],
)
def test_advice_fits_the_protocol_of_the_group(name: str, advice: str) -> None:
    """Members of share and Streams groups do not choose an assignor."""
    (found,) = of_recording(name, LongStops, longest=1_000)
    assert advice in found.advice
    assert "assignor" not in found.advice


def test_how_grave_long_stops_are() -> None:
    (found,) = of_timelines(LongStops, timeline(stopped(3, 12), stopped(20)))
    assert (found.severity, found.count) == (Severity.MEDIUM, 2)
    assert found.sentence == (
        "No member of group orders consumed orders 0-1 for up to 20 s because of 2 rebalances (the longest time: "
        "a new member joined)."
    )
    (grave,) = of_timelines(LongStops, timeline(stopped(75, ended=False)))
    assert grave.severity is Severity.HIGH
    (allowed,) = of_timelines(LongStops, timeline(stopped(75)), limits={"long_stops.grave": 120_000})
    assert allowed.severity is Severity.MEDIUM
    assert "a rebalance (a new member joined), and some are still not consumed" in grave.sentence
    assert grave.last == at(85)
    assert len(of_timelines(LongStops, timeline(stopped(3)), limits={"long_stops.longest": 2_000})) == 1


def test_offsets_that_are_fetched_again() -> None:
    told = timeline(
        rebalance(
            refetched=[
                RepeatedFetch(TopicPartition("orders", 0), 10, 40, 31),
                RepeatedFetch(TopicPartition("orders", 1), 0, 5, 33),
            ]
        )
    )
    (found,) = of_timelines(RecordsDoubled, told)
    assert (found.severity, found.count, found.evidence) == (Severity.LOW, 2, (31, 33))
    assert found.sentence == (
        "Group orders fetched 35 offsets of orders 0-1 again after rebalances (new members joined): records "
        "that were processed but not committed are processed twice."
    )


def test_a_process_that_was_killed_had_not_committed_all() -> None:
    (found,) = of_recording("21_k430_java_eager_range", RecordsDoubled)
    assert (found.severity, found.certainty) == (Severity.LOW, Certainty.INFERRED)
    assert "r2-java_eager_range-5" in found.sentence


def test_how_grave_doubled_records_are() -> None:
    def severity(count: int, **limits: float) -> Severity:
        told = timeline(rebalance(refetched=[RepeatedFetch(TopicPartition("orders", 0), 0, count, 31)]))
        settings = {f"records_doubled.{name}": value for name, value in limits.items()}
        return of_timelines(RecordsDoubled, told, limits=settings)[0].severity

    assert [severity(count) for count in (999, 1_000, 99_999, 100_000)] == [
        Severity.LOW,
        Severity.MEDIUM,
        Severity.MEDIUM,
        Severity.HIGH,
    ]
    assert severity(10, many=10) is Severity.MEDIUM


def test_groups_that_commit_as_they_leave_fetch_nothing_again() -> None:
    assert of_recording("21_k430_java_range_to_coop", RecordsDoubled) == []
