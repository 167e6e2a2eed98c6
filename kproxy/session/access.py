"""A job's access to a session: the capture, and its exchanges by number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.exchanges import Capture, Exchange
from captures.exchanges.columns import ExchangeColumns
from dissectors.apis import NAMES
from kproxy.session.listed import ListedExchanges

if TYPE_CHECKING:
    from captures.analysis.clusters import Clusters

_SAMPLED = 20_000
"""Exchanges that are searched for completions."""
_TOGETHER = 256  # exchanges whose frames are read at once


class Access:
    """For use in jobs only, which have the capture to themselves.

    :ivar capture: the capture
    :ivar reader: decodes exchanges for display; index 0 is the oldest exchange that is kept
    :ivar columns: returns the message columns of all exchanges, once the capture is read to its end; they are kept
    :ivar plain: decodes them for counting: without summaries, and with records left as bytes
    """

    def __init__(
        self,
        capture: Capture,
        listed: ListedExchanges,
        shown: Callable[[], Int64s],
        columns: Callable[[], ExchangeColumns],
        is_whole: Callable[[], bool],
    ) -> None:
        self.capture = capture
        self.reader = listed.reader
        self.plain = listed.plain
        self._listed = listed
        self._shown = shown
        self.columns = columns
        self._is_whole = is_whole

    def shown(self) -> Int64s:
        """Return the numbers of the exchanges in the list, in list order."""
        return self._shown()

    def clusters(self) -> Clusters:
        """Return the clusters of the connections; of a capture that grows, only those that kproxy's proxy has named."""
        from captures.analysis.clusters import Clusters, RecordedClusters

        if self._is_whole():
            self.plain.learn(len(self.plain))
            return Clusters(self.capture, self.plain.knowledge.facts)
        return RecordedClusters(self.capture, self.cluster_names())

    def cluster_names(self) -> list[str]:
        """Return the names that kproxy's proxy has recorded for the clusters of connections so far, sorted."""
        upstreams = self.capture.samples.upstreams.values()
        return sorted({each.cluster for each in upstreams if each.cluster})

    def pending(self, keys: Collection[int]) -> Iterator[Exchange]:
        """Yield the exchanges of some APIs that may still be answered, decoded for counting."""
        numbers = np.flatnonzero(~self._listed.complete.array) + self._listed.first
        if len(numbers):
            asked = self.capture.table.column("api_key")[self.rows(numbers)]
            numbers = numbers[np.isin(asked, list(keys))]
        yield from self.exchanges(numbers.tolist())

    def index(self, number: int) -> int:
        """Return the index of an exchange.

        :raises LookupError: if it is no longer kept, or never existed
        """
        index = number - self.reader.first
        if not 0 <= index < len(self.reader):
            raise LookupError(f"there is no exchange {number:,}")
        return index

    def row(self, number: int) -> int:
        """Return the table row of an exchange."""
        return self.reader.row(self.index(number))

    def rows(self, numbers: Int64s) -> Int64s:
        """Return the rows of several exchanges; those no longer kept are left out."""
        indexes = np.asarray(numbers, np.int64) - self.reader.first
        return self.reader.rows[indexes[(indexes >= 0) & (indexes < len(self.reader))]]

    def exchange(self, number: int) -> Exchange:
        """Return an exchange, decoded for display.

        :raises LookupError: if it is no longer kept, or never existed
        """
        return self.reader.exchange(self.index(number))

    def exchanges(self, numbers: Iterable[int], *, annotated: bool = False) -> Iterator[Exchange]:
        """Yield those of several exchanges that are kept; their frames are read together.

        :param annotated: whether to decode them for display
        """
        reader = self.reader if annotated else self.plain
        first, end = reader.first, reader.first + len(reader)
        indexes = [number - first for number in numbers if first <= number < end]
        for begin in range(0, len(indexes), _TOGETHER):
            yield from reader.several(indexes[begin : begin + _TOGETHER])

    def known(self, field: str) -> list[str]:
        """Return values of a filter field in the capture, for completion; none for other fields."""
        capture = self.capture
        if field == "api":
            keys = distinct_values(capture.table.column("api_key")).tolist()
            return sorted(NAMES[key] for key in keys if 0 <= key < len(NAMES))
        if field == "client_id":
            return sorted({each for each in capture.table.client_ids if each})
        if field in ("client", "broker", "client.host", "broker.host"):
            side = field.startswith("broker")
            ends = {capture.endpoints(each)[side] for each in range(len(capture.connections))}
            return sorted({end.rpartition(":")[0] for end in ends} if field.endswith("host") else ends)
        column = {"topic": "topics", "group": "groups", "member": "members"}.get(field)
        if column is None:
            return []
        rows = self.reader.rows[-_SAMPLED:]
        columns = ExchangeColumns(capture, rows, names=self.reader.knowledge.topic_name)
        columns.prepare([column])
        return sorted({text for text in columns.texts(column) if text})
