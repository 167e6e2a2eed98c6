"""Shared parts of the TLS tests: an authority, handshakes on loopback, and external programs."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar, cast

import pytest
import uvloop

from tests.waiting import PATIENCE

T = TypeVar("T")

PASSWORD = "a password"
LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


def need(*programs: str) -> None:
    """Skip the test if a program is missing."""
    missing = [each for each in programs if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


def command(*arguments: str | Path, stdin: str = "") -> str:
    """Run a program; return its output."""
    done = subprocess.run(
        [str(each) for each in arguments], input=stdin, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class _GreetingProtocol(asyncio.Protocol):
    """Sends a greeting after the first byte."""

    def __init__(self, errors: list[BaseException]) -> None:
        self._errors = errors

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(b"hello")
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self._errors.append(exc)


async def served(
    context: ssl.SSLContext, ask: Callable[[int], Awaitable[T]]
) -> tuple[T, list[BaseException]]:
    """Serve TLS on loopback, as in the data plane, during a call.

    :param ask: the call, which receives the port
    :returns: its result, and the server's error
    """
    errors: list[BaseException] = []
    loop = asyncio.get_running_loop()

    async def serve(listening: socket.socket) -> None:
        while True:
            accepted, _ = await loop.sock_accept(listening)
            try:
                await loop.connect_accepted_socket(lambda: _GreetingProtocol(errors), accepted, ssl=context)
            except OSError as error:
                errors.append(error)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        serving = asyncio.create_task(serve(listening))
        try:
            result = await ask(listening.getsockname()[1])
            await asyncio.sleep(0.05)  # the server notices the disconnection later than its client
            return result, errors
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


async def talk(port: int, context: ssl.SSLContext, name: str = "localhost") -> tuple[bytes, bytes]:
    """Send a byte over TLS; return the response and the server's certificate (DER)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.write(b"?")
        return await reader.read(), certificate
    finally:
        writer.transport.abort()
