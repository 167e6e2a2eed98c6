"""Ends of sessions, decided from observations."""

from __future__ import annotations

import pytest

from captures.analysis.groups.session_ends import (
    Closing,
    SilenceFacts,
    UnacknowledgedData,
    by_connections,
    decide,
)
from captures.analysis.groups.vocabulary import Certainty, TimeoutCause
from tests.captures.analysis.groups.kit import SECOND

CLOSED = Closing(SECOND, by_client=True, reset=False)
BY_BROKER = Closing(SECOND, by_client=False, reset=False)


@pytest.mark.parametrize(
    ("seen", "cause", "certainty"),
    [
        (SilenceFacts(), TimeoutCause.UNKNOWN, Certainty.POSSIBLE),
        (SilenceFacts(coordinator="kafka-3:9092", named=7), TimeoutCause.ELSEWHERE, Certainty.OBSERVED),
        (SilenceFacts(closings=(BY_BROKER, CLOSED)), TimeoutCause.BROKER_GONE, Certainty.INFERRED),
        (SilenceFacts(closings=(CLOSED, BY_BROKER)), TimeoutCause.UNKNOWN, Certainty.POSSIBLE),
        (SilenceFacts(closings=(CLOSED,), resumed_at=9), TimeoutCause.PROCESS_LIVED, Certainty.INFERRED),
        (SilenceFacts(closings=(CLOSED,), farewell=8), TimeoutCause.CLOSED_IN_ORDER, Certainty.INFERRED),
        (SilenceFacts(closings=(CLOSED,)), TimeoutCause.PROCESS_DIED, Certainty.INFERRED),
        (SilenceFacts(closings=(CLOSED,), quiet="a static member"), TimeoutCause.PROCESS_DIED, Certainty.POSSIBLE),
        (SilenceFacts(closings=(CLOSED,), still_open=1), TimeoutCause.UNKNOWN, Certainty.POSSIBLE),
        (SilenceFacts(closings=(CLOSED,), unanswered=True), TimeoutCause.PROCESS_DIED, Certainty.POSSIBLE),
        (SilenceFacts(in_vain=UnacknowledgedData(), resumed=True), TimeoutCause.UNREACHABLE, Certainty.POSSIBLE),
        (SilenceFacts(in_vain=UnacknowledgedData(by_client=True)), TimeoutCause.UNREACHABLE, Certainty.INFERRED),
        (SilenceFacts(in_vain=UnacknowledgedData(clock_seen=True)), TimeoutCause.UNREACHABLE, Certainty.POSSIBLE),
        (
            SilenceFacts(in_vain=UnacknowledgedData(clock_seen=True, queued=True)),
            TimeoutCause.UNREACHABLE,
            Certainty.INFERRED,
        ),
        (
            SilenceFacts(in_vain=UnacknowledgedData(clock_seen=True, suspended=9 * SECOND), resumed=True),
            TimeoutCause.HOST_SUSPENDED,
            Certainty.INFERRED,
        ),
        (
            SilenceFacts(in_vain=UnacknowledgedData(other_side_arrived=True)),
            TimeoutCause.UNREACHABLE,
            Certainty.INFERRED,
        ),
        (SilenceFacts(acknowledged=True, resumed=True), TimeoutCause.PROCESS_PAUSED, Certainty.INFERRED),
        (SilenceFacts(resumed=True), TimeoutCause.PROCESS_PAUSED, Certainty.POSSIBLE),
    ],
)  # fmt: skip
def test_what_was_observed_decides(seen: SilenceFacts, cause: TimeoutCause, certainty: Certainty) -> None:
    found = decide(seen)
    assert (found.cause, found.certainty) == (cause, certainty)
    assert bool(found.alternatives) == (certainty is Certainty.POSSIBLE and cause is not TimeoutCause.UNKNOWN)


def test_only_what_was_seen_is_evidence() -> None:
    assert decide(SilenceFacts()).evidence == ()
    before = decide(SilenceFacts(closings=(Closing(-3 * SECOND, by_client=True, reset=False),)))
    assert before.evidence[0] == "the client closed its connection 3 s before its last request was answered"
    assert "acknowledged what came" not in " ".join(decide(SilenceFacts(resumed=True)).evidence)
    reset = Closing(SECOND // 2, by_client=True, reset=True)
    assert decide(SilenceFacts(closings=(reset,))).evidence[0] == (
        "the client reset its connection 500 ms after its last sign of life"
    )


def test_packets_are_not_asked_where_connections_decide() -> None:
    assert by_connections(SilenceFacts(closings=(CLOSED,))) is not None
    assert by_connections(SilenceFacts(resumed=True, acknowledged=True)) is None
