"""Storms: many rebalances with the same cause."""

from __future__ import annotations

import pytest

from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rules.rebalances import RebalanceStorm
from captures.analysis.groups.vocabulary import Certainty, Trigger
from tests.captures.analysis.findings.group_kit import of_recording, of_timelines
from tests.captures.analysis.groups.kit import cause, rebalance, timeline

pytestmark = pytest.mark.quick


def storm(
    *begins: float, trigger: Trigger = Trigger.SUBSCRIPTION_CHANGED, client: str = "app", **limits: float
) -> list[Finding]:
    told = timeline(
        *(
            rebalance(
                begin=begin,
                end=begin + 1,
                causes=[cause(trigger, Certainty.OBSERVED, client=client, evidence=(number,))],
            )
            for number, begin in enumerate(begins, 1)
        )
    )
    settings = {f"rebalance_storm.{name}": value for name, value in limits.items()}
    return of_timelines(RebalanceStorm, told, limits=settings)


def test_a_process_that_crashes_and_comes_back() -> None:
    (found,) = of_recording("21_k430_ck_crashloop", RebalanceStorm)
    assert (found.severity, found.count) == (Severity.HIGH, 5)  # it was started five times
    assert found.subject == "group gr2-ck_crashloop, member_joined of crash"
    assert "(client crash)" in found.sentence


def test_the_start_of_a_connect_worker_is_none() -> None:
    assert of_recording("21_k430_connect_eager", RebalanceStorm) == []


@pytest.mark.slow
def test_topics_that_change_again_and_again() -> None:
    """The evidence is responses that name no group; the kit checks that the filter selects them."""
    (found,) = of_recording("21_k430_kip848_regex_topicchange", RebalanceStorm)
    assert "topics got other partitions" in found.sentence
    assert found.severity is Severity.MEDIUM  # somebody did that on purpose


def test_members_that_join_and_leave_once_are_none() -> None:
    assert of_recording("21_k430_java_eager_range", RebalanceStorm) == []


def test_what_makes_a_storm() -> None:
    (found,) = storm(0, 20, 40, 60)
    assert found.sentence == (
        "Group orders rebalanced 4 times within 61 s for one cause: subscriptions changed (client app); 7% of that "
        "time it was rebalancing."
    )
    assert (found.evidence, found.severity) == ((1, 2, 3, 4), Severity.HIGH)
    assert storm(0, 20, 40) == []
    assert len(storm(0, 20, 40, count=3)) == 1
    assert storm(0, 700, 1_400, 2_100) == []
    (slow,) = storm(0, 700, 1_400, 2_100, apart=900_000)
    assert slow.severity is Severity.MEDIUM
    (busy,) = storm(0, 700, 1_400, 2_100, apart=900_000, busy=0.1)
    assert busy.severity is Severity.HIGH
    (calm,) = storm(0, 20, 40, 60, often=5_000)
    assert calm.severity is Severity.MEDIUM


def test_those_far_from_the_storm_do_not_count() -> None:
    (found,) = storm(0, 5_000, 5_020, 5_040, 5_060, 9_000)
    assert (found.count, found.evidence) == (4, (2, 3, 4, 5))


def test_two_storms_of_one_cause_are_one_finding() -> None:
    (found,) = storm(0, 20, 40, 60, 5_000, 5_020, 5_040, 5_060)
    assert found.count == 8
    assert "within 2 min 2 s" in found.sentence


def test_several_clients_of_one_trouble() -> None:
    removed = [
        rebalance(
            begin=20 * place, end=20 * place + 1, causes=[cause(Trigger.SESSION_TIMEOUT, client=f"m{place}")]
        )
        for place in range(4)
    ]
    (found,) = of_timelines(RebalanceStorm, timeline(*removed))
    assert "sessions timed out;" in found.sentence
    assert found.subject == "group orders, session_timeout"


def test_different_causes_are_no_storm() -> None:
    causes = [Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT, Trigger.SESSION_TIMEOUT, Trigger.LEADER_REJOINED]
    told = timeline(*(rebalance(begin=20 * place, causes=[cause(each)]) for place, each in enumerate(causes)))
    assert of_timelines(RebalanceStorm, told) == []


@pytest.mark.parametrize("trigger", Trigger)
def test_every_trigger_has_words(trigger: Trigger) -> None:
    """Except those that are not causes, or not the cluster's."""
    found = storm(*range(0, 200, 20), trigger=trigger)
    none = {Trigger.UNKNOWN, Trigger.COOPERATIVE_FOLLOW_UP, Trigger.KPROXY_INTERVENED}
    assert len(found) == (trigger not in none)
