"""A network namespace for a lane, in which the originator of every connection to a port is known.

    enter()                                     # all processes started from now on are inside
    with Confined(ports) as confined:
        subprocess.Popen(proxy, group=GROUP)
        ...
        confined.others                         # connections that the proxy did not open

The proxy is recognized by its group ID: the kernel counts new connections per group (``nft``, in the namespace, where
it affects nobody else), so that even the shortest is counted. The names of other originators come from polling the
processes.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

import psutil

from tests.lanes.tools import CannotRun, need, run

#: group of the proxy's processes; the number need not belong to an existing group
GROUP = 4242

_CLONE_NEWNET = 0x40000000  # unshare(2)
_LOOK_S = 0.5
_TABLE = "inet kproxy_lane"


def enter() -> None:
    """Move from the machine's network to a new namespace that only has a loopback interface.

    :raises CannotRun: without the necessary privileges
    """
    need("ip", "nft")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        why = os.strerror(ctypes.get_errno())
        raise CannotRun(f"a network namespace of its own needs root or CAP_SYS_ADMIN: {why}")
    run(["ip", "link", "set", "lo", "up"])
    # allows tens of thousands of connections to one port, one after the other
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("10000 65000")


class ConnectionCounter:
    """Counts connections to ports, as a context manager.

    :ivar culprits: command lines seen with a connection that they should not have
    """

    def __init__(self, ports: Collection[int]) -> None:
        self._ports = frozenset(ports)
        self.culprits: set[str] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> ConnectionCounter:
        ports = ", ".join(map(str, sorted(self._ports)))
        opens = f"tcp dport {{ {ports} }} tcp flags & (syn | ack) == syn"
        rules = (
            f"table {_TABLE} {{\n  counter proxy {{ }}\n  counter others {{ }}\n"
            "  chain output {\n    type filter hook output priority 0\n"
            f"    {opens} meta skgid {GROUP} counter name proxy\n"
            f"    {opens} meta skgid != {GROUP} counter name others\n  }}\n}}\n"
        )
        run(["nft", "-f", "-"], stdin=rules)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        run(["nft", "delete", "table", *_TABLE.split()])

    @property
    def by_proxy(self) -> int:
        """Number of connections that the proxy opened."""
        return self._count("proxy")

    @property
    def others(self) -> int:
        """Number of connections that other processes opened."""
        return self._count("others")

    def _count(self, name: str) -> int:
        listed = json.loads(run(["nft", "-j", "list", "counter", *_TABLE.split(), name]))
        [count] = [each["counter"]["packets"] for each in listed["nftables"] if "counter" in each]
        return int(count)

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_S):
            for process in psutil.process_iter(["cmdline", "gids"]):
                # the brokers' own ends of the connections
                if process.info["gids"] is None or process.info["gids"].real == GROUP:
                    continue
                try:
                    ends = process.net_connections("tcp")
                except psutil.Error:
                    continue
                if any(end.raddr and end.raddr.port in self._ports for end in ends):
                    self.culprits.add(" ".join(process.info["cmdline"] or ["?"])[:200])
