"""Round trip times to brokers by connection: the network's share of latencies.

The measured path is between the place of the capture and the broker. Sources, the most reliable first:

1. the handshake: SYN to SYN-ACK, which involves no program;
2. the kernel's smoothed value (``TCP_INFO``), if a proxy recorded the connection;
3. the fastest acknowledgment of a request. It may wait for the response, so it is an upper bound.

The third reads the capture again, and is used only for connections without the others. Those of a request log have
none, as a log tells nothing of the network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Capture
from captures.exchanges.samples import Sample
from captures.export.passes import UNKNOWN, CaptureReread, PlacedPackets
from dissectors.units import US

ENOUGH = 64
"""Acknowledgments of a connection that are examined."""

_SIDE = "broker"


class RoundTrips:
    """Round trip times of the connections of a capture, in ns.

    :param capture: read to its end, or as far as it has grown
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._acknowledged: dict[int, int] = {}
        self._sampled: dict[int, int] = {}
        self._samples: tuple[int, Sample | None] = (0, None)  # number, and the first

    def of(self, connection: int) -> int | None:
        """Return the round trip time of a connection; None if unknown."""
        handshake = int(self._capture.connections.handshake[connection])
        if handshake >= 0:
            return handshake
        self._look_at_samples()
        return self._sampled.get(connection, self._acknowledged.get(connection))

    def _look_at_samples(self) -> None:
        """Take the medians of the kernel's values, unless there are no new ones."""
        samples = self._capture.samples
        state = len(samples), next(iter(samples), None)  # a live capture drops its oldest
        if state == self._samples:
            return
        self._samples = state
        measured: dict[int, list[int]] = defaultdict(list)
        for sample in samples:
            if sample.values.side == _SIDE and sample.values.rtt_us > 0:
                measured[sample.connection].append(sample.values.rtt_us * US)
        self._sampled = {connection: sorted(trips)[len(trips) // 2] for connection, trips in measured.items()}

    def look_at_acknowledgments(self, connections: Collection[int]) -> None:
        """Read the packets of those of the connections without another source.

        :param connections: connection ids
        """
        table = self._capture.table
        logged = set(table.column("connection")[table.only_logged()].tolist())
        wanted = {each for each in connections if each not in logged and self.of(each) is None}
        if not wanted or self._capture.source.live:
            return
        waiting = {
            connection: _UnacknowledgedBytes(self._capture.client_stream(connection)) for connection in wanted
        }
        for placed in CaptureReread(self._capture):
            stream = placed.stream
            for connection in np.intersect1d(stream >> 1, np.array(sorted(waiting))).tolist():
                found = waiting[connection]
                found.look(placed, np.flatnonzero(stream >> 1 == connection))
                if found.count >= ENOUGH:
                    del waiting[connection]
                if found.least is not None:
                    self._acknowledged[connection] = found.least
            if not waiting:
                return


class _UnacknowledgedBytes:
    """Bytes of requests that are not acknowledged yet.

    :ivar least: ns of the fastest acknowledgment; None if there was none
    :ivar count: number of acknowledgments
    """

    def __init__(self, stream: int) -> None:
        self._stream = stream
        self._ends: list[int] = []
        self._times: list[int] = []
        self.least: int | None = None
        self.count = 0

    def look(self, placed: PlacedPackets, rows: Int64s) -> None:
        """Process packets of the connection, in order."""
        block = placed.packets
        for row in rows.tolist():
            time = int(block.time[row])
            if placed.stream[row] == self._stream:
                position, length = int(placed.position[row]), int(block.length[row])
                # retransmitted bytes are useless: either copy may be acknowledged (Karn)
                if length and position != UNKNOWN and (not self._ends or position >= self._ends[-1]):
                    self._ends.append(position + length)
                    self._times.append(time)
                elif length:
                    self._ends.clear()
                    self._times.clear()
            else:
                self._acknowledge(int(placed.acknowledged[row]), time)

    def _acknowledge(self, up_to: int, time: int) -> None:
        done = 0
        while done < len(self._ends) and self._ends[done] <= up_to:
            done += 1
        if done:
            took = time - self._times[done - 1]  # the latest of them triggered the acknowledgment
            self.least = took if self.least is None else min(self.least, took)
            self.count += 1
            del self._ends[:done], self._times[:done]
