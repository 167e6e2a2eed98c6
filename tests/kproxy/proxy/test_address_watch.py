"""Escaped addresses are found wherever they are, without false positives."""

from __future__ import annotations

from random import Random

import pytest

from kproxy.proxy.address_watch import AddressWatch
from kproxy.proxy.addresses import Broker, rewriter
from tests.kproxy.proxy.addressed import (
    Advertiser,
    body_of,
    drawn,
    every_version,
    frame_of,
    holders,
    names,
    response,
)


def watching(*brokers: tuple[str, int]) -> AddressWatch:
    watch = AddressWatch()
    for number, (host, port) in enumerate(brokers):
        watch.learn(Broker("broker", number, host, port))
    return watch


@pytest.mark.parametrize("pair", every_version(), ids=names)
def test_addresses_of_any_message(pair: tuple[int, int]) -> None:
    """Before rewriting, all addresses of a message are found; afterwards only those kept on purpose."""
    key, version = pair
    layout = response(key)[version]
    for number in range(4):
        seed = f"{names(pair)} watch {number}"
        value = drawn(key, version, seed, unknown_tags=False)
        frame = frame_of(key, version, layout.build(value))
        watch, advertise = AddressWatch(), Advertiser(seed)
        rewrite = rewriter(key, version)
        assert rewrite is not None
        rewritten = rewrite(frame, advertise).frame
        for broker in advertise.told:
            watch.learn(broker)
        # several nodes may have the same address
        there = {broker[2:] for broker in advertise.told if broker.port < 65536}
        assert {broker[2:] for broker in watch.escaped(frame)} == there, seed
        for address in advertise.told.values():
            watch.allow(*address)
        left = {
            (holder["host"], holder["port"])
            for holder, _ in holders(layout.parse(body_of(key, version, rewritten)), layout.struct)
        }
        allowed = set(advertise.told.values())
        assert {broker[2:] for broker in watch.escaped(rewritten)} == (left & there) - allowed, seed


def test_many_hosts_and_one_port_or_one_host_and_many_ports() -> None:
    rng = Random(1)
    hosts = [(f"broker-{number}.example.com", 9092) for number in range(50)]
    ports = [("localhost", 9092 + number) for number in range(50)]
    for brokers in (hosts, ports, hosts[:10] + ports[:3]):
        watch = watching(*brokers)
        chosen = rng.sample(brokers, 5)
        # compact length, classic length
        data = b"".join(
            prefix + host.encode() + port.to_bytes(4, "big") + b"\x00"
            for host, port in chosen
            for prefix in (bytes([len(host) + 1]), len(host).to_bytes(2, "big"))
        )
        assert sorted(broker[2:] for broker in watch.escaped(data)) == sorted(chosen)
        assert watch.escaped(data.replace(b"\x00\x00\x23", b"\x00\x01\x23")) == []


def test_what_is_no_address_of_a_broker() -> None:
    by_port, by_host = watching(("b1", 9092), ("b2", 9092)), watching(("b1", 9092), ("b1", 9094))
    for watch in (by_port, by_host):
        check_no_address(watch)


def check_no_address(watch: AddressWatch) -> None:
    port = (9092).to_bytes(4, "big")
    assert watch.escaped(b"\x05web1" + port) == []  # the end of another host name
    assert watch.escaped(b"\x03b1" + (9093).to_bytes(4, "big")) == []
    assert watch.escaped(b"\x03b3" + port) == []
    assert watch.escaped(b"\x03b1") == []
    assert watch.escaped(port) == []
    assert [broker.host for broker in watch.escaped(b"\x03b1" + port)] == ["b1"]
    assert [broker.host for broker in watch.escaped(b"b1" + port)] == ["b1"]  # its length arrived earlier


def test_the_address_of_the_proxy_itself() -> None:
    watch = watching(("localhost", 9092), ("localhost", 9093))
    both = b"\x0alocalhost\x00\x00\x23\x84\x0alocalhost\x00\x00\x23\x85"
    assert len(watch.escaped(both)) == 2
    watch.allow("localhost", 9093)
    assert [broker.port for broker in watch.escaped(both)] == [9092]
    watch.learn(Broker("broker", 9, "localhost", 9093))
    assert [broker.port for broker in watch.escaped(both)] == [9092]


def test_long_hosts() -> None:
    for length in (126, 127, 128, 200, 255, 256, 300):
        host = "h" * length
        watch = watching((host, 9092))
        layout = response(3)[12]
        for version in (1, 12):
            data = response(3)[version].build({"brokers": [{"node_id": 1, "host": host, "port": 9092}]})
            assert [broker.host for broker in watch.escaped(data)] == [host], (layout, length)


def test_nothing_is_known_yet() -> None:
    watch = AddressWatch()
    assert watch.escaped(b"anything") == []
    watch.learn(Broker("broker", 1, "", 9092))
    assert watch.escaped(b"\x01\x00\x00\x23\x84") == []
