"""A second scan of a capture for packets between a few endpoints: headers only, packets without payload included.

Reassembly keeps no packets without payload, and of the others only new bytes. To find what a kernel
acknowledged or received again, the headers are read once more. The scan is fast because it orders nothing and
drops packets of other endpoints and times a block at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from captures.arrays import Columns, Int64s, distinct_values
from captures.packets.addresses import AddressBook
from captures.packets.joined_reader import read_packets
from captures.packets.source import Source
from captures.packets.table import PacketBlock

Ends = tuple[str, str]
"""Two endpoints, in the form of :meth:`AddressBook.text`."""

_DISORDER_NS = 60_000_000_000
"""ns; packets of several queues or files are only roughly in time order."""


class Headers(Columns):
    """The packets from one endpoint to another, one row each, in time order.

    :ivar time: int64, ns since the epoch
    :ivar seq: int64, sequence number of the first byte
    :ivar ack: int64, acknowledgment number; valid if ``flags & ACK``
    :ivar flags: int64, TCP flags
    :ivar length: int64, payload bytes on the wire
    :ivar offset: int64, offset of the payload in the source
    """

    time: Int64s
    seq: Int64s
    ack: Int64s
    flags: Int64s
    length: Int64s
    offset: Int64s

    def within(self, begin: int, end: int) -> Headers:
        """Return the packets from `begin` to `end`, both included."""
        rows = slice(
            int(np.searchsorted(self.time, begin, "left")), int(np.searchsorted(self.time, end, "right"))
        )
        return self.take(rows)


def headers_between(source: Source, ends: Iterable[Ends], begin: int, end: int) -> dict[Ends, Headers]:
    """Return the packets between endpoints, for each pair those from the first to the second.

    :param ends: pairs of endpoints in the wanted direction
    :param begin: ns since the epoch
    :param end: ns since the epoch; reading stops after it
    :raises CaptureError: if the capture cannot be read again
    """
    wanted = _EndpointPairs(ends)
    found: dict[int, list[Headers]] = {}
    for block in read_packets(source):
        if not len(block):
            continue
        if int(block.time.min()) > end + _DISORDER_NS:
            break
        rows = np.flatnonzero((block.time >= begin) & (block.time <= end))
        for pair, rows_of_pair in wanted.split(block, rows):
            columns = (getattr(block, name)[rows_of_pair] for name in Headers.__struct_fields__)
            found.setdefault(pair, []).append(Headers(*[column.astype(np.int64) for column in columns]))
    return {wanted.pairs[pair]: _in_time_order(parts) for pair, parts in found.items()}


class _EndpointPairs:
    """Finds the packets of pairs of endpoints in blocks."""

    def __init__(self, ends: Iterable[Ends]) -> None:
        self.pairs = list(dict.fromkeys(ends))
        texts = list(dict.fromkeys(text for pair in self.pairs for text in pair))
        self._numbers = {text: number for number, text in enumerate(texts, 1)}
        size = len(texts) + 1
        self._keys = np.array([self._numbers[a] * size + self._numbers[b] for a, b in self.pairs], np.int64)
        self._size = size
        self._number_by_endpoint = np.zeros(0, np.int64)

    def split(self, block: PacketBlock, rows: Int64s) -> Iterator[tuple[int, Int64s]]:
        """Yield the number of each pair that has packets among the rows of a block, and these rows."""
        numbers = self._numbered(block.addresses)
        keys = numbers[block.src[rows]] * self._size + numbers[block.dst[rows]]
        for key in distinct_values(keys[np.isin(keys, self._keys)]).tolist():
            yield int(np.flatnonzero(self._keys == key)[0]), rows[keys == key]

    def _numbered(self, addresses: AddressBook) -> Int64s:
        """Return the numbers of endpoints, 0 for unwanted ones."""
        known = len(self._number_by_endpoint)
        if known < len(addresses):
            fresh = [
                self._numbers.get(addresses.text(endpoint), 0) for endpoint in range(known, len(addresses))
            ]
            self._number_by_endpoint = np.append(self._number_by_endpoint, np.array(fresh, np.int64))
        return self._number_by_endpoint


def _in_time_order(parts: list[Headers]) -> Headers:
    whole = Headers.concatenated(parts)
    return whole.take(np.argsort(whole.time, kind="stable"))
