"""Behaviour of a broker of another release: from what such brokers did with the same clients, and synthetic."""

from __future__ import annotations

from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.compat import ApiVerdict, Compatibility, Report, Target, Verdict
from captures.analysis.exchange_groups import ExchangeGroup
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.negotiation import learn_versions
from captures.analysis.releases import BrokerRelease
from captures.exchanges import Capture, Exchange, ExchangeReader, Flag, open_capture
from captures.exchanges.columns import ExchangeColumns
from tests.captures.analysis.kit import exchange

pytestmark = pytest.mark.quick

DATA = Path(__file__).parents[2] / "data"
FETCH, PRODUCE, METADATA, API_VERSIONS, CONSUMER_HEARTBEAT = 1, 0, 3, 18, 68


@cache
def opened(name: str) -> Capture:
    capture = open_capture(str(DATA / f"{name}.pcap.zst"))
    capture.read()
    return capture


def report(release: str, *exchanges: Exchange, capture: Capture | None = None, **kind: bool) -> Report:
    found = Compatibility(Target.of_release(BrokerRelease.of(release, **kind)), capture)
    for each in exchanges:
        found.count(ExchangeGroup.of(each))
        found.learn(each)
    return found.result()


def of_recording(name: str, release: str) -> Report:
    capture = opened(name)
    reader = ExchangeReader(capture, annotate=False, summary=False)
    found = Compatibility(Target.of_release(BrokerRelease.of(release)), capture)
    deque(learn_versions(found, reader, ExchangeColumns(capture, reader.rows)), maxlen=0)
    return found.result()


def used(name: str) -> dict[int, set[int]]:
    """Return the versions answered in a recording, by API key."""
    table = opened(name).table
    found: dict[int, set[int]] = {}
    columns = (table.column(each).tolist() for each in ("api_key", "version", "response_size"))
    for key, version, answered in zip(*columns, strict=True):
        if answered and key not in (-1, API_VERSIONS):
            found.setdefault(key, set()).add(version)
    return found


OLDER_AND_NEWER = [
    ("clean/20_k430_ck_lz4", "questions/32_k0102_ck_lz4", "0.10.2"),
    ("clean/20_k430_ck_lz4", "clean/27_k391_ck_lz4", "3.9"),
    ("clean/27_k391_ck_lz4", "clean/20_k430_ck_lz4", "4.3"),
    ("questions/32_k0102_ck_lz4", "clean/20_k430_ck_lz4", "4.3"),
    ("clean/20_k430_kafkajs_none", "questions/35_k282_kafkajs", "2.8"),
    ("questions/35_k282_kafkajs", "clean/20_k430_kafkajs_none", "4.3"),
    ("clean/20_k430_kp_gzip", "clean/27_k391_kp_zstd", "3.9"),
    ("clean/27_k391_kp_zstd", "clean/20_k430_kp_gzip", "4.3"),
    ("clean/20_k430_java_none", "questions/27_k391_admin_java43", "3.9"),
]


@pytest.mark.parametrize(("recorded", "really", "release"), OLDER_AND_NEWER)
def test_clients_did_what_is_predicted_from_another_recording(
    recorded: str, really: str, release: str
) -> None:
    did = used(really)
    compared = 0
    for client in of_recording(recorded, release).clients:
        for each in client.apis:
            if each.key in did and each.key != API_VERSIONS:
                assert each.would_use in did[each.key], (client.name, each)
                assert each.verdict in (Verdict.SERVED, Verdict.OLDER)
                compared += 1
    assert compared >= 3


def test_an_old_client_that_never_asks_is_refused_by_kafka_4() -> None:
    found = {each.name: each for each in of_recording("clean/36_k01001_java", "4.3").clients}
    produced = found["java-lz4"]
    assert (produced.asks, produced.verdict) == (False, Verdict.REFUSED)
    (refused,) = [each for each in produced.apis if each.verdict is Verdict.REFUSED]
    assert (refused.api, refused.used, refused.serves) == ("Produce", {2: 2}, (3, 13))
    assert "Kafka 4.0 removed v0-2: KIP-896" in refused.sentence
    # and Kafka 3.9 serves all of it
    assert {each.verdict for each in of_recording("clean/36_k01001_java", "3.9").clients} == {Verdict.SERVED}


