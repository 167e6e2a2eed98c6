"""Where ApiVersions does not name the library, it is guessed correctly or not at all.

The truth is what the same clients say in ApiVersions; for clients that never say it, it is known from how the
recordings were made.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.client_identity import client_name
from captures.analysis.clients.fingerprints import Fingerprints
from captures.analysis.clients.libraries import Library, stated_library
from captures.exchanges import Exchange, ExchangeReader, open_capture
from tests.captures.analysis.kit import exchange

DATA = Path(__file__).parents[3] / "data"
RECORDINGS = sorted(
    str(path.relative_to(DATA))
    for folder in ("clean", "groups", "questions", "captures", "findings")
    for path in (DATA / folder).glob("[0-4]*.pcap*")
    if "sweep" not in path.name and "controller" not in path.name and "interbroker" not in path.name
)
_API_VERSIONS = 18
#: prefixes of the client IDs of clients that do not name themselves, from the scripts that made the recordings
_KNOWN = {
    "kp": "kafka-python",
    "aio": "aiokafka",
    "kafkajs": "kafkajs",
    "sarama": "sarama",
    "java": "apache-kafka-java",
    "tx-java": "apache-kafka-java",
    "adm-java": "apache-kafka-java",
    "ck": "librdkafka",
    "go_segmentio": "kafka-go",
}


def read(name: str) -> tuple[Fingerprints, Fingerprints, dict[str, tuple[str | None, str | None]]]:
    """Return fingerprints with and without ApiVersions, and client ID and software by client."""
    capture = open_capture(str(DATA / name))
    capture.read()
    whole, later = Fingerprints(capture), Fingerprints()
    clients: dict[str, tuple[str | None, str | None]] = {}
    for each in ExchangeReader(capture, annotate=False, summary=False):
        software = _told(each)
        before = clients.get(client_name(each), (None, None))[1]
        clients[client_name(each)] = each.client_id, software or before
        whole.add(each)
        if each.api_key != _API_VERSIONS:
            later.add(each)
    return whole, later, clients


def _told(each: Exchange) -> str | None:
    request = each.request.value if each.request else None
    if each.api_key != _API_VERSIONS or not request or not request.get("client_software_name"):
        return None
    return f"{request['client_software_name']} {request.get('client_software_version') or ''}".strip()


def true_library(name: str, client_id: str | None, software: str | None) -> Library | None:
    if software is not None:
        return stated_library(software)
    for beginning, library in _KNOWN.items():
        if (client_id or "").startswith(beginning):
            return Library(library)
    return None


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_guess_is_right(name: str) -> None:
    whole, later, clients = read(name)
    for client, (client_id, software) in clients.items():
        true = true_library(name, client_id, software)
        if true is None:
            continue
        for fingerprints in (whole, later):
            guess = fingerprints.guess(client, client_id)
            assert guess is None or guess.name == true.name, (client, str(guess), guess and guess.why)
            if guess is not None and guess.release and true.release:
                assert within(true.release, guess.release), (client, str(guess))


def within(release: str, guessed: str) -> bool:
    """Return whether a release is in the range of release lines of a guess."""
    least, _, most = guessed.partition("-")
    low, high = _numbers(least), _numbers(most or least)
    found = _numbers(release)
    return low <= found[: len(low)] and found[: len(high)] <= high


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


@pytest.mark.parametrize(
    ("name", "client", "library"),
    [
        ("groups/36_k01011_rebalance_roundrobin.pcap.zst", "m1", "apache-kafka-java 0.10.1"),
        ("groups/34_k111_rebalance_range.pcap.zst", "m1", "apache-kafka-java 1.1"),
        ("groups/36_k231_rebalance_static.pcap.zst", "m2", "apache-kafka-java 2.3"),
        ("groups/21_k430_aio_roundrobin.pcap.zst", "m1", "aiokafka 0.14"),
        ("groups/21_k430_kafkajs.pcap.zst", "m1", "kafkajs 2.2"),
        ("groups/32_k0102_rebalance_mixed.pcap.zst", "kp", "kafka-python 1.4"),
        ("questions/32_k0102_sarama_snappy.pcap.zst", "sarama-snappy", "sarama"),
        ("groups/21_k430_franz_coop.pcap.zst", "m1", "franz-go 1.22"),
        ("groups/27_k391_java_eager_range.pcap.zst", "m1", "apache-kafka-java 3.9-4.3"),
        ("groups/21_k430_ck_static.pcap.zst", "m1", "librdkafka 2.1-2.16"),
    ],
)
def test_libraries_that_are_known_by_what_they_do(name: str, client: str, library: str) -> None:
    whole, _, clients = read(name)
    assert str(whole.guess(client, clients[client][0])) == library


def test_few_apis_are_no_fingerprint() -> None:
    fingerprints = Fingerprints()
    fingerprints.add(exchange(3, 12))
    fingerprints.add(exchange(0, 9))
    assert fingerprints.guess("app", "app") is None
    assert fingerprints.guess("nobody", None) is None


@pytest.mark.parametrize(
    ("client_id", "library"),
    [
        ("consumer-orders-1", "apache-kafka-java"),
        ("producer-3", "apache-kafka-java"),
        ("rdkafka", "librdkafka"),
        ("kafka-python-2.0.2", "kafka-python 2.0.2"),
        ("aiokafka-0.8.1", "aiokafka 0.8.1"),
        ("host@vm (github.com/segmentio/kafka-go)", "kafka-go"),
    ],
)
def test_client_ids_that_nobody_configured(client_id: str, library: str) -> None:
    guess = Fingerprints().guess(client_id, client_id)
    assert str(guess) == library
    assert guess is not None
    assert not guess.announced
    assert "by default" in guess.why


def test_signs_of_two_libraries_are_none() -> None:
    fingerprints = Fingerprints()
    request = {
        "protocols": [{"name": "RoundRobinAssigner"}],
        "reason": "beginning to manage the group lifecycle",
    }
    fingerprints.add(exchange(11, 9, request=request))
    assert fingerprints.guess("app", "app") is None


@pytest.mark.parametrize(
    "request_body", [{}, {"protocols": None}, {"topics": [None, {"partitions": [None]}]}]
)
def test_partial_bodies_do_no_harm(request_body: dict[str, object]) -> None:
    fingerprints = Fingerprints()
    for key in (8, 11, 18):
        fingerprints.add(exchange(key, 1, request=request_body, response={"api_keys": [None, {}]}))
    fingerprints.add(exchange(None, None))
    assert fingerprints.guess("app", "app") is None
