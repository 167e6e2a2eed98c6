"""Sets of clients and groups that one process has to follow together when exchanges are distributed to several.

A Fetch names no group: it belongs to a group of which its client is a member, and its cost for the group depends on the
fetches and commits of other members. So a group is followed with its clients, and these with all their groups. Clients
that only request offsets, as exporters of lag do for every group, link nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

import numpy as np

from captures.analysis.exchange_groups import RowGroups, client_names
from captures.analysis.groups.context import OF_TOPICS
from captures.arrays import Bools, Int64s
from captures.exchanges.columns import ExchangeColumns
from dissectors.api_keys import MEMBER_APIS, ApiKey

_ASKS = "asks "
"""Prefix of a client that requests the offsets of a group."""


def links(columns: ExchangeColumns) -> Iterator[tuple[str, str]]:
    """Yield pairs of clients and groups that belong together.

    These are a client and a group that it names, and two clients of one connection. A fetching client is also paired
    with itself.
    """
    keys, (clients, nodes) = columns.flat("api_key"), _clients(columns)
    groups = columns.ragged("groups")
    of_members = np.isin(keys[groups.rows], list(MEMBER_APIS))
    asks = keys[groups.rows] == ApiKey.OFFSET_FETCH
    for client, group, asking in _distinct(
        clients[groups.rows[of_members]], groups.values[of_members], asks[of_members]
    ):
        yield _ASKS * asking + nodes[client], _group(columns.texts("groups")[group])
    for (client,) in _distinct(clients[keys == ApiKey.FETCH]):
        yield nodes[client], nodes[client]
    latest: dict[int, int] = {}
    for connection, client in _distinct(columns.flat("connection"), clients):
        if connection in latest:
            yield nodes[latest[connection]], nodes[client]
        latest[connection] = client


def nodes(columns: ExchangeColumns) -> list[str]:
    """Return the names of the clients and groups in exchanges, as :func:`links` has them."""
    return [*_clients(columns)[1], *map(_group, columns.texts("groups"))]


class Components:
    """Clients and groups that belong together.

    :param linked: pairs of them, as :func:`links` names them
    """

    def __init__(self, linked: Iterable[tuple[str, str]]) -> None:
        pairs = list(linked)
        clients = {client for client, _ in pairs}
        of: dict[str, set[str]] = {}
        for client, other in pairs:
            pair = client.removeprefix(_ASKS), other
            if pair[0] in clients:
                less, more = sorted((of.setdefault(name, {name}) for name in pair), key=len)
                if less is not more:
                    more |= less
                    of.update(dict.fromkeys(less, more))
        distinct = {id(together): together for together in of.values() if len(together) > 1}
        self._first = {
            name: first
            for together, first in ((each, min(each)) for each in distinct.values())
            for name in together
        }

    def of_part(self, names: Iterable[str]) -> Components:
        """Return what exchanges with these :func:`nodes` need of the components."""
        found = Components(())
        found._first = {name: self._first[name] for name in names if name in self._first}
        return found

    def buckets(self, columns: ExchangeColumns, count: int) -> Bools:
        """Distribute exchanges by client, except FindCoordinator, in which any client may ask for any group.

        Exchanges about topics are distributed by client ID, and so are all exchanges of clients without a group.

        :return: mask by bucket and exchange
        """
        keys, (clients, nodes), (ids, names) = (
            columns.flat("api_key"),
            _clients(columns),
            client_names(columns),
        )
        alone, groups = _hashed(names)[ids], columns.ragged("groups")
        together = np.where([node in self._first for node in nodes], self._hashed(nodes), -1)[clients]
        bucket = np.where(np.isin(keys, list(OF_TOPICS)) | (together < 0), alone, together) % count
        found: Bools = bucket == np.arange(count)[:, np.newaxis]
        coordinators = keys == ApiKey.FIND_COORDINATOR
        named = coordinators[groups.rows]
        found[:, coordinators] = False
        of_groups = self._hashed([_group(name) for name in columns.texts("groups")]) % count
        found[of_groups[groups.values[named]], groups.rows[named]] = True
        return found

    def _hashed(self, nodes: Sequence[str]) -> Int64s:
        return _hashed([self._first.get(node, node) for node in nodes])


def _clients(columns: ExchangeColumns) -> tuple[Int64s, list[str]]:
    """Return each exchange's client index, and the names of the clients; a client ID on two hosts is two clients."""
    ids, names = client_names(columns)
    hosts = [(end or "").rpartition(":")[0] for end in columns.texts("client")]
    _, host_of = np.unique(hosts, return_inverse=True)
    both = RowGroups(ids, host_of.astype(np.int64)[columns.flat("connection")])
    rows = zip(ids[both.first].tolist(), columns.flat("connection")[both.first].tolist(), strict=True)
    return both.of, [f"client {names[client]} of {hosts[connection]}" for client, connection in rows]


def _group(name: str | None) -> str:
    return f"group {name}"


def _distinct(*columns: Int64s) -> Iterator[tuple[int, ...]]:
    first = RowGroups(*(column.astype(np.int64) for column in columns)).first
    return zip(*(column[first].tolist() for column in columns), strict=True)


def _hashed(texts: Sequence[str]) -> Int64s:
    return np.array([crc32(text.encode(errors="surrogatepass")) for text in texts], np.int64)
