"""Addresses of brokers given by the user."""

from __future__ import annotations

import pytest

from kproxy.proxy.address_map import AddressMap, MapError

HERE = ("127.0.0.1", 29092)


def test_an_address_leads_to_another_one() -> None:
    mapped = AddressMap(["kafka-1:9092=127.0.0.1:29092", "[fd00::1]:9092=[::1]:29093"])
    assert mapped.lookup("kafka-1", 9092) == HERE
    assert mapped.lookup("KAFKA-1", 9092) == HERE
    assert mapped.lookup("fd00::1", 9092) == ("::1", 29093)
    assert mapped.lookup("kafka-1", 9093) is mapped.lookup("kafka-2", 9092) is None


def test_a_host_leads_to_another_one_and_keeps_the_port() -> None:
    mapped = AddressMap(["kafka-1=127.0.0.1", "kafka-2 = localhost:29092", "kafka-1:9093=127.0.0.1:1"])
    assert mapped.lookup("kafka-1", 9092) == ("127.0.0.1", 9092)
    assert mapped.lookup("kafka-1", 9093) == ("127.0.0.1", 1)
    assert mapped.lookup("kafka-2", 9999) == ("localhost", 29092)


def test_a_node_counts_before_its_address() -> None:
    mapped = AddressMap(["broker 2=127.0.0.1:29092", "b:9092=127.0.0.1:1", "controller 2=127.0.0.1:3"])
    assert mapped.lookup("b", 9092, ("broker", 2)) == HERE
    assert mapped.lookup("b", 9092, ("broker", 1)) == ("127.0.0.1", 1)
    assert mapped.lookup("x", 9092, ("controller", 2)) == ("127.0.0.1", 3)
    assert mapped.lookup("x", 9092, ("broker", 3)) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kafka-1:9092", "maps nothing"),
        ("=127.0.0.1:1", "maps nothing"),
        ("a:1=", "maps nothing"),
        ("kafka-1:9092=127.0.0.1", "has no port"),
        ("broker 2=localhost", "has no port"),
        ("a:b=c:1", "is not an address"),
        ("a:1=c:99999", "is not an address"),
        ("a:0=c:1", "is not an address"),
        (":9092=c:1", "is not an address"),
    ],
)
def test_what_maps_nothing_is_refused(text: str, why: str) -> None:
    with pytest.raises(MapError, match=why):
        AddressMap([text])


def test_one_broker_is_not_mapped_twice() -> None:
    for left in ("a:1", "a", "broker 1"):
        with pytest.raises(MapError, match=f"{left} is mapped twice"):
            AddressMap([f"{left}=b:2", f"{left}=c:3"])
