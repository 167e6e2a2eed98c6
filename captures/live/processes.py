"""The processes behind the local ends of live connections.

A connection may be gone in a moment, so its ends are looked up as soon as it is seen, by a thread of its own: nothing
waits for the answer, which is some milliseconds of the system's time. What is asked meanwhile is answered together.

Without privilege the system tells about the processes of the same user only; of others nothing is said. Ends in other
network namespaces (containers) are not local.
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
"""Asking takes at most one part in five of the time: the pause after it is so many times as long as it was."""

_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104  what listeners are bound to


class Process(NamedTuple):
    """A process.

    :ivar pid: its number
    :ivar name: its name, without arguments
    :ivar command: its command line, arguments separated by spaces; empty if it is not told
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
            else:  # many connections may have been accepted at the end of one listener
                self._exact.setdefault((canonical(host), port), pid)
        self._addresses = set(_own_addresses()) if self._listening else set()

    def process(self, endpoint: str) -> Process | None:
        """Return the process behind ``host:port``; None if it is not local, or the system does not say."""
        host, port = split(endpoint)
        host = canonical(host)
        pid = self._exact.get((host, port))
        if pid is None and host in self._addresses:
            pid = self._listening.get(port)
        return None if pid is None else _process(pid)


def processes_behind(endpoints: Iterable[str]) -> dict[str, Process]:
    """Return the processes behind ends as ``host:port``, those that are local and that the system reports."""
    ends = LocalEnds()
    found = {endpoint: ends.process(endpoint) for endpoint in endpoints}
    return {endpoint: process for endpoint, process in found.items() if process is not None}


Finder = Callable[[Iterable[str]], dict[str, Process]]


class ProcessNames:
    """Names the local ends of connections after their processes, in a thread of its own.

    A name is ``python3[4711]``; the command line is another name of the same end, so that filters know it.

    :param names: where the names go
    :param find: finds the processes behind ends; in its own thread, so it may take its time
    """

    def __init__(self, names: Names, find: Finder = processes_behind) -> None:
        self._names = names
        self._find = find
        self._asked: SimpleQueue[str | Event] = SimpleQueue()
        self._thread = Thread(target=self._run, name="process names", daemon=True)
        self._thread.start()

    def see(self, *endpoints: str) -> None:
        """Ask about ends as ``host:port``, as soon as their connection is seen; returns at once."""
        for endpoint in endpoints:
            self._asked.put(endpoint)

    def settle(self, timeout: float | None = None) -> bool:
        """Wait until all that was asked is answered.

        :param timeout: in seconds, None waits as long as it takes
        :returns: False if the time was too short
        """
        done = Event()
        self._asked.put(done)
        return done.wait(timeout)

    def _run(self) -> None:
        while True:
            asked = [self._asked.get()]
            with suppress(Empty):
                while True:
                    asked.append(self._asked.get_nowait())
            begun = time.monotonic()
            self._name({each for each in asked if isinstance(each, str)})
            for each in asked:
                if isinstance(each, Event):
                    each.set()
            time.sleep((time.monotonic() - begun) * _PAUSE)

    def _name(self, endpoints: set[str]) -> None:
        if not endpoints:
            return
        with suppress(psutil.Error, OSError):  # a system that does not tell leaves ends without a name
            for endpoint, process in self._find(endpoints).items():
                host, port = split(endpoint)
                self._names.hold(host, port, *filter(None, (str(process), process.command)))


def _connections() -> Iterator[tuple[int, Any]]:
    """TCP connections and listeners of processes that the system reports, with the number of the process."""
    try:
        everything = [(each.pid, each) for each in psutil.net_connections("tcp")]
    except psutil.AccessDenied:  # macOS shows all processes to root only, and users their own
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
            with suppress(ValueError):  # hardware addresses are among them
                yield canonical(address.address)


def _process(pid: int) -> Process | None:
    try:
        process = psutil.Process(pid)
        name = process.name()
    except psutil.Error:  # it ended meanwhile
        return None
    command = ""
    with suppress(psutil.Error):
        command = " ".join(process.cmdline())
    return Process(pid, name, command)
