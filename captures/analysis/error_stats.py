"""Errors of responses by API and code, with the first exchange of each."""

from __future__ import annotations

import msgspec

from captures.analysis.client_identity import client_name
from captures.exchanges import Exchange
from captures.json_objects import Time
from captures.meaning import EXPECTED
from dissectors.error_codes import error_name


class ErrorRow(msgspec.Struct):
    """One error of one API.

    :ivar expected: whether it belonged to a normal conversation each time, or kproxy made it; other occurrences of the
        error have their own row
    :ivar reason: why it is expected, in words; empty if it is not
    :ivar count: how often; one response may have it for many partitions
    :ivar exchanges: number of responses with it
    :ivar clients: IDs (or addresses) of the clients that received it, with the number of responses
    :ivar first: number of the first exchange with it
    :ivar last: number of the last exchange with it
    :ivar first_time: time of the first request, ns since the epoch
    :ivar last_time: time of the last request, ns since the epoch
    :ivar message: the broker's text beside its first occurrence that has one
    """

    api: str
    code: int
    name: str
    expected: bool
    reason: str
    first: int
    count: int
    exchanges: int
    clients: dict[str, int]
    message: str | None
    last: int
    first_time: Time
    last_time: Time


_OF_KPROXY = "of kproxy's making"


class ErrorStats:
    """Counts errors by API, code, whether they are expected, and whether kproxy made them."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int, bool, bool], ErrorRow] = {}

    def add(self, exchange: Exchange) -> None:
        """Count the errors of one exchange."""
        if not exchange.errors:
            return
        expected = {error.path for error in exchange.expected}
        of_kproxy = exchange.interventions.has_injected_errors
        counted: set[tuple[str, int, bool, bool]] = set()
        for error in exchange.errors:
            routine = error.path in expected
            key = exchange.api, error.code, routine, of_kproxy
            row = self._rows.get(key)
            if row is None:
                case = EXPECTED.get((exchange.api_key or 0, error.code)) if routine else None
                row = self._rows[key] = ErrorRow(
                    api=exchange.api,
                    code=error.code,
                    name=error_name(error.code),
                    expected=routine,
                    reason=_OF_KPROXY if of_kproxy else case.reason if case else "",
                    first=exchange.number,
                    count=0,
                    exchanges=0,
                    clients={},
                    message=None,
                    last=exchange.number,
                    first_time=exchange.time,
                    last_time=exchange.time,
                )
            row.count += 1
            row.message = row.message or error.message
            if key not in counted:
                counted.add(key)
                row.exchanges += 1
                row.last = max(row.last, exchange.number)
                row.last_time = max(row.last_time, exchange.time)
                client = client_name(exchange)
                row.clients[client] = row.clients.get(client, 0) + 1

    def result(self) -> list[ErrorRow]:
        """Return the errors: those that are not expected first, then by frequency."""
        return sorted(self._rows.values(), key=lambda row: (row.expected, -row.exchanges, row.first))
