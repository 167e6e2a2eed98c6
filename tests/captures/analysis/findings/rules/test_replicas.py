"""Replicas, coordinators and controllers."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.metadata import ControllerMoves, CoordinatorUnavailable
from captures.analysis.findings.rules.replication import IsrChanges, NotEnoughReplicas, SlowFollowers
from captures.exchanges import Exchange
from tests.captures.analysis.findings.cluster_kit import SECOND, asked, of_exchanges, of_recording, spoken

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, HEARTBEAT, CREATE_TOPICS, ALTER_PARTITION = (
    0,
    1,
    3,
    10,
    12,
    19,
    56,
)


def produced(number: int, at: int, code: int) -> Exchange:
    response = {
        "responses": [
            {"name": "orders", "partition_responses": [{"index": 3, "error_code": code, "base_offset": 0}]}
        ]
    }
    return spoken(PRODUCE, 9, {}, response, number=number, time=at * SECOND)


# ---------------------------------------------------------------- writes
def test_too_few_replicas() -> None:
    (found,) = of_exchanges(NotEnoughReplicas, produced(1, 1, 19), produced(2, 2, 19))
    assert (found.severity, found.subject, found.evidence) == (Severity.HIGH, "topic orders", (1, 2))
    assert "none was accepted after that" in found.sentence


def test_replicas_that_come_back() -> None:
    (found,) = of_exchanges(NotEnoughReplicas, produced(1, 1, 20), produced(2, 2, 19), produced(3, 9, 0))
    assert found.severity == Severity.MEDIUM
    assert "after 8 s records were accepted again" in found.sentence
    assert "without idempotence their records are duplicated" in found.sentence  # error 20


def test_other_errors_are_no_lack_of_replicas() -> None:
    assert not of_exchanges(NotEnoughReplicas, produced(1, 1, 6), produced(2, 2, 0))
    assert not of_recording("26_k430_broker_sigstop_clients", NotEnoughReplicas)


# ---------------------------------------------------------------- in-sync replicas
def altered(number: int, at: int, isr: list[int], code: int = 0) -> Exchange:
    partition = {"partition_index": 0, "new_isr_with_epochs": [{"broker_id": each} for each in isr]}
    request = {"broker_id": 1, "topics": [{"topic_name": "orders", "partitions": [partition]}]}
    done = {
        "topics": [
            {"topic_name": "orders", "partitions": [{"partition_index": 0, "error_code": code, "isr": isr}]}
        ]
    }
    return spoken(ALTER_PARTITION, 3, request, done, number=number, time=at * SECOND)


def described(number: int, at: int, isr: list[int], replicas: tuple[int, ...] = (1, 2, 3)) -> Exchange:
    partition = {"partition_index": 0, "isr_nodes": isr, "replica_nodes": list(replicas)}
    response = {"topics": [{"name": "orders", "partitions": [partition]}]}
    return spoken(METADATA, 9, {}, response, number=number, time=at * SECOND)


def test_a_stopped_broker_leaves_and_returns() -> None:
    # broker 12 was stopped for 12 s, with a session timeout of 6 s
    (found,) = of_recording("26_k430_broker_sigstop_clients", IsrChanges)
    assert (found.subject, found.severity) == ("broker 12", Severity.LOW)
    assert "it came back to all of them" in found.sentence


def test_a_broker_that_stays_away() -> None:
    # broker 2 was stopped cleanly, broker 1 continued for 12 s
    (found,) = of_recording("31_k0901_cluster2", IsrChanges)
    assert (found.subject, found.severity) == ("broker 2", Severity.MEDIUM)
    assert "it is still missing from t2 0-1, of which 2 have a single replica left" in found.sentence


def test_leaders_tell_the_controller() -> None:
    (found,) = of_exchanges(
        IsrChanges, described(1, 1, [1, 2, 3]), altered(2, 2, [1, 3]), altered(3, 9, [1, 2, 3])
    )
    assert found.sentence == (
        "Broker 2 was missing from the in-sync replicas of orders-0; it came back to all of them, after 7 s at most."
    )
    assert found.evidence == (2, 3)
    # changes refused by the controller did not happen
    assert not of_exchanges(IsrChanges, described(1, 1, [1, 2, 3]), altered(2, 2, [1, 3], 95))


@pytest.mark.parametrize(("until", "severity"), [(3, Severity.LOW), (20, Severity.MEDIUM)])
def test_a_glance_is_not_enough(until: int, severity: Severity) -> None:
    (found,) = of_exchanges(IsrChanges, described(1, 1, [1, 2]), described(2, until, [1, 2]))
    assert (found.subject, found.severity) == ("broker 3", severity)


def test_all_in_sync() -> None:
    assert not of_exchanges(IsrChanges, described(1, 1, [3, 2, 1]), described(2, 9, [1]))[1:0]
    assert not of_exchanges(IsrChanges, described(1, 1, [3, 2, 1]), described(2, 99, [1, 2, 3]))


# ---------------------------------------------------------------- followers
def replicated(number: int, at: float, offset: int, end: int, *, replica: int = 2, code: int = 0) -> Exchange:
    request = {
        "replica_id": replica,
        "topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": offset}]}],
    }
    partition = {"partition_index": 0, "error_code": code, "high_watermark": end, "records": b""}
    response = {"responses": [{"topic": "orders", "partitions": [partition]}]}
    return spoken(FETCH, 11, request, response, number=number, time=int(at * SECOND), latency=0)


def test_a_follower_that_was_stopped() -> None:
    # SIGSTOP for 12 s, see the truth of the recording
    (found,) = of_recording("26_k430_broker_sigstop_interbroker", SlowFollowers)
    assert found.subject == "broker 12"
    assert "was up to 12.2 s and 23 records behind its leaders" in found.sentence
    assert not of_recording("26_k430_broker_sigstop_interbroker", SlowFollowers, lag=13_000)


def test_followers_that_keep_up() -> None:
    assert not of_recording("26_k430_steady_interbroker", SlowFollowers)
    busy = [replicated(number, number, 10 * number, 10 * number + 10) for number in range(1, 40)]
    assert not of_exchanges(SlowFollowers, *busy)
    idle = [replicated(1, 1, 10, 10), replicated(2, 100, 10, 10), replicated(3, 101, 20, 20)]
    assert not of_exchanges(SlowFollowers, *idle)


def test_a_follower_that_never_catches_up() -> None:
    slow = [replicated(number, number, number, 1_000 + 10 * number) for number in range(1, 20)]
    (found,) = of_exchanges(SlowFollowers, *slow)
    assert "was up to 18 s and 1,161 records behind its leaders on orders-0" in found.sentence


def test_a_follower_that_turns_to_another_leader_is_not_slow() -> None:
    moved = [replicated(1, 1, 0, 10), replicated(2, 2, 10, 10, code=6), replicated(3, 60, 10, 30)]
    assert not of_exchanges(SlowFollowers, *moved)


def test_without_replication_it_is_blind() -> None:
    assert asked(SlowFollowers).blind()
    assert not asked(SlowFollowers, replicated(1, 1, 0, 0)).blind()


# ---------------------------------------------------------------- coordinators, controllers
def beat(number: int, at: float, code: int, group: str = "billing") -> Exchange:
    return spoken(
        HEARTBEAT,
        4,
        {"group_id": group},
        {"error_code": code},
        number=number,
        time=int(at * SECOND),
        latency=0,
    )


def looked_for(number: int, at: float, code: int) -> Exchange:
    response = {"coordinators": [{"key": "billing", "error_code": code}]}
    request = {"key_type": 0, "coordinator_keys": ["billing"]}
    return spoken(FIND_COORDINATOR, 4, request, response, number=number, time=int(at * SECOND), latency=0)


def test_a_coordinator_that_moves() -> None:
    (found,) = of_exchanges(CoordinatorUnavailable, beat(1, 1, 16), looked_for(2, 2, 0), beat(3, 9, 0))
    assert (found.subject, found.severity) == ("group billing, client app", Severity.MEDIUM)
    assert "it was without one for 8 s" in found.sentence
    (found,) = of_exchanges(CoordinatorUnavailable, beat(1, 1, 16), looked_for(2, 2, 0), beat(3, 3, 0))
    assert found.severity == Severity.LOW


def test_a_coordinator_that_moves_under_many_groups_is_one_finding() -> None:
    groups = [
        each
        for at in range(20)
        for each in (beat(2 * at + 1, at, 16, f"g{at}"), beat(2 * at + 2, at + 0.5, 0, f"g{at}"))
    ]
    (found,) = of_exchanges(CoordinatorUnavailable, *groups)
    assert (found.severity, found.count) == (Severity.INFO, 20)
    assert found.sentence == (
        "app found no coordinator for group g0, group g1, group g2 and 17 more "
        "(NOT_COORDINATOR, 20 times); it was without one for 500 ms at most."
    )


def test_a_coordinator_that_cannot_be_made() -> None:
    vain = [looked_for(number, number, 15) for number in range(1, 60)]
    (found,) = of_exchanges(CoordinatorUnavailable, *vain)
    assert found.severity == Severity.HIGH
    assert "the capture shows no success after that; the last time was 58 s after the first" in found.sentence
    assert of_exchanges(CoordinatorUnavailable, *vain, looked_for(60, 60, 0))[0].severity == Severity.MEDIUM


def test_the_first_group_of_a_cluster() -> None:
    (found,) = of_recording("24_k430_java_plain", CoordinatorUnavailable)
    assert found.severity == Severity.INFO


def test_the_share_coordinator_is_not_that_of_the_group() -> None:
    """A broker asks for the coordinator of a share group's state (KIP-932), whichever broker coordinates the group."""

    def state_looked_for(number: int, at: float, code: int) -> Exchange:
        key = "workers:AAAAAAAAAAAAAAAAAAAAAQ:0"
        request = {"key_type": 2, "coordinator_keys": [key]}
        response = {"coordinators": [{"key": key, "error_code": code}]}
        return spoken(FIND_COORDINATOR, 6, request, response, number=number, time=round(at * SECOND))

    (found,) = of_exchanges(
        CoordinatorUnavailable,
        state_looked_for(1, 1, 15),
        beat(2, 1.5, 0, "workers"),
        state_looked_for(3, 3, 0),
    )
    assert "no coordinator for the state of share group workers" in found.sentence
    assert found.sentence.endswith("it was without one for 2 s.")
    assert "__share_group_state" in found.advice
    assert "__consumer_offsets" not in found.advice


def test_another_group_goes_on() -> None:
    both = beat(1, 1, 15), beat(2, 2, 0, "audit"), beat(3, 40, 15)
    assert of_exchanges(CoordinatorUnavailable, *both)[0].severity == Severity.HIGH


def test_controllers_that_moved() -> None:
    response: dict[str, Any] = {"topics": [{"name": "orders", "error_code": 41}]}
    (found,) = of_exchanges(ControllerMoves, spoken(CREATE_TOPICS, 5, {}, response))
    assert found.severity == Severity.LOW
    assert found.sentence == "10.0.0.1:9092 refused 1 request of app because it is not the controller."
