"""Addresses announced by brokers: which are valid, which are allowed, which are suspicious."""

from __future__ import annotations

import pytest

from kproxy.proxy.broker_policy import AllowedError, BrokerPolicy, ip_of, network


@pytest.mark.parametrize(
    "host",
    [
        "kafka1",
        "kafka_1.ns.svc.cluster.local",
        "10.0.0.1",
        "::1",
        "fe80::1%eth0",
        "KAFKA.example.com.",
        "a" * 63,
    ],
)
def test_addresses(host: str) -> None:
    assert BrokerPolicy().refusal(1, host, 9092) == ""


@pytest.mark.parametrize(
    ("host", "allowed", "passes"),
    [
        ("10.1.2.3", ["10.0.0.0/8"], True),
        ("::ffff:10.1.2.3", ["10.0.0.0/8"], True),
        ("11.1.2.3", ["10.0.0.0/8"], False),
        ("127.0.0.1", ["10.0.0.0/8", "*.example.com"], False),
        ("169.254.169.254", ["*.example.com"], False),
        ("2001:db8::1", ["2001:db8::/32"], True),
        ("2001:db9::1", ["2001:db8::/32"], False),
        ("10.0.0.7", ["10.0.0.7"], True),
        ("10.0.0.8", ["10.0.0.7"], False),
        ("b1.example.com", ["*.example.com"], True),
        ("B1.EXAMPLE.COM.", ["*.example.com"], True),
        ("example.com", ["*.example.com"], False),
        ("notexample.com", ["*.example.com"], False),
        ("b1.example.com", ["b1.example.com"], True),
        ("b2.example.com", ["b1.example.com"], False),
        ("named-with-b", ["*.example.com"], True),
        ("whatever", ["10.0.0.0/8"], True),  # names are checked when they are resolved for a connection
    ],
)
def test_what_is_allowed(host: str, allowed: list[str], passes: bool) -> None:
    announced = BrokerPolicy(allowed, ["named-with-b"])
    assert (announced.refusal(1, host, 9092) == "") is passes


def test_where_a_name_leads_decides_for_networks() -> None:
    announced = BrokerPolicy(["10.0.0.0/8", "*.example.com"])
    assert announced.permits("kafka", "10.1.1.1")
    assert not announced.permits("kafka", "127.0.0.1")
    assert not announced.permits("kafka", "kafka")
    assert announced.permits("b1.example.com", "127.0.0.1")
    assert BrokerPolicy().permits("kafka", "127.0.0.1")


@pytest.mark.parametrize(
    "text", ["", "*", "*.", "10.0.0.0/33", "a b", "https://kafka", "*.10.0.0.1", "kafka:9092"]
)
def test_what_is_neither_a_network_nor_a_host(text: str) -> None:
    with pytest.raises(AllowedError, match="neither a network nor a host"):
        BrokerPolicy([text])


@pytest.mark.parametrize(
    ("bootstrap", "address", "odd"),
    [
        ("10.0.0.1", "10.200.0.1", ""),
        ("10.0.0.1", "127.0.0.1", "a loopback address"),
        ("10.0.0.1", "localhost", "a loopback address"),
        ("10.0.0.1", "::ffff:127.0.0.1", "a loopback address"),
        ("10.0.0.1", "169.254.169.254", "a link-local address"),
        ("10.0.0.1", "fe80::1%eth0", "a link-local address"),
        ("10.0.0.1", "192.168.1.1", "in another network (192.168.0.0/16) than the bootstrap servers"),
        ("10.0.0.1", "8.8.8.8", "in another network (the public Internet) than the bootstrap servers"),
        ("8.8.4.4", "8.8.8.8", ""),
        ("localhost", "127.0.0.1", ""),
        ("127.0.0.1", "localhost", ""),
        ("kafka", "127.0.0.1", "a loopback address"),
        ("kafka", "10.0.0.1", ""),
        ("10.0.0.1", "kafka2", ""),
    ],
)
def test_what_is_odd(bootstrap: str, address: str, odd: str) -> None:
    assert BrokerPolicy((), [bootstrap]).oddity(address) == odd


def test_networks_of_texts_that_are_no_addresses() -> None:
    assert network("kafka") == network("fe80::1%a b") == ""
    assert ip_of("1.2.3") is None
