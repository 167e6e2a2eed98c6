"""Versions that brokers do not support, or no longer will."""

from __future__ import annotations

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.versions import RefusedByKafka4, UnsupportedVersions
from captures.analysis.groups.vocabulary import Certainty
from tests.captures.analysis.findings.cluster_kit import of_exchanges, of_recording, spoken

PRODUCE, FETCH, API_VERSIONS = 0, 1, 18


def test_connections_closed_on_versions_that_were_not_offered() -> None:
    # Kafka 0.10.2.2; a client that ignores its offer uses the versions of later brokers
    by_subject = {found.subject: found for found in of_recording("32_k0102_errors", UnsupportedVersions)}
    assert set(by_subject) == {"client raw, broker 127.0.0.1:20301", "client ver, broker 127.0.0.1:20301"}
    found = by_subject["client ver, broker 127.0.0.1:20301"]
    assert (found.severity, found.certainty, found.count) == (Severity.HIGH, Certainty.INFERRED, 18)
    assert "ListGroups v1 (it offers 0 to 0)" in found.sentence
    assert "Api#99 v0 (not offered at all)" in by_subject["client raw, broker 127.0.0.1:20301"].sentence


def test_brokers_before_0_10_close_on_api_versions() -> None:
    # Kafka 0.8.2.2
    (found,) = of_recording("30_k0822_errors", UnsupportedVersions)
    assert found.subject == "client raw, broker 127.0.0.1:20101, ApiVersions"
    assert (found.severity, found.certainty) == (Severity.MEDIUM, Certainty.POSSIBLE)


def test_the_fallback_of_api_versions_is_normal() -> None:
    # franz-go 1.22 starts with ApiVersions v5, which Kafka 4.3 does not support
    assert not of_recording("20_k430_franz_gzip", UnsupportedVersions)


def test_errors_are_told_with_what_is_offered() -> None:
    offered = spoken(
        API_VERSIONS,
        3,
        {},
        {"error_code": 0, "api_keys": [{"api_key": 0, "min_version": 3, "max_version": 8}]},
    )
    response = {"responses": [{"name": "t", "partition_responses": [{"index": 0, "error_code": 35}]}]}
    asked = spoken(PRODUCE, 9, {}, response, number=2)
    (found,) = of_exchanges(UnsupportedVersions, offered, asked)
    assert found.sentence == (
        "10.0.0.1:9092 refused 1 request of app because it does not know the version: Produce v9 (it offers 3 to 8)."
    )
    assert found.certainty == Certainty.OBSERVED
    within = spoken(PRODUCE, 8, {}, response, number=2)
    (found,) = of_exchanges(UnsupportedVersions, offered, within)
    assert found.sentence.endswith("Produce v8 (which it offers).")


def test_old_clients_are_told_before_brokers_are_upgraded() -> None:
    found = of_recording("31_k0901_cluster2", RefusedByKafka4)
    # followers, which also fetch in old versions, are upgraded with their cluster
    assert [(each.subject, each.severity) for each in found] == [("client java-gzip", Severity.LOW)]
    assert "Produce v1" in found[0].sentence


def test_a_broker_of_kafka_4_refuses_them_now() -> None:
    # Produce v0 sent to Kafka 4.3, which announces it and closes the connection
    (found,) = of_recording("25_k430_raw_garbage", RefusedByKafka4)
    assert found.severity == Severity.HIGH
    assert "127.0.0.1:10402 is such a broker" in found.sentence
    # and it is reported once
    assert all(
        "Produce" not in each.sentence for each in of_recording("25_k430_raw_garbage", UnsupportedVersions)
    )


@pytest.mark.parametrize(
    ("key", "version", "old"),
    [(PRODUCE, 2, True), (PRODUCE, 3, False), (FETCH, 3, True), (FETCH, 4, False), (API_VERSIONS, 0, False)],
)
def test_least_versions_are_those_of_kip_896(key: int, version: int, old: bool) -> None:
    assert bool(of_exchanges(RefusedByKafka4, spoken(key, version, {}, {}))) == old


@pytest.mark.parametrize(("most", "severity"), [(2, Severity.INFO), (3, Severity.LOW)])
def test_clients_of_brokers_that_know_no_newer_version_are_not_blamed(most: int, severity: Severity) -> None:
    keys = [{"api_key": PRODUCE, "min_version": 0, "max_version": most}]
    offered = spoken(API_VERSIONS, 0, {}, {"error_code": 0, "api_keys": keys})
    (found,) = of_exchanges(RefusedByKafka4, offered, spoken(PRODUCE, 2, {}, {}, number=2))
    assert (found.severity, found.evidence) == (severity, (2,))
    assert ("knows no newer ones (Produce)" in found.sentence) == (severity is Severity.INFO)


def test_what_brokers_send_each_other_is_left_out() -> None:
    assert not of_exchanges(RefusedByKafka4, spoken(27, 0, {}, {}))  # WriteTxnMarkers
    assert not of_exchanges(RefusedByKafka4, spoken(FETCH, 3, {"replica_id": 1}, {}))
