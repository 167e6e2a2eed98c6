"""Keys by which exchanges are distributed to several instances of a rule, each of which finds its own part."""

from __future__ import annotations

from enum import Enum
from zlib import crc32

import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.exchange_groups import client_names
from captures.arrays import Bools, Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import groups_in
from dissectors.sides import SIDES


class Key(Enum):
    """The key of a rule's state. An exchange with several values of a key goes to each of them."""

    CONNECTION = "connection"
    """Number of the connection."""
    CLIENT = "client"
    """Client ID, or host without one: :func:`~captures.analysis.client_identity.client_name`."""
    BROKER = "broker"
    """Address of the broker."""
    GROUP = "group"
    """Groups that request or response name; an exchange that names none has the value ``""``."""
    CLUSTER = "cluster"
    """All exchanges of a cluster are judged together."""
    CAPTURE = "capture"
    """All exchanges are judged together: state or findings are about connections that may lack exchanges."""

    def values(self, exchange: Exchange) -> list[str]:
        """Return the values of an exchange."""
        match self:
            case Key.CONNECTION:
                return [str(exchange.connection)]
            case Key.CLIENT:
                return [client_name(exchange)]
            case Key.BROKER:
                return [exchange.broker]
            case Key.GROUP:
                return _groups(exchange) or [""]
        return [""]


def buckets(key: Key, columns: ExchangeColumns, connections: Int64s, count: int) -> Bools:
    """Distribute exchanges by the hashes of their values of a key.

    :param connections: numbers of their connections in the whole capture
    :return: mask by bucket and exchange
    """
    match key:
        case Key.CONNECTION:
            return _spread(connections % count, count)
        case Key.CLIENT:
            clients, names = client_names(columns)
            return _spread(_hashed(names, count)[clients], count)
        case Key.BROKER:
            of_brokers = _hashed([end or "" for end in columns.texts("broker")], count)
            return _spread(of_brokers[columns.flat("broker")], count)
        case Key.GROUP:
            groups = columns.ragged("groups")
            of_groups = _hashed([text or "" for text in columns.texts("groups")], count)
            found = np.zeros((count, len(columns)), np.bool_)
            found[of_groups[groups.values], groups.rows] = True
            found[bucket_of(key, "", count), ~groups.filled] = True
            return found
    return _spread(np.zeros(len(columns), np.int64), count)


def bucket_of(key: Key, value: str, count: int) -> int:
    """Return the bucket of a value of a key, as :func:`buckets` has it."""
    return int(value) % count if key is Key.CONNECTION else int(_hashed([value], count)[0])


def _groups(exchange: Exchange) -> list[str]:
    named = [
        group
        for side, body in zip(SIDES, (exchange.request, exchange.response), strict=True)
        if exchange.api_key is not None and body is not None and body.version is not None
        for group in groups_in(exchange.api_key, body.version, body.value, side)
    ]
    return list(dict.fromkeys(named))


def _hashed(texts: list[str], count: int) -> Int64s:
    return np.array([crc32(text.encode(errors="surrogatepass")) % count for text in texts], np.int64)


def _spread(bucket: Int64s, count: int) -> Bools:
    found: Bools = bucket == np.arange(count)[:, np.newaxis]
    return found
