"""Ends of transactions, according to producers (EndTxn) and coordinators (WriteTxnMarkers)."""

from __future__ import annotations

from captures.analysis.journey.logs import Layout, Log, Rows
from captures.exchanges import Exchange
from captures.meaning.exchange import items, number, rows, text
from dissectors.api_keys import ApiKey

_ENDED = Layout(time="i8", answered="i8", number="i8", epoch="i2", committed="i1", error="i2")
_WRITTEN = Layout(time="i8", answered="i8", number="i8", epoch="i2", committed="i1")


class Transactions:
    """Records the ends of transactions; exchanges must be in order."""

    def __init__(self) -> None:
        self._ended: dict[int, Log] = {}
        self._written: dict[tuple[int, str, int], Log] = {}
        self.ids: dict[int, str] = {}
        """Producer ID -> transactional ID."""

    def add(self, exchange: Exchange, answered: int) -> None:
        """Learn from one exchange of any API.

        :param answered: time of the response, ns since the epoch; -1 if there was none
        """
        request = exchange.request_body
        response = exchange.response_body
        if exchange.api_key == ApiKey.END_TXN:
            producer = number(request, "producer_id")
            self._name(producer, text(request, "transactional_id"))
            log = self._ended.setdefault(producer, Log(_ENDED))
            log.add(
                exchange.time,
                answered,
                exchange.number,
                number(request, "producer_epoch"),
                bool(request.get("committed")),
                number(response, "error_code", 0),
            )
        elif exchange.api_key == ApiKey.INIT_PRODUCER_ID:
            self._name(number(response, "producer_id"), text(request, "transactional_id"))
        elif exchange.api_key == ApiKey.WRITE_TXN_MARKERS:
            for marker in rows(request, "markers"):
                committed = bool(marker.get("transaction_result"))
                entry = exchange.time, answered, exchange.number, number(marker, "producer_epoch"), committed
                for holder in rows(marker, "topics"):
                    for partition in items(holder, "partition_indexes"):
                        key = number(marker, "producer_id"), text(holder, "name"), partition
                        self._written.setdefault(key, Log(_WRITTEN)).add(*entry)

    def _name(self, producer: int, transactional_id: str) -> None:
        if producer >= 0 and transactional_id:
            self.ids[producer] = transactional_id

    def ends(self, producer: int) -> Rows:
        """Return the EndTxn requests of a producer, in exchange order."""
        return self._ended.get(producer, Log(_ENDED)).rows()

    def written(self, producer: int, topic: str, partition: int) -> Rows:
        """Return the WriteTxnMarkers to a partition, in exchange order."""
        return self._written.get((producer, topic, partition), Log(_WRITTEN)).rows()
