"""Metrics of a proxy run, for Prometheus (docs/metrics.md).

The front process computes them, because it decodes anyway; forwarding is not involved. They count exchanges passed to
:meth:`Metrics.observe`, and the data plane's reports passed to :meth:`Metrics.update`. The number of time series is
bounded: the first clients, topics and brokers have series of their own, the rest share ``other``.

Needs the package prometheus-client, imported when a :class:`Metrics` is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from captures.analysis.throttling import Throttles
from captures.exchanges import Exchange, Flag
from captures.meaning import Names, ResponseError, topic_partitions, topics_in
from captures.meaning.waits import LEAST_WAIT_NS
from dissectors.api_keys import ApiKey
from dissectors.apis import NAMES, api_name
from dissectors.error_codes import BY_CODE
from dissectors.sides import Side
from kproxy.addresses import LOOPBACK, Address, address_text

if TYPE_CHECKING:
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import Counter, Histogram, Summary
    from prometheus_client.metrics_core import Metric


OTHER = "other"
UNKNOWN = "unknown"
DEFAULT_TOPICS = 100
DEFAULT_CLIENTS = 100
DEFAULT_BROKERS = 100
_LONGEST_LABEL = 249  # the longest topic name (Topic.java)
_SECOND = 1e9

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: from a produce request beside the broker to the client's request timeout."""

_TOPIC_SIDES: dict[int, Side] = {
    ApiKey.PRODUCE: "request",
    ApiKey.FETCH: "response",
    ApiKey.SHARE_FETCH: "response",
    ApiKey.SHARE_ACKNOWLEDGE: "request",
}
"""API key -> message that names its topics. Fetch requests name only changes of the session (KIP-227)."""


class MetricsError(Exception):
    """Metrics cannot be served; the message says why, and what to do."""


class Metrics:
    """Metrics of one run, in a registry of its own.

    :param names: returns the name of a topic ID, such as ``reader.knowledge.topic_name``
    :param topics: number of topics with series of their own
    :param clients: number of client IDs with series of their own
    :raises MetricsError: if prometheus-client is not installed
    """

    def __init__(self, names: Names, *, topics: int = DEFAULT_TOPICS, clients: int = DEFAULT_CLIENTS) -> None:
        try:
            import prometheus_client  # an extra
        except ImportError:
            raise MetricsError(
                "metrics need the package prometheus-client: pip install 'kproxy[metrics]'"
            ) from None
        # else each counter and histogram gets a second series with its time of creation
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus_client.CollectorRegistry()
        self._exchanges = _ExchangeMetrics(self.registry, names, topics, clients)
        self._status = _StatusCollector()
        self.registry.register(self._status)
        self._server: WSGIServer | None = None
        self._thread: Thread | None = None

    def observe(self, exchange: Exchange) -> None:
        """Count an exchange. Exchanges must be passed in order of their numbers."""
        self._exchanges.observe(exchange)

    def update(self, status: dict[str, Any]) -> None:
        """Replace the data plane's last report.

        :param status: the answer to the command ``status`` (docs/ctl.md)
        """
        self._status.report = _Report(status, time())

    def start(self, host: str, port: int) -> Address:
        """Serve the metrics over HTTP, in a thread; return the address.

        :param host: empty for loopback
        :param port: 0 lets the system choose
        :raises MetricsError: if the address cannot be listened on
        """
        from prometheus_client import start_http_server

        host = host or LOOPBACK
        try:
            self._server, self._thread = start_http_server(port, host, self.registry)
        except OSError as error:
            where = address_text(host, port)
            raise MetricsError(f"cannot serve metrics on {where}: {error.strerror or error}") from None
        return host, self._server.server_port

    def close(self) -> None:
        """Stop serving."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None


# ---------------------------------------------------------------- exchanges
class _Labels:
    """The values of a label, limited in number: further values become ``other``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, value: str) -> str:
        # clients choose the value: make it valid UTF-8, and no longer than necessary
        value = value[:_LONGEST_LABEL].encode("utf-8", "replace").decode()
        if value in self._known:
            return value
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value


class _ClientMetrics(NamedTuple):
    """Metrics by API, client and broker."""

    requests: Counter
    unanswered: Counter
    request_bytes: Counter
    response_bytes: Counter
    time: Histogram


class _TopicMetrics(NamedTuple):
    """Metrics by API and topic."""

    requests: Counter
    time: Histogram


