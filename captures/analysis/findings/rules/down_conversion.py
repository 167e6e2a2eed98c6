"""Fetches for which the broker has to convert records to an older format, or cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import consumer, some_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.record_traffic import FetchedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.meaning import words
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode, error_name

_READS_BATCHES, _READS_MAGIC_1 = 4, 2
"""First Fetch versions that return magic 2 and magic 1 unconverted (KIP-98, KIP-32)."""
_READS_ZSTD = 10


class _Flow(NamedTuple):
    client: str
    topic: str


class _OldFetches(msgspec.Struct):
    """Fetches with old versions.

    :ivar served: fetches that got records
    :ivar magic: the highest magic in responses
    :ivar failed: error code -> occurrences
    """

    served: Occurrences = msgspec.field(default_factory=Occurrences)
    size: int = 0
    magic: int = 0
    versions: set[int] = set()
    failed: dict[int, Occurrences] = {}


class DownConversion(Rule):
    """Compares the formats that old clients get with those in the log."""

    name = "down_conversion"
    needs = Lack.RECORDS
    title = "Down-conversion"
    about = (
        "A client that uses Fetch before v4 cannot read the record batches in the log (magic 2). The broker "
        "decompresses, rewrites and compresses them for every such Fetch: that costs CPU and heap, prevents "
        "sendfile, and drops record headers (KafkaApis.scala, KIP-283). The format in the log is known from "
        "batches that are produced to the topic or returned to newer clients. Some of these requests fail: with "
        "UNSUPPORTED_VERSION if log.message.downconversion.enable is off, with UNSUPPORTED_COMPRESSION_TYPE for "
        "zstd, which needs Fetch v10, and with UNKNOWN_SERVER_ERROR for records with headers on 0.11.0. Kafka 4 "
        "has no down-conversion any more (KIP-896)."
    )
    severity = Severity.LOW
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._stored: dict[str, int] = {}
        self._found: dict[_Flow, _OldFetches] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        old = rows.of_version(lambda key, version: key == ApiKey.FETCH and version < _READS_ZSTD)
        return None if rows.ever("Fetch of an old version", old) else rows.nothing

    def add(self, exchange: Exchange) -> None:
        version = exchange.version
        if version is None:
            return
        if exchange.api_key == ApiKey.PRODUCE:
            for written in self.context.records.produced(exchange):
                if not written.error:
                    self._stores(written.topic, max((batch.magic for batch in written.batches), default=0))
            return
        for part in self.context.records.fetched(exchange):
            magic = max((batch.magic for batch in part.batches), default=0)
            self._stores(part.topic, magic)
            failed = (part.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE and version < _READS_ZSTD) or (
                part.error in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION)
                and version < _READS_BATCHES
            )
            if consumer(exchange) and (failed or (version < _READS_BATCHES and part.batches)):
                self._old(exchange, version, part, magic)

    def _stores(self, topic: str, magic: int) -> None:
        self._stored[topic] = max(self._stored.get(topic, 0), magic)

    def _old(self, exchange: Exchange, version: int, part: FetchedPartition, magic: int) -> None:
        old = self._found.setdefault(_Flow(client_name(exchange), part.topic), _OldFetches())
        old.versions.add(version)
        if part.error:
            old.failed.setdefault(part.error, Occurrences()).add(exchange)
            return
        old.served.add(exchange)
        old.size += part.size
        old.magic = max(old.magic, magic)

    def findings(self) -> Iterator[Finding]:
        for flow, old in self._found.items():
            shown = f"api == Fetch and {of_client(flow.client)} and {of_topic(flow.topic)}"
            versions = words.ranges(old.versions)
            if old.served and self._stored.get(flow.topic, 0) > old.magic:
                yield self.finding(
                    f"client {flow.client}, topic {flow.topic}",
                    f"The broker converts {flow.topic} from magic {self._stored[flow.topic]} to magic {old.magic} for "
                    f"client {flow.client}, which uses Fetch v{versions}: {words.volume(old.size)} in "
                    f"{words.counted(old.served.count, 'response')}.",
                    "Update this client, or let it use newer versions of the protocol. Until then the conversion "
                    "costs the broker CPU and heap, and the client gets no record headers.",
                    old.served,
                    filter_text=f"{shown} and version < {_READS_BATCHES}",
                    certainty=Certainty.INFERRED,
                )
            for code, seen in old.failed.items():
                yield self.finding(
                    f"client {flow.client}, topic {flow.topic}, {error_name(code)}",
                    f"Client {flow.client} cannot read {flow.topic}: the broker answered "
                    f"{words.counted(seen.count, 'Fetch', 'Fetches')} of v{versions} with {error_name(code)}.",
                    _advice(code),
                    seen,
                    filter_text=f"{shown} and error == {code}",
                    severity=Severity.HIGH,
                    certainty=Certainty.POSSIBLE
                    if code == ErrorCode.UNKNOWN_SERVER_ERROR
                    else Certainty.OBSERVED,
                )

    def blind(self) -> str:
        unknown = {
            flow.topic
            for flow, old in self._found.items()
            if old.served and self._stored.get(flow.topic, 0) <= old.magic
        }
        if not unknown:
            return ""
        return (
            "nothing shows in which format these topics are stored, which clients read with a Fetch before v4: "
            f"{some_of(sorted(unknown))}"
        )


def _advice(code: int) -> str:
    if code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
        return "The topic has zstd batches, which need Fetch v10 (Kafka 2.1): update the client, or change the codec."
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return (
            "The broker does not convert for this topic (log.message.downconversion.enable, "
            "message.downconversion.enable): update the client."
        )
    return (
        "The broker failed to convert records to an older format (0.11.0 fails on records with headers) or to "
        "read its log: check its log, and update broker and client. Clients ask again at once, which loads the "
        "broker."
    )
