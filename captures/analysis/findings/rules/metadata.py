"""Topics, leaders, coordinators and controllers that clients look for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    WINDOW,
    Busiest,
    error_names,
    of_clients,
    on_topics,
    some_of,
    together,
    unexpected,
    with_errors,
)
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, Threshold, Unit, times
from captures.analysis.findings.staleness import APIS, CODES, Episodes
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import NO_ANSWER_SEEN, Exchange
from captures.filters.lexer import quoted
from captures.meaning import groups_in, transactional_ids_in, words
from captures.meaning.exchange import items, rows, text
from captures.names.names import split
from captures.time_format import span
from dissectors.api_keys import GROUP_HEARTBEATS, PRODUCER_APIS, ApiKey
from dissectors.error_codes import COORDINATOR_AWAY, ErrorCode
from dissectors.units import MS, SECOND

# ---------------------------------------------------------------- topics_auto_created

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

    _missing: dict[str, _MissingTopic] = {}
    _found: dict[str, _CreatedTopics] = {}

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
            seen = Occurrences.of([(missing.number, missing.time), (created.number, created.time)])
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


# ---------------------------------------------------------------- stale_metadata

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
    only_after = CODES
    apis = APIS
    thresholds = (
        Threshold(
            "longest",
            5_000,
            Unit.MS,
            "time from the first error to the next success; a shorter one is low, because leaders may move",
        ),
    )

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


# ---------------------------------------------------------------- clients_that_do_not_refresh


class ClientsThatDoNotRefresh(Rule):
    """Finds clients that keep asking the wrong broker and never request metadata."""

    name = "clients_that_do_not_refresh"
    effect_of = EffectOf.BROKERS
    title = "Clients that do not refresh their metadata"
    about = (
        "After an error for outdated metadata, a client has to refresh its metadata before it retries "
        "(NetworkClient.java, DefaultMetadataUpdater). One that repeats the request to the same broker instead "
        "makes no progress and loads the broker."
    )
    severity = Severity.HIGH
    key = Key.CLIENT
    only_after = CODES
    apis = APIS
    thresholds = (
        Threshold(
            "errors", 5, Unit.COUNT, "errors in a row without a Metadata request of the client in between"
        ),
        Threshold("time", 1_000, Unit.MS, "from the first of them to the last, at least"),
    )

    def add(self, exchange: Exchange) -> None:
        self.context.shared.staleness.add(exchange)

    def findings(self) -> Iterator[Finding]:
        for (client, topic), episodes in self.context.shared.staleness.known.result():
            if (
                episodes.stubborn_errors < self.limit("errors")
                or episodes.stubborn_time < self.limit("time") * MS
            ):
                continue
            sees = client in self.context.shared.staleness.known.refreshing
            yield self.finding(
                f"client {client}, topic {topic}",
                f"{client} got {episodes.stubborn_errors:,} errors in a row on {topic}"
                f" ({error_names(episodes.codes)}) within {span(episodes.stubborn_time)}"
                " and did not ask for metadata between them.",
                "Restart the client to get it going. Then check whether it manages its own metadata (an old or custom "
                "client), whether it can reach the brokers that it would ask, and whether metadata.max.age.ms is too "
                "high.",
                episodes.seen,
                filter_text=f"({with_errors(episodes.codes)}{on_topics([topic])} or api == Metadata)"
                f" and {of_client(client)}",
                # without a single Metadata request they may go to a broker whose traffic was not captured
                severity=self.severity if sees else Severity.MEDIUM,
                certainty=Certainty.INFERRED if sees else Certainty.POSSIBLE,
            )


# ---------------------------------------------------------------- coordinator_unavailable

_COORDINATOR_APIS = (PRODUCER_APIS - {ApiKey.PRODUCE}) | GROUP_HEARTBEATS | {
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP,
}  # fmt: skip
"""APIs that coordinators of groups and transactions answer, and FindCoordinator."""


_SHARE_KEY_TYPE = 2
"""Key type of FindCoordinator for the state of a share group's partition."""
_SHARE_STATE = "the state of share group"
_GROUP_COORDINATOR_ADVICE = (
    "Check that __consumer_offsets (for transactions __transaction_state) exists and its partitions have "
    "leaders, and that there are as many brokers as offsets.topic.replication.factor and "
    "transaction.state.log.replication.factor require. Loading takes long if the topic is not compacted."
)
_SHARE_COORDINATOR_ADVICE = (
    "Check that __share_group_state exists and its partitions have leaders, and that there are as many "
    "brokers as share.coordinator.state.topic.replication.factor requires. Brokers look up this coordinator "
    "on behalf of share consumers."
)


