"""Which clients and groups have to be followed by one, where exchanges are dealt out to several.

A Fetch names no group: it is of one that its client is a member of, and what it costs the group depends on what other
members fetch and commit. So a group is followed with its clients, and these with all their groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np

from captures.analysis.exchange_groups import RowGroups
from captures.analysis.groups.context import OF_TOPICS
from captures.arrays import Bools, Int64s
from captures.exchanges.columns import ExchangeColumns
from dissectors.api_keys import MEMBER_APIS, ApiKey

Node = tuple[str, ...]
"""A group: its ID. A client: its host, and its ID, empty without one."""


def links(columns: ExchangeColumns) -> Iterator[tuple[Node, Node]]:
    """Yield clients with the groups that they name, and with other clients on the same connection; not each once."""
    clients, nodes = _clients(columns)
    groups, names = columns.ragged("groups"), columns.texts("groups")
    named = np.isin(columns.flat("api_key")[groups.rows], list(MEMBER_APIS))
    pairs = clients[groups.rows[named]], groups.values[named].astype(np.int64)
    first = RowGroups(*pairs).first
    for client, group in zip(*(each[first].tolist() for each in pairs), strict=True):
        yield nodes[client], (names[group] or "",)
    latest: dict[int, int] = {}
    pairs = columns.flat("connection"), clients
    first = RowGroups(*pairs).first
    for connection, client in zip(*(each[first].tolist() for each in pairs), strict=True):
        if connection in latest:
            yield nodes[latest[connection]], nodes[client]
        latest[connection] = client


class Components:
    """Clients and groups that belong together.

    :param linked: pairs of those that do
    """

    def __init__(self, linked: Iterable[tuple[Node, Node]]) -> None:
        self._of: dict[Node, set[Node]] = {}
        for one, other in linked:
            mine, others = (self._of.setdefault(node, {node}) for node in (one, other))
            if mine is not others:
                less, more = sorted((mine, others), key=len)
                more |= less
                self._of.update(dict.fromkeys(less, more))
        self._name = {node: min(together) for node, together in self._of.items()}

    def buckets(self, columns: ExchangeColumns, count: int) -> Bools:
        """Deal out what tells something of groups: by client, but for FindCoordinator, which names groups.

        What clients are told of topics goes by client ID: who has no group still learns it.

        :return: by bucket and exchange, whether the exchange is of the bucket
        """
        clients, nodes = _clients(columns)
        keys = columns.flat("api_key")
        of_topics = np.isin(keys, list(OF_TOPICS))
        alone = np.array([_hash((name or host,)) for host, name in nodes], np.int64)[clients]
        together = np.array([self._hash(node) for node in nodes], np.int64)[clients]
        found: Bools = np.where(of_topics, alone, together) % count == np.arange(count)[:, np.newaxis]
        groups = columns.ragged("groups")
        coordinators = keys == ApiKey.FIND_COORDINATOR
        found[:, coordinators] = False
        named = np.array([self._hash((name or "",)) for name in columns.texts("groups")], np.int64) % count
        mine = coordinators[groups.rows]
        found[named[groups.values[mine]], groups.rows[mine]] = True
        return found

    def _hash(self, node: Node) -> int:
        return _hash(self._name.get(node, node))


def _hash(node: Node) -> int:
    return crc32("\n".join(node).encode(errors="surrogatepass"))


def _clients(columns: ExchangeColumns) -> tuple[Int64s, list[Node]]:
    """Return for each exchange the number of its client, and the clients."""
    grouping = RowGroups(columns.flat("client_id"), columns.flat("connection"))
    ids, ends = columns.texts("client_id"), columns.texts("client")
    known: dict[Node, int] = {}
    of_rows = (columns.flat(name)[grouping.first].tolist() for name in ("client_id", "connection"))
    codes = []
    for code, connection in zip(*of_rows, strict=True):
        host = (ends[connection] or "").rpartition(":")[0]
        codes.append(known.setdefault((host, (ids[code] if code >= 0 else None) or ""), len(known)))
    return np.array(codes, np.int64)[grouping.of], list(known)
