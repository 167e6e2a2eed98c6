"""The tee and the recorder at its other end, as managed by the data plane."""

from __future__ import annotations

import asyncio
import os
import socket
from subprocess import Popen
from typing import TYPE_CHECKING, Any

import msgspec

from kproxy.addresses import Address
from kproxy.proxy.recorder import RecordingOptions, start_recorder
from kproxy.proxy.tee import Tee

if TYPE_CHECKING:
    from kproxy.proxy.reports import Reports
    from kproxy.proxy.tee import Recording

_END_SECONDS = 10.0
"""Seconds for the recorder to write the rest of the queue at the end."""
_END_CHECK = 0.02
_TAKE = 1 << 16
_MOST_RESTARTS = 5


class Recordings:
    """The recording of forwarded bytes, which may be turned off.

    :ivar path: file of the capture, pattern of its files, or folder of its chunks; empty if nothing is recorded
    :ivar tee: None if nothing is recorded
    """

    def __init__(self, recorded: RecordingOptions, reports: Reports) -> None:
        self._options = recorded
        self._reports = reports
        self._process: Popen[bytes] | None = None
        self._rest = b""
        self._closing = self._fatal = False
        self._restarts = self._gaps = 0
        self._up = False
        self._dropped = 0
        self._locks: socket.socket | None = None
        self._held = -1
        self._counts: dict[str, int] = {}
        self._earlier: dict[str, int] = {}
        self.tee: Tee | None = None
        self.path = ""
        if recorded.on:
            self.tee = Tee(recorded.queue, lossless=recorded.lossless)
            self.path = self._options.capture

    def start(self) -> None:
        """Start the recorder.

        :raises OSError: if it cannot be started
        """
        if self.tee is None:
            return
        self._locks, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with its_end:
            self._process = start_recorder(self.tee, self._options, its_end.fileno(), self._held)
        self._locks.setblocking(False)
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        asyncio.get_running_loop().add_reader(self._process.stdout.fileno(), self._read_events)

    def open(self, client: Address, broker: Address, time: int) -> Recording | None:
        """Begin to record a connection; return None if nothing is recorded.

        :param client: IP address and port
        :param broker: IP address and port
        :param time: ns since the epoch
        """
        return None if self.tee is None else self.tee.connection(client, broker, time)

    @property
    def congested(self) -> bool:
        """Whether forwarding has to wait until more has been written (``lossless``)."""
        return self.tee is not None and self.tee.congested

    def report_dropped(self) -> None:
        """Report bytes that were forwarded without being recorded since the last call."""
        if self.tee is not None and self.tee.dropped_bytes > self._dropped:
            more, self._dropped = self.tee.dropped_bytes - self._dropped, self.tee.dropped_bytes
            self._gaps += 1
            self._reports.event(
                "dropped", bytes=more, total=self._dropped, connections=self.tee.dropped_connections
            )

    def status(self) -> dict[str, Any]:
        """Return the state of the recording, as documented for ``status`` (docs/ctl.md)."""
        if self.tee is None:
            return {"on": False}
        return {
            "on": True,
            "up": self._up,
            "restarts": self._restarts,
            "gaps": self._gaps,
            "path": self.path,
            "dropped_bytes": self.tee.dropped_bytes,
            "dropped_connections": self.tee.dropped_connections,
            "waiting_bytes": self.tee.waiting,
            **self._counts,
        }

    async def close(self) -> None:
        """Let the recorder write what is left in the queue, and end it."""
        self._closing = True
        if self.tee is None or self._process is None:
            return
        self.tee.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _END_SECONDS
        while self._process.poll() is None and loop.time() < deadline:
            await asyncio.sleep(_END_CHECK)
        if self._process.returncode is None:
            self._reports.warn(
                f"{self.path}: writing did not end in {_END_SECONDS:g} s: some of it is missing"
            )
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._read_events()
        loop.remove_reader(self._process.stdout.fileno())
        self._process.stdout.close()
        assert self._locks is not None
        self._locks.close()
        self._release_lock()

    def _read_events(self) -> None:
        """Read the recorder's events and pass them on."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        try:
            data = os.read(descriptor, _TAKE)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(descriptor)
            if not self._closing:
                self._replace_recorder()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._handle_event(msgspec.json.decode(line))

    def _replace_recorder(self) -> None:
        """Replace a recorder that ended unexpectedly, unless that has happened too often."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()
        self._up = False
        assert self._locks is not None
        self._locks.close()
        self._earlier = self._counts  # the next recorder counts from 0
        self._restarts += 1
        if self._restarts > _MOST_RESTARTS or self._fatal:
            self._reports.warn(f"nothing is recorded any more ({self.path})")
            self._reports.event("recorder_failed")
            self._process = None
            self._release_lock()
            assert self.tee is not None
            self.tee.close()  # nothing reads from the tee any more, so nothing may wait for it
            return
        self._reports.warn(f"the recorder ended unexpectedly and is restarted ({self.path})")
        self.start()

    def _handle_event(self, event: dict[str, Any]) -> None:
        name = event.pop("event")
        if name == "error":
            self._fatal = self._fatal or bool(event.get("fatal"))
            self._reports.warn(str(event.get("text", "")))
            self._up = self._up and not event.get("failing")
            if event.get("fatal"):
                self._reports.event("recorder_failed")
        elif name == "counts":
            self._counts = {what: count + self._earlier.get(what, 0) for what, count in event.items()}
        else:
            if name == "file":
                self._share_lock()
            elif name == "recovered":
                self._gaps += bool(event.get("lost_packets"))
            self._up = name != "end"
            self._reports.event(f"recorder_{name}", **event)

    def _share_lock(self) -> None:
        """Share the lock of the new file, by which readers see that the recording continues."""
        assert self._locks is not None
        try:
            _, fds, _, _ = socket.recv_fds(self._locks, 1, 1)
        except BlockingIOError:
            return
        self._release_lock()
        self._held = fds[0]

    def _release_lock(self) -> None:
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
