"""Exchanges by column, for output that makes many lines or rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from captures.arrays import Int64s
from captures.exchanges.exchange import Exchange, ExchangeReader
from dissectors.frames import Body

_OWN = (
    "number", "row", "frame", "time", "latency", "correlation_id", "request_size", "response_size", "wait",
    "wait_reason",
)  # fmt: skip
_OF_PARTY = ("connection", "client", "broker", "client_id", "client_names", "broker_names", "upstream")
_MOST_PARTIES = 8192


class ExchangeBlock:
    """Exchanges in the order of their numbers, with bodies that have no fields.

    Attributes named as those of :class:`Exchange` are lists here, with one value per exchange; ``summary`` is two
    lists. For all other attributes of an exchange, see its examples in ``parties`` and ``kinds``.

    :param indexes: in the reader
    :param rows: of the exchange table
    :param parties: keeps parties for further blocks
    :ivar parties: an example of each connection and client ID
    :ivar party: int64, index in ``parties`` of each exchange
    :ivar kinds: an example for exchanges that differ only in the columns, in connection and client ID
    :ivar kind: int64, index in ``kinds`` of each exchange
    """

    def __init__(
        self, reader: ExchangeReader, indexes: Sequence[int], rows: Int64s, parties: dict[int, Exchange]
    ) -> None:
        column, count = reader.capture.table.column, len(rows)
        self.number = [reader.number(index) for index in indexes]
        self.row: list[int] = rows.tolist()
        self.frame: list[int] = column("packet")[rows].tolist()
        self.time: list[int] = column("request_first")[rows].tolist()
        self.latency: list[int | None] = reader.capture.table.latency(rows)[0].tolist()
        self.correlation_id: list[int | None] = column("correlation_id")[rows].tolist()
        self.request_size: list[int] = column("request_size")[rows].tolist()
        self.response_size: list[int] = column("response_size")[rows].tolist()
        self.wait, self.wait_reason = [0] * count, [""] * count
        self.summary = [""] * count, [""] * count
        self.kinds: list[Exchange] = []
        self.kind = np.zeros(count, np.int64)
        self._codes: dict[int, int] = {}
        keys = (column("connection")[rows].astype(np.int64) << 32) + column("client_id")[rows]
        distinct, first, self.party = np.unique(keys, return_index=True, return_inverse=True)
        if len(parties) > _MOST_PARTIES:
            parties.clear()
        self.parties: list[Exchange] = []
        for key, at in zip(distinct.tolist(), first.tolist(), strict=True):
            if key not in parties:
                parties[key] = reader.bare(indexes[at])
            self.parties.append(parties[key])

    def __len__(self) -> int:
        return len(self.number)

    def counted_kinds(self) -> Iterator[tuple[Exchange, int]]:
        """Yield each of ``kinds`` with the number of its exchanges."""
        return zip(self.kinds, np.bincount(self.kind, minlength=len(self.kinds)).tolist(), strict=True)

    def put(self, index: int, exchange: Exchange) -> None:
        """Set an exchange that was decoded by itself; the fields of its bodies are not kept."""
        for name in _OWN:
            getattr(self, name)[index] = getattr(exchange, name)
        for texts, text in zip(self.summary, exchange.summary, strict=True):
            texts[index] = text
        exchange.request, exchange.response = map(_without_fields, (exchange.request, exchange.response))
        exchange.errors, exchange.expected = (
            [error._replace(holders=()) for error in errors]
            for errors in (exchange.errors, exchange.expected)
        )
        self.kind[index] = len(self.kinds)
        self.kinds.append(exchange)

    def set_kind(self, indexes: Int64s | int, example: Exchange) -> None:
        """Set the kind of exchanges."""
        code = self._codes.setdefault(id(example), len(self.kinds))
        if code == len(self.kinds):
            self.kinds.append(example)
        self.kind[indexes] = code

    def exchanges(self) -> Iterator[Exchange]:
        """Yield the exchanges one by one."""
        for index, (kind, party) in enumerate(zip(self.kind.tolist(), self.party.tolist(), strict=True)):
            own: dict[str, Any] = {name: getattr(self, name)[index] for name in _OWN}
            shared = {name: getattr(self.parties[party], name) for name in _OF_PARTY}
            requests, responses = self.summary
            summary = requests[index], responses[index]
            yield replace(self.kinds[kind], **own, **shared, summary=summary)


def _without_fields(body: Body | None) -> Body | None:
    return body and replace(body, header={}, value=None if body.value is None else {}, raw=b"")
