"""Hosts for the members of a lane: network namespaces on a bridge, whose links to the broker can be cut.

    with Network() as network:
        subprocess.Popen([*network.host("m1"), "java", ...])
        with network.cut("m1", sent=True, received=False):
            ...

The broker listens on the bridge's address; a capture on the bridge has the packets that its host sends and receives. A
cut needs no firewall: it maps the address of the other side to an unused hardware address, so that packets go nowhere.
Packets of the broker are captured before they are lost, those of a member only if they arrive.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType

from tests.lanes.tools import CannotRun, need, run

_NOBODY = "02:00:00:00:00:99"


class Network:
    """A bridge and its hosts, as a context manager; needs root.

    :param watch: context manager entered with the name of each new host, the interface that carries all that it sends
        (even during a cut) and receives, and a tcpdump filter, because a bridge floods packets for unknown addresses to
        all hosts
    :ivar address: address of the bridge, for the broker to listen on
    :ivar bridge: name of the bridge's interface, for recordings
    """

    def __init__(self, watch: Callable[[str, str, str], AbstractContextManager[None]]) -> None:
        number = os.getpid() % 60_000
        self.bridge = f"kl{number}"
        self._prefix = f"10.{100 + number // 250 % 100}.{number % 250}"
        self.address = f"{self._prefix}.1"
        self._hosts: dict[str, str] = {}
        self._watch = watch
        self._watched = ExitStack()

    def __enter__(self) -> Network:
        need("ip")
        run(["ip", "link", "add", self.bridge, "type", "bridge"])
        try:
            run(["ip", "address", "add", f"{self.address}/24", "dev", self.bridge])
            run(["ip", "link", "set", self.bridge, "up"])
        except CannotRun:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watched.close()
        for name in self._hosts:
            run(["ip", "netns", "delete", self._namespace(name)])
        run(["ip", "link", "delete", self.bridge])

    def _namespace(self, name: str) -> str:
        return f"{self.bridge}-{name}"

    def host(self, name: str) -> list[str]:
        """Return the command prefix that runs a command on a host; the host is created if necessary."""
        inside = ["ip", "netns", "exec", self._namespace(name)]
        if name not in self._hosts:
            number = len(self._hosts) + 2
            outer = f"{self.bridge}h{number}"
            self._hosts[name] = f"{self._prefix}.{number}"
            run(["ip", "netns", "add", self._namespace(name)])
            peer = ("peer", "name", "eth0", "netns", self._namespace(name))
            run(["ip", "link", "add", outer, "type", "veth", *peer])
            run(["ip", "link", "set", outer, "master", self.bridge, "up"])
            run([*inside, "ip", "address", "add", f"{self._hosts[name]}/24", "dev", "eth0"])
            for interface in ("lo", "eth0"):
                run([*inside, "ip", "link", "set", interface, "up"])
            lost = f"(ether dst {_NOBODY} and src host {self.address})"
            own = f"host {self._hosts[name]} and not {lost}"
            self._watched.enter_context(self._watch(name, outer, own))
        return inside

    @contextmanager
    def cut(self, name: str, *, sent: bool = True, received: bool = True) -> Iterator[None]:
        """Drop packets from a host to the broker, from the broker to it, or both, during the block."""
        ways = []
        if sent:
            ways.append(([*self.host(name), "ip", "neighbor"], self.address, "eth0"))
        if received:
            ways.append((["ip", "neighbor"], self._hosts[name], self.bridge))
        for command, address, interface in ways:
            lost = ("lladdr", _NOBODY, "nud", "permanent")
            run([*command, "replace", address, *lost, "dev", interface])
        try:
            yield
        finally:
            for command, address, interface in ways:
                run([*command, "delete", address, "dev", interface])
