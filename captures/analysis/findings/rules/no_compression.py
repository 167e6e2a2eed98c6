"""Uncompressed produced data that would compress well."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.findings.batch_samples import FlowKey, FlowTotals, SamplingRule, worth_a_look
from captures.analysis.findings.finding import Finding, Occurrences
from captures.analysis.findings.rule import RuleContext, Threshold, Unit
from captures.analysis.record_traffic import ProducedPartition
from captures.exchanges import Exchange
from captures.meaning import words
from dissectors.records import Codec, compress

_SAMPLE = 1 << 16
"""Bytes of a batch that are compressed to estimate the saving."""


class _UncompressedData(msgspec.Struct):
    """Uncompressed produced data.

    :ivar size: bytes of records fields
    :ivar sampled: bytes that were compressed as a sample
    :ivar packed: their compressed size in bytes
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    size: int = 0
    sampled: int = 0
    packed: int = 0


class NoCompression(SamplingRule):
    """Adds up uncompressed data, and compresses a sample of it to estimate the saving."""

    name = "no_compression"
    title = "Data without compression"
    about = (
        "A producer sends much data uncompressed that would compress well. Compression saves network on the way "
        "to the leader, to every follower and to every consumer, and disk on all replicas; brokers store batches "
        "as they arrive (compression.type=producer). The saving is measured with zstd on a sample: the first 16 "
        "requests of a client and topic, then ever fewer. lz4 saves a little less, and costs less."
    )
    by_batch = False
    thresholds = (
        Threshold(
            "size",
            1 << 20,
            Unit.BYTES,
            "uncompressed data of a client and topic, from which a finding is reported",
        ),
        Threshold("saving", 30, Unit.PERCENT, "least saving by compression"),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._flows: dict[FlowKey, _UncompressedData] = {}

    def samples(self, codec: Codec, flow: FlowTotals) -> bool:
        return codec == Codec.NONE and flow.size >= self.limit("size")

    def _take_in(self, key: FlowKey, plain: _UncompressedData, number: float = math.inf) -> None:
        """Add the counted elements of a flow before exchange `number`."""
        for elements in self.counted_before(key, number):
            plain.seen.include(elements.seen)
            plain.size += elements.size

    def add(self, exchange: Exchange) -> None:
        super().add(exchange)
        for part in self.context.records.produced(exchange):
            if part.batches and all(batch.codec == Codec.NONE for batch in part.batches):
                flow = FlowKey(client_name(exchange), part.topic, Codec.NONE)
                plain = self._flows.setdefault(flow, _UncompressedData())
                self._take_in(flow, plain, exchange.number)
                self._plain(exchange, plain, part)

    @staticmethod
    def _plain(exchange: Exchange, plain: _UncompressedData, part: ProducedPartition) -> None:
        plain.seen.add(exchange)
        plain.size += part.size
        if worth_a_look(plain.seen.count):
            first = part.batches[0]
            sample = bytes(first.data[first.start : min(part.batches[-1].end, first.start + _SAMPLE)])
            plain.sampled += len(sample)
            plain.packed += len(compress(Codec.ZSTD, sample))

    def findings(self) -> Iterator[Finding]:
        for flow, plain in self._flows.items():
            self._take_in(flow, plain)
            saving = 100 * (plain.sampled - plain.packed) / max(plain.sampled, 1)
            if plain.size < self.limit("size") or saving < self.limit("saving"):
                continue
            yield self.finding(
                f"client {flow.client}, topic {flow.topic}",
                f"Client {flow.client} sent {words.volume(plain.size)} to {flow.topic} uncompressed; zstd would "
                f"have saved about {saving:.0f}%.",
                "Set compression.type of the producer to zstd (brokers and consumers from 2.1 on) or lz4. Larger "
                "batches (linger.ms, batch.size) compress better.",
                plain.seen,
                filter_text=f"api == Produce and {of_client(flow.client)} and {of_topic(flow.topic)} and codec == none",
            )
