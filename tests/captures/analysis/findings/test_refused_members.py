"""Clients that a group refuses."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.members import (
    MOST_SEEN,
    GroupFull,
    InconsistentProtocols,
    InstanceConflicts,
)
from tests.captures.analysis.findings.group_kit import made, of_exchanges, of_recording
from tests.captures.analysis.kit import error, exchange


def test_assignors_that_do_not_fit() -> None:
    (found,) = of_recording("21_k430_java_inconsistent", InconsistentProtocols)
    assert found.subject == "group gr2-java_inconsistent, INCONSISTENT_GROUP_PROTOCOL"
    # m3 and m5 came with round robin, m4 with cooperative sticky (truth file); m5, librdkafka, tried four times
    assert found.count == 6
    assert found.sentence.startswith("m3, m4, m5 could not join")
    assert "cooperative-sticky, roundrobin" in found.sentence


def test_a_group_without_room() -> None:
    (found,) = of_recording("25_k430_group_max_size", GroupFull)
    assert (found.subject, found.count) == ("group gms, GROUP_MAX_SIZE_REACHED", 6)


def test_a_second_process_shuts_the_first_out() -> None:
    (found,) = of_recording("21_k430_ck_fenced_instance", InstanceConflicts)
    assert "m1 was shut out" in found.sentence
    assert "group.instance.id same" in found.sentence
    assert found.severity is Severity.MEDIUM  # as when a process is replaced by its successor


def test_processes_that_shut_each_other_out() -> None:
    request = {"group_id": "audit", "group_instance_id": "pod-1", "generation_id": 1}
    fenced = [
        exchange(
            12, 4, request=request | {"member_id": member}, response={"error_code": 82}, errors=[error(82)]
        )
        for member in ("pod-1-a", "pod-1-b", "pod-1-c")
    ]
    (found,) = of_exchanges(InstanceConflicts, *fenced)
    assert (found.severity, found.count) == (Severity.HIGH, 3)
    (allowed,) = of_exchanges(InstanceConflicts, *fenced, limits={"instance_conflicts.shut_out": 4})
    assert allowed.severity is Severity.MEDIUM


def test_an_instance_that_is_taken() -> None:
    (found,) = of_recording("21_k430_kip848_static_java", InstanceConflicts)
    # m4 came with inst-1, which was m1; m3 came back after it was killed (truth file)
    assert (found.count, found.severity) == (2, Severity.HIGH)
    assert found.sentence.startswith("m3, m4 could not join")
    assert "inst-1, inst-3" in found.sentence


def test_groups_that_take_everybody() -> None:
    for rule in (GroupFull, InconsistentProtocols, InstanceConflicts):
        assert of_recording("21_k430_java_eager_range", rule) == []


def test_many_clients_are_bounded() -> None:
    request = {"group_id": "audit", "member_id": "", "protocols": [{"name": "range"}]}
    refused = (
        exchange(
            11, 5, request=request, response={"error_code": 81}, errors=[error(81)], client_id=f"c{number:03}"
        )
        for number in range(MOST_SEEN + 50)
    )
    (found,) = of_exchanges(GroupFull, *refused)
    assert found.count == MOST_SEEN + 50
    assert (
        found.sentence
        == "Group audit is full: c000, c001, c002 and 17 more could not join (refused 70 times)."
    )


def test_what_was_not_captured() -> None:
    assert made(GroupFull).blind()
    nameless = exchange(11, 5, request=None, response={"error_code": 81}, errors=[error(81)])
    assert of_exchanges(GroupFull, nameless) == []
