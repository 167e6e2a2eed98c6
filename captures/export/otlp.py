"""Exchanges, rebalances and incidents as OpenTelemetry spans, and sending them to a collector (docs/otlp.md).

Spans are made from what was captured, so their IDs are derived from it, too: a capture that is sent twice has the same
spans. An exchange whose records carry one trace context (header ``traceparent``, W3C Trace Context) belongs to that
trace; one whose records carry several links to them. Attributes follow the semantic conventions for messaging and for
Kafka (semantic-conventions 1.44, messaging-spans.md and kafka.md).

Needs the packages of ``kproxy[otlp]``; this module is imported when spans are made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from queue import Empty, Full, Queue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from captures.analysis.groups.model import Rebalance
from captures.analysis.incidents.model import Incident
from captures.analysis.records import CapturedRecord, RecordListing, RecordSelection
from captures.exchanges import Exchange, Flag
from captures.filters import Context
from captures.filters.groups import named_groups
from captures.filters.reads import topics as topics_of
from captures.meaning import Names
from dissectors.api_keys import ApiKey

SENDING = "sending spans"
"""The activity, for reports of internal errors."""
_TRACEPARENT = "traceparent"
_MOST_LINKS = 128
"""Links of a span: the default limit of the SDK."""
_OPERATIONS: dict[int | None, str] = {
    ApiKey.PRODUCE: "send",
    ApiKey.FETCH: "receive",
    ApiKey.SHARE_FETCH: "receive",
    ApiKey.OFFSET_COMMIT: "settle",
    ApiKey.TXN_OFFSET_COMMIT: "settle",
    ApiKey.SHARE_ACKNOWLEDGE: "settle",
}
"""API -> ``messaging.operation.type``."""
_SCOPE = InstrumentationScope("kproxy")
_BATCH = 512
MOST_WAITING = 16_384
"""Spans that wait to be sent."""


class Spans:
    """Makes spans.

    :param names: returns the name of a topic ID
    """

    def __init__(self, names: Names) -> None:
        self._context = Context(names=names)
        self._records = RecordListing(RecordSelection(), names)
        self._resource = Resource.create({SERVICE_NAME: "kafka"})

    def of_exchange(self, exchange: Exchange) -> ReadableSpan:
        """Return the span of an exchange that was decoded with ``annotate=False``."""
        contexts, records = self._contexts(exchange)
        topics = topics_of(exchange, self._context)
        topic, partitions = next(iter(topics.items())) if len(topics) == 1 else (None, [])
        own = _context(exchange.client, exchange.broker, exchange.time, exchange.correlation_id)
        parent = None
        if len(contexts) == 1:
            (parent,) = contexts
            own = SpanContext(parent.trace_id, own.span_id, False, own.trace_flags)
        errors = [each for each in exchange.errors if each not in exchange.expected]
        unanswered = Flag.UNANSWERED in exchange.flag
        host, _, port = exchange.broker.rpartition(":")
        attributes = {
            "messaging.system": "kafka",
            "messaging.operation.name": exchange.api,
            "messaging.operation.type": _OPERATIONS.get(exchange.api_key),
            "messaging.client.id": exchange.client_id,
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(partitions[0]) if len(set(partitions)) == 1 else None,
            "messaging.consumer.group.name": next(iter(named_groups(exchange)), None),
            "messaging.batch.message_count": self._records.announced(exchange) or None,
            **_of_record(records),
            "server.address": host.strip("[]"),
            "server.port": int(port),
            "client.address": exchange.client.rpartition(":")[0].strip("[]"),
            "error.type": errors[0].name if errors else "unanswered" if unanswered else None,
            "kproxy.exchange": exchange.number,
            "kproxy.version": exchange.version,
            "kproxy.correlation_id": exchange.correlation_id,
            "kproxy.request": exchange.summary[0] or None,
            "kproxy.response": exchange.summary[1] or None,
            "kproxy.designed_wait_ns": exchange.wait or None,
            "kproxy.topics": list(topics) if topic is None else None,
        }
        return self._span(
            exchange.api if topic is None else f"{exchange.api} {topic}",
            own,
            (exchange.time, exchange.end),
            attributes,
            parent=parent,
            links=[] if parent else [Link(each) for each in contexts],
            kind=SpanKind.SERVER,
            failed=bool(errors) or unanswered,
        )

    def of_rebalance(self, rebalance: Rebalance) -> ReadableSpan:
        """Return the span of a rebalance; its events are its causes and the partitions that stood still."""
        events = [
            Event(
                each.trigger, {"kproxy.sentence": each.sentence, "kproxy.evidence": each.evidence}, each.time
            )
            for each in rebalance.causes
        ]
        for stop in rebalance.stopped:
            place = {
                "messaging.destination.name": stop.tp.topic,
                "messaging.destination.partition.id": str(stop.tp.partition),
            }
            events.append(Event("consumption stopped", place, stop.begin))
            if stop.ended:
                events.append(Event("consumption continued", place, stop.end))
        attributes = {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": rebalance.group,
            "kproxy.trigger": rebalance.trigger,
            "kproxy.certainty": rebalance.certainty,
            "kproxy.generation": rebalance.generation,
            "kproxy.sentence": rebalance.sentence,
            "kproxy.evidence": rebalance.evidence,
            "kproxy.because_of": rebalance.incident or None,
        }
        own = _context("rebalance", rebalance.group, rebalance.time, rebalance.generation)
        period = rebalance.time, rebalance.end
        return self._span(f"rebalance {rebalance.group}", own, period, attributes, events=events)

    def of_incident(self, incident: Incident) -> ReadableSpan:
        """Return the span of an incident; its events are its consequences."""
        events = [
            Event(
                each.kind,
                {
                    "kproxy.subject": each.subject,
                    "kproxy.sentence": each.sentence,
                    "kproxy.evidence": each.evidence,
                },
                each.time,
            )
            for each in incident.consequences
        ]
        attributes = {
            "messaging.system": "kafka",
            "kproxy.incident": incident.id,
            "kproxy.who": incident.who,
            "kproxy.certainty": incident.certainty,
            "kproxy.sentence": incident.sentence,
            "kproxy.advice": incident.advice,
            "kproxy.evidence": incident.evidence,
        }
        own = _context("incident", incident.kind, incident.begin, incident.who)
        period = incident.begin, incident.end
        return self._span(f"incident {incident.kind}", own, period, attributes, events=events)

    def _contexts(self, exchange: Exchange) -> tuple[list[SpanContext], list[CapturedRecord]]:
        """Return the distinct trace contexts in the records, as many as may be linked, and the first two records."""
        found: dict[tuple[int, int], SpanContext] = {}
        first: list[CapturedRecord] = []
        for record in self._records.of(exchange):
            if len(first) < 2:
                first.append(record)
            for key, value in record.record.headers:
                if key.lower() == _TRACEPARENT and (context := _sampled_context(value)) is not None:
                    found[context.trace_id, context.span_id] = context
            if len(found) >= _MOST_LINKS:
                break
        return list(found.values()), first

    def _span(
        self,
        name: str,
        context: SpanContext,
        period: tuple[int, int | None],
        attributes: Mapping[str, Any],
        *,
        parent: SpanContext | None = None,
        links: Sequence[Link] = (),
        events: Sequence[Event] = (),
        kind: SpanKind = SpanKind.INTERNAL,
        failed: bool = False,
    ) -> ReadableSpan:
        begin, end = period
        return ReadableSpan(
            name,
            context,
            parent,
            self._resource,
            {key: value for key, value in attributes.items() if value is not None and value != []},
            sorted(events, key=lambda event: event.timestamp),
            links,
            kind,
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=begin,
            end_time=max(begin, end or begin),
            instrumentation_scope=_SCOPE,
        )


def _of_record(records: Sequence[CapturedRecord]) -> dict[str, Any]:
    """Return the attributes of a single record; none if there are several."""
    if len(records) != 1:
        return {}
    (found,) = records
    return {
        "messaging.kafka.offset": found.offset,
        "messaging.kafka.message.tombstone": (found.record.value is None and found.control is None) or None,
    }


def _context(*identity: object) -> SpanContext:
    """Return a context of its own trace, the same for the same identity."""
    digest = blake2b(repr(identity).encode(), digest_size=24).digest()
    trace, span = int.from_bytes(digest[:16]), int.from_bytes(digest[16:])
    return SpanContext(trace, span, False, TraceFlags(TraceFlags.SAMPLED))


def _sampled_context(value: bytes | None) -> SpanContext | None:
    """Return the context in a ``traceparent`` header; None if it is invalid or its trace was not sampled."""
    carrier = {_TRACEPARENT: (value or b"").decode("latin-1")}
    context = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
    return context if context.is_valid and context.trace_flags.sampled else None


# ---------------------------------------------------------------- sending
class CollectorError(Exception):
    """A collector does not take spans; the message says why."""


class _LastFailure(logging.Handler):
    """Keeps the SDK's last message, the only place where it reports a failure, with the cause of the retries before."""

    text = _cause = ""

    def emit(self, record: logging.LogRecord) -> None:
        causes = [each for each in record.args or () if isinstance(each, BaseException)]
        cause, self._cause = self._cause, _root_cause(causes[0]) if causes else ""
        self.text = ": ".join(filter(None, (record.getMessage().rstrip("."), cause)))


