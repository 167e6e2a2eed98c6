"""The thread that moves packets from a device to a ring.

It blocks nothing and is blocked by nothing: not by decoding, which follows in the ring at its own pace, and not by a
full disk: then packets are discarded, and counted, until there is room again.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from threading import Thread

import msgspec

from captures.live.device import WAIT_MS, Device, DeviceError
from captures.live.ring import Ring

_AT_ONCE = 2048  # packets between checks of the clock, the chunk's size and stop()
_RETRY_SECONDS = 5.0


class CaptureCounts(msgspec.Struct, frozen=True):
    """Counts of packets so far.

    :ivar captured: packets written
    :ivar received: packets that passed the capture filter, by the kernel's count
    :ivar dropped: packets that the kernel dropped because they were not read in time
    :ivar interface_dropped: packets lost by the interface or its driver
    :ivar not_written: packets discarded while the disk was full
    :ivar unread: packets dropped from the ring before they were read
    """

    captured: int = 0
    received: int = 0
    dropped: int = 0
    interface_dropped: int = 0
    not_written: int = 0
    unread: int = 0

    @property
    def missing(self) -> int:
        """Packets that were on the wire and cannot be seen."""
        return self.dropped + self.interface_dropped + self.not_written + self.unread


class Sniffer:
    """Captures until it is stopped or the interface disappears. It owns the device.

    :param most: packets to capture at most, None for no bound
    :param last_resort: whether to continue, without recording, when nothing can be written
    :param notice: called with sentences for the user, from the capturing thread
    :ivar stopping: whether :meth:`stop` was called
    :ivar taken: the counts, at most :data:`~captures.live.device.WAIT_MS` old
    :ivar failure: why capturing ended without being stopped, or empty
    """

    def __init__(
        self,
        device: Device,
        ring: Ring,
        notice: Callable[[str], None],
        *,
        most: int | None = None,
        last_resort: bool = True,
    ) -> None:
        self._device = device
        self._ring = ring
        self._notice = notice
        self._most = most
        self._last_resort = last_resort
        self._captured = 0
        self._not_written = 0
        self._retry_at: float | None = None  # set while the disk is full
        self.stopping = False
        self.taken = CaptureCounts()
        self.failure = ""
        self._thread = Thread(target=self._run, name="sniffer", daemon=True)

    def start(self) -> None:
        """Start to capture.

        :raises OSError: if the first file cannot be written
        """
        self._begin()
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, from any thread or signal handler; packets captured until then can still be read."""
        self.stopping = True

    def join(self, seconds: float | None = None) -> None:
        """Wait for the thread to end, for `seconds` at most."""
        self._thread.join(seconds)

    @property
    def running(self) -> bool:
        """Whether it still captures."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._pump()
        except DeviceError as error:
            self.failure = str(error)
        except BrokenPipeError:
            pass  # the reader of our output has seen enough
        except OSError as error:
            self.failure = f"{self._ring.writing}: {error.strerror}"
        finally:
            self._device.end_file()
            self._count()
            self._device.close()
            self._ring.finish()

    def _pump(self) -> None:
        waiting = select.poll()
        waiting.register(self._device.fileno(), select.POLLIN)
        counted_at = 0.0
        while not self.stopping and self._captured != self._most:
            waiting.poll(WAIT_MS)
            self._write_waiting()
            now = time.monotonic()
            if now - counted_at > WAIT_MS / 1000:
                counted_at = now
                self._count()
        # by then the kernel has delivered all waiting packets
        end = time.monotonic() + 2 * WAIT_MS / 1000 + self._device.delay
        while self._captured != self._most and time.monotonic() < end:
            waiting.poll(WAIT_MS)
            self._write_waiting()

    def _write_waiting(self) -> None:
        """Write the packets that are waiting."""
        most = _AT_ONCE if self._most is None else min(_AT_ONCE, self._most - self._captured)
        if self._retry_at is not None and time.monotonic() >= self._retry_at:
            self._retry()
        packets = self._device.pump(most)
        if self._retry_at is not None:
            self._not_written += packets
            return
        try:
            self._device.flush()
            full = self._ring.wrote(packets)
            self._captured += packets
            if full:
                self._begin()
        except OSError as error:
            self._recover_from(error, packets)

    def _begin(self) -> None:
        """Continue in a new chunk."""
        self._device.write_to(self._ring.new_chunk())
        self._device.flush()
        self._ring.wrote(0)

    def _recover_from(self, error: OSError, packets: int) -> None:
        """Continue without the file that cannot be written, in another chunk for which older ones make room.

        :param packets: how many could not be written
        """
        if error.errno == errno.EPIPE:
            raise error
        self._not_written += packets
        if not self._last_resort:
            raise error
        self._notice(f"{self._ring.writing}: {error.strerror}: no more is written there")
        self._device.end_file()
        self._ring.broke()
        self._retry()

    def _retry(self) -> None:
        """Begin another chunk; if that fails, discard packets for a while."""
        try:
            self._begin()
        except OSError as error:
            if self._retry_at is None:
                self._notice(f"nothing can be recorded for now: {error.strerror}")
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            nowhere = os.open(os.devnull, os.O_WRONLY)
            self._device.write_to(nowhere)
            os.close(nowhere)
        else:
            if self._retry_at is not None:
                self._notice(f"recording continues; {self._not_written:,} packets were not recorded")
            self._retry_at = None

    def _count(self) -> None:
        counts = self._device.counts()
        self.taken = CaptureCounts(
            self._captured,
            counts.received,
            counts.dropped,
            counts.interface_dropped,
            self._not_written,
            self._ring.unread,
        )
