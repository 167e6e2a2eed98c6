"""The brokers, and where clients find them behind the proxy.

A broker is identified by its role and node ID; its own address may change, the one that clients use does not. Its
listener is opened before the first client learns of it. The brokers are saved in a file, so that after a restart they
are behind the same ports before any client has asked for metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from dissectors.budget import limit, shown
from kproxy.addresses import MOST_PORT, Address
from kproxy.export_files import write_private
from kproxy.proxy.addresses import Broker
from kproxy.proxy.broker_policy import BrokerPolicy
from kproxy.proxy.tls.sni import NodeNames

_CONTROLLERS = 1000
"""Added to the ports of controllers: with ``process.roles=broker,controller`` they share node IDs with brokers."""
_NOWHERE = 1  # tcpmux (RFC 1078): a valid port on which nothing listens
_RANGE = re.compile(r"(\d+)-(\d+)")
_BASE = re.compile(r"(\d+)\+")

_MOST_REPORTS = {"addresses": 20, "brokers": 1}
"""How often the reason for leaving brokers out is reported."""

Key = tuple[str, int]


class PortsError(Exception):
    """A ``--ports`` value is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class Ports:
    """How ports are assigned to brokers.

    :ivar first: the first port, 0 if the system chooses
    :ivar last: the last port of a range assigned in order of appearance; 0 if the node ID is added to the first
    """

    first: int
    last: int = 0

    @classmethod
    def parse(cls, text: str, listen: int) -> Ports:
        """Parse a ``--ports`` value.

        :param listen: port of the first listener; the base is the next one if `text` is empty
        :raises PortsError: if the value is invalid
        """
        if not text:
            return cls(listen + 1)
        if text == "any":
            return cls(0)
        base, range_ = _BASE.fullmatch(text), _RANGE.fullmatch(text)
        if base and 0 < int(base[1]) <= MOST_PORT:
            return cls(int(base[1]))
        if range_ and 0 < int(range_[1]) <= int(range_[2]) <= MOST_PORT:
            return cls(int(range_[1]), int(range_[2]))
        raise PortsError(
            f"{text!r} is not a valid choice of ports: 9093+ (and the node ID), 9093-9120, or any"
        )

    def of(self, key: Key, taken: set[int]) -> int:
        """Return the port for a broker, 0 if the system is to choose it.

        :param taken: ports already assigned
        """
        role, node_id = key
        if not self.first:
            return 0
        if self.last:
            return next((port for port in range(self.first, self.last + 1) if port not in taken), 0)
        port = self.first + node_id + (_CONTROLLERS if role == "controller" else 0)
        return port if port <= MOST_PORT and port not in taken else 0


class UpstreamAddress(msgspec.Struct):
    """A broker and its listener.

    :ivar host: the broker's own host
    :ivar port: the broker's own port
    :ivar listens: port of the listener, 0 before it is open; not used with SNI, where all share one
    """

    role: Literal["broker", "controller"]
    node_id: int
    host: str
    port: int
    listens: int = 0

    @property
    def broker(self) -> Broker:
        """The broker as address rewriting knows it."""
        return Broker(self.role, self.node_id, self.host, self.port)


class SavedBrokers(msgspec.Struct):
    """The content of the file: the brokers known when the proxy last ran.

    :ivar bootstrap: the cluster's bootstrap servers, as given on the command line
    """

    bootstrap: list[Address]
    brokers: list[UpstreamAddress]


