"""Guesses of a client's library, if it does not state it: from the versions that it uses, and from its behaviour.

A library uses of each API the highest version that both it and the broker know. So a version below what the broker
offers is the library's own highest; one equal to it is a lower bound. A library is named only if no other known one
would have used these versions. Clients of unknown libraries may be taken for a known one: therefore it is a guess.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.clients.libraries import (
    FRANZ_GO,
    JAVA,
    KAFKAJS,
    OTHERS,
    Library,
    ReleaseVersions,
    by_client_id,
    java_releases,
)
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import ExchangeGroup
from captures.arrays import Bools
from captures.exchanges import Capture, Exchange, Flag
from captures.meaning.exchange import Body, number, rows, text
from dissectors.api_keys import CONNECTING, ApiKey

_ENOUGH = 3
"""Least number of APIs; the versions of fewer match many libraries."""

_JAVA_REASONS = (
    "need to re-join with the given member-id",
    "rebalance failed due to",
    "need to revoke partitions and re-join",
    "cached metadata has changed",
    "group is already rebalancing",
)
"""Starts of the reasons in JoinGroup v8 (KIP-800; ``AbstractCoordinator.java``, ``ConsumerCoordinator.java``)."""
_FRANZ_GO_REASON = "beginning to manage the group lifecycle"
_KAFKAJS_PROTOCOL = "RoundRobinAssigner"

NEEDS = frozenset({"request.reason", "request.protocols.name", "request.member_id"}) | frozenset(
    {"request.topics.partitions.committed_metadata"}
)
"""The needed fields, for :class:`~captures.exchanges.projected_reader.ProjectedExchanges`."""

Used = tuple[str, int, int]
"""Broker, API key, version."""


class _ClientBehaviour(msgspec.Struct):
    """The behaviour of a client.

    :ivar used: number of the first exchange by broker, API key and version
    :ivar marks: library -> the telltale
    :ivar whole: whether the start of a connection was captured
    """

    used: dict[Used, int] = {}
    marks: dict[str, str] = {}
    asks: bool = False
    whole: bool = False


class Fingerprints:
    """Collects the fingerprints of clients.

    :param capture: knows which connections were captured from their start; without it, that is unknown
    """

    def __init__(self, capture: Capture | None = None) -> None:
        self._capture = capture
        self._offered: dict[str, dict[int, int]] = {}
        self._clients: dict[str, _ClientBehaviour] = defaultdict(_ClientBehaviour)
        self._fits_of: dict[tuple[bool, bool, frozenset[Used]], tuple[ReleaseVersions, ...]] = {}
        """Matching releases by behaviour, which many clients share, given the brokers' offers so far."""

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        key, version = exchange.api_key, exchange.version
        if key is None or version is None or Flag.ORPHAN in exchange.flag:
            return
        self._use(
            client_name(exchange), (exchange.broker, key, version), exchange.number, exchange.connection
        )
        self.learn(exchange)

    def count(self, group: ExchangeGroup) -> None:
        """Note what the exchanges of a whole capture use; groups in the order of their first exchanges."""
        if group.api_key is not None and group.version is not None:
            used = group.connection.broker, group.api_key, group.version
            self._use(group.client_name, used, group.number, group.connection.connection)

    def _use(self, client: str, used: Used, number: int, connection: int) -> None:
        seen = self._clients[client]
        if used in seen.used:
            return
        seen.used[used] = number
        seen.asks |= used[1] == ApiKey.API_VERSIONS
        if self._capture is not None:
            seen.whole |= int(self._capture.connections.syn_time[connection]) >= 0

    @staticmethod
    def deciding(rows: DecisionColumns) -> Bools:
        """Return which exchanges of a whole capture it has to learn from."""
        return rows.of_api({ApiKey.API_VERSIONS, ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT})

    def learn(self, exchange: Exchange) -> None:
        """Learn from what an exchange says, once it was counted."""
        seen = self._clients.get(client_name(exchange))
        key, version, request = exchange.api_key, exchange.version, exchange.request_body
        if seen is None or key is None or version is None:
            return
        if key == ApiKey.API_VERSIONS and seen.used.get((exchange.broker, key, version)) == exchange.number:
            self._offer(exchange)
        elif key == ApiKey.JOIN_GROUP and request:
            _joined(seen, request)
        elif key == ApiKey.OFFSET_COMMIT and request:
            _committed(seen, request)

    def _offer(self, exchange: Exchange) -> None:
        response = exchange.response_body
        if response and not number(response, "error_code", 0):
            self._fits_of.clear()
            self._offered[exchange.broker] = {
                number(row, "api_key"): number(row, "max_version") for row in rows(response, "api_keys")
            }

    def guess(self, client: str, client_id: str | None) -> Library | None:
        """Return the likely library of a client; None if unknown.

        :param client: its name, from :func:`~captures.analysis.client_identity.client_name`
        """
        seen = self._clients.get(client) or _ClientBehaviour()
        marks = dict(seen.marks)
        named = by_client_id(client_id) if client_id else None
        if named is not None:
            marks[named.name] = named.why
        if len(marks) > 1:
            return None
        fits = self._fitting(seen)
        for library, why in marks.items():
            of_library = [each for each in fits if each.library == library]
            release = named.release if named is not None and named.release else _releases(of_library)
            return Library(library, release, why=why)
        libraries = {each.library for each in fits}
        apis = {key for _, key, _ in seen.used} - CONNECTING
        if len(libraries) != 1 or len(apis) < _ENOUGH:
            return None
        return Library(libraries.pop(), _releases(fits), why=f"the versions it uses of {len(apis)} APIs")

    def _fitting(self, seen: _ClientBehaviour) -> Sequence[ReleaseVersions]:
        """Return the known releases that would have used the same versions."""
        if not seen.used:
            return ()
        behaviour = seen.asks, seen.whole, frozenset(seen.used)
        found = self._fits_of.get(behaviour)
        if found is None:
            found = self._fits_of[behaviour] = tuple(
                speaks
                for speaks in (*java_releases(), *OTHERS)
                if (speaks.asks == seen.asks or not (seen.asks or seen.whole))
                and _asks_alike(speaks, seen)
                and all(self._fits(speaks, *used) for used in seen.used)
            )
        return found

    def _fits(self, speaks: ReleaseVersions, broker: str, key: int, version: int) -> bool:
        if key in CONNECTING:
            return True
        if key not in speaks.least:  # all APIs of Java clients are known, of others only those seen
            return speaks.library != JAVA
        if (key, version) in speaks.may_use and version <= speaks.most[key]:
            return True
        if not speaks.asks:
            return version == speaks.least[key]
        offered = self._offered.get(broker, {}).get(key)
        if offered is None:  # the broker may be older than the client
            return version <= speaks.most[key]
        if version < offered:
            return speaks.least[key] <= version <= speaks.most[key]
        return version <= speaks.most[key]