def _root_cause(error: BaseException) -> str:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return (isinstance(error, OSError) and error.strerror) or str(error)


class SpanSender:
    """Sends spans to a collector in batches, from a thread of its own.

    :param url: of the collector; without a path, ``/v1/traces`` is added
    :param wait: whether :meth:`send` waits while the queue is full; otherwise it drops spans
    :ivar sent: number of spans that the collector took
    :ivar dropped: number of spans that were dropped because the queue was full
    :ivar refused: number of spans that the collector did not take
    """

    def __init__(self, url: str, *, wait: bool) -> None:
        self.url = url
        self.sent = self.dropped = self.refused = 0
        self._wait = wait
        self._log = _LastFailure()
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self._log)
        logger.propagate = False
        endpoint = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/v1/traces"
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint)
        self._queue: Queue[ReadableSpan | None] = Queue(MOST_WAITING)
        self._closing = False
        self._thread = Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def send(self, span: ReadableSpan) -> None:
        """Put a span into the queue.

        :raises CollectorError: if the collector refused a batch, and spans are not to be dropped
        """
        if self._wait and self.refused:
            raise CollectorError(self.failure)
        try:
            self._queue.put(span, block=self._wait)
        except Full:
            self.dropped += 1

    @property
    def failure(self) -> str:
        """Why the collector last refused spans; empty if it never did."""
        return self._log.text if self.refused else ""

    def close(self) -> None:
        """Send what is in the queue; if the collector refuses a batch meanwhile, drop the rest.

        :raises CollectorError: if the collector refused a batch, and spans are not to be dropped
        """
        self._closing = True
        self._queue.put(None)
        self._thread.join()
        self._exporter.shutdown()
        if self._wait and self.refused:
            raise CollectorError(self.failure)

    def _run(self) -> None:
        while batch := self._next_batch():
            if not (self._closing and self.refused) and self._takes(batch):
                self.sent += len(batch)
            else:
                self.refused += len(batch)

    def _takes(self, batch: list[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # early versions of the SDK raise it, such as a timeout
            self._log.text = _root_cause(error)
            return False

    def _next_batch(self) -> list[ReadableSpan]:
        """Wait for the next spans; return none at the end."""
        batch = list(islice(iter(self._queue.get, None), 1))
        while batch and len(batch) < _BATCH:
            try:
                span = self._queue.get_nowait()
            except Empty:
                break
            if span is None:
                self._queue.put(None)
                break
            batch.append(span)
        return batch
