"""Clients with stale metadata that ask the wrong broker, or for deleted topics; and whether they recover."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    error_names,
    of_clients,
    on_topics,
    some_of,
    together,
    with_errors,
)
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Threshold, Unit, times
from captures.analysis.findings.staleness import APIS, CODES, Episodes
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.time_format import span
from dissectors.error_codes import ErrorCode
from dissectors.units import MS, SECOND

_SOON_OVER = "metadata that was refreshed soon"


class _EpisodeGroup(msgspec.Struct):
    """Episodes that are reported together.

    :ivar open: whether one of them is running
    :ivar open_for: ns from the first error to the last in the longest running one
    :ivar healed: number of ended episodes
    :ivar longest: duration of the longest ended one in ns
    """

    clients: dict[str, None] = {}
    topics: dict[str, None] = {}
    codes: set[int] = set()
    seen: list[Occurrences] = []
    refreshes: int = 0
    open: bool = False
    open_for: int = 0
    healed: int = 0
    longest: int = 0

    def add(self, client: str, topic: str, episodes: Episodes) -> None:
        """Add the episodes of a client with a topic."""
        self.clients[client] = None
        self.topics[topic] = None
        self.codes |= episodes.codes
        self.seen.append(episodes.seen)
        self.refreshes += episodes.refreshes
        self.healed += episodes.healed
        self.longest = max(self.longest, episodes.longest)
        if episodes.since is not None:
            self.open = True
            self.open_for = max(self.open_for, episodes.seen.last - episodes.since)


class StaleMetadata(Rule):
    """Finds leaders that moved, and how long clients took to find the new ones."""

    name = "stale_metadata"
    effect_of = EffectOf.BROKERS
    title = "Metadata out of date: wrong broker, refresh, retry"
    about = (
        "A leader moved or a topic was deleted, and a client learned of it by an error: NOT_LEADER_OR_FOLLOWER, "
        "UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_ID and the like. It then refreshes its "
        "metadata and retries (Errors.java: InvalidMetadataException; since KIP-951 the response itself names the"
        " new leader). That is how Kafka works; it is a problem only if it takes long or keeps happening."
    )
    apis = APIS
    thresholds = (
        Threshold(
            "longest",
            5_000,
            Unit.MILLISECONDS,
            "time from the first error to the next success; a shorter one is low, because leaders may move",
        ),
    )

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.all_if_met(CODES)

    def add(self, exchange: Exchange) -> None:
        self.context.shared.staleness.add(exchange)

    def findings(self) -> Iterator[Finding]:
        by_client: dict[str, _EpisodeGroup] = {}
        for (client, topic), episodes in self.context.shared.staleness.known.result():
            by_client.setdefault(self._subject(client, episodes), _EpisodeGroup()).add(
                client, topic, episodes
            )
        for subject, group in by_client.items():
            yield self._finding(subject, group)

    def _subject(self, client: str, episodes: Episodes) -> str:
        """Return the subject under which a client's episodes with a topic are reported."""
        if episodes.since is None and episodes.longest <= self.limit("longest") * MS:
            return _SOON_OVER  # a leader's move affects all clients of all its topics
        gone = episodes.since is not None and episodes.codes <= _GONE
        return f"client {client}, topics that do not exist" if gone else f"client {client}"

    def _finding(self, subject: str, episodes: _EpisodeGroup) -> Finding:
        seen, codes = together(episodes.seen), episodes.codes
        text = f"{some_of(episodes.clients)} got {error_names(codes)} {times(seen.count)}"
        text += f" on {some_of(episodes.topics)}"
        if episodes.refreshes:
            text += f", refreshed metadata {times(episodes.refreshes)}"
        if episodes.open:
            text += ", and had no success after that"
            if episodes.open_for:
                text += f"; the last error came {span(episodes.open_for)} after the first"
        else:
            text += (
                f", and continued after {'at most ' if episodes.healed > 1 else ''}{span(episodes.longest)}"
            )
        return self.finding(
            subject,
            f"{text}.",
            _GONE_ADVICE if episodes.open and codes <= _GONE else _MOVED_ADVICE,
            seen,
            filter_text=f"{with_errors(codes)}{on_topics(episodes.topics)}{of_clients(episodes.clients)}",
            severity=self._severity(max(episodes.longest, episodes.open_for), healed=not episodes.open),
        )

    def _severity(self, longest: int, *, healed: bool) -> Severity:
        if longest > self.limit("longest") * MS:
            return self.severity
        return Severity.INFO if healed and longest < SECOND else Severity.LOW


_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_MOVED_ADVICE = (
    "Check whether brokers were stopped or preferred leaders elected on purpose: then leaders move. Clients "
    "find the new leader sooner with the default retry.backoff.ms, and with KIP-951 (Kafka 3.7 clients and "
    "brokers)."
)
_GONE_ADVICE = (
    "Check whether the topic or partition was deleted, or whether the client is configured for another "
    "cluster or name. Create it, or remove it from the client's subscription."
)