class _ExchangeMetrics:
    def __init__(self, registry: Any, names: Names, topics: int, clients: int) -> None:
        from prometheus_client import Counter, Histogram, Summary

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"kproxy_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(f"kproxy_{name}", text, labels, registry=registry, buckets=BUCKETS)

        self._names = names
        self._throttles = Throttles()
        self._clients = _Labels(clients)
        self._topics = _Labels(topics)
        self._brokers = _Labels(DEFAULT_BROKERS)
        of_client = ("api", "client_id", "cluster", "broker")
        client_metrics = _ClientMetrics(
            counter("requests", "Requests from clients.", *of_client),
            counter(
                "unanswered_requests",
                "Requests whose connection ended before an answer, but for those that kproxy ended.",
                *of_client,
            ),
            counter("request_bytes", "Bytes of requests, with their size fields.", *of_client),
            counter("response_bytes", "Bytes of responses, with their size fields.", *of_client),
            histogram(
                "response_time_seconds",
                "From the last byte of a request to the first of the broker's response, without waits by design and"
                " the time in rules and holds.",
                *of_client,
            ),
        )
        self._errors = counter(
            "errors",
            "Responses with an error, by its name; expected ones are part of a normal conversation. Errors made by"
            " kproxy are not counted.",
            *of_client,
            "error",
            "expected",
        )
        self._waits: Summary = Summary(
            "kproxy_designed_wait_seconds",
            "Time that responses waited by design: long polls, rebalances, quotas.",
            ("api", "cluster"),
            registry=registry,
        )
        self._intervened = counter(
            "interventions",
            "Exchanges in which rules or users intervened, by what was done; one may be counted under several kinds.",
            *of_client,
            "kind",
        )
        self._of_kproxy: Summary = Summary(
            "kproxy_intervention_seconds",
            "Time that rules and holds kept requests and responses in kproxy; not part of response times.",
            ("api", "cluster"),
            registry=registry,
        )
        of_topic = ("api", "topic", "cluster")
        topic_metrics = _TopicMetrics(
            counter(
                "topic_requests", "Requests that carry records of a topic, or acknowledge them.", *of_topic
            ),
            histogram(
                "topic_response_time_seconds",
                "As kproxy_response_time_seconds, of requests that carry records of a topic.",
                *of_topic,
            ),
        )
        self._topic_errors = counter(
            "topic_errors",
            "Responses with an error about a topic, expected ones left out.",
            *of_topic,
            "error",
        )
        # faster than labels(); the number of values is limited
        self._client = cache(lambda *values: _ClientMetrics._make(_children(client_metrics, values)))
        self._topic = cache(lambda *values: _TopicMetrics._make(_children(topic_metrics, values)))

    def observe(self, exchange: Exchange) -> None:
        if exchange.request_size == 0:
            return  # the request was sent before kproxy started
        api = _api(exchange)
        cluster, node = exchange.upstream.cluster, exchange.upstream.node_id
        broker = self._brokers.of("" if node is None else str(node))
        labels = api, self._clients.of(exchange.client_id or ""), cluster, broker
        of_client = self._client(*labels)
        of_client.requests.inc()
        of_client.request_bytes.inc(exchange.request_size)
        of_client.response_bytes.inc(exchange.response_size)
        done = exchange.interventions
        for kind in done.kinds:
            self._intervened.labels(*labels, kind).inc()
        if exchange.kproxy_time:
            self._of_kproxy.labels(api, cluster).observe(exchange.kproxy_time / _SECOND)
        if Flag.UNANSWERED in exchange.flag and not done.not_forwarded and not done.ended:
            of_client.unanswered.inc()
        expected = {error.path for error in exchange.expected}
        found = () if done.has_injected_errors else exchange.errors
        for name, routine in {(_error(error), error.path in expected) for error in found}:
            self._errors.labels(*labels, name, str(routine).lower()).inc()
        taken = self._time(exchange, api)
        if taken is not None:
            of_client.time.observe(taken)
        if exchange.api_key in _TOPIC_SIDES:
            self._observe_topics(exchange, api, taken)

    def _time(self, exchange: Exchange, api: str) -> float | None:
        """Return the response time in seconds without designed waits; None if it was nothing but a wait."""
        paused = self._throttles.of(exchange).paused
        latency, wait = exchange.latency, exchange.wait
        if latency is None:
            return None
        if paused >= max(wait, LEAST_WAIT_NS):
            wait = paused
        if wait:
            self._waits.labels(api, exchange.upstream.cluster).observe(wait / _SECOND)
        return None if wait and wait >= latency else max(latency - wait, 0) / _SECOND

    def _observe_topics(self, exchange: Exchange, api: str, taken: float | None) -> None:
        assert exchange.api_key is not None
        side = _TOPIC_SIDES[exchange.api_key]
        body = exchange.body(side)
        if body is None or body.value is None:
            return
        named = topics_in(exchange.api_key, body.read_as, body.value, self._names, side)
        for label in {self._topics.of(topic) for topic in named}:
            of_topic = self._topic(api, label, exchange.upstream.cluster)
            of_topic.requests.inc()
            if taken is not None:
                of_topic.time.observe(taken)
        errors = exchange.unexpected_errors
        found = {(topic, _error(error)) for error in errors for topic in self._topic_of(error)}
        for topic, name in found:
            self._topic_errors.labels(api, topic, exchange.upstream.cluster, name).inc()

    def _topic_of(self, error: ResponseError) -> Iterator[str]:
        """Yield the label of the topic that an error is about, if it is about one."""
        for holder in error.holders[1:]:
            name = topic_partitions.topic(holder, lambda uuid: self._names(uuid) or uuid)
            if name != "?":
                yield self._topics.of(name)
                return


