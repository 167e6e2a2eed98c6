"""Brokers that would refuse or limit a release of the Java client."""

from __future__ import annotations

import pytest

from captures.analysis.compat import BrokerFit, ClientCompatibility, Verdict
from captures.analysis.releases import BrokerRelease, line_of
from captures.exchanges import Exchange
from tests.captures.analysis.kit import exchange

FETCH, PRODUCE, METADATA = 1, 0, 3


def told(release: str, broker: str = "10.0.0.1:9092", **kind: bool) -> Exchange:
    apis = BrokerRelease.of(release, **kind).apis
    rows = [
        {"api_key": key, "min_version": served.announced[0], "max_version": served.announced[1]}
        for key, served in apis.items()
    ]
    return exchange(18, 3, request={}, response={"error_code": 0, "api_keys": rows}, broker=broker, number=4)


def fits(client: str, *exchanges: Exchange) -> list[BrokerFit]:
    found = ClientCompatibility(line_of(client))
    for each in exchanges:
        found.negotiation.add(each)
    return found.result()


def test_the_same_release_fits_and_is_recognized() -> None:
    (broker,) = fits("4.3", told("4.3"))
    assert (broker.verdict, broker.announced_by, broker.releases) == (Verdict.SERVED, 4, ["Kafka 4.3"])
    assert {each.verdict for each in broker.apis} == {Verdict.SERVED}


def test_kafka_4_clients_and_brokers_before_2_1() -> None:
    (old,) = fits("4.0", told("0.10.2"))
    assert old.verdict is Verdict.REFUSED
    fetch = next(each for each in old.apis if each.key == FETCH)
    assert (fetch.speaks, fetch.offers, fetch.version, fetch.verdict) == (
        (4, 17),
        (0, 3),
        None,
        Verdict.REFUSED,
    )
    assert "KIP-896" in fetch.sentence
    # the baseline of KIP-896: every API of 4.0 clients is served in some version, if 2.1 has the API
    (baseline,) = fits("4.0", told("2.1"))
    assert not [each for each in baseline.apis if each.verdict is Verdict.REFUSED]


@pytest.mark.slow
def test_an_old_client_is_refused_by_kafka_4_though_produce_is_announced_from_0_on() -> None:
    (broker,) = fits("0.10.2", told("4.3"))
    produce = next(each for each in broker.apis if each.key == PRODUCE)
    assert (produce.speaks, produce.offers, produce.verdict) == ((0, 2), (3, 13), Verdict.REFUSED)


def test_what_is_used_here_decides() -> None:
    (broker,) = fits("4.0", told("1.1"), exchange(METADATA, 5))
    assert broker.verdict is Verdict.OLDER
    (metadata,) = [each for each in broker.apis if each.used_here and each.key == METADATA]
    assert (metadata.version, metadata.speaks, metadata.offers) == (5, (0, 13), (0, 5))


def test_brokers_that_tell_nothing_are_not_known() -> None:
    silent, told_one = sorted(
        fits("4.0", told("4.0"), exchange(FETCH, 1, broker="10.0.0.2:9092")),
        key=lambda each: each.verdict != "unknown",
    )
    assert (silent.broker, silent.verdict, silent.apis) == ("10.0.0.2:9092", Verdict.UNKNOWN, [])
    assert told_one.verdict is Verdict.SERVED


def test_apis_among_brokers_are_not_asked_about() -> None:
    (broker,) = fits("2.8", told("2.8"))
    assert {4, 5, 6, 7, 27, 56}.isdisjoint(each.key for each in broker.apis)
