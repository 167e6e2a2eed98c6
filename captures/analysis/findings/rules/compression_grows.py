"""Compression that makes batches larger."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.findings.batch_samples import FlowKey, FlowTotals, SamplingRule, worth_a_look
from captures.analysis.findings.finding import Finding, Occurrences
from captures.analysis.findings.rule import RuleContext, Threshold, Unit
from captures.exchanges import Exchange
from captures.meaning import words
from dissectors.budget import Budget, message_budget
from dissectors.records import Batch, Codec


class _BatchSample(msgspec.Struct):
    """Batches of a flow.

    :ivar batches: number of compressed batches
    :ivar sampled: number of batches that were decompressed
    :ivar packed: their bytes on the wire, without headers
    :ivar plain: their decompressed bytes
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    batches: int = 0
    sampled: int = 0
    packed: int = 0
    plain: int = 0


class CompressionGrows(SamplingRule):
    """Decompresses a sample of the produced batches, and compares sizes."""

    name = "compression_grows"
    title = "Compression that makes data larger"
    about = (
        "A producer's batches become larger by compression: they are too small, or their data is already "
        "compressed or encrypted. Client, broker and consumers spend CPU on it and save nothing. Measured on a "
        "sample: the first 16 compressed batches of a client and topic, then ever fewer."
    )
    by_batch = True
    thresholds = (
        Threshold(
            "batches", 16, Unit.COUNT, "compressed batches of a client and topic that are needed to judge"
        ),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._flows: dict[FlowKey, _BatchSample] = {}

    def samples(self, codec: Codec, flow: FlowTotals) -> bool:
        return codec != Codec.NONE and flow.batches >= self.limit("batches")

    def _take_in(self, key: FlowKey, sampled: _BatchSample, number: float = math.inf) -> None:
        """Add the counted batches of a flow before exchange `number`."""
        sampled.batches += sum(elements.batches for elements in self.counted_before(key, number))

    def add(self, exchange: Exchange) -> None:
        super().add(exchange)
        budget = message_budget()
        for part in self.context.records.produced(exchange):
            for batch in part.batches:
                # message sets of magic 0 and 1 have their codec inside, so they are not compared
                if batch.magic == 2 and batch.codec != Codec.NONE:
                    flow = FlowKey(client_name(exchange), part.topic, batch.codec)
                    sampled = self._flows.setdefault(flow, _BatchSample())
                    self._take_in(flow, sampled, exchange.number)
                    self._batch(exchange, sampled, batch, budget)

    @staticmethod
    def _batch(exchange: Exchange, sampled: _BatchSample, batch: Batch, budget: Budget) -> None:
        sampled.batches += 1
        if not worth_a_look(sampled.batches):
            return
        plain, problem = batch.payload(budget)
        if problem is not None:
            return
        packed = batch.end - batch.records_start
        sampled.sampled += 1
        sampled.packed += packed
        sampled.plain += len(plain)
        if packed > len(plain):
            sampled.seen.add(exchange)

    def findings(self) -> Iterator[Finding]:
        for flow, sampled in self._flows.items():
            self._take_in(flow, sampled)
            if sampled.batches < self.limit("batches") or sampled.packed <= sampled.plain:
                continue
            codec = flow.codec.label
            growth = 100 * (sampled.packed - sampled.plain) / max(sampled.plain, 1)
            yield self.finding(
                f"client {flow.client}, topic {flow.topic}, {codec}",
                f"Batches that client {flow.client} compresses with {codec} for {flow.topic} are {growth:.0f}% "
                f"larger than without ({words.volume(sampled.plain // sampled.sampled)} become "
                f"{words.volume(sampled.packed // sampled.sampled)} on average, {sampled.sampled} of "
                f"{words.counted(sampled.batches, 'batch', 'batches')} sampled).",
                "Set compression.type=none for this topic if its values are already compressed or encrypted. Otherwise "
                "let batches become larger (linger.ms, batch.size), so that there is something to compress.",
                sampled.seen,
                filter_text=f"api == Produce and {of_client(flow.client)} and {of_topic(flow.topic)}"
                f" and codec == {codec}",
            )
