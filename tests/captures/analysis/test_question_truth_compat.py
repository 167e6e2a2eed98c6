"""Verdicts of ``kproxy compat`` on clients and broker releases, against what brokers of these releases really did.

The same release of a client was recorded with brokers of several releases. From each of its recordings, the verdict
on each other release is compared with the versions answered in the recording of that release.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from captures.exchanges import ExchangeReader, open_capture
from kproxy.cli import main
from tests.captures.analysis.question_truth import OLD, truth

DATA = Path(__file__).resolve().parents[2] / "data"

#: client and release -> broker release -> recording, and the client ID in it
RECORDED = {
    "apache-kafka-java 0.8.2.2": {
        "0.8.2": ("captures/30_k0822_java_lz4.pcap", "java-lz4"),
        "2.8": ("questions/35_k282_down_0822.pcap.zst", "java-lz4"),
    },
    "apache-kafka-java 0.9.0.1": {
        "0.9.0": ("clean/31_k0901_java_lz4.pcap.zst", "java-cons"),
        "1.1": ("questions/34_k111_down_0901.pcap.zst", "java-cons"),
    },
    "apache-kafka-java 0.10.2.2": {
        "0.10.2": ("clean/32_k0102_java_lz4.pcap.zst", "java-cons"),
        "0.11.0": ("questions/33_k0110_down_01022.pcap.zst", "java-cons"),
    },
    "librdkafka 2.16.0": {
        "0.10.2": ("groups/32_k0102_rebalance_mixed.pcap.zst", "rdk"),
        "0.11.0": ("groups/33_k0110_rebalance_mixed.pcap.zst", "rdk"),
        "2.8": ("groups/35_k282_rebalance_mixed.pcap.zst", "rdk"),
        "3.9": ("clean/27_k391_ck_lz4.pcap.zst", ""),
        "4.3": ("clean/20_k430_ck_lz4.pcap.zst", ""),
    },
    "kafka-python 3.0.12": {
        "3.9": ("clean/27_k391_kp_zstd.pcap.zst", ""),
        "4.1": ("clean/20_k411_kp_zstd.pcap.zst", ""),
        "4.3": ("clean/20_k430_kp_gzip.pcap.zst", ""),
    },
    "kafkajs 2.2.4": {
        "1.1": ("questions/34_k111_kafkajs.pcap.zst", "kafkajs-gzip"),
        "2.8": ("questions/35_k282_kafkajs.pcap.zst", "kafkajs-gzip"),
        "4.3": ("clean/20_k430_kafkajs_none.pcap.zst", "kafkajs-none"),
    },
}
PAIRS = [
    pytest.param(client, before, after, id=f"{client} {before} to {after}".replace(" ", "_"))
    for client, recorded in RECORDED.items()
    for before, after in permutations(recorded, 2)
]


@cache
def answered(recording: str, client_id: str) -> dict[str, int]:
    """Return the highest version of each API that the broker answered for a client without refusing the version."""
    capture = open_capture(str(DATA / recording))
    capture.read()
    highest: dict[str, int] = defaultdict(lambda: -1)
    for exchange in ExchangeReader(capture, annotate=False, summary=False):
        refused = any(each.code == 35 for each in exchange.errors)
        if client_id in (exchange.client_id, "") and exchange.latency is not None and not refused:
            assert exchange.version is not None
            highest[exchange.api] = max(highest[exchange.api], exchange.version)
    return dict(highest)


@cache
def verdicts(recording: str, client_id: str, release: str) -> dict[str, dict[str, Any]]:
    """Return the verdict on each API of a client."""
    arguments = ["compat", str(DATA / recording), "--broker-version", release, "--json"]
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code in (0, 3), ran.output
    clients = json.loads(ran.stdout)["clients"]
    return {api["api"]: api for each in clients if client_id in (each["client"], "") for api in each["apis"]}


@pytest.mark.sample(12)
@pytest.mark.parametrize(("client", "before", "after"), PAIRS)
def test_what_a_broker_answered_is_not_said_to_be_refused_and_the_version_is_right(client, before, after):
    told = verdicts(*RECORDED[client][before], after)
    really, was = answered(*RECORDED[client][after]), answered(*RECORDED[client][before])
    common = set(told) & set(really) - {"ApiVersions"}
    assert len(common) >= 2
    for api in sorted(common):
        each = told[api]
        assert each["verdict"] in ("served", "older", "unknown"), (api, each, really[api])
        if each["verdict"] == "older":
            assert was[api] > really[api] == each["would_use"], (api, each)
        elif each["verdict"] == "served":
            assert was[api] <= really[api], (api, each)
            # if the previous broker had no higher version, the client's maximum is unknown
            assert each["would_use"] in (None, really[api]) or "higher" in each["sentence"], (api, each)


#: release of the Java client -> a recording with a broker of about the same age, client IDs of its producer and
#: consumer
OF_THEIR_TIME = {
    "0.9.0.1": ("clean/31_k0901_java_lz4.pcap.zst", "java-lz4", "java-cons"),
    # a newer broker, which shows the client's highest versions
    "0.10.2.2": ("questions/33_k0110_down_01022.pcap.zst", "java-lz4", "java-cons"),
    "1.1.1": ("clean/34_k111_java_none.pcap.zst", "java-none", "java-cons"),
    "2.1.1": ("questions/36_k211_java.pcap.zst", "java-gzip", "java-cons"),
}


@pytest.mark.parametrize("release", OF_THEIR_TIME)
def test_old_clients_are_refused_by_4_3_where_they_really_were(release):
    recording, *clients = OF_THEIR_TIME[release]
    events = truth(OLD).events
    happened = {each["what"] for each in events if each["who"] == f"java-{release}"}
    for client, done in zip(clients, ("delivered", "received"), strict=True):
        told = verdicts(recording, client, "4.3")
        refused = {api for api, each in told.items() if each["verdict"] == "refused"}
        assert told
        assert bool(refused) is (done not in happened), (client, refused)


@pytest.mark.sample(1)
@pytest.mark.parametrize("release", OF_THEIR_TIME)
def test_at_4_3_itself_what_is_said_to_be_refused_is_what_was_not_answered(release):
    recording = truth(OLD).path
    for client in (f"java-{release}-maker", f"java-{release}-taker"):
        told = verdicts(recording, client, "4.3")
        refused = {api for api, each in told.items() if each["verdict"] == "refused"}
        assert told
        assert refused == set(told) - set(answered(recording, client))