class Brokers:
    """The brokers of one cluster.

    :param ports: how ports are assigned
    :param advertised: host that clients get
    :param listen: opens a listener on a port (0: any); returns the port it got, 0 if none can be opened
    :param changed: called with each new or moved broker and its previous address, empty if it is new
    :param announced: judges addresses
    :param refused: called with a broker that is left out and the reason, a few times for each kind of reason
    :param sni: host names, and the port that all share; None gives each broker a port
    :param file: where brokers are saved
    :ivar refusals: how often a broker was left out
    """

    def __init__(
        self,
        ports: Ports,
        advertised: str,
        listen: Callable[[UpstreamAddress, int], int],
        changed: Callable[[UpstreamAddress, str], None],
        *,
        announced: BrokerPolicy | None = None,
        refused: Callable[[Broker, str], None] = lambda broker, why: None,
        sni: tuple[NodeNames, int] | None = None,
        file: Path | None = None,
        bootstrap: tuple[Address, ...] = (),
    ) -> None:
        self._ports = ports
        self._advertised = advertised
        self._listen = listen
        self._changed = changed
        self._sni = sni
        self._file = file
        self._bootstrap = list(bootstrap)
        self._upstreams: dict[Key, UpstreamAddress] = {}
        self._taken: set[int] = set()
        self._announced = announced or BrokerPolicy()
        self._refused = refused
        self._reported: dict[str, int] = {}
        self._is_saved = True
        self.refusals = 0

    def __len__(self) -> int:
        return len(self._upstreams)

    def __iter__(self) -> Iterator[UpstreamAddress]:
        return iter(self._upstreams.values())

    def get(self, role: str, node_id: int) -> UpstreamAddress | None:
        """Return a broker, None if it is not known."""
        return self._upstreams.get((role, node_id))

    def advertise(self, broker: Broker) -> Address:
        """Record a broker; return the address at which clients find it.

        A broker without a listener gets one. As long as none can be opened, the address has a port on which nothing
        listens: a client that cannot connect is better off than one that bypasses the proxy. The same holds for
        addresses that are invalid or not allowed, and for brokers beyond the limit.
        """
        upstream = self._upstreams.get((broker.role, broker.node_id))
        if upstream is not None and (upstream.host, upstream.port) == (broker.host, broker.port):
            if self._sni is None and not upstream.listens:
                upstream = self._add(UpstreamAddress(broker.role, broker.node_id, broker.host, broker.port))
            return self.address_of(upstream)
        if self._is_refused(broker, new=upstream is None):
            return self._advertised or "localhost", _NOWHERE
        if upstream is None or (self._sni is None and not upstream.listens):
            upstream = self._add(UpstreamAddress(broker.role, broker.node_id, broker.host, broker.port))
        else:
            before = f"{upstream.host}:{upstream.port}"
            upstream.host, upstream.port = broker.host, broker.port
            self._changed(upstream, before)
            self._is_saved = False
        return self.address_of(upstream)

    def _is_refused(self, broker: Broker, *, new: bool) -> bool:
        if new and len(self._upstreams) >= limit("brokers"):
            why, kind = f"there may be no more: limit {shown('brokers')}", "brokers"
        else:
            why = self._announced.refusal(broker.node_id, broker.host, broker.port, broker.role)
            if not why:
                return False
            kind = "addresses"
        self.refusals += 1
        count = self._reported.get(kind, 0)
        if count < _MOST_REPORTS[kind]:
            self._reported[kind] = count + 1
            self._refused(broker, why)
        return True

    def address_of(self, upstream: UpstreamAddress) -> Address:
        """Return the address at which clients find a broker."""
        if self._sni is not None:
            names, port = self._sni
            return names.name(upstream.node_id, upstream.role), port
        return self._advertised, upstream.listens or _NOWHERE

    def at(self, host: str, port: int) -> UpstreamAddress | None:
        """Return the broker that advertises an address, None if none does."""
        return next(
            (
                upstream
                for upstream in self._upstreams.values()
                if (upstream.host, upstream.port) == (host, port)
            ),
            None,
        )

    def remember(self) -> None:
        """Open the listeners of the brokers known when the proxy last ran."""
        if self._file is None:
            return
        try:
            kept = msgspec.json.decode(self._file.read_bytes(), type=SavedBrokers)
        except (OSError, msgspec.MsgspecError):
            return
        if kept.bootstrap == self._bootstrap:
            for upstream in kept.brokers:
                if not self._is_refused(upstream.broker, new=True):
                    self._add(upstream)

    def _add(self, upstream: UpstreamAddress) -> UpstreamAddress:
        key = (upstream.role, upstream.node_id)
        self._upstreams[key] = upstream
        if self._sni is None:
            kept = upstream.listens if upstream.listens not in self._taken else 0
            upstream.listens = self._listen(upstream, self._port(key, kept, self._taken))
            if upstream.listens:
                self._taken.add(upstream.listens)
        self._changed(upstream, "")
        self._is_saved = False
        return upstream

    def _port(self, key: Key, kept: int, taken: set[int]) -> int:
        """Return the port that a broker had if the choice of ports still allows it, else a new one."""
        ports = self._ports
        if kept and (not ports.first or ports.first <= kept <= ports.last):
            return kept
        return ports.of(key, taken)

    def saving(self) -> Callable[[], None] | None:
        """Return a function that saves the current brokers, to be called in a thread; None if nothing has changed."""
        file = self._file
        if self._is_saved or file is None:
            return None
        self._is_saved = True
        content = msgspec.json.encode(SavedBrokers(self._bootstrap, list(self._upstreams.values())))

        def save() -> None:
            try:
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(file, content)
            except OSError:
                self._file = None  # saving is a convenience: nothing else depends on it

        return save
