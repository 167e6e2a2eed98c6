"""Transparent mode on Linux: the original destination of a redirected connection, and the connection to it.

Clients and brokers keep their addresses, and nothing is rewritten: firewall rules (:mod:`kproxy.proxy.firewall`) bring
the connections to brokers to the proxy. With **REDIRECT** the kernel changes the destination of packets, and remembers
the original (``SO_ORIGINAL_DST``, linux/netfilter_ipv4.h); the proxy needs no privilege. With **TPROXY** packets stay
unchanged, and the accepted socket has the broker's address as its own (Documentation/networking/tproxy.rst); that takes
``CAP_NET_ADMIN``, and the proxy may then use the client's address towards the broker.

A connection made to the proxy itself has no other destination, and a connection of the proxy that a rule redirected
back would loop for ever. Both are refused.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Container
from contextlib import suppress
from struct import Struct
from typing import Any
from weakref import WeakValueDictionary

from kproxy.addresses import Address, address_text

_SOL_IP = 0
_SOL_IPV6 = 41
_SO_ORIGINAL_DST = 80  # and IP6T_SO_ORIGINAL_DST (linux/netfilter_ipv6/ip6_tables.h)
_IP_TRANSPARENT = 19
_IP_BIND_ADDRESS_NO_PORT = 24
_IPV6_TRANSPARENT = 75
_SOCKADDR_IN = Struct("!2xH4s8x")
_SOCKADDR_IN6 = Struct("!2xH4x16s4s")
_DISCARD = 9  # RFC 863


Way = tuple[Address, Address]
"""Source and destination of a connection."""


class TransparentError(OSError):
    """This system or user does not support the request; the message says what to do."""


class NotRedirectedError(Exception):
    """A connection was made to the proxy itself, so it has no broker as its destination."""


class LoopError(NotRedirectedError):
    """A connection that the proxy made came back to it."""


def address_of(name: Any) -> Address:
    """Return a socket's name as an address.

    :param name: from ``getsockname`` or ``getpeername``, or the transport's ``sockname`` or ``peername``
    """
    host, port, *more = name
    if "." in host:
        return host.removeprefix("::ffff:"), port
    return _scoped(host, more[1] if more else 0), port


def original_destination(
    sock: socket.socket, tproxy: bool, listener: Address, own: Container[Way] = ()
) -> Address:
    """Return the address that the client of an accepted connection wanted.

    :param sock: the accepted socket
    :param listener: address of the socket that accepted it
    :param own: the proxy's connections to brokers, such as :class:`Upstreams`
    :raises NotRedirectedError: if that is the proxy itself; the message is for the log
    :raises LoopError: if the connection is one of the proxy's own
    :raises OSError: if the connection is already broken
    """
    client, local = address_of(sock.getpeername()), address_of(sock.getsockname())
    wanted = local if tproxy else _redirected_from(sock, local)
    if wanted is not None and (client, wanted) in own:
        raise LoopError(
            f"kproxy's own connection to {address_text(*wanted)} was brought back to it. The firewall rules must leave "
            "out the user that kproxy runs as (! --uid-owner), and no client may run as that user"
        )
    # the check is only needed if TPROXY puts broker and listener on one port
    if wanted is None or (tproxy and wanted[1] == listener[1] and _is_here(wanted[0])):
        raise NotRedirectedError(
            f"the client connected to kproxy's own address {address_text(*local)}. In transparent mode clients use the "
            "brokers' addresses, and firewall rules bring their connections here; no rule did for this one"
        )
    return wanted


def _redirected_from(sock: socket.socket, local: Address) -> Address | None:
    """Return the destination before REDIRECT changed it, None if it was not changed."""
    try:
        if sock.family == socket.AF_INET6 and ":" in local[0]:
            raw = sock.getsockopt(_SOL_IPV6, _SO_ORIGINAL_DST, _SOCKADDR_IN6.size)
            port, packed, scope = _SOCKADDR_IN6.unpack(raw)
            host = _scoped(socket.inet_ntop(socket.AF_INET6, packed), int.from_bytes(scope, sys.byteorder))
        else:
            port, packed = _SOCKADDR_IN.unpack(sock.getsockopt(_SOL_IP, _SO_ORIGINAL_DST, _SOCKADDR_IN.size))
            host = socket.inet_ntoa(packed)
    except OSError as error:
        # the connection is not tracked, or connection tracking is not loaded: no NAT
        if error.errno in (errno.ENOENT, errno.ENOPROTOOPT):
            return None
        raise
    return None if (host, port) == local else (host, port)


class Upstreams:
    """Starts connections to brokers, and recognises them as long as their sockets live.

    A connection is registered from its start, because a rule could bring it back at once. It is identified by both its
    addresses: a client whose address is kept may use the port that was chosen here for another broker.
    """

    def __init__(self) -> None:
        self._sockets: WeakValueDictionary[Way, socket.socket] = WeakValueDictionary()

    def __contains__(self, way: object) -> bool:
        found = self._sockets.get(way)  # type: ignore[call-overload]  # other objects are never contained
        return found is not None and found.fileno() >= 0

    def begin(self, destination: Address, client: Address | None = None) -> socket.socket:
        """Return a non-blocking socket that is connecting; ``loop.sock_connect`` waits until it is connected.

        :param client: use this address (with another port) towards the broker, see :func:`make_transparent`
        :raises TransparentError: if the client's address cannot be used
        :raises OSError: if the destination cannot be reached
        """
        sock = socket.socket(_family(destination[0]), socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if client is not None:
                _borrow(sock, address_of(client)[0])
            with suppress(BlockingIOError):
                sock.connect(destination)
            self._sockets[address_of(sock.getsockname()), destination] = sock
        except BaseException:
            sock.close()
            raise
        return sock


def _borrow(sock: socket.socket, host: str) -> None:
    make_transparent(sock)
    # choose the port on connecting, so that each broker can use the full range (ip(7))
    sock.setsockopt(_SOL_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
    try:
        sock.bind((host, 0))
    except OSError as error:
        raise TransparentError(f"cannot use the client's address {host}: {error.strerror}") from None


def make_transparent(sock: socket.socket) -> None:
    """Let a socket accept connections to any address, as rules with TPROXY require, or use any as its own.

    :raises TransparentError: if the privilege is missing
    """
    six = sock.family == socket.AF_INET6
    try:
        # either option sets the same property of the socket, for both families (net/ipv6/ipv6_sockglue.c)
        sock.setsockopt(*((_SOL_IPV6, _IPV6_TRANSPARENT) if six else (_SOL_IP, _IP_TRANSPARENT)), 1)
    except PermissionError:
        raise TransparentError(
            "TPROXY needs the capability CAP_NET_ADMIN: run kproxy as root, as a systemd service with "
            "AmbientCapabilities=CAP_NET_ADMIN, or by 'setpriv --inh-caps +net_admin --ambient-caps +net_admin'"
        ) from None
    except OSError as error:
        raise TransparentError(f"this system has no TPROXY: {error.strerror}") from None


def _is_here(host: str) -> bool:
    """Return whether an address belongs to this machine, or is routed to it."""
    # the source for such a destination is the address itself; whether it can be bound to depends on a sysctl
    with socket.socket(_family(host), socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, _DISCARD))  # sends nothing
        except OSError:
            return False
        return address_of(probe.getsockname())[0] == host


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _scoped(host: str, scope: int) -> str:
    """Return a link-local address with the interface on which it is valid (RFC 4007)."""
    return f"{host}%{socket.if_indextoname(scope)}" if scope else host
