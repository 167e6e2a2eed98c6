"""The kernel's TCP statistics of connections during recording, and their brokers, which the proxy stores in packet
comments.

A capture that a proxy writes shows nothing of the network below: these samples do. They belong to connections, not to
exchanges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from captures.interventions import TcpSample, UpstreamBroker
from captures.packets import Connections, PacketBlock


class Sample(NamedTuple):
    """One sample.

    :ivar time: ns since the epoch
    :ivar connection: id in the capture
    :ivar values: the statistics, and the side they belong to
    :ivar packet: number of the packet with the sample
    """

    time: int
    connection: int
    values: TcpSample
    packet: int = 0


class Samples:
    """The samples of a capture, in the order in which they were taken.

    :param connections: connections of the same capture
    :ivar upstreams: the brokers of connections
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._by_ends: dict[tuple[int, int], list[int]] = {}
        self._known = 0
        self._samples: deque[Sample] = deque()
        self.upstreams: dict[int, UpstreamBroker] = {}

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def restore(self, samples: Iterable[Sample], upstreams: Mapping[int, UpstreamBroker]) -> None:
        """Take the place of others."""
        self._samples = deque(samples)
        self.upstreams = dict(upstreams)

    def of(self, connection: int) -> list[Sample]:
        """Return the samples of one connection."""
        return [sample for sample in self._samples if sample.connection == connection]

    def take(self, block: PacketBlock, found: Mapping[int, Sequence[TcpSample | UpstreamBroker]]) -> None:
        """Add samples and brokers by the numbers of their packets, after the connections of the block are known."""
        for number, time, connection in self.connections_of(block, found):
            for values in found[number]:
                if isinstance(values, UpstreamBroker):
                    self.upstreams[connection] = values
                else:
                    self._samples.append(Sample(time, connection, values, number))

    def connections_of(self, block: PacketBlock, packets: Collection[int]) -> Iterator[tuple[int, int, int]]:
        """Yield number, time and connection of `packets`, after the connections of the block are known."""
        if not packets:
            return
        self._look_at_connections()
        numbers = np.array(sorted(packets), np.int64)
        for row in np.flatnonzero(np.isin(block.number, numbers)).tolist():
            number, time = int(block.number[row]), int(block.time[row])
            yield number, time, self._connection(int(block.src[row]), int(block.dst[row]), number)

    def forget(self, before: int) -> None:
        """Drop samples that were taken before `before`."""
        while self._samples and self._samples[0].time < before:
            self._samples.popleft()

    def _look_at_connections(self) -> None:
        connections = self._connections
        ends = zip(connections.a[self._known :].tolist(), connections.b[self._known :].tolist(), strict=True)
        for connection, (a, b) in enumerate(ends, self._known):
            self._by_ends.setdefault((min(a, b), max(a, b)), []).append(connection)
        self._known = len(connections)

    def _connection(self, source: int, target: int, number: int) -> int:
        """Return the connection of a packet: the latest between its endpoints that had begun."""
        between = self._by_ends[min(source, target), max(source, target)]
        begun = bisect_right(between, number, key=self._connections.first_number.__getitem__)
        return between[max(begun - 1, 0)]
