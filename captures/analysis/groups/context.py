"""The context of a group's calls: its coordinators, partition counts of topics, ends of connections.

The coordinator is the broker that answers a group's members. A broker may have several addresses, one for each
listener: addresses in use at the same time are one coordinator. Another one has taken over when members no longer use
the former address.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import msgspec

from captures.analysis.attempts import Acceptances, Ending, ending
from captures.analysis.client_identity import client_name
from captures.analysis.groups.connectors import ConfigChanges
from captures.analysis.groups.model import ObservedCoordinator
from captures.exchanges import Capture, Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, number, rows, text
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode

PAUSE = 60_000_000_000
"""ns without a call after which an address in use again may be a coordinator that came back."""
_LACKING = 10_000_000_000
"""Longest time in ns for which a topic may be missing in Metadata without having been deleted."""
MOST_STINTS = 200
"""Most stints that are kept of a group; later calls extend an earlier one."""
_OVERLAP = 1_000_000_000
"""ns for which the former coordinator may still answer calls after the first to the new one."""


class _AnsweringPeriod(msgspec.Struct):
    """A time in which an address answered.

    :ivar number: number of the first exchange
    :ivar resigned: whether it later said that it is not the coordinator
    """

    broker: str
    begin: int
    end: int
    number: int
    resigned: bool = False


class Coordinators:
    """Collects the brokers that answered, by group."""

    def __init__(self) -> None:
        self._stints: dict[str, list[_AnsweringPeriod]] = {}

    def answered(self, group: str, broker: str, time: int, number: int) -> None:
        """Record that a broker answered a member's call as coordinator.

        :param time: time of the request
        """
        stints = self._stints.setdefault(group, [])
        current = next((stint for stint in reversed(stints) if stint.broker == broker), None)
        came_back = current is not None and current is not stints[-1] and stints[-1].resigned
        if current is not None and (
            current is stints[-1]
            or (time - current.end <= PAUSE and not came_back)
            or len(stints) >= MOST_STINTS
        ):
            if time < current.begin:
                current.begin, current.number = time, number
            current.end = max(current.end, time)
        elif len(stints) < MOST_STINTS:
            stints.append(_AnsweringPeriod(broker, time, time, number))

    def extend(self, group: str, broker: str, time: int) -> None:
        """Record that a broker continued to answer up to `time` without a :data:`PAUSE`."""
        stint = next((each for each in reversed(self._stints.get(group, ())) if each.broker == broker), None)
        if stint is not None:
            stint.end = max(stint.end, time)

    def resigned(self, group: str, broker: str, time: int) -> None:
        """Record that a broker said that it is not the coordinator; no address of the coordinator ever says so."""
        stints = self._stints.get(group)
        if stints and stints[-1].broker == broker and time >= stints[-1].begin:
            stints[-1].resigned = True

    def merge(self, other: Coordinators) -> None:
        """Merge what `other` has collected about other groups."""
        self._stints |= other._stints

    def of(self, group: str) -> list[ObservedCoordinator]:
        """Return the coordinators in the order of time, by the addresses of the connections: one for each change."""
        out: list[ObservedCoordinator] = []
        former: _AnsweringPeriod | None = None
        for stint in sorted(self._stints.get(group, ()), key=lambda each: (each.begin, each.number)):
            if former is None or former.end <= stint.begin + _OVERLAP:
                if former is None or former.broker != stint.broker:
                    out.append(ObservedCoordinator(stint.begin, stint.broker, stint.number))
                former = stint
            elif stint.end > former.end:
                # another address of the same broker, or the former one, still asked by members unaware of the move
                former = stint
        return out


_CHANGING = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})
OF_TOPICS = _CHANGING | {ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS}
"""APIs that show how many partitions topics have."""


class PartitionCountChange(NamedTuple):
    """A partition count of a topic in a response to a client, different from the last one that the client received.

    :ivar time: time of the response
    :ivar partitions: number of partitions; 0 if there is no such topic
    :ivar number: number of the exchange
    :ivar client: client ID, or address without one
    :ivar before: the count that the same client received before; None if there is none
    :ivar asked: whether the client itself created, deleted or grew the topic
    """

    time: int
    partitions: int
    number: int
    client: str
    before: int | None
    asked: bool = False


class PartitionCounts:
    """Partition counts of topics over time, as clients received them; only changes are kept."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._latest: dict[tuple[str, str], int] = {}
        self._changes: dict[str, list[PartitionCountChange]] = {}

    def add(self, exchange: Exchange) -> None:
        """Add an exchange of one of :data:`OF_TOPICS`."""
        request = exchange.request_body
        response = exchange.response_body
        if not response or request.get("validate_only"):
            return
        time, client, asked = exchange.end, client_name(exchange), exchange.api_key in _CHANGING
        for topic, count in self._counts(exchange.api_key, request, response):
            before = self._latest.get((topic, client))
            if topic and count != before:
                self._latest[topic, client] = count
                seen = PartitionCountChange(time, count, exchange.number, client, before, asked)
                self._changes.setdefault(topic, []).append(seen)

    def merge(self, other: PartitionCounts) -> None:
        """Merge what other clients received."""
        for topic, seen in other._changes.items():
            self._changes.setdefault(topic, []).extend(seen)

    def topics(self) -> list[str]:
        """Return the names of the topics, sorted."""
        return sorted(self._changes)

    def changes(self, topic: str) -> list[PartitionCountChange]:
        """Return the counts of a topic that clients received, in the order of time."""
        return sorted(self._changes.get(topic, ()))

    def lack(self, topic: str, seen: PartitionCountChange) -> int | None:
        """Return for how many ns Metadata lacked a topic that a client saw disappear or reappear.

        A broker that has just started does not know all topics yet. None if the topic came back with another count, or
        was missing for long: then it was deleted.
        """
        changes = sorted(each for each in self._changes.get(topic, ()) if each.client == seen.client)
        for gone, back in pairwise(changes):
            if seen in (gone, back) and not gone.partitions and gone.before == back.partitions:
                lasted = back.time - gone.time
                return lasted if lasted <= _LACKING else None
        return None

    def at(self, topic: str, time: int) -> int | None:
        """Return the partition count of a topic that clients knew at `time`; None if none knew it."""
        known = self.changes(topic)
        index = bisect_right(known, time, key=lambda seen: seen.time)
        return known[index - 1].partitions if index else None

    def _counts(self, key: int | None, request: Body, response: Body) -> list[tuple[str, int]]:
        if key == ApiKey.CREATE_PARTITIONS:
            failed = {text(row, "name") for row in rows(response, "results") if row.get("error_code")}
            return [
                (name, number(row, "count"))
                for row in rows(request, "topics")
                if (name := text(row, "name")) not in failed and number(row, "count") > 0
            ]
        if key == ApiKey.DELETE_TOPICS:
            return [
                (self._topic(row), 0) for row in rows(response, "responses") if row.get("error_code") == 0
            ]
        if key == ApiKey.CREATE_TOPICS:
            return _created(request, response)
        return [
            (self._topic(row), len(rows(row, "partitions")))
            for row in rows(response, "topics")
            if row.get("error_code") in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) or rows(row, "partitions")
        ]

    def _topic(self, row: Body) -> str:
        uuid = text(row, "topic_id")
        return text(row, "name") or (self._names(uuid) if uuid else None) or ""


