"""Groups whose committed offsets go backwards."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.positions import CommitsBackwards
from tests.captures.analysis.findings.group_kit import made as made_rule
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import commit, made, of_recording, offset_fetch


def test_an_application_that_commits_an_offset_of_its_choice() -> None:
    (found,) = of_recording("31_k0901_java_lz4", CommitsBackwards)
    assert (found.severity, found.evidence) == (Severity.LOW, (14,))
    assert (
        "j-lz4-0 from 34 to 2 by java-cons. A consumer that starts there reads them again." in found.sentence
    )


def test_older_commits_that_are_sent_again() -> None:
    """Java retries asynchronous commits that failed for one of their partitions, even after later commits."""
    (found,) = of_recording("21_k430_kip848_regex_topicchange", CommitsBackwards)
    assert (found.severity, found.count) == (Severity.LOW, 8)


def test_a_consumer_that_begins_there() -> None:
    (found,) = of_exchanges(
        CommitsBackwards,
        commit(100, number=1),
        commit(60, number=2),
        offset_fetch(60, number=3),
        offset_fetch(60, number=4, connection=1),
        offset_fetch(60, number=5, connection=2),
    )
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (2,))
    assert found.sentence.endswith("A consumer was then given 40 offsets to read again.")


def test_another_member_that_comes_late() -> None:
    (found,) = of_exchanges(
        CommitsBackwards, commit(100), commit(60, member="m2", client_id="late", number=2)
    )
    assert found.severity is Severity.MEDIUM
    assert found.subject == "group audit, topic orders, other member"
    assert "orders-0 from 100 by app to 60 by late" in found.sentence


def test_an_admin_who_resets_offsets() -> None:
    (found,) = of_exchanges(CommitsBackwards, commit(100), commit(0, member="", client_id="adminclient-1"))
    assert (found.severity, found.subject) == (Severity.LOW, "group audit, topic orders, reset")
    # consumers without group membership always commit like this
    (own,) = of_exchanges(CommitsBackwards, commit(100, member=""), commit(0, member=""))
    assert own.subject == "group audit, topic orders"


def test_what_does_not_go_back() -> None:
    found = of_exchanges(
        CommitsBackwards,
        commit(100),
        commit(100),
        commit(60, error=22),
        commit(50, topic="logs"),
        commit(40, group="other"),
        commit(-1),
        made(8, 8, {"group_id": "audit", "topics": [{"name": "orders", "partitions": [
            {"partition_index": 0, "committed_offset": 3}]}]}, None),
    )  # fmt: skip
    assert found == []


def test_what_it_cannot_judge() -> None:
    assert made_rule(CommitsBackwards, exchanges=[offset_fetch(3)]).blind() == "no commit was captured"
    assert made_rule(CommitsBackwards, exchanges=[commit(3)]).blind() == ""


def test_a_commit_that_makes_it_good_in_time() -> None:
    (found,) = of_exchanges(
        CommitsBackwards, commit(100), commit(60), commit(120), offset_fetch(60, connection=1)
    )
    assert found.severity is Severity.LOW
