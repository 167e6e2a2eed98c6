"""Clients with stale metadata: error, refresh, retry, success; by client and topic.

An episode begins with an error that means that another broker must be asked, and ends with the first data request about
the topic without such an error. Replicas are left out: they learn of leaders from the controller, not from Metadata.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.findings.common import replica_of, topic_of, unexpected
from captures.analysis.findings.finding import Occurrences
from captures.exchanges import NO_ANSWER_SEEN, Exchange
from captures.meaning import Names, topics_in
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode

CODES = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LISTENER_NOT_FOUND, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID,
})  # fmt: skip
"""Errors of data requests after which clients ask for metadata (Errors.java, InvalidMetadataException)."""

_DATA = frozenset({
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.SHARE_FETCH,
})  # fmt: skip
"""Requests to the leader of a partition."""
APIS = _DATA | {ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS}


class Episodes(msgspec.Struct):
    """The episodes of one client with one topic.

    :ivar seen: exchanges with such an error
    :ivar codes: the errors
    :ivar since: start of the running episode, ns since the epoch; None if there is none
    :ivar healed: number of ended episodes
    :ivar longest: duration of the longest ended episode in ns
    :ivar refreshes: Metadata requests of the client during episodes
    :ivar stubborn_errors: most errors in a row without a Metadata request in between
    :ivar stubborn_time: ns from the first of those to the last
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    codes: set[int] = set()
    since: int | None = None
    healed: int = 0
    longest: int = 0
    refreshes: int = 0
    stubborn_errors: int = 0
    stubborn_time: int = 0
    _row: int = 0
    _row_since: int = 0

    def fail(self, exchange: Exchange, codes: set[int]) -> None:
        """Add an exchange with such errors."""
        self.seen.add(exchange)
        self.codes |= codes
        if self.since is None:
            self.since = exchange.time
        if not self._row:
            self._row_since = exchange.time
        self._row += 1
        if self._row > self.stubborn_errors:
            self.stubborn_errors, self.stubborn_time = self._row, exchange.time - self._row_since

    def refresh(self) -> None:
        """Add a Metadata request."""
        self._row = 0
        self.refreshes += self.since is not None

    def succeed(self, exchange: Exchange) -> None:
        """Add an exchange without such errors."""
        self._row = 0
        if self.since is not None:
            self.healed += 1
            self.longest = max(self.longest, exchange.end - self.since)
            self.since = None


class Staleness:
    """Follows the episodes of all clients.

    :param names: resolves topic IDs
    :ivar refreshing: clients with a Metadata request
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._episodes: dict[str, dict[str, Episodes]] = {}
        self.refreshing: set[str] = set()

    def add(self, exchange: Exchange) -> None:
        """Add one exchange of :data:`APIS`."""
        client = client_name(exchange)
        episode = self._episodes.get(client)
        if exchange.api_key not in _DATA:
            self.refreshing.add(client)
            for episodes in (episode or {}).values():
                episodes.refresh()
            return
        found = unexpected(exchange, CODES)
        if not (found or episode) or exchange.flag & NO_ANSWER_SEEN or replica_of(exchange) >= 0:
            return
        failed: dict[str, set[int]] = {}
        for error in found:
            failed.setdefault(topic_of(error, self._names), set()).add(error.code)
        episode = self._episodes.setdefault(client, {}) if failed else episode or {}
        for topic, codes in failed.items():
            episode.setdefault(topic, Episodes()).fail(exchange, codes)
        if len(episode) > len(failed) and any(episodes.since is not None for episodes in episode.values()):
            for topic in self._topics(exchange):
                if topic in episode and topic not in failed:
                    episode[topic].succeed(exchange)

    def result(self) -> Iterator[tuple[tuple[str, str], Episodes]]:
        """Yield client and topic with their episodes, by client in the order of first errors."""
        for client, episode in self._episodes.items():
            for topic, episodes in episode.items():
                yield (client, topic), episodes

    def _topics(self, exchange: Exchange) -> dict[str, list[int]]:
        body = exchange.request
        if body is None or body.version is None or exchange.api_key is None:
            return {}
        return topics_in(exchange.api_key, body.version, body.value, self._names)
