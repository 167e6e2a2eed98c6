"""Topics that were created because a client asked for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_topic
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import items, rows, text
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode

_MOST_MISSING = 10_000
"""Most missing names that are kept; the oldest are dropped first."""


class _MissingTopic(NamedTuple):
    """A missing topic that was requested with permission to create it."""

    client: str
    number: int
    time: int
    error: int


class _CreatedTopics(NamedTuple):
    missing: _MissingTopic
    number: int
    time: int
    partitions: int
    replicas: int


class TopicsAutoCreated(Rule):
    """Looks for topics that are missing in a Metadata response and later exist without a CreateTopics."""

    name = "topics_auto_created"
    title = "Topics created by a Metadata request"
    about = (
        "A client requested metadata for a topic that did not exist, and with auto.create.topics.enable (on by "
        "default) the broker created it, with its num.partitions and default.replication.factor: often one "
        "partition and one replica. A misspelt name creates a topic like any other. Producers ask this way, and "
        "consumers with allow.auto.create.topics (KIP-361). Inferred if the first response was "
        "LEADER_NOT_AVAILABLE; if it was UNKNOWN_TOPIC_OR_PARTITION, the topic may have been created outside of "
        "the capture."
    )
    severity = Severity.LOW
    apis = frozenset({ApiKey.METADATA, ApiKey.CREATE_TOPICS})

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._missing: dict[str, _MissingTopic] = {}
        self._found: dict[str, _CreatedTopics] = {}

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.CREATE_TOPICS:
            for row in rows(exchange.request_body, "topics"):
                self._missing.pop(text(row, "name"), None)
            return
        allowed = exchange.request_body.get("allow_auto_topic_creation", True)
        for row in rows(exchange.response_body, "topics"):
            name, error = text(row, "name"), row.get("error_code")
            if not name or row.get("is_internal") or name.startswith("__"):
                continue
            if error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
                if allowed and not rows(row, "partitions"):
                    self._misses(
                        name, _MissingTopic(client_name(exchange), exchange.number, exchange.time, error)
                    )
            elif error == 0 and name in self._missing:
                partitions = rows(row, "partitions")
                replicas = max((len(items(each, "replica_nodes")) for each in partitions), default=0)
                self._found[name] = _CreatedTopics(
                    self._missing.pop(name), exchange.number, exchange.time, len(partitions), replicas
                )

    def _misses(self, name: str, missing: _MissingTopic) -> None:
        known = self._missing.get(name)
        # the first request creates it; the next response has its leader
        if known is None or (
            known.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            and missing.error == ErrorCode.LEADER_NOT_AVAILABLE
        ):
            self._missing[name] = missing if known is None else known._replace(error=missing.error)
            while len(self._missing) > _MOST_MISSING:
                del self._missing[next(iter(self._missing))]

    def findings(self) -> Iterator[Finding]:
        for name, created in self._found.items():
            missing = created.missing
            sure = missing.error == ErrorCode.LEADER_NOT_AVAILABLE
            came = "was created because" if sure else "did not exist, and was created after"
            seen = Occurrences()
            seen.note(missing.number, missing.time)
            seen.note(created.number, created.time)
            seen.count = 1
            yield self.finding(
                f"topic {name}",
                f"Topic {name} {came} client {missing.client} requested its metadata: "
                f"{words.counted(created.partitions, 'partition')}, replication factor {created.replicas}.",
                "Create topics explicitly (CreateTopics, with suitable partitions and replicas), and set "
                "auto.create.topics.enable=false on the brokers.",
                seen,
                filter_text=f"api == Metadata and {of_topic(name)}",
                certainty=Certainty.INFERRED if sure else Certainty.POSSIBLE,
            )
