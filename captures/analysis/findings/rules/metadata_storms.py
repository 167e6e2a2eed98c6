"""Clients that keep requesting metadata."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.findings.common import unexpected
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rates import WINDOW, Busiest
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.names.names import split
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND

_TO_BEGIN = 2
"""Requests of a connection that are not counted: every client sends some when it starts, and many may start at once."""


class _MetadataRequests(msgspec.Struct):
    """Metadata requests of one client.

    :ivar busiest: period with the most requests, without those at the start of a connection
    :ivar all_topics: requests for all topics
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    busiest: Busiest = msgspec.field(default_factory=Busiest)
    all_topics: int = 0
    response_bytes: int = 0
    _connections: dict[int, int] = {}
    """Connection -> number of its uncounted requests."""

    def add(self, exchange: Exchange) -> None:
        self.seen.add(exchange)
        self.response_bytes += exchange.response_size
        self.all_topics += exchange.api_key == ApiKey.METADATA and _asks_for_all(exchange)
        known = self._connections.get(exchange.connection, 0)
        if known < _TO_BEGIN:
            self._connections[exchange.connection] = known + 1
        else:
            self.busiest.add(exchange.time)


class MetadataStorms(Rule):
    """Finds clients that request metadata much more often than it changes."""

    name = "metadata_storms"
    effect_of = EffectOf.BROKERS
    title = "Too many metadata requests"
    about = (
        "A client asks for metadata when it starts, when a leader has moved, and every metadata.max.age.ms (5 "
        "min). One that asks all the time has too short an expiry, is stuck, or asks for each piece of work. In a"
        " large cluster each response has megabytes. Failing requests belong to request_storms, and clients that "
        "are constantly created anew to connection_churn; neither counts here."
    )
    key = Key.CLIENT
    apis = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS})
    thresholds = (
        Threshold("rate", 5, Unit.A_SECOND, "metadata requests of a client on average over ten seconds"),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._asked: dict[tuple[str, str], _MetadataRequests] = {}
        """By client ID and host: many processes may share an ID, and each may ask as it starts."""

    def add(self, exchange: Exchange) -> None:
        if not unexpected(exchange):
            host = split(exchange.client)[0]
            self._asked.setdefault((client_name(exchange), host), _MetadataRequests()).add(exchange)

    def findings(self) -> Iterator[Finding]:
        for (client, host), asked in self._asked.items():
            if asked.busiest.count * SECOND < self.limit("rate") * WINDOW:
                continue
            seen = asked.seen
            text = (
                f"{client} requested metadata {words.counted(seen.count, 'time')} within"
                f" {span(seen.last - seen.first)}, up to {asked.busiest.count:,} times in ten seconds, and got"
                f" {words.volume(asked.response_bytes)}"
            )
            if asked.all_topics:
                text += f"; {words.counted(asked.all_topics, 'request')} asked for all topics"
            yield self.finding(
                f"client {client}, host {host}",
                f"{text}.",
                "Reuse producers and consumers instead of creating new ones. Leave metadata.max.age.ms "
                "(topic.metadata.refresh.interval.ms) at its default, and ask only for the topics in use.",
                seen,
                filter_text=f"api in {{Metadata, DescribeTopicPartitions}} and not error and {of_client(client)}"
                f" and client.host == {quoted(host)}",
            )


def _asks_for_all(exchange: Exchange) -> bool:
    """Return whether all topics are requested: null, or an empty list in version 0."""
    request = exchange.request_body
    return "topics" in request and (
        request["topics"] is None or (exchange.version == 0 and not request["topics"])
    )