class _Outage(msgspec.Struct):
    """An unavailable coordinator, as seen by one client.

    :ivar since: start of the outage, ns since the epoch; None while the coordinator is available
    :ivar only_asked: whether only FindCoordinator shows it
    :ivar longest: longest outage in ns
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    codes: set[int] = set()
    only_asked: bool = True
    since: int | None = None
    longest: int = 0


class CoordinatorUnavailable(Rule):
    """Finds groups and transactional IDs that were without a coordinator for long."""

    name = "coordinator_unavailable"
    effect_of = EffectOf.BROKERS
    title = "No coordinator"
    about = (
        "The coordinator of a group or transaction is the broker that leads a partition of __consumer_offsets or "
        "__transaction_state. While that partition has no leader, is being created or is being loaded, members "
        "cannot join, commit or send heartbeats: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, "
        "NOT_COORDINATOR. A few seconds are normal when a cluster starts or a broker stops. It never ends if "
        "those topics cannot be created, usually because there are fewer brokers than "
        "offsets.topic.replication.factor requires."
    )
    only_after = COORDINATOR_AWAY
    apis = _COORDINATOR_APIS
    thresholds = (
        Threshold("longest", 5_000, Unit.MS, "time without a coordinator; a shorter one is low"),
        Threshold(
            "for_ever",
            30_000,
            Unit.MS,
            "time without a coordinator up to the end of the capture, from which the severity is high",
        ),
    )

    _awaited: dict[tuple[str, str], _Outage] = {}

    def add(self, exchange: Exchange) -> None:
        found = unexpected(exchange, COORDINATOR_AWAY)
        if not (found or self._awaited) or exchange.flag & NO_ANSWER_SEEN:
            return
        client = client_name(exchange)
        for led in _led(exchange):
            key = client, led
            awaited = self._awaited.get(key)
            if found:
                awaited = self._awaited.setdefault(key, _Outage())
                awaited.seen.add(exchange)
                awaited.codes.update(error.code for error in found)
                if awaited.since is None:
                    awaited.since, awaited.only_asked = exchange.time, True
                awaited.only_asked = awaited.only_asked and exchange.api_key == ApiKey.FIND_COORDINATOR
            elif (
                awaited is not None
                and awaited.since is not None
                # FindCoordinator names a broker; only its own responses show whether it has taken over
                and (awaited.only_asked or exchange.api_key != ApiKey.FIND_COORDINATOR)
            ):
                awaited.longest = max(awaited.longest, exchange.end - awaited.since)
                awaited.since = None

    def findings(self) -> Iterator[Finding]:
        soon_over: dict[tuple[str, str], _Outage] = {}
        for key, awaited in self._awaited.items():
            if awaited.since is None and awaited.longest < self.limit("longest") * MS:
                soon_over[key] = awaited  # a coordinator's move affects all clients of all its groups
            else:
                yield self._finding(f"{key[1]}, client {key[0]}", {key: awaited})
        if soon_over:
            yield self._finding("coordinators that were available soon", soon_over)

    def _finding(self, subject: str, found: dict[tuple[str, str], _Outage]) -> Finding:
        clients, led = (dict.fromkeys(each[place] for each in found) for place in (0, 1))
        codes = {code for awaited in found.values() for code in awaited.codes}
        seen = together(awaited.seen for awaited in found.values())
        open_for = max(
            (each.seen.last - each.since for each in found.values() if each.since is not None), default=-1
        )
        longest = max(*(awaited.longest for awaited in found.values()), open_for, 0)
        if open_for < 0:
            ending = f"; {'it was' if len(clients) == 1 else 'they were'} without one for {span(longest)}"
            ending += " at most" if seen.count > 1 else ""
        else:
            ending = ", and the capture shows no success after that"
            if seen.count > 1:
                ending += f"; the last time was {span(open_for)} after the first"
        return self.finding(
            subject,
            f"{some_of(clients)} found no coordinator for {some_of(list(led))} "
            f"({error_names(codes)}, {times(seen.count)}){ending}.",
            _SHARE_COORDINATOR_ADVICE
            if all(each.startswith(_SHARE_STATE) for each in led)
            else _GROUP_COORDINATOR_ADVICE,
            seen,
            filter_text=f"{with_errors(codes)}{of_clients(clients)}",
            severity=self._severity(longest, open_for),
        )

    def _severity(self, longest: int, open_for: int) -> Severity:
        """Return the severity.

        :param open_for: duration of a running outage in ns; negative if there is none
        """
        if open_for >= self.limit("for_ever") * MS:
            return Severity.HIGH
        if longest >= self.limit("longest") * MS:
            return self.severity
        # such as for the first group of a new cluster
        return Severity.INFO if open_for < 0 and longest < SECOND else Severity.LOW


def _led(exchange: Exchange) -> list[str]:
    """Return what the coordinator is responsible for, in words."""
    key, body = exchange.api_key, exchange.request
    if key is None or body is None or body.version is None:
        return []
    if exchange.api_key == ApiKey.INIT_PRODUCER_ID and not exchange.request_body.get("transactional_id"):
        return ["producer IDs"]  # any broker supplies them; while it starts it has none yet
    # the broker that keeps the state of share groups (KIP-932) need not be the one that leads the group
    shared = key == ApiKey.FIND_COORDINATOR and exchange.request_body.get("key_type") == _SHARE_KEY_TYPE
    kind = _SHARE_STATE if shared else "group"
    led = [f"{kind} {group}" for group in groups_in(key, body.version, body.value)]
    return led + [f"transactional ID {each}" for each in transactional_ids_in(key, body.version, body.value)]


# ---------------------------------------------------------------- controller_moves


class ControllerMoves(Rule):
    """Finds brokers that clients mistake for the controller."""

    name = "controller_moves"
    effect_of = EffectOf.CONTROLLERS
    title = "Requests to a broker that is no longer the controller"
    about = (
        "NOT_CONTROLLER: another broker or controller has been elected. Brokers and admin clients look up the new"
        " one and retry. Clients of a KRaft cluster never get this error, because brokers forward their requests "
        "(KIP-590)."
    )
    severity = Severity.LOW
    key = Key.BROKER
    apis = None

    _asked: dict[str, tuple[Occurrences, dict[str, None]]] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.failed

    def add(self, exchange: Exchange) -> None:
        if unexpected(exchange, {ErrorCode.NOT_CONTROLLER}):
            seen, clients = self._asked.setdefault(exchange.broker, (Occurrences(), {}))
            seen.add(exchange)
            clients[client_name(exchange)] = None

    def findings(self) -> Iterator[Finding]:
        for broker, (seen, clients) in self._asked.items():
            shown = self.context.capture.names.shown(broker)
            yield self.finding(
                f"broker {shown}",
                f"{shown} refused {words.counted(seen.count, 'request')} of {some_of(clients)} because it is not the "
                "controller.",
                "Nothing to do for a single change of controller. If there are many, check the former controller's log "
                "for the cause: garbage collection, a slow disk of its metadata log, quorum timeouts.",
                seen,
                filter_text=f"{with_errors([ErrorCode.NOT_CONTROLLER])} and broker == {quoted(broker)}",
            )


# ---------------------------------------------------------------- metadata_storms

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

    _asked: dict[tuple[str, str], _MetadataRequests] = {}
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
