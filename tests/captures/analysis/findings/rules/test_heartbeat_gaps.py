"""Heartbeats that come close to the session timeout."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rules.members import HeartbeatGaps
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import made, of_exchanges, of_recording, of_timelines
from tests.captures.analysis.groups.kit import timeline
from tests.captures.analysis.kit import MS, error, exchange


def at(second: float) -> int:
    return round(second * 1_000) * MS


def join(second: float, *, session: int = 10_000, latency: int = 2 * MS, number: int = 1) -> Exchange:
    request = {"group_id": "audit", "member_id": "", "session_timeout_ms": session}
    response = {"error_code": 0, "member_id": "m1", "generation_id": 1}
    return exchange(
        11, 5, request=request, response=response, time=at(second), latency=latency, number=number
    )


def beat(second: float, code: int = 0, **fields: Any) -> Exchange:
    request = {"group_id": "audit", "member_id": "m1", "generation_id": 1}
    known: dict[str, Any] = {"number": round(second), "time": at(second)}
    errors = [error(code)] if code else []
    return exchange(12, 3, request=request, response={"error_code": code}, errors=errors, **known | fields)


def found(*exchanges: Exchange, **limits: float) -> list[Finding]:
    settings = {f"heartbeat_gaps.{name}": value for name, value in limits.items()}
    return of_exchanges(HeartbeatGaps, *exchanges, limits=settings)


def test_a_gap_close_to_the_timeout() -> None:
    (gap,) = found(join(0), beat(3), beat(11.5, number=5), beat(14), beat(17))
    assert (gap.subject, gap.count, gap.evidence) == ("group audit", 1, (3, 5))
    assert gap.sentence == (
        "app sent nothing to group audit for up to 8.5 s, 85% of the session timeout (10 s), once."
    )


def test_the_share_can_be_set() -> None:
    calls = join(0), beat(3), beat(9)
    assert found(*calls) == []
    assert len(found(*calls, share=50)) == 1


def test_a_commit_is_a_sign_of_life() -> None:
    request = {"group_id": "audit", "member_id": "m1", "generation_id_or_member_epoch": 1, "topics": []}
    commit = exchange(8, 7, request=request, response={"topics": []}, time=at(7))
    assert found(join(0), beat(3), commit, beat(11.5)) == []


def test_while_a_join_waits_no_time_is_counted() -> None:
    assert found(join(0, latency=9_000 * MS), beat(12)) == []


@pytest.mark.parametrize(("code", "gaps"), [(27, 1), (25, 0)])
def test_a_member_that_was_removed_had_more_than_a_gap(code: int, gaps: int) -> None:
    assert len(found(join(0), beat(3), beat(12, code))) == gaps


def test_a_member_that_left_may_be_silent() -> None:
    leave = exchange(
        13, 1, request={"group_id": "audit", "member_id": "m1"}, response={"error_code": 0}, time=at(4)
    )
    assert found(join(0), beat(3), leave, beat(12)) == []


def test_another_coordinator_begins_to_count_anew() -> None:
    assert found(join(0), beat(3), beat(11.5, broker="10.0.0.2:9092")) == []
    assert of_recording("41_k430_coordinator_killed", HeartbeatGaps) == []


def test_groups_of_newer_kinds_have_a_timeout_of_the_broker() -> None:
    request = {"group_id": "audit", "member_id": "m1", "member_epoch": 4}
    beats = [
        exchange(68, 1, request=request, response={"error_code": 0, "member_epoch": 4}, time=at(second))
        for second in (1, 6, 46)
    ]
    (gap,) = found(*beats)
    assert "89% of the session timeout (45 s)" in gap.sentence
    assert "raise group.consumer.session.timeout.ms" in gap.advice
    assert found(*beats, session=60_000) == []


def test_real_members_are_in_time() -> None:
    for name in ("21_k430_java_eager_range", "21_k430_kip848_java", "21_k430_kafkajs"):
        assert of_recording(name, HeartbeatGaps) == []


def test_without_a_join_the_timeout_is_not_known() -> None:
    assert "JoinGroup" in made(HeartbeatGaps, timeline(), exchanges=[beat(1), beat(2)]).blind()
    assert "no member" in made(HeartbeatGaps).blind()
    assert of_timelines(HeartbeatGaps) == []


def test_partial_messages_are_passed_over() -> None:
    assert (
        found(exchange(12, 3, request={"group_id": "audit"}), exchange(11, 5, request=None), exchange(12, 3))
        == []
    )
