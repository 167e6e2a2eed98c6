"""Versions offered by brokers and used by clients."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.negotiation import ClientVersions, Limit, Matrix, Negotiation, Use, WarningKind, shown
from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from captures.json_objects import to_json
from tests.captures.analysis.kit import body, error, exchange
from tests.captures.export.files import SAMPLE, opened

KEYS = {"Produce": 0, "Fetch": 1, "Metadata": 3, "LeaderAndIsr": 4, "ApiVersions": 18}
DATA = SAMPLE.parents[2] / "tests" / "data"


def offer(ranges: dict[str, tuple[int, int]], version: int = 3, **fields: Any) -> Exchange:
    rows = [
        {"api_key": KEYS[api], "min_version": least, "max_version": most}
        for api, (least, most) in ranges.items()
    ]
    response = {"error_code": 0, "api_keys": rows} | fields.pop("response", {})
    request = {"client_software_name": "java", "client_software_version": "4.3.0"}
    return exchange(18, version, request=request, response=response, **fields)


def asked(api: str, version: int, **fields: Any) -> Exchange:
    return exchange(KEYS[api], version, request=fields.pop("request", {}), response={}, **fields)


def matrix(*exchanges: Exchange) -> Matrix:
    negotiation = Negotiation()
    for each in exchanges:
        negotiation.add(each)
    return negotiation.result()


def use(found: Matrix, api: str, broker: str = "10.0.0.1:9092") -> Use:
    (client,) = found.clients
    (wanted,) = [each for each in client.uses if (each.api, each.broker) == (api, broker)]
    return wanted


def kinds(found: Matrix) -> list[WarningKind]:
    return [each.kind for each in found.warnings]


def test_what_is_offered_and_used() -> None:
    found = matrix(
        offer({"Fetch": (4, 18), "ApiVersions": (0, 4)}, number=7), asked("Fetch", 12), asked("Fetch", 11)
    )
    (broker,) = found.brokers
    assert (broker.broker, broker.announced_by, broker.apis) == ("10.0.0.1:9092", 7, {1: (4, 18), 18: (0, 4)})
    fetch = use(found, "Fetch")
    assert (fetch.offered, fetch.used, fetch.could, fetch.limit) == (
        (4, 18),
        {11: 1, 12: 1},
        (12, 18),
        Limit.CLIENT,
    )
    assert found.clients[0].software == ["java 4.3.0"]
    assert found.clients[0].asks is True
    assert found.warnings == []


def test_a_client_at_the_end_of_the_range_is_limited_by_the_broker() -> None:
    assert use(matrix(offer({"Fetch": (4, 12)}), asked("Fetch", 12)), "Fetch").limit is Limit.BROKER


def test_without_an_offer_nothing_is_said_of_it() -> None:
    fetch = use(matrix(asked("Fetch", 12)), "Fetch")
    assert (fetch.offered, fetch.could, fetch.limit) == (None, None, None)
    assert matrix(asked("Fetch", 12)).clients[0].asks is None


def test_what_a_client_used_with_another_broker_it_could_use_here() -> None:
    other = {"broker": "10.0.0.2:9092", "connection": 1}
    found = matrix(
        offer({"Fetch": (4, 17)}),
        asked("Fetch", 12),
        offer({"Fetch": (4, 13)}, **other),
        asked("Fetch", 13, **other),
    )
    assert (use(found, "Fetch").elsewhere, use(found, "Fetch").could) == ([13], (13, 17))
    there = use(found, "Fetch", "10.0.0.2:9092")
    assert (there.elsewhere, there.could) == ([12], (13, 13))


def test_a_version_that_is_not_offered() -> None:
    found = matrix(offer({"Fetch": (4, 12)}), asked("Fetch", 13, number=5), asked("Fetch", 13, number=6))
    (warning,) = found.warnings
    assert (warning.kind, warning.client, warning.api, warning.version) == (
        "outside_offered",
        "app",
        "Fetch",
        13,
    )
    assert (warning.count, warning.first) == (2, 5)
    assert warning.sentence == "the broker offers Fetch 4-12 only"
    assert use(found, "Fetch").limit is None


# https://cwiki.apache.org/confluence/display/KAFKA/KIP-896: Produce from v3 on, although v0 and later are announced
def test_what_kafka_4_refuses() -> None:
    found = matrix(offer({"Produce": (0, 13)}), asked("Produce", 2), asked("Produce", 3))
    assert [(each.kind, each.version) for each in found.warnings] == [("refused_by_kafka_4", 2)]


def test_brokers_among_themselves_are_not_warned_of() -> None:
    replica = asked("Fetch", 1, request={"replica_id": 2}, client_id="ReplicaFetcherThread-0-1")
    controller = asked("LeaderAndIsr", 0, client_id="1")
    found = matrix(replica, asked("Fetch", 1, request={"replica_id": -1}, client_id="consumer"), controller)
    assert {each.name: each.is_broker for each in found.clients} == {
        "ReplicaFetcherThread-0-1": True,
        "consumer": False,
        "1": True,
    }
    assert [each.client for each in found.warnings] == ["consumer"]


# KIP-511: error 35 in version 0, and the connection continues
def test_a_fallback() -> None:
    refused = exchange(
        18,
        5,
        request={},
        response={"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]},
        read_as=0,
        errors=[error(35)],
    )
    found = matrix(refused, offer({"ApiVersions": (0, 4)}, 4))
    (warning,) = found.warnings
    assert (warning.kind, warning.version) == ("fallback", 5)
    assert "answered in v0" in warning.sentence
    assert found.brokers[0].apis == {18: (0, 4)}
    assert use(found, "ApiVersions").could == (4, 4)


def test_an_offer_that_changed() -> None:
    found = matrix(
        offer({"Fetch": (0, 12)}, number=1),
        offer({"Fetch": (0, 12)}, number=2),
        offer({"Fetch": (4, 18)}, number=3),
    )
    (warning,) = found.warnings
    assert (warning.kind, warning.client, warning.first, warning.count) == ("offer_changed", "", 3, 1)
    assert (found.brokers[0].announced_by, found.brokers[0].apis) == (3, {1: (4, 18)})


def test_features() -> None:
    told = {
        "supported_features": [{"name": "metadata.version", "min_version": 7, "max_version": 30}],
        "finalized_features": [
            {"name": "metadata.version", "max_version_level": 29, "min_version_level": 29}
        ],
    }
    (broker,) = matrix(offer({"Fetch": (4, 18)}, response=told), offer({"Fetch": (4, 18)}, 2)).brokers
    assert broker.supported == {"metadata.version": (7, 30)}
    assert broker.finalized == {"metadata.version": (29, 29)}


def test_one_client_or_broker() -> None:
    other = {"broker": "10.0.0.2:9092", "connection": 1}
    found = matrix(
        offer({"Fetch": (4, 12)}),
        asked("Fetch", 13),
        offer({"Fetch": (4, 12)}, **other, client_id="b"),
        asked("Fetch", 13, **other, client_id="b"),
        asked("Metadata", 3, client_id="b"),
    )
    one = found.of({"app"}, None)
    assert [each.name for each in one.clients] == ["app"]
    assert [each.broker for each in one.brokers] == ["10.0.0.1:9092"]
    assert {each.client for each in one.warnings} == {"app"}
    there = found.of(None, "10.0.0.2:9092")
    assert [each.name for each in there.clients] == ["b"]
    assert {each.broker for each in there.clients[0].uses} == {"10.0.0.2:9092"}
    assert len(found.clients[1].uses) == 3  # the total is unchanged


@pytest.mark.parametrize(
    "odd",
    [
        exchange(18, 3, request=None, response=None),
        exchange(18, 3, request={}, response={"error_code": 0, "api_keys": [None, {"min_version": 1}, {}]}),
        exchange(18, 3, request={}, response={"error_code": 0, "api_keys": [{"api_key": 9999}]}),
        exchange(18, 3, request={}, response={"error_code": 0, "supported_features": [None, {}]}),
        exchange(18, 3, request={}, response=None, latency=None, flag=Flag.UNANSWERED),
        exchange(None, None, flag=Flag.ORPHAN),
        exchange(1, 4, request={"replica_id": None}, response=None),
        exchange(18, 9, request=None, response={}, errors=[error(35)]),
    ],
)
def test_bad_input(odd: Exchange) -> None:
    negotiation = Negotiation()
    odd.request = odd.request or body(odd.api_key or 0, odd.version or 0, None)
    negotiation.add(odd)
    to_json(negotiation.result())


def test_ranges_in_words() -> None:
    assert [shown(each) for each in (None, (3, 3), (0, 12))] == ["", "3", "0-12"]


# the versions that Kafka 4.3.0 announces and clients use: oracle of the recordings, as in test_stats.py
def test_the_sample() -> None:
    capture = opened(SAMPLE)
    negotiation = Negotiation(capture)
    for each in ExchangeReader(capture, annotate=False, summary=False):
        negotiation.add(each)
    found = negotiation.result()
    (broker,) = found.brokers
    assert len(broker.apis) == 77
    assert broker.finalized["kraft.version"] == (1, 1)
    m1: ClientVersions = next(each for each in found.clients if each.name == "m1")
    assert m1.software == ["apache-kafka-java 4.3.0"]
    assert {each.api: list(each.used) for each in m1.uses}["Fetch"] == [18]
    assert found.warnings == []


def test_old_clients_do_not_ask() -> None:
    capture = open_capture([str(DATA / "groups" / "31_k0901_rebalance_range.pcap.zst")])
    capture.read()
    negotiation = Negotiation(capture)
    for each in ExchangeReader(capture, annotate=False, summary=False):
        negotiation.add(each)
    found = negotiation.result()
    assert all(each.asks is False for each in found.clients if not each.is_broker)
    assert {WarningKind.NEVER_ASKED, WarningKind.REFUSED_BY_KAFKA_4} == set(kinds(found))
