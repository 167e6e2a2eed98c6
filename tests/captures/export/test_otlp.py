"""Spans of exchanges, rebalances and incidents, and their delivery to a collector."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from captures.analysis.incidents.history import IncidentHistories
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.export import otlp
from captures.export.otlp import MOST_WAITING, CollectorError, Spans, SpanSender, _LastFailure
from dissectors.api_keys import ApiKey
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis import kit
from tests.waiting import PATIENCE

# two members, one is stopped by SIGSTOP for 12 s and rejoins: tests/data/groups/truth
RECORDED = Path(__file__).parents[2] / "data" / "groups" / "21_k430_java_sigstop.pcap.zst"
TRACE, OTHER = "0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "b7ad6b7169203331"


def produce(*traces: str) -> Exchange:
    """A Produce with one record per value of ``traceparent``."""
    records = [
        Record(index, 1000, b"k", b"v", (("traceparent", each.encode()),))
        for index, each in enumerate(traces)
    ]
    partition = {"index": 3, "records": build_batch(records)}
    request = {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    stored = {"index": 3, "error_code": 0, "base_offset": 40}
    response = {"responses": [{"name": "orders", "partition_responses": [stored]}]}
    return kit.exchange(ApiKey.PRODUCE, 9, request=request, response=response)


def span_of(exchange: Exchange) -> ReadableSpan:
    return Spans(lambda _: None).of_exchange(exchange)


# ------------------------------------------------------------ exchanges
def test_a_span_follows_the_conventions() -> None:
    exchange = produce(f"00-{TRACE}-{SPAN}-01")
    span = span_of(exchange)
    assert span.name == "Produce orders"
    assert span.kind is SpanKind.SERVER
    assert span.status.status_code is StatusCode.UNSET
    assert (span.start_time, span.end_time) == (exchange.time, exchange.end)
    assert span.resource.attributes["service.name"] == "kafka"
    assert span.attributes is not None
    host, _, port = exchange.broker.rpartition(":")
    wanted = {
        "messaging.system": "kafka",
        "messaging.operation.name": "Produce",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "3",
        "messaging.batch.message_count": 1,
        "messaging.kafka.offset": 40,
        "server.address": host,
        "server.port": int(port),
        "kproxy.exchange": exchange.number,
    }
    assert wanted.items() <= dict(span.attributes).items()


def test_it_belongs_to_the_trace_of_its_record() -> None:
    span = span_of(produce(f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"))
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (int(TRACE, 16), int(SPAN, 16))
    assert span.context.trace_id == int(TRACE, 16)
    assert not span.links


def test_it_links_to_the_traces_of_several_records() -> None:
    span = span_of(produce(f"00-{TRACE}-{SPAN}-01", f"00-{OTHER}-{SPAN}-01"))
    assert span.parent is None
    assert [each.context.trace_id for each in span.links] == [int(TRACE, 16), int(OTHER, 16)]


def test_links_are_limited() -> None:
    traces = [f"00-{number:032x}-{SPAN}-01" for number in range(1, 200)]
    assert len(span_of(produce(*traces)).links) == 128


@pytest.mark.parametrize("value", ["", "nonsense", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"])
def test_invalid_and_unsampled_contexts_are_passed_over(value: str) -> None:
    span = span_of(produce(value))
    assert span.parent is None
    assert not span.links


def test_an_error_and_a_missing_answer() -> None:
    failed = span_of(kit.exchange(errors=[kit.error(3)]))
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "UNKNOWN_TOPIC_OR_PARTITION"
    silent = span_of(kit.unanswered())
    assert silent.status.status_code is StatusCode.ERROR
    assert silent.attributes is not None
    assert silent.attributes["error.type"] == "unanswered"


def recorded() -> tuple[list[ReadableSpan], IncidentHistories]:
    capture = open_capture([str(RECORDED)])
    capture.read()
    reader = ExchangeReader(capture, annotate=False)
    spans, histories = (
        Spans(reader.knowledge.topic_name),
        IncidentHistories(reader.knowledge.topic_name, capture),
    )
    made = []
    for exchange in reader:
        made.append(spans.of_exchange(exchange))
        histories.add(exchange)
    return made, histories


@pytest.mark.slow
def test_a_capture_gives_the_same_spans_each_time() -> None:
    first, _ = recorded()
    second, _ = recorded()
    assert [each.to_json() for each in first] == [each.to_json() for each in second]
    assert len({each.context.span_id for each in first}) == len(first)


# ------------------------------------------------------------ rebalances, incidents
def test_rebalances_and_incidents_have_events() -> None:
    _, histories = recorded()
    spans = Spans(lambda _: None)
    (timeline,) = histories.result()
    made = [spans.of_rebalance(each) for each in timeline.rebalances]
    assert {each.name for each in made} == {f"rebalance {timeline.group}"}
    names = {event.name for each in made for event in each.events}
    assert {"member_joined", "session_timeout", "consumption stopped", "consumption continued"} <= names
    (incident,) = map(spans.of_incident, histories.incidents)
    assert incident.name == "incident process_pause"
    assert "rebalance" in {event.name for event in incident.events}
    for span in (*made, incident):
        times = [event.timestamp for event in span.events]
        assert times == sorted(times)
        assert span.end_time >= span.start_time


# ------------------------------------------------------------ sending
class Held(SpanExporter):
    """A collector that accepts spans only when released."""

    def __init__(self, result: SpanExportResult | None = SpanExportResult.SUCCESS) -> None:
        self.asked, self.go = Event(), Event()
        self.result = result

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        assert self.go.wait(PATIENCE)
        if self.result is None:
            raise TimeoutError("read timed out")
        return self.result


def sending_to(exporter: SpanExporter, monkeypatch: pytest.MonkeyPatch, *, wait: bool) -> SpanSender:
    monkeypatch.setattr(otlp, "OTLPSpanExporter", lambda _: exporter)
    return SpanSender("http://127.0.0.1:9", wait=wait)


def test_everything_is_sent_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    sender = sending_to(exporter, monkeypatch, wait=True)
    span = span_of(produce())
    for _ in range(1500):
        sender.send(span)
    sender.close()
    assert len(exporter.get_finished_spans()) == sender.sent == 1500
    assert sender.dropped == sender.refused == 0


def test_spans_are_dropped_and_counted_while_the_collector_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, span = Held(), span_of(produce())
    sender = sending_to(exporter, monkeypatch, wait=False)
    sender.send(span)
    assert exporter.asked.wait(PATIENCE)  # this one is in flight; the queue is empty
    for _ in range(MOST_WAITING + 7):
        sender.send(span)
    assert sender.dropped == 7
    exporter.go.set()
    sender.close()
    assert sender.sent == MOST_WAITING + 1


@pytest.mark.parametrize(
    ("result", "why"), [(SpanExportResult.FAILURE, ""), (None, "read timed out")], ids=["refuses", "raises"]
)
def test_a_refusal_ends_an_export(
    result: SpanExportResult | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = Held(result)
    exporter.go.set()
    sender = sending_to(exporter, monkeypatch, wait=True)
    sender.send(span_of(produce()))
    with pytest.raises(CollectorError, match=f"^{why}$"):
        sender.close()
    assert (sender.sent, sender.refused) == (0, 1)


def test_a_failure_has_the_cause_of_its_own_retries_only() -> None:
    failures = _LastFailure()

    def emit(message: str, *arguments: object) -> str:
        failures.emit(logging.makeLogRecord({"msg": message, "args": arguments}))
        return failures.text

    emit("Transient error %s, retrying", ConnectionRefusedError(111, "Connection refused"))
    assert emit("Failed to export.") == "Failed to export: Connection refused"
    assert emit("Failed to export: 400.") == "Failed to export: 400"
