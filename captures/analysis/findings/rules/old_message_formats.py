"""Record data in the message formats before Kafka 0.11."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import consumer, on_topics, some_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.record_traffic import FetchedPartition, ProducedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.exchanges.shapes import BatchTrait
from captures.meaning import words
from dissectors.api_keys import ApiKey

_LATEST_MAGIC = 2
_FIRST_WITH_BATCHES: dict[int, int] = {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4}
"""First request versions with record batches of magic 2 (KIP-98)."""


class _Reason(Enum):
    """Why old messages are sent."""

    SPOKEN = ""
    """The client uses an old version."""
    OLD_BROKER = "old broker"
    """The broker supports no newer version."""
    STORED = "stored"
    """The log has them, and clients that support newer formats get them."""


class _ApiAndReason(NamedTuple):
    api: str
    why: _Reason


class _OldMessages(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    magics: set[int] = set()
    versions: set[int] = set()
    clients: dict[str, None] = {}
    topics: dict[str, None] = {}


class OldMessageFormats(Rule):
    """Looks for messages of magic 0 and 1."""

    name = "old_message_formats"
    needs = Lack.RECORDS
    title = "Old message formats"
    about = (
        "Messages of magic 0 (before 0.10) and magic 1 (0.10) have no record headers, no idempotence and no "
        "transactions; magic 0 has not even timestamps. Producers that use Produce before v3 send them, consumers"
        " that use Fetch before v4 get them. Kafka 4 neither accepts nor creates them (KIP-724, KIP-896), but "
        "returns those that are still in its logs."
    )
    severity = Severity.LOW
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS})

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._found: dict[_ApiAndReason, _OldMessages] = {}
        self._offered = context.shared.offered

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.with_batches(BatchTrait.OLD) | ~rows.of_api(_FIRST_WITH_BATCHES)

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.API_VERSIONS:
            self._offered.add(exchange)
            return
        parts: Iterable[ProducedPartition | FetchedPartition] = ()
        if exchange.api_key == ApiKey.PRODUCE:
            parts = self.context.records.produced(exchange)
        elif consumer(exchange):  # brokers copy the log as it is
            parts = self.context.records.fetched(exchange)
        magics: dict[str, set[int]] = {}
        for part in parts:
            old = {batch.magic for batch in part.batches if batch.magic < _LATEST_MAGIC}
            if old:
                magics.setdefault(part.topic, set()).update(old)
        if magics:
            self._note(exchange, magics)

    def _note(self, exchange: Exchange, magics: dict[str, set[int]]) -> None:
        version = exchange.version or 0
        old = self._found.setdefault(
            _ApiAndReason(exchange.api, self._why(exchange, version)), _OldMessages()
        )
        old.seen.add(exchange)
        old.magics.update(*magics.values())
        old.versions.add(version)
        old.clients[client_name(exchange)] = None
        old.topics.update(dict.fromkeys(magics))

    def _why(self, exchange: Exchange, version: int) -> _Reason:
        bound = _FIRST_WITH_BATCHES[exchange.api_key or 0]
        if version >= bound and exchange.api_key == ApiKey.FETCH:
            return _Reason.STORED
        offered = self._offered.known.of([exchange.broker], exchange.api)
        return _Reason.OLD_BROKER if offered is not None and offered[1] < bound else _Reason.SPOKEN

    def findings(self) -> Iterator[Finding]:
        for way, old in self._found.items():
            magics = " and ".join(str(magic) for magic in sorted(old.magics))
            one, many, where = (
                ("sends", "send", "to") if way.api == "Produce" else ("fetches", "fetch", "from")
            )
            verb = one if len(old.clients) == 1 else many
            meaning, advice = _MEANINGS[way.why]
            least, most = min(old.versions), max(old.versions)
            yield self.finding(
                ", ".join(filter(None, (way.api, way.why.value))),
                f"{some_of(old.clients)} {verb} messages of magic {magics} {where} {some_of(old.topics)},"
                f" {meaning.format(f'{way.api} v{words.ranges(old.versions)}')}.",
                advice,
                old.seen,
                filter_text=f"api == {way.api} and version >= {least} and version <= {most}{on_topics(old.topics)}",
                severity=Severity.INFO if way.why is _Reason.OLD_BROKER else None,
            )


_MEANINGS = {
    _Reason.SPOKEN: (
        "with {}",
        (
            "Update the clients, or let them use newer versions (librdkafka: api.version.request=true, kafka-python: "
            "no api_version, sarama: Config.Version): Kafka 4 refuses these requests (finding refused_by_kafka_4)."
        ),
    ),
    _Reason.OLD_BROKER: (
        "with {}: the broker knows no newer version",
        "Nothing to do while the brokers are old; from 0.11 on they store messages of magic 2.",
    ),
    _Reason.STORED: (
        "with {}: the log contains them",
        (
            "These topics are stored in an old format: unset message.format.version (log.message.format.version) on "
            "brokers before 4.0. New batches are then written with magic 2; retention removes old segments."
        ),
    ),
}
