"""Certificates presented at addresses."""

from __future__ import annotations

import asyncio

from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.certificates import certificate_of, names_of
from kproxy.proxy.tls.contexts import server_context
from tests.kproxy.proxy.tls.kit import LOOPS, served


@LOOPS
def test_the_certificate_of_an_address(run, authority: Authority) -> None:  # type: ignore[no-untyped-def]
    server = server_context(authority.identity("far.test"))
    certificate, _ = run(served(server, lambda port: certificate_of("127.0.0.1", port)))
    assert names_of(certificate) == ["far.test"]


def test_there_may_be_none() -> None:
    async def plaintext() -> bytes | None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            found = await certificate_of("127.0.0.1", port)
        assert await certificate_of("127.0.0.1", port) is None
        return found

    assert asyncio.run(plaintext()) is None
    assert asyncio.run(certificate_of("a..b", 1)) is None
