"""Ends and leaders of partitions, and the positions of groups and clients: the inputs of lag.

Only messages are used: the high watermark of Fetch responses, the latest offset found by ListOffsets, and the offsets
of Produce responses with acks=all (the broker answers when the high watermark is past the records); offsets that groups
commit (OffsetCommit) or fetch (OffsetFetch), offsets that consumers fetch from, leaders in Metadata. Offsets of a
transaction (TxnOffsetCommit) count once EndTxn has committed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from captures.analysis.client_identity import client_name
from captures.analysis.record_traffic import commits_of
from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, number, replica_of, rows, text
from captures.meaning.payload import headers
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from dissectors.api_keys import ApiKey

ALL = -1
"""The acks of a producer that waits for all replicas."""
_LATEST = -1
_COUNTED_FROM_0 = 2


class PositionKind(Enum):
    """What a message says about a partition: a value of :class:`Position`, or only that the partition exists."""

    EXISTS = "exists"
    END = "end"
    REACHED = "reached"
    """The end is at least there."""
    BEGIN = "begin"
    LEADER = "leader"
    COMMITTED = "committed"
    FETCHED = "fetched"


# Python 3.11 looks up members of an Enum by a function call, which takes several times as long as a global
EXISTS, END, REACHED, BEGIN, LEADER, COMMITTED, FETCHED = PositionKind


@dataclass(slots=True)
class Position:
    """What is known about one partition: the latest value of each kind.

    :ivar end: offset after the last record that consumers may read; None if unknown
    :ivar begin: offset of the first record that is kept; None if unknown
    :ivar leader: node ID; None if unknown, -1 if there was none
    :ivar committed: group -> offset up to which it has committed
    :ivar fetched: client -> next offset that it fetches
    :ivar furthest: the greatest of these offsets, 0 if there is none
    """

    end: int | None = None
    begin: int | None = None
    leader: int | None = None
    committed: dict[str, int] = field(default_factory=dict)
    fetched: dict[str, int] = field(default_factory=dict)
    furthest: int = 0

    @property
    def known_end(self) -> int | None:
        """The end; None if it is unknown, or outdated because a group or client is past it."""
        return None if self.end is None or self.end < self.furthest else self.end

    def lag(self, offset: int) -> int | None:
        """Return the number of offsets between a position and the end; None if the end is unknown or outdated."""
        return lag_behind(self.known_end, offset)

    def include(self, other: Position) -> None:
        """Add what another row of the same partition knows and this one does not."""
        self.end = other.end if self.end is None else self.end
        self.begin = other.begin if self.begin is None else self.begin
        self.leader = other.leader if self.leader is None else self.leader
        self.committed = other.committed | self.committed
        self.fetched = other.fetched | self.fetched
        self._find_furthest()

    def take(self, what: PositionKind, who: str, value: int) -> None:
        """Set a reported value.

        :param who: the group that has committed, or the client that fetches
        """
        if what is END:
            self.end = value
        elif what is COMMITTED or what is FETCHED:
            offsets = self.committed if what is COMMITTED else self.fetched
            before, offsets[who] = offsets.get(who), value
            if value >= self.furthest:
                self.furthest = value
            elif before == self.furthest:
                self._find_furthest()
        elif what is REACHED:
            self.end = max(self.end or 0, value)
        elif what is BEGIN:
            self.begin = value
        elif what is LEADER:
            self.leader = value

    def _find_furthest(self) -> None:
        self.furthest = max((*self.committed.values(), *self.fetched.values(), 0))


def lag_behind(end: int | None, offset: int) -> int | None:
    """Return the number of offsets between a position and an end; None if the end is unknown or outdated."""
    return None if end is None or end < offset else end - offset


class PositionUpdate(NamedTuple):
    """A message's statement about one partition.

    :ivar who: as for :meth:`Position.take`
    """

    tp: TopicPartition
    what: PositionKind
    who: str = ""
    value: int = 0


class Positions:
    """Collects positions by topic and partition.

    :param names: returns names of topic IDs; called when offsets arrive, and again for the result
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._positions: defaultdict[TopicPartition, Position] = defaultdict(Position)
        self._undecided: dict[str, dict[tuple[str, TopicPartition], int]] = {}
        """Transactional ID -> group and partition -> offset."""
        self.nodes: dict[int, str] = {}
        """Node ID -> ``host:port``, from Metadata."""

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        for tp, what, who, value in self.updates(exchange):
            self.of(tp).take(what, who, value)

    def updates(self, exchange: Exchange) -> Iterator[PositionUpdate]:
        """Yield an exchange's updates for :meth:`Position.take`; exchanges must be in order, each once."""
        learn = _LEARN.get(-1 if exchange.api_key is None else exchange.api_key)
        if learn is not None:
            yield from learn(self, client_name(exchange), exchange.request_body, exchange.response_body)

    def of(self, tp: TopicPartition) -> Position:
        """Return the state of a partition, which is kept from now on."""
        return self._positions[tp]

    def result(self) -> dict[TopicPartition, Position]:
        """Return the positions by topic (its name, if any message revealed it) and partition."""
        out: dict[TopicPartition, Position] = {}
        early = []
        for tp, known in self._positions.items():
            name = self._names(tp.topic)
            if name is None:
                out[tp] = replace(known)
            else:  # values by ID, from before the name was known, are older than those by name
                early.append((tp._replace(topic=name), known))
        for tp, known in early:
            out.setdefault(tp, Position()).include(known)
        return out

    def _places(
        self, body: Body, topics: str, partitions: str = "partitions"
    ) -> Iterator[tuple[TopicPartition, Body]]:
        return rows_by_partition(body, topics, self._names, partitions)

    def _produce(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        if number(request, "acks", 0) != ALL:
            return
        sent = dict(self._places(request, "topic_data", "partition_data"))
        for tp, row in self._places(response, "responses", "partition_responses"):
            batches = headers(sent.get(tp, {}).get("records"))
            base = number(row, "base_offset")
            # producers number records from 0; in message sets of magic 0 and 1 they may not
            if row.get("error_code") == 0 and base >= 0 and batches and batches[-1].magic >= _COUNTED_FROM_0:
                yield PositionUpdate(tp, REACHED, "", base + batches[-1].last_offset + 1)

    def _fetch(self, client: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        replica = replica_of(request)
        for tp, row in self._places(request, "topics"):
            if replica < 0 and number(row, "fetch_offset") >= 0:
                yield PositionUpdate(tp, FETCHED, client, row["fetch_offset"])
        for tp, row in self._places(response, "responses"):
            if row.get("error_code"):
                continue
            yield PositionUpdate(tp, EXISTS)
            if number(row, "high_watermark") >= 0:
                yield PositionUpdate(tp, END, "", row["high_watermark"])
            if number(row, "log_start_offset") >= 0:
                yield PositionUpdate(tp, BEGIN, "", row["log_start_offset"])

    def _list_offsets(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        asked = {tp: number(row, "timestamp", 0) for tp, row in self._places(request, "topics")}
        for tp, row in self._places(response, "topics"):
            found = row.get("old_style_offsets") or (number(row, "offset"),)
            if asked.get(tp) == _LATEST and not row.get("error_code") and found[0] >= 0:
                yield PositionUpdate(tp, END, "", found[0])

    def _commit(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        for tp, offset, error in commits_of(request, response, self._names):
            if error == 0:
                yield PositionUpdate(tp, COMMITTED, text(request, "group_id"), offset)

    def _txn_commit(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        undecided = self._undecided.setdefault(text(request, "transactional_id"), {})
        for tp, offset, error in commits_of(request, response, self._names):
            if error == 0:
                undecided[text(request, "group_id"), tp] = offset
        yield from ()

    def _end_txn(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        if response.get("error_code") != 0:
            return
        decided = self._undecided.pop(text(request, "transactional_id"), {})
        if request.get("committed"):
            for (group, tp), offset in decided.items():
                yield PositionUpdate(tp, COMMITTED, group, offset)

    def _init_producer_id(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        # aborts open transactions of the former producer with the same ID
        if response.get("error_code") == 0:
            self._undecided.pop(text(request, "transactional_id"), None)
        yield from ()

    def _offset_fetch(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        # before v8 a request has one group, which the response does not repeat
        for holder in rows(response, "groups") or [{**response, "group_id": request.get("group_id")}]:
            for tp, row in self._places(holder, "topics"):
                if number(row, "committed_offset") >= 0 and not row.get("error_code"):
                    yield PositionUpdate(tp, COMMITTED, text(holder, "group_id"), row["committed_offset"])

    def _metadata(self, _: str, request: Body, response: Body) -> Iterator[PositionUpdate]:
        for broker in rows(response, "brokers"):
            if broker.get("node_id") is not None:
                self.nodes[broker["node_id"]] = f"{text(broker, 'host', '?')}:{broker.get('port', '?')}"
        for tp, row in self._places(response, "topics"):
            if row.get("leader_id") is not None:
                yield PositionUpdate(tp, LEADER, "", row["leader_id"])


_LEARN: dict[int, Callable[..., Iterator[PositionUpdate]]] = {
    ApiKey.PRODUCE: Positions._produce,
    ApiKey.FETCH: Positions._fetch,
    ApiKey.LIST_OFFSETS: Positions._list_offsets,
    ApiKey.METADATA: Positions._metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Positions._metadata,
    ApiKey.OFFSET_COMMIT: Positions._commit,
    ApiKey.OFFSET_FETCH: Positions._offset_fetch,
    ApiKey.TXN_OFFSET_COMMIT: Positions._txn_commit,
    ApiKey.END_TXN: Positions._end_txn,
    ApiKey.INIT_PRODUCER_ID: Positions._init_producer_id,
}
LEARNED_FROM = frozenset(_LEARN)
"""APIs with positions."""
