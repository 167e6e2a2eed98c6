"""Where partitions end, who leads them, and how far groups and clients have come: what lag can be told from.

Only what messages say is known: the high watermark of Fetch responses and the latest offset that ListOffsets found, the
offsets that groups commit (OffsetCommit) or are told (OffsetFetch), the offsets that consumers fetch from, the leaders
that Metadata tells. Offsets committed in transactions are left out: whether they count is decided later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from captures.analysis.introductions import client_name
from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, inner, number, rows, text
from captures.meaning.places import index, topic

_FETCH, _LIST_OFFSETS, _METADATA, _OFFSET_COMMIT, _OFFSET_FETCH = 1, 2, 3, 8, 9
_DESCRIBE_TOPIC_PARTITIONS = 75
_LATEST = -1

Place = tuple[str, int]
"""Topic, by name or ID, and partition."""


@dataclass(slots=True)
class Position:
    """What is known of one partition; the latest that was told of each.

    :ivar end: offset behind the last record that consumers may read; None if not told
    :ivar begin: of the first record that is kept; None if not told
    :ivar leader: node ID; None if not told, -1 if there was none
    :ivar committed: group -> offset up to which it has committed
    :ivar fetched: client -> offset that it fetches from next
    """

    end: int | None = None
    begin: int | None = None
    leader: int | None = None
    committed: dict[str, int] = field(default_factory=dict)
    fetched: dict[str, int] = field(default_factory=dict)

    def lag(self, offset: int) -> int | None:
        """Return how many offsets lie between a position and the end.

        None if the end is not known, or somebody has come further: then what was told of it is out of date.
        """
        if self.end is None or self.end < max(offset, *self.committed.values(), *self.fetched.values(), 0):
            return None
        return self.end - offset

    def include(self, other: Position) -> None:
        """Take over what another row of the same partition knows and this one does not."""
        self.end = other.end if self.end is None else self.end
        self.begin = other.begin if self.begin is None else self.begin
        self.leader = other.leader if self.leader is None else self.leader
        self.committed = other.committed | self.committed
        self.fetched = other.fetched | self.fetched


class Positions:
    """Collects positions by topic and partition.

    :param names: tells names of topic IDs; asked as offsets come, and again when the result is
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._positions: dict[Place, Position] = {}
        self.nodes: dict[int, str] = {}
        """Node ID -> ``host:port``, as Metadata tells."""

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        learn = _LEARN.get(-1 if exchange.api_key is None else exchange.api_key)
        if learn is not None:
            request = (exchange.request.value if exchange.request else None) or {}
            response = (exchange.response.value if exchange.response else None) or {}
            learn(self, client_name(exchange), request, response)

    def result(self) -> dict[Place, Position]:
        """Return what is known, by topic (its name, where some message told it) and partition."""
        out: dict[Place, Position] = {}
        early = []
        for (key, partition), known in self._positions.items():
            name = self._names(key)
            if name is None:
                out[key, partition] = replace(known)
            else:  # what came by ID before the name was told is older than what came by name
                early.append(((name, partition), known))
        for place, known in early:
            out.setdefault(place, Position()).include(known)
        return out

    def _of(self, place: Place) -> Position:
        known = self._positions.get(place)
        if known is None:
            known = self._positions[place] = Position()
        return known

    def _places(self, body: Body, topics: str) -> Iterator[tuple[Place, Body]]:
        """Yield the partition structs of a body with their places."""
        for holder in rows(body, topics):
            name = topic(holder, lambda uuid: self._names(uuid) or uuid)
            for row in rows(holder, "partitions"):
                partition = index(row)
                if name != "?" and partition is not None:
                    yield (name, partition), row

    def _fetch(self, client: str, request: Body, response: Body) -> None:
        replica = number(request, "replica_id", number(inner(request, "replica_state"), "replica_id"))
        for place, row in self._places(request, "topics"):
            if replica < 0 and number(row, "fetch_offset") >= 0:
                self._of(place).fetched[client] = row["fetch_offset"]
        for place, row in self._places(response, "responses"):
            if row.get("error_code"):
                continue
            known = self._of(place)
            if number(row, "high_watermark") >= 0:
                known.end = row["high_watermark"]
            if number(row, "log_start_offset") >= 0:
                known.begin = row["log_start_offset"]

    def _list_offsets(self, _: str, request: Body, response: Body) -> None:
        asked = {place: number(row, "timestamp", 0) for place, row in self._places(request, "topics")}
        for place, row in self._places(response, "topics"):
            found = row.get("old_style_offsets") or (number(row, "offset"),)
            if asked.get(place) == _LATEST and not row.get("error_code") and found[0] >= 0:
                self._of(place).end = found[0]

    def _commit(self, _: str, request: Body, response: Body) -> None:
        stored = {place for place, row in self._places(response, "topics") if row.get("error_code") == 0}
        for place, row in self._places(request, "topics"):
            if place in stored and number(row, "committed_offset") >= 0:
                self._of(place).committed[text(request, "group_id")] = row["committed_offset"]

    def _offset_fetch(self, _: str, request: Body, response: Body) -> None:
        # one group asks for itself before v8, and is not named again in the response
        for holder in rows(response, "groups") or [{**response, "group_id": request.get("group_id")}]:
            for place, row in self._places(holder, "topics"):
                if number(row, "committed_offset") >= 0 and not row.get("error_code"):
                    self._of(place).committed[text(holder, "group_id")] = row["committed_offset"]

    def _metadata(self, _: str, request: Body, response: Body) -> None:
        for broker in rows(response, "brokers"):
            if broker.get("node_id") is not None:
                self.nodes[broker["node_id"]] = f"{text(broker, 'host', '?')}:{broker.get('port', '?')}"
        for place, row in self._places(response, "topics"):
            if row.get("leader_id") is not None:
                self._of(place).leader = row["leader_id"]


_LEARN = {
    _FETCH: Positions._fetch,
    _LIST_OFFSETS: Positions._list_offsets,
    _METADATA: Positions._metadata,
    _DESCRIBE_TOPIC_PARTITIONS: Positions._metadata,
    _OFFSET_COMMIT: Positions._commit,
    _OFFSET_FETCH: Positions._offset_fetch,
}
