"""What is known around the calls of a group: partition counts of topics, coordinators, and how connections ended."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from captures.analysis.groups.model import CoordinatorSeen
from captures.analysis.introductions import client_name
from captures.exchanges import Capture, Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, number, rows, text

METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DESCRIBE_TOPIC_PARTITIONS = 3, 19, 20, 37, 75
OF_TOPICS = frozenset({METADATA, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, DESCRIBE_TOPIC_PARTITIONS})
"""APIs that tell how many partitions topics have."""

_UNKNOWN_TOPIC = 3


class CountSeen(NamedTuple):
    """A client was told how many partitions a topic has, and it is not what it was told before.

    :ivar time: of the response
    :ivar partitions: 0 if there is no such topic
    :ivar number: of the exchange
    :ivar client: client ID, or address without one
    :ivar before: what the same client was told before; None if nothing
    """

    time: int
    partitions: int
    number: int
    client: str
    before: int | None


class Ending(NamedTuple):
    """How a connection ended.

    :ivar time: of the FIN or RST that came first
    :ivar reset: whether it was an RST
    :ivar by_client: whether the client sent it
    """

    time: int
    reset: bool
    by_client: bool


class PartitionCounts:
    """How many partitions topics have, over time, as clients were told it; only changes are kept."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._latest: dict[tuple[str, str], int] = {}
        self._changes: dict[str, list[CountSeen]] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from the answer to one of :data:`OF_TOPICS`."""
        request = (exchange.request.value if exchange.request else None) or {}
        response = (exchange.response.value if exchange.response else None) or {}
        if not response or request.get("validate_only"):
            return
        time = exchange.time + (exchange.latency or 0)
        for topic, count in self._told(exchange.api_key, request, response):
            self._learn(topic, count, time, exchange.number, client_name(exchange))

    def changes(self, topic: str) -> list[CountSeen]:
        """Return what clients were told of a topic, in the order of time."""
        return sorted(self._changes.get(topic, ()))

    def at(self, topic: str, time: int) -> int | None:
        """Return how many partitions a topic had as far as anybody was told by then; None if nobody was."""
        known = self.changes(topic)
        place = bisect_right(known, time, key=lambda seen: seen.time)
        return known[place - 1].partitions if place else None

    def _learn(self, topic: str, count: int, time: int, number_: int, client: str) -> None:
        before = self._latest.get((topic, client))
        if topic and count != before:
            self._latest[topic, client] = count
            self._changes.setdefault(topic, []).append(CountSeen(time, count, number_, client, before))

    def _told(self, key: int | None, request: Body, response: Body) -> list[tuple[str, int]]:
        if key == CREATE_PARTITIONS:
            failed = {text(row, "name") for row in rows(response, "results") if row.get("error_code")}
            return [
                (name, number(row, "count"))
                for row in rows(request, "topics")
                if (name := text(row, "name")) not in failed and number(row, "count") > 0
            ]
        if key == DELETE_TOPICS:
            return [
                (self._topic(row), 0) for row in rows(response, "responses") if row.get("error_code") == 0
            ]
        if key == CREATE_TOPICS:
            return _created(request, response)
        return [
            (self._topic(row), len(rows(row, "partitions")))
            for row in rows(response, "topics")
            if row.get("error_code") in (0, _UNKNOWN_TOPIC) or rows(row, "partitions")
        ]

    def _topic(self, row: Body) -> str:
        uuid = text(row, "topic_id")
        return text(row, "name") or (self._names(uuid) if uuid else None) or ""


def _created(request: Body, response: Body) -> list[tuple[str, int]]:
    asked = {text(row, "name"): row for row in rows(request, "topics")}
    out = []
    for row in rows(response, "topics"):
        wanted = asked.get(text(row, "name"), {})
        count = number(row, "num_partitions")  # told since v5
        if count <= 0:
            count = len(rows(wanted, "assignments")) or number(wanted, "num_partitions")
        if row.get("error_code") == 0 and count > 0:
            out.append((text(row, "name"), count))
    return out


@dataclass(slots=True)
class Surroundings:
    """What is known around the calls of one group.

    :ivar now: the latest moment that is known of: the end of the capture, or the present of one that goes on
    :ivar names: tells names of topic IDs
    :ivar partitions: how many partitions topics have
    :ivar coordinators: brokers that answered the group's members, one for each change
    :ivar capture: tells how connections ended; None if there is none
    """

    now: int
    names: Names
    partitions: PartitionCounts
    coordinators: list[CoordinatorSeen] = field(default_factory=list)
    capture: Capture | None = None

    def ending(self, connection: int) -> Ending | None:
        """Return how a connection ended; None if it did not, or that was not captured."""
        if self.capture is None:
            return None
        directions = self.capture.connections[connection].directions
        turned = self.capture.client_stream(connection) & 1
        ends = [
            Ending(time, reset, side == turned)
            for side, direction in enumerate(directions)
            for time, reset in ((direction.fin_time, False), (direction.reset_time, True))
            if time >= 0
        ]
        return min(ends, default=None)
