"""Advertised addresses of brokers."""

from __future__ import annotations

import pytest

from captures.analysis.advertised_addresses import Address, AdvertisedAddresses, reached_addresses
from captures.analysis.attempts import Outcome
from captures.exchanges import ExchangeReader, open_capture
from tests.captures.analysis.kit import exchange
from tests.conftest import DATA


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("LocalHost.", True),
        ("127.0.0.2", True),
        ("::1", True),
        ("0.0.0.0", True),  # configured explicitly
        ("10.0.0.1", False),
        ("kafka-1", False),
    ],
)
def test_addresses_that_mean_whoever_looks(host: str, local: bool) -> None:
    assert Address(host, 9092).only_local == local


def test_addresses_are_shown_as_endpoints() -> None:
    assert Address("kafka-1", 9092).shown == "kafka-1:9092"
    assert Address("2001:db8::1", 9092).shown == "[2001:db8::1]:9092"


def test_names_are_looked_up_among_those_of_the_capture() -> None:
    capture = open_capture(str(DATA / "20_k430_ck_zstd.pcap"))
    capture.names.add("10.0.0.7", "kafka-1")
    reached = {("10.0.0.7", 9092): [Outcome.ACCEPTED], ("10.0.0.8", 9092): [Outcome.ACCEPTED]}
    assert Address("kafka-1", 9092).hosts(capture, reached) == ["10.0.0.7"]
    assert Address("kafka-2", 9092).hosts(capture, reached) == []
    assert Address("::ffff:10.0.0.8", 9092).hosts(capture, reached) == ["10.0.0.8"]


def test_what_a_recording_tells() -> None:
    capture = open_capture(str(DATA / "31_k0901_cluster2.pcap"))
    capture.read()
    advertised = AdvertisedAddresses()
    for each in ExchangeReader(capture, annotate=False, summary=False):
        advertised.add(each)
    told = {address.shown: sorted(where.brokers) for address, where in advertised.sources.items()}
    assert told == {"127.0.0.1:20920": [1], "127.0.0.1:20921": [2]}
    outcomes = reached_addresses(capture)["127.0.0.1", 20920]
    assert outcomes.count(Outcome.REFUSED) == 3
    assert Outcome.ACCEPTED in outcomes


def test_coordinators_that_were_not_found_have_no_address() -> None:
    advertised = AdvertisedAddresses()
    advertised.add(exchange(10, 3, response={"error_code": 15, "node_id": -1, "host": "", "port": -1}))
    advertised.add(
        exchange(10, 4, response={"coordinators": [{"node_id": -1, "host": "", "port": -1}, None]})
    )
    assert advertised.sources == {}
