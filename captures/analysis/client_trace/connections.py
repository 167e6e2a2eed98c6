"""The search for the connections of a party: first by columns of the exchange table, then by names in messages.

A connection belongs to one process, so a party is a set of connections. It starts with the connections that match the
question. Others belong to the party if they have the same member ID, or the same producer ID and epoch at the same
address: no two processes share these. (A process that takes over a transactional ID continues with the producer ID, and
another epoch.) Connections without such names, such as those to brokers that are no coordinator, are attributed by
client ID and address, and by when they were open if several processes share both.

Of frequent requests on a connection, the first and the last are read; all are if that does not find the member,
transaction or producer in question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from captures.analysis.client_trace.identities import (
    CHANGING,
    Identity,
    identities,
    needs,
)
from captures.analysis.client_trace.model import (
    Association,
    AssociationReason,
    Question,
    QuestionKind,
    TracedClient,
)
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Int64s
from captures.exchanges import Capture
from captures.exchanges.projected_reader import ProjectedReader
from captures.names.names import split
from dissectors.api_keys import MEMBER_APIS, PRODUCER_APIS

_NAMING = np.array(sorted(MEMBER_APIS | PRODUCER_APIS))
_CHANGING = np.array(sorted(CHANGING))
_FIRST, _LAST = 3, 2
"""Exchanges of an API that are read per connection."""
_KEYS = np.int64(1 << 16)


@dataclass(slots=True, eq=False)
class _Connection:
    """A connection.

    :ivar names: identity -> number of the first exchange with it
    """

    id: int
    host: str
    begin: int
    end: int
    client_ids: dict[str, int] = field(default_factory=dict)
    names: dict[Identity, int] = field(default_factory=dict)


def find_client(capture: Capture, question: Question) -> TracedClient:
    """Return the party in question; without ties if there is none.

    :param capture: read to its end
    """
    finder = _Finder(capture, question)
    finder.find()
    return finder.party()


def known_names(capture: Capture) -> list[str]:
    """Return the client IDs of a capture, for a question without a match; addresses if there are none."""
    found = dict.fromkeys(name for name in capture.table.client_ids if name)
    if found:
        return list(found)
    return list(
        dict.fromkeys(split(capture.endpoints(each)[0])[0] for each in range(len(capture.connections)))
    )


class _Finder:
    def __init__(self, capture: Capture, question: Question) -> None:
        self._capture = capture
        self._question = question
        self._order = capture.table.order()
        self._number = np.empty(len(self._order), np.int64)
        self._number[self._order] = np.arange(1, len(self._order) + 1)
        self._connections = self._known()
        self._exchanges = np.bincount(
            capture.table.column("connection"), minlength=len(capture.connections)
        ).tolist()
        self._ties: dict[int, Association] = {}
        self._unclaimed = 0

    def find(self) -> None:
        self._learn_names(self._sampled(self._naming()))
        self._begin()
        if not self._ties and self._question.by not in (QuestionKind.CLIENT, QuestionKind.CONNECTION):
            # it may be one of many on a connection, and not among the sample
            self._learn_names(self._naming())
            self._begin()
        if self._ties:
            self._follow_names()
            self._adopt()
            self._follow_clients()
            self._follow_names()
            self._follow_silent()

    # ------------------------------------------------------------ all connections
    def _known(self) -> list[_Connection]:
        capture, columns = self._capture, self._capture.connections
        found = [
            _Connection(
                each,
                split(capture.endpoints(each)[0])[0],
                int(columns.first_time[each]),
                int(columns.last_time[each]),
            )
            for each in range(len(columns))
        ]
        table = capture.table
        many = len(table.client_ids) + 1
        pairs = table.column("connection")[self._order].astype(np.int64) * many
        pairs += table.column("client_id")[self._order] + 1
        distinct, first = np.unique(pairs, return_index=True)
        for at in np.argsort(first).tolist():
            connection, client = divmod(int(distinct[at]), many)
            name = table.client_ids[client - 1] if client else None
            if name:
                found[connection].client_ids[name] = int(first[at]) + 1
        return found

    def _naming(self) -> Int64s:
        """Return the rows in which clients may name themselves, in order."""
        keys = self._capture.table.column("api_key")[self._order]
        rows: Int64s = self._order[np.isin(keys, _NAMING)]
        return rows

    def _sampled(self, rows: Int64s) -> Int64s:
        """Return the first and the last rows by connection and API, and all in which names change."""
        table = self._capture.table
        keys = table.column("api_key")[rows]
        which = table.column("connection")[rows].astype(np.int64) * _KEYS + keys
        order = np.argsort(which, kind="stable")
        _, start, count = np.unique(which[order], return_index=True, return_counts=True)
        indexes = np.arange(len(order)) - np.repeat(start, count)
        chosen = np.zeros(len(rows), np.bool_)
        chosen[order] = (indexes < _FIRST) | (indexes >= np.repeat(count, count) - _LAST)
        return rows[chosen | np.isin(keys, _CHANGING)]

    def _learn_names(self, rows: Int64s) -> None:
        connection, versions = (self._capture.table.column(name) for name in ("connection", "version"))
        for parts in ProjectedReader(self._capture, needs).read(rows):
            request = parts.request.value if parts.request is not None else None
            response = parts.response.value if parts.response is not None else None
            names = self._connections[int(connection[parts.row])].names
            version, number = int(versions[parts.row]), int(self._number[parts.row])
            found_names = identities(parts.key, version, request or {}, response or {})
            for name in self._capture.faults.contained_items(found_names, "finding out who it is of", number):
                names.setdefault(name, number)

    # ------------------------------------------------------------ the question
    def _begin(self) -> None:
        by, wanted = self._question
        if by is QuestionKind.CONNECTION:
            for each in self._connections:
                if str(each.id) == wanted:
                    self._tie(each, AssociationReason.CONNECTION, wanted)
            return
        if by is QuestionKind.CLIENT:
            self._begin_with_clients(wanted)
            return
        bond = AssociationReason(by.value)
        for each in self._connections:
            for name, number in each.names.items():
                if name.bond is bond and name.value == wanted:
                    self._tie(each, bond, wanted, number=number)

    def _begin_with_clients(self, wanted: str) -> None:
        exact = any(wanted in each.client_ids for each in self._connections)
        # a client ID such as app-[1] is not a pattern if it exists
        fits: Callable[[str], bool] = (
            (lambda name: name == wanted) if exact else (lambda name: fnmatchcase(name, wanted))
        )
        for each in self._connections:
            for client, number in each.client_ids.items():
                if fits(client):
                    self._tie(each, AssociationReason.CLIENT_ID, client, number=number)
            for name, number in each.names.items():
                if name.bond is AssociationReason.INSTANCE and (name.value == wanted or fits(name.value)):
                    self._tie(each, AssociationReason.INSTANCE, name.value, number=number)
            for address in self._addresses(each):
                if address == wanted or fits(address):
                    self._tie(each, AssociationReason.ADDRESS, address)

    def _addresses(self, each: _Connection) -> Iterable[str]:
        endpoint = self._capture.endpoints(each.id)[0]
        names = self._capture.names.of(endpoint)
        return dict.fromkeys((each.host, endpoint.rpartition(":")[0], *names, endpoint))

    def _tie(
        self,
        each: _Connection,
        bond: AssociationReason,
        value: str,
        certainty: Certainty = Certainty.OBSERVED,
        number: int | None = None,
    ) -> None:
        self._ties.setdefault(each.id, Association(each.id, bond, value, certainty, number))

    # ------------------------------------------------------------ further connections
    def _tied_connections(self) -> list[_Connection]:
        return [self._connections[connection] for connection in self._ties]

    def _follow_names(self) -> None:
        """Add the connections with a member ID of the party, or with its producer ID at one of its addresses."""
        grown = True
        while grown:
            before = len(self._ties)
            connections = self._tied_connections()
            members = {
                name for each in connections for name in each.names if name.bond is AssociationReason.MEMBER
            }
            producers = {
                (name, each.host)
                for each in connections
                for name in each.names
                if name.bond is AssociationReason.PRODUCER
            }
            for each in self._connections:
                for name, number in each.names.items():
                    if name in members or (name, each.host) in producers:
                        self._tie(each, name.bond, name.value, number=number)
            grown = len(self._ties) > before

    def _adopt(self) -> None:
        """Add the names of the only process with the client ID at that time, if the party names itself nowhere."""
        tied = self._tied_connections()
        if any(_distinguishes(name) for each in tied for name in each.names):
            return
        spans = _Spans(tied)
        for client, host in dict.fromkeys((client, each.host) for each in tied for client in each.client_ids):
            named = [
                each
                for each in self._connections
                if each.host == host and client in each.client_ids and any(map(_distinguishes, each.names))
            ]
            distances = [spans.nearest(each) for each in named]
            nearest = [each for each, far in zip(named, distances, strict=True) if far == min(distances)]
            processes = {
                _of_a_process(name) for each in nearest for name in each.names if _distinguishes(name)
            }
            for each in nearest if len(processes) == 1 else ():
                number = each.client_ids[client]
                self._tie(
                    each, AssociationReason.SAME_CLIENT, f"{client} at {host}", Certainty.INFERRED, number
                )
        self._follow_names()

    def _follow_clients(self) -> None:
        """Add the connections with the same client ID and address, unless they belong to another process."""
        connections = self._tied_connections()
        processes = dict.fromkeys((client, each.host) for each in connections for client in each.client_ids)
        own = {_of_a_process(name) for each in connections for name in each.names}
        for client, host in processes:
            alike = [each for each in self._connections if each.host == host and client in each.client_ids]
            tied = _Spans([each for each in alike if each.id in self._ties])
            rest = [each for each in alike if each.id not in self._ties]
            strange = {each: None for each in rest if any(map(_differs(own), each.names))}
            others = _Spans(list(strange))
            for each in rest:
                if each in strange:
                    continue
                certainty = _belongs(each, tied, others)
                if certainty is not None:
                    value, number = f"{client} at {host}", each.client_ids[client]
                    self._tie(each, AssociationReason.SAME_CLIENT, value, certainty, number)

    def _follow_silent(self) -> None:
        """Add connections without any exchange, such as refused ones, from addresses without another client."""
        hosts = {each.host for each in self._tied_connections()}
        rest = [each for each in self._connections if each.id not in self._ties]
        others = {each.host for each in rest if self._exchanges[each.id]}
        for each in rest:
            if each.host in others and each.host in hosts and not self._exchanges[each.id]:
                self._unclaimed += 1
            elif each.host in hosts and not self._exchanges[each.id]:
                self._tie(each, AssociationReason.ADDRESS, each.host, Certainty.INFERRED)

    # ------------------------------------------------------------ result
    def party(self) -> TracedClient:
        party = TracedClient(self._question, dict(sorted(self._ties.items())))
        connections = sorted(self._tied_connections(), key=lambda each: each.begin)
        party.client_ids = list(dict.fromkeys(name for each in connections for name in each.client_ids))
        party.hosts = list(dict.fromkeys(each.host for each in connections))
        numbered_names = [(number, name) for each in connections for name, number in each.names.items()]
        names = [name for _, name in sorted(numbered_names, key=lambda each: each[0])]
        party.members = _values(names, AssociationReason.MEMBER)
        party.instances = _values(names, AssociationReason.INSTANCE)
        party.groups = list(dict.fromkeys(name.within for name in names if name.bond in _OF_A_GROUP))
        party.transactional_ids = _values(names, AssociationReason.TRANSACTION)
        party.producer_ids = [int(value) for value in _values(names, AssociationReason.PRODUCER)]
        party.unclaimed = self._unclaimed
        party.company = [
            each.id
            for each in self._connections
            if any(
                name.bond is AssociationReason.MEMBER and name.within in party.groups for name in each.names
            )
        ]
        return party


_OF_A_GROUP = frozenset({AssociationReason.MEMBER, AssociationReason.INSTANCE})


def _of_a_process(name: Identity) -> Identity:
    """Return a name as it distinguishes processes of one client ID and address: a producer's without its epoch."""
    return name._replace(within="") if name.bond is AssociationReason.PRODUCER else name