def test_a_consumer_that_asked_and_could_not_fetch() -> None:
    clients = {each.name: each for each in of_recording("questions/45_k430_old", "4.3").clients}
    consumer = clients["java-0.10.2.2-taker"]
    (refused,) = [each for each in consumer.apis if each.verdict is Verdict.REFUSED]
    assert (refused.api, refused.used, refused.certainty) == ("Fetch", {}, Certainty.POSSIBLE)
    assert refused.sentence.startswith(
        "it joined a group and never fetched: what looks like apache-kafka-java 0.10.2"
    )
    assert clients["java-1.1.1-taker"].verdict is Verdict.SERVED


# ------------------------------------------------------------ synthetic
def asks(ranges: dict[int, tuple[int, int]], software: str = "", version: int = 3, **fields: Any) -> Exchange:
    rows = [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in ranges.items()]
    name, _, release = software.partition(" ")
    request = {"client_software_name": name, "client_software_version": release} if software else {}
    return exchange(
        API_VERSIONS, version, request=request, response={"error_code": 0, "api_keys": rows}, **fields
    )


def verdict(found: Report, key: int) -> ApiVerdict:
    (client,) = found.clients
    (each,) = [each for each in client.apis if each.key == key]
    return each


def test_a_highest_version_below_what_was_offered_is_the_clients_own() -> None:
    told = verdict(report("4.3", asks({FETCH: (0, 11)}), exchange(FETCH, 3, number=7)), FETCH)
    assert (told.verdict, told.certainty, told.would_use, told.first) == (
        Verdict.REFUSED,
        Certainty.INFERRED,
        None,
        7,
    )


def test_a_version_at_the_brokers_limit_tells_nothing_of_the_clients() -> None:
    told = verdict(report("4.3", asks({FETCH: (0, 3)}), exchange(FETCH, 3)), FETCH)
    assert (told.verdict, told.certainty) == (Verdict.UNKNOWN, Certainty.POSSIBLE)


@pytest.mark.parametrize(
    ("software", "expected", "would"),
    [("apache-kafka-java 2.8.2", Verdict.SERVED, 12), ("apache-kafka-java 4.0.1", Verdict.SERVED, 17)],
)
def test_a_java_client_speaks_what_its_release_does(software: str, expected: Verdict, would: int) -> None:
    told = verdict(report("4.3", asks({FETCH: (0, 3)}, software), exchange(FETCH, 3)), FETCH)
    assert (told.verdict, told.would_use, told.certainty) == (expected, would, Certainty.INFERRED)


def test_a_java_client_of_4_0_cannot_fetch_from_0_10_0() -> None:
    told = verdict(
        report("0.10.0", asks({FETCH: (4, 17)}, "apache-kafka-java 4.0.0"), exchange(FETCH, 17)), FETCH
    )
    assert told.verdict is Verdict.REFUSED
    assert "apache-kafka-java 4.0.0 speaks Fetch v4-17" in told.sentence


def test_nonsense_for_a_release_is_not_believed() -> None:
    for software in ("apache-kafka-java unknown", "apache-kafka-java", "librdkafka x", "\x00"):
        told = verdict(report("4.3", asks({FETCH: (0, 3)}, software), exchange(FETCH, 3)), FETCH)
        assert told.verdict is Verdict.UNKNOWN


def test_a_client_goes_back_to_an_older_version() -> None:
    told = verdict(report("2.8", asks({FETCH: (4, 18)}), exchange(FETCH, 18)), FETCH)
    assert (told.verdict, told.would_use, told.certainty) == (Verdict.OLDER, 12, Certainty.POSSIBLE)
    told = verdict(report("2.8", asks({FETCH: (4, 18)}), exchange(FETCH, 18), exchange(FETCH, 12)), FETCH)
    assert (told.verdict, told.certainty) == (Verdict.OLDER, Certainty.INFERRED)