def _asks_alike(speaks: ReleaseVersions, seen: _ClientBehaviour) -> bool:
    """Return whether a release would have used this version of ApiVersions first.

    A client retries with an older version if the broker does not know it (KIP-511); with SASL the Java client begins
    with 0.
    """
    asked = max((version for _, key, version in seen.used if key == ApiKey.API_VERSIONS), default=0)
    most = speaks.most.get(ApiKey.API_VERSIONS)
    return not asked or most is None or speaks.least[ApiKey.API_VERSIONS] <= asked <= most


def _joined(seen: _ClientBehaviour, request: Body) -> None:
    reason = text(request, "reason")
    if reason.startswith(_JAVA_REASONS):
        seen.marks[JAVA] = f"it joins its group with the reason {reason!r}"
    elif reason == _FRANZ_GO_REASON:
        seen.marks[FRANZ_GO] = f"it joins its group with the reason {reason!r}"
    if any(row.get("name") == _KAFKAJS_PROTOCOL for row in rows(request, "protocols")):
        seen.marks[KAFKAJS] = f"its assignor is called {_KAFKAJS_PROTOCOL}"


def _committed(seen: _ClientBehaviour, request: Body) -> None:
    member = text(request, "member_id")
    if not member or FRANZ_GO in seen.marks:
        return
    for topic in rows(request, "topics"):
        for row in rows(topic, "partitions"):
            if row.get("committed_metadata") == member:
                seen.marks[FRANZ_GO] = "its commits carry its member ID as metadata"
                return


def _releases(fits: Sequence[ReleaseVersions]) -> str:
    """Return the matching releases of one library as a range: ``2.1-2.8``; empty if unknown."""
    names = [name for name, _ in groupby(fits, lambda each: each.release)]
    if not names or "" in names:
        return ""
    ends = names[0].partition("-")[0], names[-1].rpartition("-")[2]
    return ends[0] if ends[0] == ends[1] else "-".join(ends)
