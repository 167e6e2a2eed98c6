"""The connection to a broker, or to nowhere."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kproxy.addresses import Address, address_text
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.tls.certificates import certificate_of


class UnreachableError(Exception):
    """No broker could be connected to; the text says which, and why."""


async def connect(
    protocol: asyncio.Protocol,
    addresses: list[Address],
    context: ssl.SSLContext | None,
    timeout: float,
    make: Callable[[Address], socket.socket | None] = lambda _: None,
    named: str = "",
) -> Address:
    """Connect to the first of several addresses that can be connected to.

    :param timeout: seconds for each of them
    :param make: returns a socket that is on its way there, None to have one made
    :param named: host name that certificates have to be for; empty for the host of each address
    :raises UnreachableError: if none can
    """
    failures: list[str] = []
    for address in addresses:
        try:
            async with asyncio.timeout(timeout):
                await _connect(protocol, address, context, make(address), named or address[0])
        except (OSError, TimeoutError) as error:
            failures.append(await _why(error, address, context, named or address[0]))
        else:
            return address
    raise UnreachableError("; ".join(failures))


async def _connect(
    protocol: asyncio.Protocol,
    address: Address,
    context: ssl.SSLContext | None,
    own: socket.socket | None,
    named: str,
) -> None:
    loop = asyncio.get_running_loop()
    host, port = address
    name = named if context is not None else None
    if own is None:
        await loop.create_connection(lambda: protocol, host, port, ssl=context, server_hostname=name)
        return
    try:
        await loop.sock_connect(own, address)
        await loop.create_connection(lambda: protocol, sock=own, ssl=context, server_hostname=name)
    except BaseException:
        own.close()
        raise


async def _why(error: Exception, address: Address, context: ssl.SSLContext | None, named: str) -> str:
    where = address_text(*address)
    if context is None:
        return diagnosis.broker_unreachable(error, where)
    certificate = await certificate_of(*address) if isinstance(error, ssl.SSLCertVerificationError) else None
    return diagnosis.broker_handshake(error, where, named, certificate)


class Nowhere:
    """In the place of a transport to a broker where nothing is forwarded: takes everything, says nothing.

    :param wrote: called when something would have been sent
    :param ended: called when the end of the connection would have been
    """

    def __init__(self, wrote: Callable[[], None], ended: Callable[[], None]) -> None:
        self._wrote = wrote
        self._ended = ended
        self._closing = False

    def write(self, data: bytes) -> None:
        """Take bytes."""
        self._wrote()

    def is_closing(self) -> bool:
        """Whether the connection is over."""
        return self._closing

    def close(self) -> None:
        """End it."""
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._ended)

    abort = close
    write_eof = close

    def can_write_eof(self) -> bool:
        """Whether one direction can end alone."""
        return False

    def pause_reading(self) -> None:
        """Do nothing: there is nothing to read."""

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        """Nothing waits to be taken."""
        return 0

    def get_extra_info(self, _: str) -> Any:
        """Return nothing: there is no socket."""
        return None