def test_an_api_that_is_not_there_yet() -> None:
    asked = asks({CONSUMER_HEARTBEAT: (0, 1)})
    told = verdict(report("3.3", asked, exchange(CONSUMER_HEARTBEAT, 1)), CONSUMER_HEARTBEAT)
    assert (told.verdict, told.serves) == (Verdict.MISSING, None)
    assert "it came with Kafka 3.7, v1 with 4.0" in told.sentence


def test_a_client_of_which_the_beginning_is_not_there_may_ask_or_not() -> None:
    assert verdict(report("4.3", exchange(FETCH, 2)), FETCH).verdict is Verdict.UNKNOWN
    assert verdict(report("4.3", exchange(FETCH, 12)), FETCH).verdict is Verdict.SERVED
    assert (
        verdict(report("2.8", exchange(CONSUMER_HEARTBEAT, 0)), CONSUMER_HEARTBEAT).verdict is Verdict.UNKNOWN
    )


def test_the_question_for_versions() -> None:
    asked = asks({API_VERSIONS: (0, 4)}, version=4)
    assert verdict(report("4.3", asked), API_VERSIONS).verdict is Verdict.SERVED
    older = verdict(report("2.8", asked), API_VERSIONS)
    assert (older.verdict, older.would_use) == (Verdict.OLDER, 3)
    found = report("0.9.0", asked, exchange(FETCH, 1))
    assert verdict(found, API_VERSIONS).verdict is Verdict.REFUSED
    assert verdict(found, FETCH).verdict is Verdict.UNKNOWN
    assert found.clients[0].verdict is Verdict.REFUSED


def test_telemetry_is_no_loss() -> None:
    found = report("2.8", asks({71: (0, 0), METADATA: (0, 11)}), exchange(71, 0), exchange(METADATA, 11))
    assert verdict(found, 71).verdict is Verdict.MISSING
    assert found.clients[0].verdict is Verdict.SERVED


def test_brokers_are_left_out() -> None:
    follower = exchange(FETCH, 3, client_id="broker-1", request={"replica_id": 1})
    found = report("4.3", follower, exchange(METADATA, 1, client_id="app"))
    assert [each.name for each in found.clients] == ["app"]
    assert found.brokers_left_out == ["broker-1"]


def test_ranges_instead_of_a_release() -> None:
    target = Target.of_ranges(
        "two brokers", [{PRODUCE: (0, 9), FETCH: (0, 12)}, {PRODUCE: (0, 13), FETCH: (4, 18)}]
    )
    assert {key: served.versions for key, served in target.apis.items()} == {PRODUCE: (3, 9), FETCH: (4, 12)}
    assert not target.negotiates
    assert Target.of_ranges("none", []).apis == {}
    # brokers without a common version leave nothing
    assert Target.of_ranges("two", [{FETCH: (0, 3)}, {FETCH: (4, 18)}]).apis == {}


def test_garbage_does_no_harm() -> None:
    found = report(
        "4.3",
        exchange(None, None, flag=Flag.ORPHAN),
        exchange(API_VERSIONS, 3, request=None, response={"api_keys": [None, {}, {"api_key": None}]}),
        exchange(API_VERSIONS, 77, response={"error_code": 35}),
        exchange(99, 3),
        exchange(FETCH, -1),
        exchange(FETCH, 12, response={"api_keys": 5}),
    )
    assert len(found.clients) == 1
    assert report("4.3").clients == []


@pytest.mark.parametrize("name", sorted({name for names in OLDER_AND_NEWER for name in names[:2]}))
def test_few_exchanges_decide_what_all_of_them_do(name: str) -> None:
    capture = opened(name)
    exchanges = ExchangeReader(capture, annotate=False, summary=False)
    assert report("2.0", *exchanges, capture=capture) == of_recording(name, "2.0")
