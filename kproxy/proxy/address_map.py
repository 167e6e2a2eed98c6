"""Where brokers are as seen from this machine (``--map``), overriding the addresses that they advertise.

Brokers advertise addresses that work where most of their clients are: in a Kubernetes cluster, in a Docker network, at
the other end of an SSH tunnel. If kproxy runs elsewhere, each leads nowhere, or to something else.

    kafka-1:9092=127.0.0.1:29092      the broker that advertises this address
    kafka-1=127.0.0.1                 any port it advertises, which is kept if the right side gives none
    broker 2=127.0.0.1:29093          the broker with this node ID, whatever it advertises; also ``controller 3000``
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from kproxy.addresses import Address, address

_NODE = re.compile(r"(broker|controller) +(\d{1,10})")
_EXAMPLES = "kafka-1:9092=127.0.0.1:29092 or 'broker 2=127.0.0.1:29093'"

Node = tuple[str, int]
"""Role and node ID."""


K = TypeVar("K", Node, Address, str)


class Target(NamedTuple):
    """An address to connect to.

    :ivar address: host and port as seen from this machine
    :ivar named: host name that its certificate must match
    :ivar permits: whether a connection may go to an IP address that the host resolves to
    """

    address: Address
    named: str
    permits: Callable[[str], bool] = lambda _: True


class MapError(ValueError):
    """A ``--map`` value is invalid; the message says why."""


class AddressMap:
    """Maps advertised addresses and node IDs to addresses to connect to.

    :param texts: as users write them
    :raises MapError: if one is not an assignment of addresses, or if two have the same left side
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._nodes: dict[Node, Address] = {}
        self._addresses: dict[Address, Address] = {}
        self._hosts: dict[str, Address] = {}
        for text in texts:
            self._add(text)

    def _add(self, text: str) -> None:
        left, equals, right = (part.strip() for part in text.partition("="))
        if not equals or not left or not right:
            raise MapError(f"{text!r} maps nothing: write {_EXAMPLES}")
        node = _NODE.fullmatch(left)
        if node is not None:
            self._set(self._nodes, (node[1], int(node[2])), _full_address(text, right), left)
            return
        host, port = _parsed(text, left)
        if port:
            self._set(self._addresses, (host.lower(), port), _full_address(text, right), left)
        else:
            self._set(self._hosts, host.lower(), _parsed(text, right), left)

    @staticmethod
    def _set(entries: dict[K, Address], key: K, to: Address, left: str) -> None:
        if key in entries:
            raise MapError(f"{left} is mapped twice")
        entries[key] = to

    def lookup(self, host: str, port: int, node: Node | None = None) -> Address | None:
        """Return the address to connect to, None if no entry matches.

        :param node: the node with that address, if known: entries for nodes take precedence over entries for names
        """
        if node is not None and node in self._nodes:
            return self._nodes[node]
        name = host.lower()
        exact = self._addresses.get((name, port))
        if exact is not None:
            return exact
        whole = self._hosts.get(name)
        return None if whole is None else (whole[0], whole[1] or port)


def _parsed(text: str, part: str) -> Address:
    """Return host and port; port 0 if none is given."""
    alone = ":" not in part or part.endswith("]")
    try:
        host, port = address(part)
    except ValueError as error:
        raise MapError(f"{text!r}: {error}") from None
    if not host or (not alone and not port):
        raise MapError(f"{text!r}: {part!r} is not an address: write {_EXAMPLES}")
    return host, 0 if alone else port


def _full_address(text: str, part: str) -> Address:
    host, port = _parsed(text, part)
    if not port:
        raise MapError(f"{text!r}: {part!r} has no port: write {_EXAMPLES}")
    return host, port
