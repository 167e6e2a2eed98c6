"""Listening sockets for clients, and a peek at the first bytes of a connection.

asyncio reads from an accepted socket only after the broker is connected, so no bytes have to be buffered that could not
be forwarded.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kproxy.proxy.brokers import UpstreamAddress

_BACKLOG = 4096  # the default of net.core.somaxconn
_AT_ONCE = 64  # connections accepted in one turn of the loop
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0  # seconds without accepting after descriptors have run out
_LOOK_AGAIN = 0.01  # seconds
_HELLO = 16 << 10  # bytes of a TLS ClientHello, by RFC 8446 section 5.1


def bind(
    host: str, port: int, *, both: bool = False, prepare: Callable[[socket.socket], None] | None = None
) -> list[socket.socket]:
    """Return listening sockets for all addresses of a host, on one port.

    :param port: 0 for one that the system chooses
    :param both: whether ``::`` accepts IPv4 connections too
    :param prepare: called with each socket before it is bound
    :raises OSError: if one of them cannot be opened
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            if sockets:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            sockets.append(listening(family, address, both=both and host == "::", prepare=prepare))
    except OSError as error:
        for made in sockets:
            made.close()
        if error.strerror is None:  # it says all
            raise
        raise OSError(error.errno, f"{host}:{port}: {error.strerror or error}") from None
    return sockets


def listening(
    family: int,
    address: Any,
    *,
    both: bool = False,
    prepare: Callable[[socket.socket], None] | None = None,
) -> socket.socket:
    """Return a listening, non-blocking socket.

    :param both: whether a socket of IPv6 accepts IPv4 connections too
    :param prepare: called before it is bound
    :raises OSError: if it cannot be opened
    """
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        if prepare is not None:
            prepare(made)
        made.bind(address)
        made.listen(_BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class Listener:
    """Listening sockets on one port.

    :param accept: called with each accepted socket and this listener
    :param trouble: called with sentences for the user
    :param upstream: the broker that clients reach here; None for the bootstrap port
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sockets: list[socket.socket],
        accept: Callable[[socket.socket, Listener], None],
        trouble: Callable[[str], None],
        upstream: UpstreamAddress | None = None,
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._accept = accept
        self._trouble = trouble
        self.upstream = upstream
        self._names = [(each.family, each.getsockname()) for each in sockets]
        self._is_shut = False
        for each in sockets:
            loop.add_reader(each, self._ready, each)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each socket."""
        return [name[:2] for _, name in self._names]

    @property
    def port(self) -> int:
        return self.addresses[0][1]

    def close(self) -> None:
        """Stop listening for good."""
        self._is_shut = False
        self._close()

    def shut(self) -> None:
        """Refuse connections until :meth:`reopen`."""
        self._is_shut = True
        self._close()

    def reopen(self) -> None:
        """Accept connections again, as soon as the addresses are free."""
        if not self._is_shut:
            return
        try:
            for family, name in self._names[len(self._sockets) :]:
                made = listening(family, name)
                self._sockets.append(made)
                self._loop.add_reader(made, self._ready, made)
        except OSError as error:
            self._trouble(f"no connection can be accepted at {name[0]}:{name[1]} for now: {error.strerror}")
            self._loop.call_later(_PAUSE, self.reopen)
            return
        self._is_shut = False

    def _close(self) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets = []

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                self._trouble(f"no connection can be accepted for now: {error.strerror}")
                self._loop.remove_reader(listening)
                self._loop.call_later(_PAUSE, self._reopen, listening)
                return
            accepted.setblocking(False)
            with suppress(OSError):  # not every kind of socket has the option
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accept(accepted, self)

    def _reopen(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._ready, listening)


async def peek(
    loop: asyncio.AbstractEventLoop, client: socket.socket, enough: Callable[[bytes], bool]
) -> bytes:
    """Return the first bytes that a client sends without consuming them. The caller bounds the time.

    :param enough: returns whether the bytes suffice for a decision
    :returns: the bytes available once they suffice, the client has ended, or they exceed the longest ClientHello
    :raises OSError: if the connection breaks
    """
    readable = loop.create_future()
    loop.add_reader(client, _set, readable)
    try:
        await readable
    finally:
        loop.remove_reader(client)
    while True:
        data = client.recv(_HELLO, socket.MSG_PEEK)
        if not data or len(data) == _HELLO or enough(data):
            return data
        # peeked bytes keep the socket readable, so new ones can only be found by polling
        await asyncio.sleep(_LOOK_AGAIN)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
