"""The processes behind the local ends of live connections.

A connection may end at any moment, so its ends are looked up as soon as it is seen, in a separate thread: nothing waits
for the answer, which takes some milliseconds of system time. Requests that arrive meanwhile are answered together.

Without privileges the system reports only processes of the same user; the others stay unnamed. Ends in other network
namespaces (containers) are not local.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, NamedTuple

import psutil

from captures.names.names import Names, canonical, split

_PAUSE = 4
"""Length of the pause after a lookup, relative to the lookup: lookups take at most a fifth of the time."""

_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104  addresses of wildcard listeners


class Process(NamedTuple):
    """A process.

    :ivar pid: its ID
    :ivar name: its name, without arguments
    :ivar command: its command line, arguments separated by spaces; empty if the system does not report it
    """

    pid: int
    name: str
    command: str

    def __str__(self) -> str:
        return f"{self.name}[{self.pid}]"


class LocalEnds:
    """The TCP ends of this machine at one moment, with the processes that hold them."""

    def __init__(self) -> None:
        self._exact: dict[tuple[str, int], int] = {}
        self._listening: dict[int, int] = {}
        for pid, end in _connections():
            host, port = end.laddr
            if host in _ANY_ADDRESS:
                self._listening[port] = pid
            elif end.status == psutil.CONN_LISTEN:
                self._exact[canonical(host), port] = pid
            else:  # many accepted connections share a listener's address
                self._exact.setdefault((canonical(host), port), pid)
        self._addresses = set(_own_addresses()) if self._listening else set()

    def process(self, endpoint: str) -> Process | None:
        """Return the process behind ``host:port``; None if it is not local, or the system does not report it."""
        host, port = split(endpoint)
        host = canonical(host)
        pid = self._exact.get((host, port))
        if pid is None and host in self._addresses:
            pid = self._listening.get(port)
        return None if pid is None else _process(pid)


def processes_behind(endpoints: Iterable[str]) -> dict[str, Process]:
    """Return the processes behind `endpoints`, given as ``host:port``, as far as they are local and reported."""
    ends = LocalEnds()
    found = {endpoint: ends.process(endpoint) for endpoint in endpoints}
    return {endpoint: process for endpoint, process in found.items() if process is not None}


Finder = Callable[[Iterable[str]], dict[str, Process]]


class ProcessNames:
    """Names the local ends of connections after their processes, in a thread of its own.

    A name is ``python3[4711]``; the command line is another name of the same end, so that filters match it.

    :param names: receives the names
    :param find: finds the processes behind ends; it may block
    """

    def __init__(self, names: Names, find: Finder = processes_behind) -> None:
        self._names = names
        self._find = find
        self._requests: SimpleQueue[str | Event] = SimpleQueue()
        self._thread = Thread(target=self._run, name="process names", daemon=True)
        self._thread.start()

    def see(self, *endpoints: str) -> None:
        """Request the names of ends, given as ``host:port``, as soon as their connection is seen; return at once."""
        for endpoint in endpoints:
            self._requests.put(endpoint)

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until all requests are answered.

        :param timeout: in seconds, None waits as long as it takes
        :returns: whether they were answered in time
        """
        done = Event()
        self._requests.put(done)
        return done.wait(timeout)

    def _run(self) -> None:
        while True:
            requests = [self._requests.get()]
            with suppress(Empty):
                while True:
                    requests.append(self._requests.get_nowait())
            begun = time.monotonic()
            self._name({each for each in requests if isinstance(each, str)})
            for each in requests:
                if isinstance(each, Event):
                    each.set()
            time.sleep((time.monotonic() - begun) * _PAUSE)

    def _name(self, endpoints: set[str]) -> None:
        if not endpoints:
            return
        with suppress(psutil.Error, OSError):  # ends stay without a name
            for endpoint, process in self._find(endpoints).items():
                host, port = split(endpoint)
                self._names.hold(host, port, *filter(None, (str(process), process.command)))


def _connections() -> Iterator[tuple[int, Any]]:
    """Yield process ID and TCP connection or listener, as far as the system reports them."""
    try:
        everything = [(each.pid, each) for each in psutil.net_connections("tcp")]
    except psutil.AccessDenied:  # macOS shows all processes only to root
        everything = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                everything += [(process.pid, each) for each in process.net_connections("tcp")]
    for pid, each in everything:
        if pid is not None and each.laddr:
            yield pid, each


def _own_addresses() -> Iterator[str]:
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            with suppress(ValueError):  # a hardware address
                yield canonical(address.address)


def _process(pid: int) -> Process | None:
    try:
        process = psutil.Process(pid)
        name = process.name()
    except psutil.Error:  # the process has ended
        return None
    command = ""
    with suppress(psutil.Error):
        command = " ".join(process.cmdline())
    return Process(pid, name, command)
