"""Transactions as their producers' requests show them; for the rules about transactions.

A transaction begins with the first request that adds something to it: AddPartitionsToTxn, AddOffsetsToTxn, or, since
Transactions v2 needs neither (KIP-890), a Produce or TxnOffsetCommit that names it. It ends with EndTxn, with another
InitProducerId, when the coordinator aborts what is open too long, which shows in the markers that it writes
(WriteTxnMarkers between brokers), or with an error response that says so to its producer.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.findings.common import transactional_id
from captures.exchanges import Exchange
from captures.meaning.exchange import number, rows
from dissectors.api_keys import PRODUCER_APIS, ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

TRANSACTION_APIS = PRODUCER_APIS | {ApiKey.WRITE_TXN_MARKERS}
_COORDINATED = frozenset(
    {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN}
)
_ADDING = frozenset(
    {ApiKey.PRODUCE, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT}
)
_NO_LONGER_OPEN = frozenset({
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.PRODUCER_FENCED,
})  # fmt: skip
_MOST_KNOWN = 20_000
"""Most transactional IDs that are kept, because some programs make new ones all the time; the oldest are dropped."""


class Init(NamedTuple):
    """An InitProducerId that was answered.

    :ivar number: number of the exchange
    """

    number: int
    time: int
    client: str
    connection: int
    producer: int
    epoch: int


class Open(NamedTuple):
    """An open transaction.

    :ivar time: when it began
    :ivar number: number of the exchange that began it
    :ivar client: client that began it
    """

    time: int
    number: int
    client: str
    connection: int


class Transaction(msgspec.Struct):
    """A transactional ID, and its open transaction.

    :ivar timeout: ``transaction.timeout.ms`` in the producer's request, in ns; None if that was not seen
    :ivar coordinated: whether its producers' requests to the coordinator are in the capture
    :ivar inits: the last two InitProducerId, the latest last
    :ivar open: None if there is none
    """

    transactional_id: str
    timeout: int | None = None
    coordinated: bool = False
    inits: tuple[Init, ...] = ()
    open: Open | None = None


class Transactions:
    """Follows transactions by their transactional IDs; exchanges must be added in the order of their numbers."""

    def __init__(self) -> None:
        self.known: dict[str, Transaction] = {}
        self._producers: dict[int, str] = {}

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.WRITE_TXN_MARKERS:
            for aborted in self.overdue(exchange):
                aborted.open = None
            return
        name = transactional_id(exchange)
        if not name:
            return
        known = self.known.get(name)
        if known is None:
            known = self.known[name] = Transaction(name)
            while len(self.known) > _MOST_KNOWN:
                self._forget(next(iter(self.known)))
        key = exchange.api_key
        known.coordinated |= key in _COORDINATED
        if key == ApiKey.INIT_PRODUCER_ID:
            self._init(known, exchange)
        elif exchange.errors:
            # this producer has no open transaction any more; another client may have one
            if known.open is not None and known.open.client == client_name(exchange) and _over(exchange):
                known.open = None
        elif key == ApiKey.END_TXN:
            if exchange.response is not None:
                known.open = None
        elif key in _ADDING and known.open is None:
            known.open = Open(exchange.time, exchange.number, client_name(exchange), exchange.connection)

    def overdue(self, exchange: Exchange) -> list[Transaction]:
        """Return the transactions that a WriteTxnMarkers aborts and that were open longer than their timeout.

        Others were ended by their producers: markers follow EndTxn, possibly after the next transaction has begun.
        """
        found = []
        for row in rows(exchange.request_body, "markers"):
            known = self.known.get(self._producers.get(number(row, "producer_id"), ""))
            if known is None or known.open is None or known.timeout is None or row.get("transaction_result"):
                continue
            if exchange.time - known.open.time >= known.timeout:
                found.append(known)
        return found

    def _forget(self, name: str) -> None:
        for init in self.known.pop(name).inits:
            self._producers.pop(init.producer, None)

    def _init(self, known: Transaction, exchange: Exchange) -> None:
        request, response = exchange.request_body, exchange.response_body
        if not response or number(response, "error_code", 0):
            return
        timeout = number(request, "transaction_timeout_ms")
        if timeout > 0:
            known.timeout = timeout * MS
        made = Init(
            exchange.number,
            exchange.time,
            client_name(exchange),
            exchange.connection,
            number(response, "producer_id"),
            number(response, "producer_epoch"),
        )
        for earlier in known.inits:
            self._producers.pop(earlier.producer, None)
        self._producers[made.producer] = known.transactional_id
        known.inits = (*known.inits[-1:], made)
        known.open = None


def _over(exchange: Exchange) -> bool:
    return any(error.code in _NO_LONGER_OPEN for error in exchange.errors)
