"""Listening sockets for all addresses of a host."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from kproxy.proxy.listeners import bind


@pytest.mark.parametrize("host", ["localhost", ""])
def test_a_host_is_listened_on_with_all_its_addresses(host: str) -> None:
    found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with ExitStack() as closed:
        listeners = [closed.enter_context(each) for each in bind(host, 0)]
        assert {each.getsockname()[0] for each in listeners} == {info[4][0] for info in found}
        (port,) = {each.getsockname()[1] for each in listeners}
        for to in ("127.0.0.1", "::1") if not host else ():
            closed.enter_context(socket.create_connection((to, port)))


def test_an_address_that_cannot_be_listened_on() -> None:
    (taken,) = bind("127.0.0.1", 0)
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use"):
            bind("127.0.0.1", port)
    with pytest.raises(OSError, match=r"nobody\.invalid:0: "):
        bind("nobody.invalid", 0)