def _differs(own: set[Identity]) -> Callable[[Identity], bool]:
    """Return a test for names of other processes."""
    return lambda name: _distinguishes(name) and _of_a_process(name) not in own


def _distinguishes(name: Identity) -> bool:
    """Return whether a name distinguishes processes."""
    return name.bond in (AssociationReason.MEMBER, AssociationReason.PRODUCER)


class _Spans:
    """The times in which connections were open."""

    def __init__(self, connections: Sequence[_Connection]) -> None:
        self._begin = np.array([each.begin for each in connections], np.int64)
        self._end = np.array([each.end for each in connections], np.int64)

    def __len__(self) -> int:
        return len(self._begin)

    def nearest(self, each: _Connection) -> int:
        """Return the ns between a connection and the nearest of these; 0 if they overlap."""
        return max(int(np.maximum(each.begin - self._end, self._begin - each.end).min()), 0)


def _belongs(each: _Connection, tied: _Spans, others: _Spans) -> Certainty | None:
    """Return how certainly a connection belongs to the party, by which processes with its client ID were active."""
    if not len(others):
        return Certainty.INFERRED
    near, nearest = tied.nearest(each), others.nearest(each)
    if near > nearest:
        return None
    return Certainty.INFERRED if near < nearest else Certainty.POSSIBLE


def _values(names: Iterable[Identity], bond: AssociationReason) -> list[str]:
    return list(dict.fromkeys(name.value for name in names if name.bond is bond))
