"""The connection to a broker, or to nowhere."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kproxy.addresses import Address, address_text
from kproxy.proxy.address_map import Target
from kproxy.proxy.dialler import ATTEMPT_DELAY, AllFailedError, Dialler, first_of
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.tls.certificates import certificate_of


class UnreachableError(Exception):
    """No broker could be connected to; the message says which, and why.

    :ivar is_elsewhere: whether no connection was made at all, so that the broker may have another address from here
    """

    def __init__(self, text: str, *, is_elsewhere: bool = False) -> None:
        super().__init__(text)
        self.is_elsewhere = is_elsewhere


async def connect(
    protocol: asyncio.Protocol,
    targets: Sequence[Target],
    context: ssl.SSLContext | None,
    dialler: Dialler,
    timeout: float,
    make: Callable[[Address], socket.socket | None] = lambda _: None,
) -> None:
    """Connect to the first of several targets that accepts a connection.

    :param timeout: seconds in total
    :param make: returns a socket that is already connecting, None to have one made
    :raises UnreachableError: if none does
    """
    left: list[Target] = list(targets)
    failures: list[tuple[Target, BaseException]] = []
    is_elsewhere, over = True, False
    try:
        async with asyncio.timeout(timeout):
            while left:
                try:
                    number, dialled = await first_of(
                        [partial(_dialled, each, dialler, make) for each in left],
                        ATTEMPT_DELAY,
                        socket.socket.close,
                    )
                except AllFailedError as failed:
                    failures += zip(left, failed.errors, strict=True)
                    break
                target, is_elsewhere = left.pop(number), False
                try:
                    await _made(protocol, dialled, context, target.named)
                except OSError as error:
                    failures.append((target, error))
                else:
                    return
    except TimeoutError:
        over = True
    if over:
        failures += ((each, TimeoutError()) for each in left)
    whys = [await _why(error, each, context) for each, error in failures]
    raise UnreachableError("; ".join(whys), is_elsewhere=is_elsewhere)


async def _dialled(
    target: Target, dialler: Dialler, make: Callable[[Address], socket.socket | None]
) -> socket.socket:
    own = make(target.address)
    if own is None:
        return await dialler.dial(target.address, target.permits)
    try:
        await asyncio.get_running_loop().sock_connect(own, target.address)
    except BaseException:
        own.close()
        raise
    return own


async def _made(
    protocol: asyncio.Protocol, dialled: socket.socket, context: ssl.SSLContext | None, named: str
) -> None:
    name = named if context is not None else None
    try:
        await asyncio.get_running_loop().create_connection(
            lambda: protocol, sock=dialled, ssl=context, server_hostname=name
        )
    except BaseException:
        dialled.close()
        raise


async def _why(error: BaseException, target: Target, context: ssl.SSLContext | None) -> str:
    where = address_text(*target.address)
    if context is None:
        return diagnosis.broker_unreachable(error, where)
    unverified = isinstance(error, ssl.SSLCertVerificationError)
    certificate = await certificate_of(*target.address) if unverified else None
    return diagnosis.broker_handshake(error, where, target.named, certificate)


class NullTransport:
    """Stands in for the transport to a broker when nothing is forwarded: discards everything, receives nothing.

    :param wrote: called in place of a write
    :param ended: called in place of closing the connection
    """

    def __init__(self, wrote: Callable[[], None], ended: Callable[[], None]) -> None:
        self._wrote = wrote
        self._ended = ended
        self._closing = False

    def write(self, data: bytes) -> None:
        self._wrote()

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._ended)

    abort = close
    write_eof = close

    def can_write_eof(self) -> bool:
        """Return False: the directions cannot end separately."""
        return False

    def pause_reading(self) -> None:
        """Do nothing: there is nothing to read."""

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing is buffered."""
        return 0

    def get_extra_info(self, _: str) -> Any:
        """Return None: there is no socket."""
        return None