def _children(metrics: Iterable[Counter | Histogram], values: Iterable[str]) -> Iterator[Any]:
    """Yield the children of metrics for values of their labels."""
    return (metric.labels(*values) for metric in metrics)


def _api(exchange: Exchange) -> str:
    """Return the API's name; all unknown keys share one, because a client may send any number."""
    key = exchange.api_key
    if key is None:
        return exchange.api  # a raw SASL token
    return api_name(key) if 0 <= key < len(NAMES) else UNKNOWN


def _error(error: ResponseError) -> str:
    return error.name if error.code in BY_CODE else UNKNOWN


# ---------------------------------------------------------------- the data plane
class _Report(NamedTuple):
    """The data plane's last report, and its time (seconds since the epoch)."""

    status: dict[str, Any]
    at: float


class _Value(NamedTuple):
    """A metric taken from the status.

    :ivar path: nested keys of the status; absent ones give no sample
    :ivar label: name and value, if the metric has several samples
    """

    name: str
    text: str
    path: tuple[str, ...]
    kind: str = "gauge"
    label: tuple[str, str] | None = None


_VALUES = (
    _Value("forwarding", "Whether anything is forwarded, 1 or 0.", ("forwarding",)),
    _Value("connections", "Connections that are open.", ("connections", "open")),
    _Value("connections_accepted", "Connections accepted.", ("connections", "total"), "counter"),
    _Value("connections_refused", "Connections refused.", ("connections", "refused"), "counter"),
    _Value(
        "connections_unreachable",
        "Connections whose broker could not be reached.",
        ("connections", "unreachable"),
        "counter",
    ),
    _Value("requests_in_flight", "Requests waiting for their response.", ("requests_in_flight",)),
    _Value("received_bytes", "Bytes received.", ("bytes", "from_clients"), "counter", ("sender", "client")),
    _Value("received_bytes", "Bytes received.", ("bytes", "from_brokers"), "counter", ("sender", "broker")),
    _Value("brokers", "Brokers and controllers behind the proxy.", ("brokers",)),
    _Value(
        "refused_brokers",
        "Times that a broker was refused: an invalid address, one that is not allowed, or too many brokers.",
        ("refused_brokers",),
        "counter",
    ),
    _Value(
        "rewritten_responses",
        "Responses in which something was replaced.",
        ("rewritten_responses",),
        "counter",
    ),
    _Value(
        "escaped_addresses",
        "Addresses of brokers that reached a client unchanged.",
        ("escaped_addresses",),
        "counter",
    ),
    _Value(
        "uninspected_frames",
        "Frames that rules or holds wanted to see, and that passed because they were too large or too costly.",
        ("uninspected_frames",),
        "counter",
    ),
    _Value("recording_up", "Whether traffic is recorded, 1 or 0.", ("recording", "up")),
    _Value(
        "recording_restarts",
        "Times that the recorder ended unexpectedly and was restarted.",
        ("recording", "restarts"),
        "counter",
    ),
    _Value(
        "recording_gaps",
        "Times that traffic was forwarded without being recorded.",
        ("recording", "gaps"),
        "counter",
    ),
    _Value("tee_waiting_bytes", "Bytes that wait to be recorded.", ("recording", "waiting_bytes")),
    _Value(
        "tee_dropped_bytes",
        "Bytes forwarded that were not recorded, because recording did not keep up.",
        ("recording", "dropped_bytes"),
        "counter",
    ),
    _Value(
        "tee_dropped_connections",
        "Connections that are not recorded in full.",
        ("recording", "dropped_connections"),
        "counter",
    ),
)


class _StatusCollector:
    """Exports the data plane's last report when Prometheus asks.

    :ivar report: None before the first report
    """

    def __init__(self) -> None:
        self.report: _Report | None = None

    def describe(self) -> Iterable[Metric]:
        """Return nothing: metrics appear once they have values."""
        return ()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        if self.report is None:
            return
        status, at = self.report
        families: dict[str, Any] = {}
        for each in _VALUES:
            value = _at(status, each.path)
            if value is None:
                continue
            family = families.get(each.name)
            if family is None:
                make = CounterMetricFamily if each.kind == "counter" else GaugeMetricFamily
                labels = [each.label[0]] if each.label else []
                family = families[each.name] = make(f"kproxy_{each.name}", each.text, labels=labels)
            family.add_metric([each.label[1]] if each.label else [], value)
        yield from families.values()
        applied = CounterMetricFamily(
            "kproxy_fault_applications", "Frames to which a fault rule was applied.", labels=["rule"]
        )
        for rule, count in (status.get("rules") or {}).items():
            applied.add_metric([rule], count)
        yield applied
        yield GaugeMetricFamily(
            "kproxy_status_timestamp_seconds", "When the data plane reported last.", value=at
        )


def _at(status: dict[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = status
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else float(value)
