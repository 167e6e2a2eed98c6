"""Spans of a growing capture for an OpenTelemetry collector: ``--otlp`` of ``kproxy proxy`` and ``kproxy sniff``."""

from __future__ import annotations

from collections.abc import Hashable

from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.incidents.model import Incident
from captures.exchanges import Exchange, ExchangeReader
from captures.export.otlp import SENDING, Spans, SpanSender
from kproxy.cli.groups_live import LiveGroups
from kproxy.cli.live_findings import LiveFindings, raw_reader, reread
from kproxy.output import notice


class LiveSpans:
    """Sends spans of a growing capture: exchanges as they complete, rebalances and incidents when they are over.

    It never waits for the collector: spans that find the queue full are dropped, counted, and reported.

    :param reader: of the command that shows the capture
    :param url: of the collector
    :param annotated: whether that reader prepares bodies for display, so that they have to be decoded again
    """

    def __init__(self, reader: ExchangeReader, url: str, *, annotated: bool) -> None:
        capture, knowledge = reader.capture, reader.knowledge
        self._spans = Spans(knowledge.topic_name)
        self._sender = SpanSender(url, wait=False)
        self._raw = raw_reader(capture, knowledge) if annotated else None
        self._diagnosis = Diagnosis(capture, knowledge.topic_name, rules=())
        (histories,) = self._diagnosis.groups.of.values()  # live traffic counts as one cluster
        self._groups = LiveGroups(capture, knowledge, self._rebalance, histories=histories)
        self._incidents = LiveFindings(
            self._diagnosis, capture, knowledge, lambda _: None, incident=self._incident
        )
        self._sent: set[Hashable] = set()
        self._reported = False
        self.look = capture.faults.guarded(self._look, SENDING)

    def _look(self, exchange: Exchange) -> None:
        raw = exchange if self._raw is None else reread(self._raw, exchange)
        raw.summary = exchange.summary
        self._groups.add(raw)
        self._sender.send(self._spans.of_exchange(raw))
        self._groups.look()
        self._incidents.update()
        if (self._sender.dropped or self._sender.refused) and not self._reported:
            self._reported = True
            notice(f"spans are dropped: {self._sender.failure or 'the collector is too slow'}")

    def _rebalance(self, _: GroupTimeline, rebalance: Rebalance) -> None:
        if not rebalance.running:
            self._sender.send(self._spans.of_rebalance(rebalance))

    def _incident(self, incident: Incident, *, ended: bool = False) -> None:
        """Send an incident once: when it is over, or the capture has ended."""
        key = incident.kind, incident.begin, incident.who
        if key not in self._sent and (ended or incident.end is not None):
            self._sent.add(key)
            self._sender.send(self._spans.of_incident(incident))

    def conclude(self) -> None:
        """Send the rest, and report how many spans were sent and dropped; the capture has ended."""
        self._groups.conclude()
        for incident in self._diagnosis.incidents:
            self._incident(incident, ended=True)
        sender = self._sender
        sender.close()
        why = f" ({sender.failure})" if sender.refused else ""
        notice(
            f"{sender.sent:,} spans sent to {sender.url}, {sender.dropped:,} dropped because it was too slow, "
            f"{sender.refused:,} refused{why}"
        )
