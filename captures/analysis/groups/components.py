"""Which clients and groups have to be followed by one, where exchanges are dealt out to several.

A Fetch names no group: it is of one that its client is a member of, and what it costs the group depends on what other
members fetch and commit. So a group is followed with its clients, and these with all their groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np

from captures.analysis.exchange_groups import RowGroups, client_names
from captures.arrays import Bools, Int64s
from captures.exchanges.columns import ExchangeColumns
from dissectors.api_keys import MEMBER_APIS, ApiKey

_CLIENT, _GROUP = "client {}", "group {}"


def links(columns: ExchangeColumns) -> Iterator[tuple[str, str]]:
    """Yield pairs of clients and groups that belong together: who names which, and who shares a connection."""
    clients, names = client_names(columns)
    groups = columns.ragged("groups")
    of_members = np.isin(columns.flat("api_key")[groups.rows], list(MEMBER_APIS))
    for client, group in _distinct(clients[groups.rows[of_members]], groups.values[of_members]):
        yield _CLIENT.format(names[client]), _GROUP.format(columns.texts("groups")[group])
    latest: dict[int, int] = {}
    for connection, client in _distinct(columns.flat("connection"), clients):
        if connection in latest:
            yield _CLIENT.format(names[latest[connection]]), _CLIENT.format(names[client])
        latest[connection] = client


def _distinct(*columns: Int64s) -> Iterator[tuple[int, ...]]:
    first = RowGroups(*(column.astype(np.int64) for column in columns)).first
    return zip(*(column[first].tolist() for column in columns), strict=True)


class Components:
    """Clients and groups that belong together.

    :param linked: pairs of those that do, as :func:`links` names them
    """

    def __init__(self, linked: Iterable[tuple[str, str]]) -> None:
        of: dict[str, set[str]] = {}
        for pair in linked:
            less, more = sorted((of.setdefault(name, {name}) for name in pair), key=len)
            if less is not more:
                more |= less
                of.update(dict.fromkeys(less, more))
        self._first = {name: min(together) for name, together in of.items()}

    def buckets(self, columns: ExchangeColumns, count: int) -> Bools:
        """Deal exchanges out by client, but for FindCoordinator, which any client may ask for any group.

        :return: by bucket and exchange, whether the exchange is of the bucket
        """
        clients, names = client_names(columns)
        found: Bools = self._spread(_CLIENT, names, count)[clients] == np.arange(count)[:, np.newaxis]
        coordinators = columns.flat("api_key") == ApiKey.FIND_COORDINATOR
        groups = columns.ragged("groups")
        mine = coordinators[groups.rows]
        found[:, coordinators] = False
        of_groups = self._spread(_GROUP, columns.texts("groups"), count)
        found[of_groups[groups.values[mine]], groups.rows[mine]] = True
        return found

    def _spread(self, kind: str, names: Iterable[str | None], count: int) -> Int64s:
        every = [kind.format(name) for name in names]
        hashes = [crc32(self._first.get(name, name).encode(errors="surrogatepass")) for name in every]
        return np.array(hashes, np.int64) % count
