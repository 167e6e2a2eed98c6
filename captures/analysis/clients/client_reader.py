"""A reader of exactly the exchanges that :class:`~captures.analysis.clients.inventory.Clients` needs.

Continuous requests resemble each other: some Produce and Fetch requests of each connection are decoded, and requests of
other APIs at its start; the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from captures.analysis.client_identity import ConnectionKey
from captures.analysis.clients import fields, fingerprints
from captures.analysis.clients.inventory import Clients, Steady
from captures.analysis.exchange_groups import RowGroups
from captures.arrays import Bools, Int32s, Int64s
from captures.exchanges import Exchange, ExchangeReader, Flag
from captures.exchanges.projected_reader import ProjectedExchanges
from dissectors.api_keys import CONNECTING, ApiKey

NEEDS = fields.NEEDS | fingerprints.NEEDS | {"errors"}
"""The fields that are decoded."""

_STEADY = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH)
"""Produce, Fetch, ShareFetch: most of a capture."""
_FIRST = 32
_THEN_EVERY = 64
_MOST = 2048
"""Most requests decoded per API and connection, more than enough to find rhythms."""

Mask = Bools


def read_clients(
    reader: ExchangeReader, clients: Clients, indexes: Int64s | None = None
) -> Iterator[Exchange]:
    """Add exchanges of a completely read capture to ``clients``; yield the decoded ones.

    They are in the order of their numbers, with the relevant fields in their bodies.

    :param indexes: increasing indexes of the exchanges in the reader; None for all
    """
    indexes = np.arange(len(reader)) if indexes is None else indexes
    rows = reader.rows[indexes]
    looked_into = _sample(reader, rows)
    in_full = _whole(reader, rows)
    add = reader.capture.faults.guarded(clients.add, "getting to know its client")
    projected = ProjectedExchanges(reader, NEEDS).read(indexes[looked_into & ~in_full])
    chosen = looked_into | in_full
    for index, full in zip(indexes[chosen].tolist(), in_full[chosen].tolist(), strict=True):
        exchange = reader.exchange(index) if full else next(projected)[1]
        add(exchange)
        yield exchange
    for rest in _rest(reader, indexes[~chosen]):
        clients.count(rest)


def _whole(reader: ExchangeReader, rows: Int64s) -> Mask:
    """Return a mask of the exchanges that are decoded in full."""
    table = reader.capture.table
    full: Mask = np.isin(table.column("api_key")[rows], [*CONNECTING])
    full |= table.column("flags")[rows] & np.uint16(Flag.SASL_TOKEN) != 0
    return full


def _sample(reader: ExchangeReader, rows: Int64s) -> Mask:
    """Return a mask of the decoded exchanges: of continuous APIs the first of each connection and some later ones."""
    table = reader.capture.table
    keys = table.column("api_key")[rows]
    connections = table.column("connection")[rows]
    chosen: Mask = np.zeros(len(rows), np.bool_)
    for key in np.unique(keys).tolist():
        at = np.flatnonzero(keys == key)
        ordinal = _ordinals(connections[at])
        if key in _STEADY:
            chosen[at] = (ordinal < _FIRST) | (ordinal % _THEN_EVERY == 0)
        else:
            chosen[at] = ordinal < _MOST
    return chosen


def _ordinals(connections: Int32s) -> Int64s:
    """Return the index of each exchange within its connection, from 0."""
    # stable, so that the exchanges of a connection stay in order
    order = np.argsort(connections, kind="stable")
    ordered = connections[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ordinal = np.empty(len(connections), np.int64)
    ordinal[order] = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    return ordinal


def _rest(reader: ExchangeReader, indexes: Int64s) -> Iterator[Steady]:
    """Yield the counts of exchanges by connection and client ID."""
    table = reader.capture.table
    if not len(indexes):
        return
    rows = reader.rows[indexes]
    connections, clients = (table.column(name)[rows] for name in ("connection", "client_id"))
    times = table.column("request_first")[rows]
    ends = np.maximum(table.column("request_last")[rows], table.column("response_last")[rows])
    together = RowGroups(connections, clients)
    pairs = zip(connections[together.first].tolist(), clients[together.first].tolist(), strict=True)
    for (connection, client), rows_of_pair in sorted(zip(pairs, together, strict=True), key=itemgetter(0)):
        yield Steady(
            ConnectionKey(connection, *reader.capture.endpoints(connection)),
            table.client_ids[client] if client >= 0 else None,
            len(rows_of_pair),
            int(times[rows_of_pair].min()),
            int(ends[rows_of_pair].max()),
            reader.first + int(indexes[rows_of_pair[-1]]),
        )
