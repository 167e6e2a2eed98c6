"""Removed members; what was done to them is in ``tests/data/groups/truth``."""

from __future__ import annotations

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.rebalances import SessionTimeouts
from captures.analysis.groups.vocabulary import Certainty, SessionEnd, TimeoutCause, Trigger
from tests.captures.analysis.findings.group_kit import made, of_recording, of_timelines
from tests.captures.analysis.groups.kit import SECOND, at, cause, rebalance, timeline


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "who", "count", "way"),
    [
        ("21_k430_java_sigstop", "m2", 1, TimeoutCause.PROCESS_PAUSED),
        ("21_k430_java_eager_range", "m3", 1, TimeoutCause.PROCESS_DIED),
        ("21_k430_ck_crashloop", "crash", 5, TimeoutCause.PROCESS_DIED),
        ("36_k231_rebalance_static", "inst-m3", 1, TimeoutCause.PROCESS_DIED),
        ("41_k430_host_gone", "m2", 1, TimeoutCause.UNREACHABLE),
        ("41_k430_several_stopped", "2 members (m2, m3)", 2, TimeoutCause.PROCESS_PAUSED),
    ],
)
def test_who_was_removed_and_why(name: str, who: str, count: int, way: TimeoutCause) -> None:
    (found,) = of_recording(name, SessionTimeouts)
    assert found.subject.endswith(f", {way}")
    assert (found.count, found.severity) == (count, Severity.MEDIUM)
    assert found.sentence.startswith(f"{who} w")


@pytest.mark.parametrize(
    "name", ["21_k430_java_range_to_coop", "21_k430_ck_maxpoll", "25_k430_group_max_size"]
)
def test_nobody_was_removed(name: str) -> None:
    assert of_recording(name, SessionTimeouts) == []


def test_the_least_sure_of_several_counts() -> None:
    removed = [
        cause(
            Trigger.SESSION_TIMEOUT,
            certainty,
            member=f"m-{number}",
            client="m",
            time=at(number),
            evidence=(number,),
            silence=number * SECOND,
            session_end=SessionEnd(TimeoutCause.UNREACHABLE),
        )
        for number, certainty in ((7, Certainty.INFERRED), (9, Certainty.POSSIBLE))
    ]
    (found,) = of_timelines(SessionTimeouts, timeline(*(rebalance(causes=[each]) for each in removed)))
    assert (found.certainty, found.evidence, found.first, found.last) == (
        Certainty.POSSIBLE,
        (7, 9),
        at(7),
        at(9),
    )
    assert found.sentence == (
        "m was removed from group orders twice after up to 9 s of silence: it became unreachable."
    )
    assert "network" in found.advice


def test_many_members_are_one_finding() -> None:
    died = {"silence": 6 * SECOND, "session_end": SessionEnd(TimeoutCause.PROCESS_DIED)}
    removed = [cause(Trigger.SESSION_TIMEOUT, client=f"m{number:02}", **died) for number in range(30)]
    (found,) = of_timelines(SessionTimeouts, timeline(rebalance(causes=removed)))
    assert found.count == 30
    assert found.sentence == (
        "30 members (m00, m01, m02 and 27 more) were removed from group orders after up to 6 s of silence: their "
        "processes ended without leaving the group."
    )


def test_a_member_of_which_nothing_is_known() -> None:
    removed = cause(Trigger.SESSION_TIMEOUT, Certainty.INFERRED)
    (found,) = of_timelines(SessionTimeouts, timeline(rebalance(causes=[removed])))
    assert found.subject == "group orders, unknown"
    assert found.sentence.startswith("a member was removed from group orders: ")


def test_groups_that_were_not_seen_as_a_whole_are_named() -> None:
    asked = made(
        SessionTimeouts,
        timeline(seen=["2 of 3 members were seen speaking", "the capture begins in generation 4"]),
        timeline(),
        *(timeline(group=f"g{number}", seen=["something is missing"]) for number in range(4)),
    )
    assert asked.blind() == (
        "of group orders, 2 of 3 members were seen speaking, the capture begins in generation 4; of group g0, "
        "something is missing; of group g1, something is missing; 2 more groups"
    )
    assert made(SessionTimeouts, timeline()).blind() == ""
    assert "no member" in made(SessionTimeouts).blind()
