"""The proxies that ``benchmarks.proxy`` compares: kproxy in three configurations, and others if installed.

All of them run at the same time, forward to one port of the loopback interface, and are measured in turns. One that
cannot run here reports what it lacks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from kproxy.proxy.control import ControlClient
from tests.lanes.tools import CannotRun, cache, class_path, free_ports, listens, need, run, wait_for

KROXYLICIOUS = "io.kroxylicious:kroxylicious-runtime:0.12.0"
MITMPROXY = "mitmproxy==11.0.2"

_SOURCES = Path(__file__).parent / "load"
_RING_KIB = 65_536  # the size of kproxy's queue
_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")


def _cpu(pid: int) -> float:
    """Return the processor seconds of a process, 0 if it has exited."""
    try:
        # /proc/PID/stat counts hundredths of a second, too coarse for each of a thousand small processes
        tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
    except OSError:
        return 0.0


def _memory(pid: int) -> int:
    """Return the memory of a process in bytes; pages that several processes share are divided among them."""
    try:
        size: int = psutil.Process(pid).memory_full_info().pss
    except psutil.Error:
        return 0
    return size


class Peer:
    """A path from a client to the server. This one has no proxy.

    :param target: port of the server
    :param folder: for its files
    :ivar port: port for clients
    """

    name = "direct"
    #: what its recording contains
    records = False

    def __init__(self, target: int, folder: Path) -> None:
        self.target = target
        self.folder = folder
        self.port = target
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the proxy, and wait until it listens.

        :raises CannotRun: if it cannot run here
        """

    def begin(self) -> None:
        """Prepare a measurement."""

    def finish(self) -> None:
        """Clean up after a measurement, and find out what it dropped."""

    @property
    def dropped(self) -> int:
        """Packets or bytes that the last measurement did not record."""
        return 0

    def stop(self) -> None:
        """Stop the proxy."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def cpu(self) -> float:
        """Return the processor seconds of its processes so far."""
        return sum(map(_cpu, self._pids()))

    def memory(self) -> int:
        """Return the memory of its processes in bytes."""
        return sum(map(_memory, self._pids()))

    def _pids(self) -> list[int]:
        if self._process is None:
            return []
        root = psutil.Process(self._process.pid)
        return [root.pid, *(each.pid for each in root.children(recursive=True))]

    def _launch(self, command: Sequence[str | Path], **environment: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=os.environ | environment,
            )
        wait_for(self.name, self._listens, timeout=30)

    def _listens(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise CannotRun(f"{self.name} ended: {(self.folder / 'log').read_text()[-500:]}")
        return listens(self.port)


# ---------------------------------------------------------------- kproxy
class Kproxy(Peer):
    """kproxy as it is by default: it rewrites addresses."""

    name = "kproxy, no capture"
    options: tuple[str, ...] = ("--no-capture",)

    def start(self) -> None:
        self.port = _free_range(3)
        brokers = ("-b", f"127.0.0.1:{self.target}", "--listen", f"127.0.0.1:{self.port}")
        command = (sys.executable, "-m", "kproxy", "proxy", *brokers, "--no-ui", *self.options)
        self._launch([*command, *self._recorded()], XDG_STATE_HOME=str(self.folder / "state"))

    def _recorded(self) -> list[str]:
        return []


class KproxyRecording(Kproxy):
    """kproxy that records everything in a file."""

    name = "kproxy -w"
    options: tuple[str, ...] = ("-q",)
    records = True

    def __init__(self, target: int, folder: Path) -> None:
        super().__init__(target, folder)
        self._before = self._dropped = 0

    @property
    def _file(self) -> Path:
        return self.folder / "all.pcapng"

    def _recorded(self) -> list[str]:
        return ["-w", str(self._file)]

    def begin(self) -> None:
        self._before = self._dropped_bytes()

    def finish(self) -> None:
        self._dropped = self._dropped_bytes() - self._before
        if self._file.exists():
            os.truncate(self._file, 0)  # do not fill the disk: gigabytes per second, which nothing reads

    @property
    def dropped(self) -> int:
        return self._dropped

    def _dropped_bytes(self) -> int:
        [socket] = (self.folder / "state").glob("kproxy/proxy/*/control.sock")
        client = ControlClient(socket)
        try:
            dropped: int = client.call("status")["recording"]["dropped_bytes"]
            return dropped
        finally:
            client.close()


class KproxyDecoding(KproxyRecording):
    """kproxy that decodes every exchange at once and prints it as JSON."""

    name = "kproxy --json"
    options: tuple[str, ...] = ("--json", "--spool", "2GB")

    def _recorded(self) -> list[str]:
        return []


# ---------------------------------------------------------------- others
class Haproxy(Peer):
    """HAProxy in TCP mode, by default with a thread for each processor."""

    name = "HAProxy"

    def start(self) -> None:
        need("haproxy")
        [self.port] = free_ports(1)
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "haproxy.cfg"
        file.write_text(
            "global\n  maxconn 4000\n"
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"
            f"frontend clients\n  bind 127.0.0.1:{self.port}\n  default_backend brokers\n"
            f"backend brokers\n  server broker 127.0.0.1:{self.target}\n"
        )
        self._launch(["haproxy", "-db", "-f", file])


class HaproxyTcpdump(Haproxy):
    """HAProxy, and tcpdump that records its clients' traffic with a buffer as large as kproxy's."""

    name = "HAProxy + tcpdump"
    records = True

    def __init__(self, target: int, folder: Path) -> None:
        super().__init__(target, folder)
        self._tcpdump: subprocess.Popen[bytes] | None = None
        self._dropped = 0

    def start(self) -> None:
        need("tcpdump")
        super().start()

    def begin(self) -> None:
        log = self.folder / "tcpdump.log"
        what = ("-i", "lo", "-s0", "-B", str(_RING_KIB), "-w", self._file, "tcp", "port", str(self.port))
        with log.open("wb") as file:
            self._tcpdump = subprocess.Popen(
                ["tcpdump", "-Z", "root", *map(str, what)], stderr=file, stdout=subprocess.DEVNULL
            )
        wait_for("tcpdump", lambda: "listening on" in self._said())

    @property
    def _file(self) -> Path:
        return self.folder / "all.pcap"

    def _said(self) -> str:
        assert self._tcpdump is not None
        said = (self.folder / "tcpdump.log").read_text()
        if self._tcpdump.poll() not in (None, 0):
            raise CannotRun(f"tcpdump ended, it needs root or CAP_NET_RAW: {said.strip()}")
        return said

    def finish(self) -> None:
        assert self._tcpdump is not None
        self._tcpdump.send_signal(signal.SIGINT)
        self._tcpdump.wait()
        found = _DROPPED.search(self._said())
        self._dropped = int(found[1]) if found else 0
        self._tcpdump = None
        self._file.unlink()

    @property
    def dropped(self) -> int:
        return self._dropped

    def _pids(self) -> list[int]:
        return [*super()._pids(), *([] if self._tcpdump is None else [self._tcpdump.pid])]

    def stop(self) -> None:
        if self._tcpdump is not None:
            self._tcpdump.kill()
            self._tcpdump.wait()
        super().stop()


class Kroxylicious(Peer):
    """Kroxylicious, which decodes Kafka and rewrites addresses like kproxy."""

    name = "Kroxylicious"

    def start(self) -> None:
        need("java", "javac")
        jars = class_path([KROXYLICIOUS])
        classes = cache() / "kroxylicious"
        run(["javac", "-d", classes, "-cp", jars, _SOURCES / "Kroxylicious.java"])
        self.port = _free_range(3)
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "kroxylicious.yaml"
        file.write_text(
            "virtualClusters:\n  - name: benchmark\n    targetCluster:\n"
            f"      bootstrapServers: 127.0.0.1:{self.target}\n"
            "    gateways:\n      - name: default\n        portIdentifiesNode:\n"
            f"          bootstrapAddress: 127.0.0.1:{self.port}\n"
        )
        self._launch(["java", "-Xmx512m", "-cp", f"{classes}:{jars}", "Kroxylicious", file])


class Socat(Peer):
    """socat, with a process for each connection."""

    name = "socat"

    def start(self) -> None:
        need("socat")
        [self.port] = free_ports(1)
        listener = f"TCP-LISTEN:{self.port},bind=127.0.0.1,fork,reuseaddr,nodelay,backlog=4096"
        self._launch(["socat", listener, f"TCP:127.0.0.1:{self.target},nodelay"])


class Mitmproxy(Peer):
    """mitmproxy in TCP mode."""

    name = "mitmproxy"

    def start(self) -> None:
        venv = cache() / "mitmproxy"
        if not (venv / "bin" / "mitmdump").exists():
            run([sys.executable, "-m", "venv", venv])
            run([venv / "bin" / "python", "-m", "pip", "install", "-q", MITMPROXY])
        [self.port] = free_ports(1)
        mode = f"reverse:tcp://127.0.0.1:{self.target}@127.0.0.1:{self.port}"
        # by default it keeps all messages of a connection in memory and prints them
        self._launch(
            [venv / "bin" / "mitmdump", "-q", "--set", f"confdir={self.folder}", "--mode", mode],
        )


PEERS: dict[str, type[Peer]] = {
    "direct": Peer,
    "kproxy": Kproxy,
    "kproxy-w": KproxyRecording,
    "kproxy-json": KproxyDecoding,
    "haproxy": Haproxy,
    "tcpdump": HaproxyTcpdump,
    "kroxylicious": Kroxylicious,
    "socat": Socat,
    "mitmproxy": Mitmproxy,
}


def _free_range(count: int) -> int:
    """Return the first of several consecutive free ports: one for bootstrap, the next for brokers."""
    while True:
        [first] = free_ports(1)
        if first + count < 65_536 and not any(map(listens, range(first, first + count))):
            return first


@contextlib.contextmanager
def running(names: Sequence[str], target: int) -> Iterator[tuple[dict[str, Peer], dict[str, str]]]:
    """Run peers in front of a port; yield them, and the reasons why others cannot run."""
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="kproxy-benchmark-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        peers: dict[str, Peer] = {}
        for name in names:
            peer = PEERS[name](target, folder / name)
            stack.callback(peer.stop)
            try:
                peer.start()
            except CannotRun as why:
                missing[name] = str(why)
            else:
                peers[name] = peer
        yield peers, missing
