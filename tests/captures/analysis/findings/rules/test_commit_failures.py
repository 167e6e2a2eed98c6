"""Failed commits."""

from __future__ import annotations

from typing import Any

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.members import CommitFailures
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import made, of_exchanges, of_recording
from tests.captures.analysis.groups.kit import timeline
from tests.captures.analysis.kit import MS, error, exchange, unanswered

REQUEST = {"group_id": "audit", "member_id": "m1", "generation_id_or_member_epoch": 3, "topics": []}


def commit(*codes: int, **fields: Any) -> Exchange:
    return exchange(
        8, 8, request=REQUEST, response={"topics": []}, errors=[error(code) for code in codes], **fields
    )


def test_a_member_that_was_paused_commits_too_late() -> None:
    (found,) = of_recording("21_k430_java_sigstop", CommitFailures)
    assert (found.subject, found.count) == ("group gr2-java_sigstop, UNKNOWN_MEMBER_ID", 1)
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (186,))


def test_each_error_of_a_group_is_one_finding() -> None:
    found = of_exchanges(
        CommitFailures,
        commit(22, 22, number=4),
        commit(22, number=5, client_id="other"),
        commit(27, number=6),
        commit(number=7, time=3_000 * MS),
    )
    assert [(each.subject, each.count, each.severity) for each in found] == [
        ("group audit, ILLEGAL_GENERATION", 2, Severity.MEDIUM),
        ("group audit, REBALANCE_IN_PROGRESS", 1, Severity.LOW),
    ]
    assert found[0].sentence == (
        "Commits of group audit failed twice with ILLEGAL_GENERATION (by app, other)."
    )


def test_who_is_no_member_may_not_commit() -> None:
    """As ``kafka-consumer-groups --reset-offsets`` does while the group is in use."""
    outside = {"group_id": "audit", "member_id": "", "generation_id_or_member_epoch": -1, "topics": []}
    found = of_exchanges(
        CommitFailures,
        exchange(8, 8, request=outside, response={"topics": []}, errors=[error(25)], client_id="admin"),
        commit(25),
    )
    assert [each.subject for each in found] == [
        "group audit, UNKNOWN_MEMBER_ID, from outside",
        "group audit, UNKNOWN_MEMBER_ID",
    ]
    assert found[0].sentence == (
        "Commits of admin for group audit, of which they are not members, failed once with UNKNOWN_MEMBER_ID."
    )
    assert "--reset-offsets" in found[0].advice


def test_a_member_that_names_no_member_id_is_not_outside() -> None:
    """aiokafka commits without a member ID after it has left because of a slow poll."""
    outside = {"group_id": "orders", "member_id": "", "generation_id_or_member_epoch": -1, "topics": []}
    late = exchange(8, 8, request=outside, response={"topics": []}, errors=[error(25)], client_id="m1")
    rule = made(CommitFailures, timeline(), exchanges=[late])
    (found,) = rule.findings()
    assert found.sentence == "Commits of group orders failed once with UNKNOWN_MEMBER_ID (by m1)."
    assert "removed from the group" in found.advice


def test_a_group_whose_commits_all_fail_for_long() -> None:
    failing = [commit(25, number=number, time=number * 10_000 * MS) for number in range(1, 5)]
    (found,) = of_exchanges(CommitFailures, *failing)
    assert found.severity is Severity.HIGH
    assert "none succeeded in 30 s" in found.sentence
    (between,) = of_exchanges(CommitFailures, *failing, commit(number=9, time=25_000 * MS))
    assert between.severity is Severity.MEDIUM
    settings = {"commit_failures.stuck": 60_000.0}
    (allowed,) = of_exchanges(CommitFailures, *failing, limits=settings)
    assert allowed.severity is Severity.MEDIUM


def test_errors_of_other_rules_and_expected_ones_do_not_count() -> None:
    stale = error(113)
    assert (
        of_exchanges(
            CommitFailures,
            commit(30),
            commit(16),
            exchange(8, 9, request=REQUEST, response={}, errors=[stale], expected=[stale]),
        )
        == []
    )


def test_other_errors_have_the_advice_of_their_kind() -> None:
    (found,) = of_exchanges(CommitFailures, commit(12))
    assert "metadata" in found.advice


def test_what_was_not_captured() -> None:
    assert made(CommitFailures).blind()
    assert made(CommitFailures, exchanges=[commit()]).blind() == ""
    partial = exchange(8, 8, request=None, response={"topics": [None]}, errors=[error(22)])
    assert of_exchanges(CommitFailures, partial, unanswered(8, 8, request=REQUEST)) == []
