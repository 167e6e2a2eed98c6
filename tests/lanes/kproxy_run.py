"""kproxy under test: one run after the other on the same ports, and its own status reports."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from kproxy.proxy.control import ControlClient
from tests.lanes.confined import GROUP
from tests.lanes.tools import CannotRun, free_ports, listens, wait_for

_SPARE = 4  # the bootstrap port, and one for each node ID from 0 to 3


class Kproxy:
    """``kproxy proxy``, which can be stopped, killed and restarted.

    :param bootstrap: addresses of the brokers
    :param folder: folder for its state, log and recordings
    :param awaited: node ID of the broker whose port has to be open once it has started;
        -1 if brokers are unknown until a client asks for them
    :param env: additional environment variables
    :ivar port: bootstrap port for clients
    :ivar ports: all ports that it listens on
    """

    def __init__(
        self, bootstrap: str, folder: Path, *, awaited: int = _SPARE - 1, env: Mapping[str, str] | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._awaited = awaited
        self._env = dict(env or {})
        self._folder = folder
        self.port = _free_range(_SPARE + 1)
        self.ports = range(self.port, self.port + _SPARE + 1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Bootstrap address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def capture(self) -> Path:
        """The capture that all runs append to."""
        return self._folder / "all.pcapng"

    @property
    def log(self) -> str:
        """The output of all runs."""
        return (self._folder / "kproxy.log").read_text()

    def start(self, options: Sequence[str] | None = None) -> None:
        """Start it, and wait until it forwards.

        :param options: options instead of those for recording to a file
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        recorded = ("-q", "-w", str(self.capture)) if options is None else options
        addresses = ("-b", self._bootstrap, "--listen", self.address)
        with (self._folder / "kproxy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kproxy", "proxy", *addresses, "--no-ui", *recorded],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=os.environ | {"XDG_STATE_HOME": str(self._folder / "state")} | self._env,
                group=GROUP if os.geteuid() == 0 else None,  # only root may change groups
            )
        wait_for("kproxy", self._up, timeout=20)

    def _up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise CannotRun(f"kproxy ended: {self.log[-1000:]}")
        return listens(self.port) and listens(self.port + 1 + self._awaited)

    @property
    def plane(self) -> psutil.Process:
        """The process that forwards."""
        return psutil.Process(self.ask("status")["pid"])

    @property
    def processes(self) -> dict[str, psutil.Process]:
        """Its processes by role: the front, the process that forwards, and the recorder, if any."""
        assert self._process is not None
        plane = self.plane
        found = {"front": psutil.Process(self._process.pid), "plane": plane}
        return found | dict(zip(["recorder"], plane.children(), strict=False))

    def ask(self, command: str, *, control: bool = False, **parameters: Any) -> Any:
        """Send a command over the control socket.

        :param control: whether the command changes something
        """
        live = self._folder / "state" / "kproxy" / "proxy"
        newest = max(live.glob("*/control.sock"), key=lambda path: path.stat().st_ctime_ns)
        client = ControlClient(newest, control, lasting=False)
        try:
            return client.call(command, **parameters)
        finally:
            client.close()

    def stop(self, *codes: int) -> None:
        """Stop it as a user does.

        :param codes: allowed exit codes besides 0
        """
        assert self._process is not None
        self._process.terminate()
        if self._process.wait(30) not in (0, *codes):
            raise CannotRun(f"kproxy did not end well: {self.log[-1000:]}")

    def kill(self) -> None:
        """Kill all its processes with SIGKILL."""
        if self._process is None or self._process.poll() is not None:
            return
        root = psutil.Process(self._process.pid)
        for each in (root, *root.children(recursive=True)):
            each.kill()
        self._process.wait()
        wait_for("the end of kproxy", lambda: not listens(self.port))


def _free_range(count: int) -> int:
    """Return the first of several consecutive free ports."""
    while True:
        [first] = free_ports(1)
        if first + count > 65_535:
            continue
        if not any(map(listens, range(first, first + count))):
            return first
