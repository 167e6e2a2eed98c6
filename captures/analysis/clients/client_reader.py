"""A reader of exactly the exchanges that :class:`~captures.analysis.clients.inventory.Clients` needs.

Continuous requests resemble each other: some Produce and Fetch requests of each connection are decoded, and requests of
other APIs at its start; the others are counted. Of requests that repeat an earlier one only what may differ is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter

import numpy as np

from captures.analysis.client_identity import ConnectionKey
from captures.analysis.clients import fields, fingerprints
from captures.analysis.clients.fields import SentRequest
from captures.analysis.clients.inventory import Clients
from captures.analysis.clients.request_timing import TIMED
from captures.analysis.exchange_groups import RowGroups
from captures.arrays import Bools, Int32s, Int64s, distinct_values
from captures.exchanges import ExchangeReader, ExchangeTable, Flag
from captures.exchanges.projected_reader import ProjectedExchanges, ProjectedReader
from dissectors.api_keys import CONNECTING, ApiKey
from dissectors.sides import SIDES

NEEDS = fields.NEEDS | fingerprints.NEEDS | {"errors"}
"""The fields that are decoded."""

_STEADY = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH)
"""Produce, Fetch, ShareFetch: most of a capture."""
_FIRST = 32
_THEN_EVERY = 64
_MOST = 2048
"""Most requests decoded per API and connection, more than enough to find rhythms."""

_KIND = ("connection", "client_id", "api_key", "version")
_MOMENTS = tuple(f"{side}_{end}" for side in SIDES for end in ("first", "last"))


def read_clients(reader: ExchangeReader, clients: Clients, indexes: Int64s | None = None) -> Iterator[int]:
    """Add exchanges of a completely read capture to ``clients``; yield the numbers of those that were read.

    :param indexes: increasing indexes of the exchanges in the reader; None for all
    """
    indexes = np.arange(len(reader)) if indexes is None else indexes
    rows = reader.rows[indexes]
    in_full = _fully_captured(reader, rows)
    chosen = _sample(reader, rows) | in_full
    repeated = chosen & _repeated(reader.capture.table, rows, in_full)
    guarded = partial(reader.capture.faults.guarded, doing="getting to know its client")
    add, learn, repeat = guarded(clients.add), guarded(clients.learn), guarded(clients.repeat)
    projected = ProjectedExchanges(reader, NEEDS)
    read = projected.read(indexes[chosen & ~in_full & ~repeated])
    requests = _requests(reader, indexes[repeated])
    of_chosen = (mask[chosen].tolist() for mask in (in_full, repeated))
    for index, full, again in zip(indexes[chosen].tolist(), *of_chosen, strict=True):
        if again:
            repeat(next(requests))
        else:
            add(reader.exchange(index) if full else next(read)[1])
        yield reader.number(index)
    commits = reader.capture.table.column("api_key")[rows] == ApiKey.OFFSET_COMMIT
    for _, exchange in projected.distinct(indexes[repeated & commits]):
        learn(exchange)
    _count_rest(reader, clients, indexes[~chosen | repeated])


def _fully_captured(reader: ExchangeReader, rows: Int64s) -> Bools:
    """Return a mask of the exchanges that are decoded in full."""
    table = reader.capture.table
    full: Bools = np.isin(table.column("api_key")[rows], [*CONNECTING])
    full |= table.column("flags")[rows] & np.uint16(Flag.SASL_TOKEN) != 0
    return full


def _sample(reader: ExchangeReader, rows: Int64s) -> Bools:
    """Return a mask of the decoded exchanges: of continuous APIs the first of each connection and some later ones."""
    table = reader.capture.table
    keys = table.column("api_key")[rows]
    connections = table.column("connection")[rows]
    chosen: Bools = np.zeros(len(rows), np.bool_)
    for key in distinct_values(keys).tolist():
        at = np.flatnonzero(keys == key)
        ordinal = _ordinals(connections[at])
        if key in _STEADY:
            chosen[at] = (ordinal < _FIRST) | (ordinal % _THEN_EVERY == 0)
        else:
            chosen[at] = ordinal < _MOST
    return chosen


def _repeated(table: ExchangeTable, rows: Int64s, in_full: Bools) -> Bools:
    """Return a mask of the answered exchanges that follow a similar one of their connection and client.

    They also follow everything that says who the client is.

    :param in_full: mask of the exchanges that say that
    """
    column = {name: table.column(name)[rows] for name in (*_KIND, *_MOMENTS)}
    connections = column["connection"]
    introduced = np.full(int(connections.max(initial=-1)) + 1, -1)
    np.maximum.at(introduced, connections[in_full], np.flatnonzero(in_full))
    alike = np.isin(column["api_key"], [ApiKey.PRODUCE, ApiKey.FETCH, *TIMED])
    alike &= ~np.isin(rows, list(table.intervened())) & (np.arange(len(rows)) > introduced[connections])
    for side in SIDES:  # in one packet, so that its end is not in doubt
        alike &= (table.sizes(side, rows) > 0) & (column[f"{side}_first"] == column[f"{side}_last"])
    at = np.flatnonzero(alike)
    found: Bools = alike
    found[at[RowGroups(*(column[name][at] for name in _KIND)).first]] = False
    return found


def _requests(reader: ExchangeReader, indexes: Int64s) -> Iterator[SentRequest]:
    """Yield the requests of exchanges: bodies only where they matter."""
    table, rows = reader.capture.table, reader.rows[indexes]
    keys = table.column("api_key")[rows]
    bodies = ProjectedReader(reader.capture, lambda _: fields.NEEDS).read(rows[~np.isin(keys, list(TIMED))])
    columns = [table.column(name)[rows] for name in ("client_id", "connection", "request_first")]
    names: dict[tuple[int, int], str] = {}
    for key, client, connection, time, number in zip(
        *(column.tolist() for column in (keys, *columns)), (indexes + reader.first).tolist(), strict=True
    ):
        name = names.get((client, connection))
        if name is None:
            host = reader.capture.endpoints(connection)[0].rpartition(":")[0]
            name = names[client, connection] = (table.client_ids[client] if client >= 0 else None) or host
        part = next(bodies).request if key not in TIMED else None
        body = (part.value if part is not None else None) or {}
        yield SentRequest(name, key, body, connection, time, number)


def _ordinals(connections: Int32s) -> Int64s:
    """Return the index of each exchange within its connection, from 0."""
    # stable, so that the exchanges of a connection stay in order
    order = np.argsort(connections, kind="stable")
    ordered = connections[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ordinal = np.empty(len(connections), np.int64)
    ordinal[order] = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    return ordinal


def _count_rest(reader: ExchangeReader, clients: Clients, indexes: Int64s) -> None:
    """Count exchanges by connection and client ID."""
    table = reader.capture.table
    rows = reader.rows[indexes]
    connections, client_ids = (table.column(name)[rows] for name in ("connection", "client_id"))
    times = table.column("request_first")[rows]
    ends = np.maximum(table.column("request_last")[rows], table.column("response_last")[rows])
    together = RowGroups(connections, client_ids)
    pairs = zip(connections[together.first].tolist(), client_ids[together.first].tolist(), strict=True)
    for (connection, client), rows_of_pair in sorted(zip(pairs, together, strict=True), key=itemgetter(0)):
        clients.count(
            ConnectionKey(connection, *reader.capture.endpoints(connection)),
            table.client_ids[client] if client >= 0 else None,
            len(rows_of_pair),
            int(times[rows_of_pair].min()),
            int(ends[rows_of_pair].max()),
            reader.first + int(indexes[rows_of_pair[-1]]),
        )
