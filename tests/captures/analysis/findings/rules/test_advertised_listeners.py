"""Advertised addresses that clients cannot reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.connections import AdvertisedListeners, UnreachableBrokers
from captures.packets import ACK, RST, SYN
from tests.captures.analysis.findings.cluster_kit import (
    MS,
    Conversation,
    capture_of,
    of_capture,
    of_exchanges,
    of_recording,
    spoken,
)
from tests.dissectors.conversation import streams

METADATA, FIND_COORDINATOR = 3, 10
ASKED = streams.request(1, b"\0\0\0\0", key=3, version=1, client_id="app")  # Metadata v1 without topics


def brokers(host: str, port: int) -> bytes:
    """A Metadata v1 response with one broker: id 1, host, port, no rack; controller 1, no topics."""
    broker = (
        b"\0\0\0\1" + len(host).to_bytes(2, "big") + host.encode() + port.to_bytes(4, "big") + b"\xff\xff"
    )
    return streams.response(1, b"\0\0\0\1" + broker + b"\0\0\0\1" + b"\0\0\0\0")


def bootstrap(host: str, port: int) -> Conversation:
    """A client asks 10.0.0.2:9092 for the brokers."""
    made = Conversation()
    made.handshake()
    made.send(0, ASKED)
    made.send(0, brokers(host, port), ack=len(ASKED), from_client=False)
    return made


def attempt(port: int, answer: int, broker: str = "10.0.0.3", now: int = 0) -> Conversation:
    """A SYN and its answer; 0 for no answer."""
    made = Conversation(client=("10.0.0.1", 41_000 + now), broker=(broker, port))
    made.now += (10 + now) * MS
    made.put(True, -1, 0, SYN)
    if answer:
        made.put(False, -1 if answer & SYN else 0, 0, answer)
    return made


def found_in(folder: Path, *conversations: Conversation, rule=AdvertisedListeners):
    late = Conversation(client=("10.0.0.9", 50_000))
    late.now += 10_000 * MS
    late.handshake()  # the capture continues ten seconds later
    records = [record for each in (*conversations, late) for record in each.records]
    return of_capture(capture_of(folder, sorted(records, key=lambda record: record.time)), rule)


def test_localhost_told_to_another_host(tmp_path: Path) -> None:
    (found, *_) = found_in(tmp_path, bootstrap("localhost", 9092))
    assert found.severity == Severity.HIGH
    assert found.subject == "address localhost:9092"
    assert "app at 10.0.0.1 cannot reach it" in found.sentence


def test_localhost_on_the_same_host_is_no_trouble() -> None:
    response = {"brokers": [{"node_id": 1, "host": "localhost", "port": 9092}]}
    local = {"client": "127.0.0.1:4000", "broker": "127.0.0.1:9092"}
    same = {"client": "10.0.0.1:4000", "broker": "10.0.0.1:9092"}
    for ends in (local, same):
        found = of_exchanges(AdvertisedListeners, spoken(METADATA, 12, {}, response, **ends))
        assert not [each for each in found if each.severity > Severity.LOW]


@pytest.mark.parametrize(
    ("answer", "how", "severity"),
    [(RST | ACK, "was refused", Severity.MEDIUM), (0, "was not answered", Severity.HIGH)],
)
def test_an_advertised_address_that_cannot_be_reached(
    tmp_path: Path, answer: int, how: str, severity: Severity
) -> None:
    conversations = bootstrap("10.0.0.3", 9093), attempt(9093, answer)
    (found,) = found_in(tmp_path, *conversations)
    assert (found.severity, found.subject) == (severity, "address 10.0.0.3:9093")
    assert found.sentence.endswith(f"the attempt to connect to it {how}.")
    assert found.evidence == (1,)
    # it is reported once
    assert not found_in(tmp_path, *conversations, rule=UnreachableBrokers)


def test_addresses_that_are_reached_are_fine(tmp_path: Path) -> None:
    assert not found_in(tmp_path, bootstrap("10.0.0.3", 9093), attempt(9093, SYN | ACK))
    assert not found_in(tmp_path, bootstrap("10.0.0.2", 9092))


def test_addresses_to_which_nobody_goes(tmp_path: Path) -> None:
    (found,) = found_in(tmp_path, bootstrap("10.99.0.1", 9093))
    assert found.severity == Severity.LOW
    assert "are directed to 10.99.0.1:9093, and the capture shows no connection to that" in found.sentence
    # a name may resolve to any host
    assert not found_in(tmp_path, bootstrap("kafka-1.example", 9092))


def test_coordinators_are_told_too() -> None:
    old = {"node_id": 2, "host": "127.0.0.1", "port": 9092}
    for version, response in ((3, old), (4, {"coordinators": [old]})):
        found = of_exchanges(AdvertisedListeners, spoken(FIND_COORDINATOR, version, {}, response))
        assert found[0].sentence.startswith(
            "Broker 2 is advertised as 127.0.0.1:9092, which means the client's own host"
        )


def test_a_broker_that_is_killed_refuses_connections() -> None:
    # SIGKILL of the only broker under two clients
    (found,) = of_recording("25_k430_broker_sigkill", UnreachableBrokers)
    assert found.severity == Severity.HIGH
    assert found.count == 235
    assert found.connections
    assert "none was accepted after that" in found.sentence
    assert (
        of_recording("25_k430_broker_sigkill", UnreachableBrokers, lasting=60_000)[0].severity
        == Severity.MEDIUM
    )
    assert not of_recording("25_k430_broker_sigkill", AdvertisedListeners)


def test_brokers_that_are_starting_are_no_trouble() -> None:
    # two brokers from start to stop; broker 2 stops first
    starting, stopped = of_recording("31_k0901_cluster2", UnreachableBrokers)
    assert (stopped.subject, stopped.severity) == ("broker 127.0.0.1:20921", Severity.HIGH)
    assert (starting.subject, starting.severity) == ("broker 127.0.0.1:20920", Severity.LOW)


def test_an_address_of_localhost_at_which_nobody_listens_is_no_trouble(tmp_path: Path) -> None:
    # clients try all addresses of a name: ::1, then 127.0.0.1
    other = attempt(9092, SYN | ACK, "10.0.0.4", 5)
    (found,) = found_in(tmp_path, attempt(9092, RST | ACK), other, rule=UnreachableBrokers)
    assert found.severity == Severity.LOW
    (found,) = found_in(tmp_path, attempt(9093, RST | ACK), rule=UnreachableBrokers)
    assert found.severity == Severity.MEDIUM
