"""Record data in the message formats before Kafka 0.11."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from captures.analysis.findings.common import on_topics
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.record_traffic import FETCH, PRODUCE, Fetched, Produced, consumer
from captures.analysis.findings.rule import Rule, Scene
from captures.analysis.introductions import client_name
from captures.exchanges import Exchange
from captures.meaning import words

_LATEST_MAGIC = 2
_FIRST_WITH_BATCHES = {PRODUCE: 3, FETCH: 4}
"""Request versions from which on record batches of magic 2 are spoken (KIP-98)."""


class _Way(NamedTuple):
    """How old messages go over the wire.

    :ivar stored: they are given to who could read newer ones: they lie in the log
    """

    api: str
    stored: bool


@dataclass(slots=True)
class _Old:
    seen: Occurrences = field(default_factory=Occurrences)
    magics: set[int] = field(default_factory=set)
    versions: set[int] = field(default_factory=set)
    clients: dict[str, None] = field(default_factory=dict)
    topics: dict[str, None] = field(default_factory=dict)


class OldMessageFormats(Rule):
    """Looks for messages of magic 0 and 1."""

    name: ClassVar[str] = "old_message_formats"
    title: ClassVar[str] = "Old message formats"
    about: ClassVar[str] = (
        "Messages of magic 0 (before 0.10) and magic 1 (0.10) know neither record headers nor idempotence nor "
        "transactions, magic 0 not even timestamps. Producers that speak Produce before v3 send them, consumers that "
        "speak Fetch before v4 are given them. Kafka 4 neither takes nor gives them (KIP-724, KIP-896); what still "
        "lies in its logs in an old format it gives as it is."
    )
    severity: ClassVar[Severity] = Severity.LOW
    apis: ClassVar[frozenset[int] | None] = frozenset({PRODUCE, FETCH})

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._found: dict[_Way, _Old] = {}

    def add(self, exchange: Exchange) -> None:
        parts: Iterable[Produced | Fetched] = ()
        if exchange.api_key == PRODUCE:
            parts = self.scene.records.produced(exchange)
        elif consumer(exchange):  # brokers copy what is there
            parts = self.scene.records.fetched(exchange)
        magics: dict[str, set[int]] = {}
        for part in parts:
            old = {batch.magic for batch in part.batches if batch.magic < _LATEST_MAGIC}
            if old:
                magics.setdefault(part.topic, set()).update(old)
        if magics:
            self._note(exchange, magics)

    def _note(self, exchange: Exchange, magics: dict[str, set[int]]) -> None:
        version = exchange.version or 0
        stored = exchange.api_key == FETCH and version >= _FIRST_WITH_BATCHES[FETCH]
        old = self._found.setdefault(_Way(exchange.api, stored), _Old())
        old.seen.add(exchange)
        old.magics.update(*magics.values())
        old.versions.add(version)
        old.clients[client_name(exchange)] = None
        old.topics.update(dict.fromkeys(magics))

    def findings(self) -> Iterator[Finding]:
        for way, old in self._found.items():
            magics = " and ".join(str(magic) for magic in sorted(old.magics))
            several = len(old.clients) > 1
            if way.api == "Produce":
                how = f"{'send' if several else 'sends'} messages of magic {magics} to"
            else:
                how = f"{'are' if several else 'is'} given messages of magic {magics} of"
            versions = f"{way.api} v{words.ranges(old.versions)}"
            least, most = min(old.versions), max(old.versions)
            yield self.finding(
                f"{way.api}{', stored' if way.stored else ''}",
                f"{words.some(old.clients)} {how} {words.some(old.topics)},"
                f" {f'although by {versions}: so they lie in the log' if way.stored else f'with {versions}'}.",
                _STORED if way.stored else _SPOKEN,
                old.seen,
                filter_text=f"api == {way.api} and version >= {least} and version <= {most}{on_topics(old.topics)}",
            )


_STORED = (
    "These topics are kept in an old format: unset message.format.version (log.message.format.version) on brokers "
    "before 4.0. What is written from then on is of magic 2; old segments leave by retention."
)
_SPOKEN = (
    "Update the clients or let them use newer versions (librdkafka: api.version.request=true, kafka-python: no "
    "api_version, sarama: Config.Version): Kafka 4 refuses these requests (finding refused_by_kafka_4)."
)