def _created(request: Body, response: Body) -> list[tuple[str, int]]:
    asked = {text(row, "name"): row for row in rows(request, "topics")}
    out = []
    for row in rows(response, "topics"):
        wanted = asked.get(text(row, "name"), {})
        count = number(row, "num_partitions")  # since v5
        if count <= 0:
            count = len(rows(wanted, "assignments")) or number(wanted, "num_partitions")
        if row.get("error_code") == 0 and count > 0:
            out.append((text(row, "name"), count))
    return out


@dataclass(slots=True)
class GroupContext:
    """The context of one group's calls.

    :ivar now: the latest known time: the end of the capture, or the present for a growing one
    :ivar names: resolves topic IDs
    :ivar partitions: partition counts of topics
    :ivar coordinators: brokers that answered the group's members, one for each change
    :ivar capture: shows how connections ended; None if there is none
    :ivar acceptances: connections accepted in the same capture; None if there is none
    :ivar configs: changes in configurations of Kafka Connect
    """

    now: int
    names: Names
    partitions: PartitionCounts
    coordinators: list[ObservedCoordinator] = field(default_factory=list)
    capture: Capture | None = None
    acceptances: Acceptances | None = None
    configs: ConfigChanges = field(default_factory=ConfigChanges)

    def accepted(self, broker: str, after: int) -> int | None:
        """Return when a broker first accepted a connection after `after`; None if that was not captured."""
        return None if self.acceptances is None else self.acceptances.next(broker, after)

    def ending(self, connection: int) -> Ending | None:
        """Return how a connection ended; None if it did not, or that was not captured."""
        return None if self.capture is None else ending(self.capture, connection)
