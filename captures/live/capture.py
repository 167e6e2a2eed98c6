"""Captures that run for days, in bounded memory; live ones also count dropped packets and name local processes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Capture
from captures.live.processes import Finder, ProcessNames, processes_behind
from captures.live.sniffer import Sniffer
from captures.names import Names
from captures.packets import Source
from captures.packets.table import PacketBlock
from captures.packets.tls import KeyLog

REMEMBERED = 300 * 1_000_000_000
"""Nanoseconds for which complete exchanges and ended connections are remembered."""
_FORGET_EVERY = 10.0  # seconds
_PATIENCE = 0.1
"""Seconds that a new connection's first exchanges wait for the names of its processes; capturing continues."""


class GrowingCapture(Capture):
    """A capture that is read as it grows, with :meth:`updates`, in bounded memory.

    Between two updates everything older than :attr:`remembered`, by packet times, is forgotten: inspect rows before the
    next update. If packet times jump back by more than that, everything before the jump counts as old.

    :ivar remembered: ns; None if the reader calls :meth:`forget` itself
    """

    remembered: int | None = REMEMBERED
    _now = 0

    def take(self, block: PacketBlock) -> None:
        """Process the next packets; see :meth:`Capture.take`."""
        if len(block):
            self._now = int(block.time.max())
        super().take(block)

    def observed_until(self, connections: Int64s | int) -> Int64s:
        """Return the latest packet time for all connections: the files belong to one capture."""
        return np.full(np.shape(connections), self.latest)

    def updates(self) -> Iterator[Int64s]:
        """Continue reading, and yield the rows of the table that have become complete; see :meth:`Capture.updates`."""
        forget_at = time.monotonic() + _FORGET_EVERY
        for rows in super().updates():
            self._updated()
            yield rows
            if self.remembered is None:
                continue
            if self._now < self.latest - self.remembered:
                self.forget(self.latest + 1)
                self.latest = self._now
            elif time.monotonic() >= forget_at:
                forget_at = time.monotonic() + _FORGET_EVERY
                self.forget(self.latest - self.remembered)

    def _updated(self) -> None:
        """Prepare for new rows, before they are yielded."""


class LiveCapture(GrowingCapture):
    """A capture of packets from a sniffer. Missed packets are counted in ``statistics.dropped``.

    :param source: the sniffer's ring
    :param names: of addresses; names of processes behind local ends are added
    :param find: finds those processes
    """

    def __init__(
        self,
        source: Source,
        sniffer: Sniffer,
        names: Names,
        find: Finder = processes_behind,
        *,
        keylog: KeyLog | None = None,
    ) -> None:
        super().__init__(source, keylog=keylog)
        self.names = names
        self._sniffer = sniffer
        self._processes = ProcessNames(self.names, find)
        self._named = 0

    def _updated(self) -> None:
        self.statistics.dropped = self._sniffer.taken.missing
        self._name_processes()

    def _name_processes(self) -> None:
        connections, text = self.connections, self._packets.addresses.text
        for new in range(self._named, len(connections)):
            self._processes.see(text(int(connections.a[new])), text(int(connections.b[new])))
        if self._named < len(connections):
            self._processes.settle(_PATIENCE)
        self._named = len(connections)
