"""Coordinators that are unavailable for long."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    error_names,
    of_clients,
    some_of,
    together,
    unexpected,
    with_errors,
)
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit, times
from captures.arrays import Bools
from captures.exchanges import NO_ANSWER_SEEN, Exchange
from captures.meaning import groups_in, transactional_ids_in
from captures.time_format import span
from dissectors.api_keys import GROUP_HEARTBEATS, PRODUCER_APIS, ApiKey
from dissectors.error_codes import COORDINATOR_AWAY
from dissectors.units import MS, SECOND

_APIS = (PRODUCER_APIS - {ApiKey.PRODUCE}) | GROUP_HEARTBEATS | {
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP,
}  # fmt: skip
"""APIs that coordinators of groups and transactions answer, and FindCoordinator."""


_SHARE = 2
"""Key type of FindCoordinator for the state of a share group's partition."""
_SHARED = "the state of share group"
_OF_GROUPS = (
    "Check that __consumer_offsets (for transactions __transaction_state) exists and its partitions have "
    "leaders, and that there are as many brokers as offsets.topic.replication.factor and "
    "transaction.state.log.replication.factor require. Loading takes long if the topic is not compacted."
)
_OF_SHARES = (
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
    apis = _APIS
    thresholds = (
        Threshold("longest", 5_000, Unit.MILLISECONDS, "time without a coordinator; a shorter one is low"),
        Threshold(
            "for_ever",
            30_000,
            Unit.MILLISECONDS,
            "time without a coordinator up to the end of the capture, from which the severity is high",
        ),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._awaited: dict[tuple[str, str], _Outage] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.all_if_met(COORDINATOR_AWAY)

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
            _OF_SHARES if all(each.startswith(_SHARED) for each in led) else _OF_GROUPS,
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
    shared = key == ApiKey.FIND_COORDINATOR and exchange.request_body.get("key_type") == _SHARE
    kind = _SHARED if shared else "group"
    led = [f"{kind} {group}" for group in groups_in(key, body.version, body.value)]
    return led + [f"transactional ID {each}" for each in transactional_ids_in(key, body.version, body.value)]
