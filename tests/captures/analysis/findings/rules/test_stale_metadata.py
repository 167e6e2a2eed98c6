"""Leaders that moved: error, refresh, retry."""

from __future__ import annotations

from typing import Any

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.metadata import ClientsThatDoNotRefresh, StaleMetadata
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from tests.captures.analysis.findings.cluster_kit import SECOND, of_exchanges, of_recording, spoken

PRODUCE, FETCH, METADATA = 0, 1, 3


def produced(number: int, at: float, code: int = 6, topic: str = "orders", **fields: Any) -> Exchange:
    return spoken(
        PRODUCE,
        9,
        {"topic_data": [{"name": topic, "partition_data": [{"index": 0}]}]},
        {"responses": [{"name": topic, "partition_responses": [{"index": 0, "error_code": code}]}]},
        number=number,
        time=int(at * SECOND),
        latency=0,
        **fields,
    )


def asked_for_metadata(number: int, at: float) -> Exchange:
    return spoken(METADATA, 12, {"topics": []}, {"topics": []}, number=number, time=int(at * SECOND))


def test_a_broker_that_stops_makes_clients_look_for_leaders() -> None:
    # broker 12 was stopped by SIGSTOP, with a session timeout of 6 s; see the truth of the recording
    (found,) = of_recording("26_k430_broker_sigstop_clients", StaleMetadata)
    assert found.subject == "client pump"
    assert "pump got NOT_LEADER_OR_FOLLOWER 23 times on ct, " in found.sentence
    assert found.severity == Severity.MEDIUM
    assert found.count == 23
    assert "NOT_LEADER_OR_FOLLOWER" in found.sentence
    assert (
        of_recording("26_k430_broker_sigstop_clients", StaleMetadata, longest=6_000)[0].severity
        == Severity.LOW
    )


def test_the_chain_is_told_with_how_long_it_took() -> None:
    (found,) = of_exchanges(
        StaleMetadata, produced(1, 1), produced(2, 2), asked_for_metadata(3, 2.5), produced(4, 8.5, 0)
    )
    assert found.sentence == (
        "app got NOT_LEADER_OR_FOLLOWER twice on orders, refreshed metadata once, and continued after 7.5 s."
    )
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (1, 2))


def test_a_moment_is_no_trouble() -> None:
    (found,) = of_exchanges(StaleMetadata, produced(1, 1), produced(2, 1.1, 0))
    assert found.severity == Severity.INFO


def test_a_leader_that_moves_under_many_clients_is_one_finding() -> None:
    exchanges = [
        each
        for client in range(40)
        for topic in range(5)
        for each in (
            produced(2 * client + 1, 1 + client, topic=f"t{topic}", client_id=f"c{client}"),
            produced(2 * client + 2, 2.5 + client, 0, topic=f"t{topic}", client_id=f"c{client}"),
        )
    ]
    (found,) = of_exchanges(StaleMetadata, *exchanges)
    assert (found.severity, found.count) == (Severity.LOW, 200)
    assert found.sentence == (
        "c0, c1, c2 and 37 more got NOT_LEADER_OR_FOLLOWER 200 times on t0, t1, t2 and 2 more, "
        "and continued after at most 1.5 s."
    )


def test_topics_that_are_gone_are_told_apart() -> None:
    moved, gone = of_exchanges(
        StaleMetadata,
        produced(1, 1),
        produced(2, 2, 3, "logs"),
        produced(3, 3, 3, "audit"),
        produced(4, 3, 3, "logs"),
    )
    assert (moved.subject, gone.subject) == ("client app", "client app, topics that do not exist")
    assert "UNKNOWN_TOPIC_OR_PARTITION 3 times on logs, audit" in gone.sentence
    assert "deleted" in gone.advice


def test_success_on_another_topic_is_none() -> None:
    found = of_exchanges(StaleMetadata, produced(1, 1), produced(2, 2, 0, "logs"), produced(3, 9))
    assert [(each.subject, each.severity) for each in found] == [("client app", Severity.MEDIUM)]
    assert "had no success" in found[0].sentence


def test_followers_are_left_out() -> None:
    refused = {"responses": [{"topic": "orders", "partitions": [{"partition_index": 0, "error_code": 6}]}]}
    assert not of_exchanges(StaleMetadata, spoken(FETCH, 11, {"replica_id": 2}, refused))
    assert not of_exchanges(StaleMetadata, spoken(FETCH, 17, {"replica_state": {"replica_id": 2}}, refused))
    assert of_exchanges(StaleMetadata, spoken(FETCH, 11, {"replica_id": -1}, refused))


def test_a_topic_that_metadata_does_not_know_is_no_stale_metadata() -> None:
    response = {"topics": [{"name": "nope", "error_code": 3}]}
    assert not of_exchanges(StaleMetadata, spoken(METADATA, 12, {"topics": [{"name": "nope"}]}, response))


def test_clients_that_never_ask_are_told() -> None:
    started = asked_for_metadata(1, 0)
    stubborn = [produced(number, number) for number in range(2, 8)]
    (found,) = of_exchanges(ClientsThatDoNotRefresh, started, *stubborn)
    assert (found.severity, found.certainty) == (Severity.HIGH, Certainty.INFERRED)
    assert "6 errors in a row" in found.sentence
    # they may ask on connections outside the capture
    (found,) = of_exchanges(ClientsThatDoNotRefresh, *stubborn)
    assert (found.severity, found.certainty) == (Severity.MEDIUM, Certainty.POSSIBLE)


def test_clients_that_ask_are_not() -> None:
    asking = [
        each
        for at in range(20)
        for each in (produced(2 * at + 1, at), asked_for_metadata(2 * at + 2, at + 0.5))
    ]
    assert not of_exchanges(ClientsThatDoNotRefresh, *asking)
    # a burst of pipelined requests is not a client that ignores errors
    assert not of_exchanges(ClientsThatDoNotRefresh, *(produced(number, 1) for number in range(1, 20)))
