"""Metrics over HTTP, read by the parsers of the official client library."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from captures.analysis.api_stats import ApiStats
from captures.analysis.error_stats import ErrorStats
from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from captures.interventions import UpstreamBroker
from captures.meaning import errors_in
from dissectors.frames import Body
from kproxy.proxy.metrics import Metrics, MetricsError

pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")

from prometheus_client import generate_latest
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

REPOSITORY = Path(__file__).parents[3]
REBALANCE = REPOSITORY / "captures" / "samples" / "rebalance.pcap"
RECORDED = REPOSITORY / "tests" / "data" / "captures"
MS = 1_000_000

STATUS: dict[str, Any] = {
    "pid": 1,
    "forwarding": True,
    "connections": {"open": 3, "total": 10, "refused": 1, "unreachable": 2},
    "requests_in_flight": 4,
    "bytes": {"from_clients": 100, "from_brokers": 200},
    "brokers": 5,
    "rewritten_responses": 6,
    "escaped_addresses": 7,
    "refused_brokers": 12,
    "uninspected_frames": 13,
    "recording": {
        "on": True,
        "up": True,
        "restarts": 14,
        "gaps": 15,
        "dropped_bytes": 8,
        "dropped_connections": 9,
        "waiting_bytes": 11,
    },
    "rules": {'api == Produce and topic ~ "x\\y"\n => delay 200ms': 12},
}

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    """Metrics of a run that has just started."""
    made = Metrics(lambda _: None, topics=2, clients=2)
    yield made
    made.close()


def series(text: str) -> Series:
    """Return the samples of a scrape. To Prometheus, an empty label is the same as none."""
    return {
        (
            sample.name,
            frozenset(each for each in sample.labels.items() if each[1] or each[0] == "client_id"),
        ): sample.value
        for family in prometheus(text)
        for sample in family.samples
    }


def scraped(metrics: Metrics) -> Series:
    """Return all samples, as Prometheus reads them."""
    strict, _ = choose_encoder("application/openmetrics-text; version=1.0.0")
    list(openmetrics(strict(metrics.registry).decode()))  # raises on violations of the standard
    return series(generate_latest(metrics.registry).decode())


def value(found: Series, name: str, **labels: str) -> float | None:
    return found.get((f"kproxy_{name}", frozenset(labels.items())))


def exchange(
    api_key: int = 3, client_id: str | None = "app", latency: int | None = 2 * MS, **more: Any
) -> Exchange:
    values: dict[str, Any] = {
        "number": 1,
        "row": 0,
        "connection": 0,
        "client": "10.0.0.1:40000",
        "broker": "10.0.0.2:9092",
        "version": 9,
        "correlation_id": 1,
        "time": 0,
        "request_size": 100,
        "response_size": 1000,
        "flag": Flag(0),
        "request": None,
        "response": None,
    }
    return Exchange(api_key=api_key, client_id=client_id, latency=latency, **(values | more))


def body(value: dict[str, Any]) -> Body:
    """Return a body of Produce v9."""
    return Body(0, 9, 9, {}, value, 0, b"")


def produce(topic: str) -> Exchange:
    value = {"topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": None}]}]}
    return exchange(0, request=body(value))


# ---------------------------------------------------------------- exchanges
@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [REBALANCE, RECORDED / "36_k251_sweep.pcap.zst", RECORDED / "01_mock_java_throttle_bug.pcap"]
)
def test_a_recorded_conversation(path: Path) -> None:
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture)
    metrics = Metrics(reader.knowledge.topic_name)
    apis, errors = ApiStats(), ErrorStats()
    requests: Counter[tuple[str, str]] = Counter()
    for each in reader:
        metrics.observe(each)
        apis.add(each)
        errors.add(each)
        if each.request_size:
            requests[each.api, each.client_id or ""] += 1
    found = scraped(metrics)
    assert requests
    for (api, client_id), count in requests.items():
        assert value(found, "requests_total", api=api, client_id=client_id) == count

    def total(name: str, api: str) -> float:
        wanted = ("api", api)
        return sum(number for (each, labels), number in found.items() if each == name and wanted in labels)

    for api in {row.api for row in apis.result() if row.api != "unknown"}:
        rows = [row for row in apis.result() if row.api == api]
        assert total("kproxy_request_bytes_total", api) == sum(row.request_bytes for row in rows)
        assert total("kproxy_response_bytes_total", api) == sum(row.response_bytes for row in rows)
        assert total("kproxy_unanswered_requests_total", api) == sum(row.unanswered for row in rows)
        times = [row.broker_time for row in rows if row.broker_time is not None]
        assert total("kproxy_response_time_seconds_count", api) == sum(each.count for each in times)
        waits = [row.waited for row in rows if row.waited is not None]
        assert total("kproxy_designed_wait_seconds_count", api) == sum(each.count for each in waits)
    counted = Counter[tuple[str, str, str]]()
    for (name, labels), number in found.items():
        if name == "kproxy_errors_total":
            named = dict(labels)
            counted[named["api"], named["error"], named["expected"]] += int(number)
    assert counted == {
        (row.api, row.name, str(row.expected).lower()): row.exchanges for row in errors.result()
    }


def test_brokers_and_clusters_are_apart(metrics: Metrics) -> None:
    for cluster, node_id in (("east", 1), ("west", 1), ("west", 2), ("west", None)):
        metrics.observe(exchange(upstream=UpstreamBroker(cluster=cluster, node_id=node_id)))
    found = scraped(metrics)
    labels = {"api": "Metadata", "client_id": "app"}
    for cluster, brokers in (("east", ("1",)), ("west", ("1", "2", ""))):
        for broker in brokers:
            named = {"broker": broker} if broker else {}
            assert value(found, "requests_total", cluster=cluster, **named, **labels) == 1


def test_latencies_fall_into_buckets(metrics: Metrics) -> None:
    for latency in (MS // 4, 2 * MS, 40_000 * MS):
        metrics.observe(exchange(latency=latency))
    metrics.observe(exchange(latency=None))
    found = scraped(metrics)
    labels = {"api": "Metadata", "client_id": "app"}
    assert value(found, "response_time_seconds_bucket", le="0.0005", **labels) == 1
    assert value(found, "response_time_seconds_bucket", le="0.0025", **labels) == 2
    assert value(found, "response_time_seconds_bucket", le="30.0", **labels) == 2
    assert value(found, "response_time_seconds_bucket", le="+Inf", **labels) == 3
    assert value(found, "response_time_seconds_sum", **labels) == pytest.approx(40.00225)
    assert value(found, "requests_total", **labels) == 4


def test_waits_by_design_are_apart(metrics: Metrics) -> None:
    metrics.observe(exchange(1, latency=500 * MS, wait=500 * MS))  # a long poll that timed out
    metrics.observe(exchange(1, latency=503 * MS, wait=500 * MS))
    found = scraped(metrics)
    labels = {"api": "Fetch", "client_id": "app"}
    assert value(found, "response_time_seconds_count", **labels) == 1
    assert value(found, "response_time_seconds_sum", **labels) == pytest.approx(0.003)
    assert value(found, "designed_wait_seconds_count", api="Fetch") == 2
    assert value(found, "designed_wait_seconds_sum", api="Fetch") == pytest.approx(1.0)


def test_clients_and_topics_are_bounded(metrics: Metrics) -> None:
    for number in range(1000):
        metrics.observe(exchange(client_id=f"app-{number}"))
        metrics.observe(produce(f"orders-{number}"))
    found = scraped(metrics)
    clients = {dict(labels)["client_id"] for name, labels in found if name == "kproxy_requests_total"}
    assert clients == {"app-0", "app", "other"}
    assert value(found, "requests_total", api="Metadata", client_id="other") == 999
    topics = {dict(labels)["topic"] for name, labels in found if name == "kproxy_topic_requests_total"}
    assert topics == {"orders-0", "orders-1", "other"}
    assert value(found, "topic_requests_total", api="Produce", topic="other") == 998
    assert value(found, "topic_response_time_seconds_count", api="Produce", topic="orders-0") == 1


def test_what_clients_choose_is_bounded_and_escaped(metrics: Metrics) -> None:
    metrics.observe(exchange(client_id='a"\\\n\ud800' + "b" * 40_000))
    metrics.observe(exchange(client_id=None))
    for key in (1000, 12_345, 32_767):
        metrics.observe(exchange(key, client_id=None))
    found = scraped(metrics)
    assert value(found, "requests_total", api="Metadata", client_id='a"\\\n?' + "b" * 244) == 1
    assert value(found, "requests_total", api="Metadata", client_id="") == 1
    assert value(found, "requests_total", api="unknown", client_id="") == 3


def test_errors_of_topics(metrics: Metrics) -> None:
    topics = {"orders": [3, 3, 0], "users": [0], "none": [6]}
    asked = {"topic_data": [{"name": name, "partition_data": []} for name in topics]}
    told = {
        "responses": [
            {
                "name": name,
                "partition_responses": [{"index": at, "error_code": code} for at, code in enumerate(codes)],
            }
            for name, codes in topics.items()
        ]
    }
    errors = errors_in(0, 9, told)
    assert len(errors) == 3
    metrics.observe(exchange(0, request=body(asked), response=body(told), errors=errors))
    metrics.observe(exchange(0, request=body(asked), response=body(told), errors=errors, expected=errors))
    found = scraped(metrics)
    of_topics = {
        labels: number for (name, labels), number in found.items() if name == "kproxy_topic_errors_total"
    }
    labels = {"api": "Produce", "topic": "orders", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert value(found, "topic_errors_total", **labels) == 1
    assert (
        value(found, "topic_errors_total", **labels | {"topic": "other", "error": "NOT_LEADER_OR_FOLLOWER"})
        == 1
    )
    assert len(of_topics) == 2
    of_all = {"api": "Produce", "client_id": "app", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert value(found, "errors_total", expected="false", **of_all) == 1
    assert value(found, "errors_total", expected="true", **of_all) == 1


def test_topics_by_their_ids() -> None:
    capture = open_capture(str(RECORDED / "22_k430_java_commit_abort.pcap"))  # Produce v13: topic IDs
    capture.read()
    reader = ExchangeReader(capture)
    metrics = Metrics(reader.knowledge.topic_name)
    for each in reader:
        metrics.observe(each)
    topics = {
        dict(labels)["topic"] for name, labels in scraped(metrics) if name == "kproxy_topic_requests_total"
    }
    assert topics == {"tw1"}


def test_a_response_without_its_request_is_not_counted(metrics: Metrics) -> None:
    metrics.observe(exchange(request_size=0, latency=None, flag=Flag.ORPHAN))
    assert scraped(metrics) == {}


# ---------------------------------------------------------------- status
def test_what_the_data_plane_tells(metrics: Metrics) -> None:
    metrics.update(STATUS)
    found = scraped(metrics)
    assert value(found, "forwarding") == 1
    assert value(found, "connections") == 3
    assert value(found, "connections_accepted_total") == 10
    assert value(found, "connections_refused_total") == 1
    assert value(found, "connections_unreachable_total") == 2
    assert value(found, "requests_in_flight") == 4
    assert value(found, "received_bytes_total", sender="client") == 100
    assert value(found, "received_bytes_total", sender="broker") == 200
    assert value(found, "brokers") == 5
    assert value(found, "rewritten_responses_total") == 6
    assert value(found, "escaped_addresses_total") == 7
    assert value(found, "refused_brokers_total") == 12
    assert value(found, "uninspected_frames_total") == 13
    assert value(found, "tee_dropped_bytes_total") == 8
    assert value(found, "tee_dropped_connections_total") == 9
    assert value(found, "recording_up") == 1
    assert value(found, "recording_restarts_total") == 14
    assert value(found, "recording_gaps_total") == 15
    assert value(found, "tee_waiting_bytes") == 11
    rule = next(iter(STATUS["rules"]))
    assert value(found, "fault_applications_total", rule=rule) == 12
    assert (value(found, "status_timestamp_seconds") or 0) > 1.7e9


def test_the_newest_status_counts(metrics: Metrics) -> None:
    metrics.update(STATUS)
    metrics.update({"connections": {"open": 1}, "recording": {"on": False}})
    found = scraped(metrics)
    assert value(found, "connections") == 1
    assert value(found, "brokers") is None
    assert value(found, "tee_dropped_bytes_total") is None


# ---------------------------------------------------------------- serving
@pytest.mark.slow
def test_a_scrape(metrics: Metrics) -> None:
    metrics.observe(exchange())
    host, port = metrics.start("", 0)
    assert host == "127.0.0.1"
    with urlopen(f"http://{host}:{port}/metrics") as response:
        found = series(response.read().decode())
    assert value(found, "requests_total", api="Metadata", client_id="app") == 1
    metrics.close()
    with pytest.raises(URLError):
        urlopen(f"http://{host}:{port}/metrics")


def test_nothing_yet(metrics: Metrics) -> None:
    assert scraped(metrics) == {}


def test_the_process_has_no_metrics_of_others(metrics: Metrics) -> None:
    metrics.update(STATUS)
    metrics.observe(exchange())
    assert all(name.startswith("kproxy_") for name, _ in scraped(metrics))
    assert not any(name.endswith("_created") for name, _ in scraped(metrics))


@pytest.mark.slow
@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", r"\[::1\]")])
def test_a_port_that_is_taken(metrics: Metrics, host: str, shown: str) -> None:
    _, port = metrics.start(host, 0)
    other = Metrics(lambda _: None)
    with pytest.raises(MetricsError, match=f"cannot serve metrics on {shown}:{port}: Address already in use"):
        other.start(host, port)
    other.close()


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MetricsError, match=re.escape("pip install 'kproxy[metrics]'")):
        Metrics(lambda _: None)


def test_all_of_them_are_documented(metrics: Metrics) -> None:
    metrics.update(STATUS)
    metrics.observe(exchange(1, latency=503 * MS, wait=500 * MS))
    names = {family.name for family in metrics.registry.collect()}
    kinds = {family.name: family.type for family in metrics.registry.collect()}
    text = (REPOSITORY / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(kproxy_\w+)`", text, re.MULTILINE))
    assert documented == {f"{name}_total" if kinds[name] == "counter" else name for name in names}
