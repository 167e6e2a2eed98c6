"""The clients of recordings against the settings they were started with, and bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import traffic
from captures.analysis.client_identity import ConnectionKey
from captures.analysis.clients import client_reader
from captures.analysis.clients.client_reader import read_clients
from captures.analysis.clients.inventory import Clients
from captures.analysis.clients.settings import ValueSource
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.json_objects import to_json
from tests.captures.analysis.clients.kit_clients import DATA, RANGE, clients_of, told
from tests.captures.analysis.kit import exchange, unanswered


def settings_in_truth() -> Iterator[tuple[str, str, str, str]]:
    """Yield recording, client, setting and value, from the settings with which group members were started."""
    for path in sorted((DATA / "groups" / "truth").glob("*.json")):
        for event in json.loads(path.read_text())["events"]:
            for pair in event.get("config") or []:
                key, _, value = pair.partition("=")
                if key in _ON_THE_WIRE:
                    yield f"groups/{path.stem}.pcap.zst", event["who"], key, value


_ON_THE_WIRE = {
    "session.timeout.ms",
    "max.poll.interval.ms",
    "group.instance.id",
    "group.protocol",
    "partition.assignment.strategy",
    "group.remote.assignor",
}


@pytest.mark.sample(6)
@pytest.mark.parametrize(("name", "client", "key", "value"), sorted(set(settings_in_truth())))
def test_what_members_were_started_with(name: str, client: str, key: str, value: str) -> None:
    # Kafka Streams names its consumers after itself
    mine = [each for each in clients_of(name) if each == client or each.startswith(f"{client}-StreamThread")]
    settings = [told(clients_of(name)[each])[key] for each in mine if each.endswith(("consumer", client))]
    seen = {each.text for each in settings} | {text for each in settings for text, _ in each.other_values}
    # some were restarted with other settings
    assert value in seen
    assert all(each.setting.how is ValueSource.READ and each.setting.evidence for each in settings)


def test_a_java_consumer() -> None:
    client = clients_of(RANGE)["m1"]
    assert str(client.library) == "apache-kafka-java 3.9.1"
    assert client.library is not None
    assert client.library.announced
    assert client.roles == ["consumer"]
    assert (client.hosts, client.connections, client.exchanges) == (["127.0.0.1"], 3, 160)
    settings = told(client)
    assert settings["session.timeout.ms"].text == "6000"
    assert settings["session.timeout.ms"].default == "45000"
    assert settings["session.timeout.ms"].changed
    assert settings["fetch.max.wait.ms"].changed is False
    assert settings["group.protocol"].text == "classic"
    assert settings["heartbeat.interval.ms"].setting.how is ValueSource.ESTIMATED
    assert settings["sasl.mechanism"].setting.how is ValueSource.NOT_SEEN
    assert settings["sasl.mechanism"].setting.note


def test_evidence_is_of_exchanges_that_show_the_value() -> None:
    capture = open_capture(str(DATA / RANGE))
    capture.read()
    by_number = {each.number: each for each in ExchangeReader(capture, annotate=False, summary=False)}
    for number in told(clients_of(RANGE)["m1"])["session.timeout.ms"].setting.evidence:
        request = by_number[number].request
        assert request is not None
        assert request.value is not None
        assert request.value["session_timeout_ms"] == 6000


def test_a_producer_without_acks() -> None:
    client = next(
        each for each in clients_of("clean/20_k430_java_acks0.pcap.zst").values() if "producer" in each.roles
    )
    acks = told(client)["acks"]
    assert (acks.text, acks.changed) == ("0", True)
    assert "no error" in acks.danger


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "codec"),
    [("clean/20_k430_java_zstd.pcap.zst", "zstd"), ("clean/20_k430_sarama_gzip.pcap.zst", "gzip")],
)
def test_compression(name: str, codec: str) -> None:
    producers = [each for each in clients_of(name).values() if "producer" in each.roles]
    assert [told(each)["compression.type"].text for each in producers] == [codec]


def test_principals_and_mechanisms() -> None:
    client = clients_of("captures/24_k430_franz_scramsha256.pcap")["franz-pc"]
    assert client.principals == ["admin (SCRAM-SHA-256)"]
    settings = told(client)
    assert settings["sasl.mechanism"].name == "SASL"
    assert settings["security.protocol"].text == "SASL_PLAINTEXT"


def test_raw_sasl_tokens_count_for_the_client_of_their_connection() -> None:
    clients = clients_of("captures/35_k282_sasl_plain.pcap.zst")
    assert clients["kp-c"].principals == ["alice (PLAIN)"]
    assert "in the clear" in told(clients["kp-c"])["security.protocol"].danger


def test_what_brokers_decide_is_not_the_clients() -> None:
    settings = told(clients_of("captures/21_k430_kip848_java.pcap.zst")["m1"])
    assert settings["group.protocol"].text == "consumer"
    assert settings["session.timeout.ms"].setting.note == "brokers decide it for such groups"


def test_kafka_streams_commits_by_its_own_timer() -> None:
    clients = clients_of("groups/21_k430_streams_classic.pcap.zst")
    consumer = next(each for name, each in clients.items() if name.endswith("StreamThread-1-consumer"))
    assert consumer.roles == ["streams"]
    settings = told(consumer)
    assert settings["commit.interval.ms"].text == "1000"
    assert settings["enable.auto.commit"].setting.how is ValueSource.NOT_SEEN


def test_replicas_are_no_consumers() -> None:
    clients = clients_of("captures/31_k0901_cluster2.pcap")
    fetcher = next(each for name, each in clients.items() if "ReplicaFetcher" in name)
    assert fetcher.roles == ["replica"]
    assert "fetch.min.bytes" not in told(fetcher)


@pytest.mark.parametrize("name", [RANGE, "clean/26_k430_steady_clients.pcap.zst"])
def test_reading_some_of_it_tells_what_reading_all_does(name: str) -> None:
    capture = open_capture(str(DATA / name))
    capture.read()
    every = Clients(capture)
    for each in ExchangeReader(capture, annotate=False, summary=False):
        every.add(each)
    some = clients_of(name)
    for client in every.result():
        other = some[client.name]
        assert (
            client.exchanges,
            client.connections,
            client.first,
            client.last,
            client.roles,
            client.library,
        ) == (
            other.exchanges,
            other.connections,
            other.first,
            other.last,
            other.roles,
            other.library,
        )
        assert {
            key: each.text for key, each in told(client).items() if each.setting.how is ValueSource.READ
        } == {key: each.text for key, each in told(other).items() if each.setting.how is ValueSource.READ}


def test_most_of_what_goes_on_and_on_is_only_counted() -> None:
    capture = open_capture(str(DATA / RANGE))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    looked_into = list(read_clients(reader, Clients(capture)))
    assert 0 < len(looked_into) < len(reader)
    assert sum(client.exchanges for client in clients_of(RANGE).values()) == len(reader)


@pytest.mark.parametrize("name", [RANGE, "tiny"])
def test_requests_that_repeat_others_count_as_if_read_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if name == "tiny":
        traffic.write(tmp_path / name, traffic.tiny, 3)
    capture = open_capture(str(tmp_path / name if name == "tiny" else DATA / name))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    together, single = Clients(capture), Clients(capture)
    numbers = list(read_clients(reader, together))
    monkeypatch.setattr(client_reader, "_repeated", lambda _, rows, __: np.zeros(len(rows), np.bool_))
    assert list(read_clients(reader, single)) == numbers
    assert together.result() == single.result()


def test_the_result_may_be_asked_for_again() -> None:
    clients = Clients()
    for number in range(1, 6):
        clients.add(exchange(12, 4, number=number, time=number * 3_000_000_000))
        clients.result()
    first, again = clients.result(), clients.result()
    assert first == again
    assert told(first[0])["security.protocol"].text == "PLAINTEXT"


def test_what_is_only_counted() -> None:
    clients = Clients()
    clients.add(exchange(0, 9, time=5, number=2))
    clients.count(ConnectionKey(0, "10.0.0.9:4000", "10.0.0.1:9092"), "app", 7, 3, 9_000_000_000, 40)
    (client,) = clients.result()
    assert (client.exchanges, client.connections, client.first, client.last) == (8, 1, 3, 9_000_000_000)


BROKEN: list[dict[str, object]] = [
    {},
    {"topics": None, "topic_data": None, "protocols": None},
    {"topics": [None], "topic_data": [None], "protocols": [None]},
    {
        "topics": [{"partitions": [None]}],
        "topic_data": [{"partition_data": [None, {"records": b"\xff" * 90}]}],
    },
    {"acks": None, "session_timeout_ms": None, "isolation_level": 9, "client_software_name": None},
    {"rack_id": None, "group_id": None, "transactional_id": None, "allow_auto_topic_creation": None},
]


@pytest.mark.parametrize("request_body", BROKEN)
@pytest.mark.parametrize("key", [0, 1, 3, 8, 10, 11, 12, 18, 22, 36, 68, 76, 88])
def test_broken_bodies_do_no_harm(key: int, request_body: dict[str, object]) -> None:
    clients = Clients()
    bad: list[Exchange] = [
        exchange(key, 9, request=request_body, response=request_body),
        exchange(key, 9),
        unanswered(key, 9, request=request_body),
        exchange(None, None, client_id=None),
    ]
    for each in bad:
        clients.add(each)
    (client,) = clients.result()
    assert client.name == "app"
    assert client.exchanges == len(bad)
    assert to_json(client)["settings"]


def test_who_only_administers_and_who_is_a_broker() -> None:
    admin = clients_of("findings/24_k430_java_admin_sasl.pcap.zst")
    assert admin["adm-java"].roles == ["admin"]
    brokers = clients_of("findings/35_k282_cluster.pcap.zst")
    assert {tuple(each.roles) for name, each in brokers.items() if "-fetcher-" in name} == {("replica",)}
    assert brokers["1"].roles == ["broker"]


def test_a_share_consumer_has_the_settings_of_one() -> None:
    clients = clients_of("captures/21_k430_share_group.pcap.zst")
    member = next(each for each in clients.values() if each.roles == ["share consumer"])
    settings = told(member)
    assert settings["fetch.max.wait.ms"].text == "500"
    assert settings["group.id"].setting.how is ValueSource.READ
    assert "group.protocol" not in settings
    assert "auto.commit.interval.ms" not in settings
