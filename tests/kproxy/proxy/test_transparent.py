"""Original destinations and new connections; test_firewall.py uses real firewall rules."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from kproxy.addresses import Address
from kproxy.proxy.listeners import bind
from kproxy.proxy.transparent import (
    LoopError,
    NotRedirectedError,
    TransparentError,
    Upstreams,
    address_of,
    make_transparent,
    original_destination,
)

REPOSITORY = Path(__file__).parents[3]

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="transparent mode is Linux's")


def open_listener(host: str, tproxy: bool) -> socket.socket:
    (listener,) = bind(host, 0, both=True, prepare=make_transparent if tproxy else None)
    return listener


def _can_be_transparent() -> bool:
    try:
        open_listener("127.0.0.1", True).close()
    except OSError:
        return False
    return True


needs_transparent = pytest.mark.skipif(not _can_be_transparent(), reason="TPROXY takes CAP_NET_ADMIN")


@contextmanager
def accepted(listener: socket.socket, to: str) -> Iterator[tuple[socket.socket, Address]]:
    """Yield an accepted socket, and the address of its client."""
    listener.setblocking(True)
    with listener, socket.create_connection((to, listener.getsockname()[1])) as client:
        sock, _ = listener.accept()
        with sock:
            yield sock, client.getsockname()[:2]


@needs_linux
@pytest.mark.parametrize(("host", "to"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_a_connection_to_the_proxy_itself(host: str, to: str) -> None:
    listener = open_listener(host, False)
    address = address_of(listener.getsockname())
    with accepted(listener, to) as (sock, _), pytest.raises(NotRedirectedError) as caught:
        original_destination(sock, False, address)
    shown = f"[{to}]" if ":" in to else to
    assert f"connected to kproxy's own address {shown}:{address[1]}." in str(caught.value)
    assert not isinstance(caught.value, LoopError)


@needs_transparent
@pytest.mark.parametrize(("host", "to"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_tproxy_tells_the_dialled_address(host: str, to: str) -> None:
    listener = open_listener(host, True)
    address = address_of(listener.getsockname())
    with accepted(listener, to) as (sock, _):
        with pytest.raises(NotRedirectedError):
            original_destination(sock, True, address)
        elsewhere = address[0], address[1] + 1  # as if a rule had redirected it to another port
        assert original_destination(sock, True, elsewhere) == (to, address[1])


@needs_transparent
def test_a_broker_on_the_port_of_the_proxy() -> None:
    # 192.0.2.1 (RFC 5737) is no address of this machine, but IP_TRANSPARENT allows binding to it
    class FakeSocket:
        family = socket.AF_INET

        def getsockname(self) -> tuple[str, int]:
            return "192.0.2.1", 9092

        def getpeername(self) -> tuple[str, int]:
            return "192.0.2.2", 40_000

        def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
            raise AssertionError

    assert original_destination(FakeSocket(), True, ("0.0.0.0", 9092)) == ("192.0.2.1", 9092)


@needs_transparent
def test_a_connection_of_its_own() -> None:
    listener = open_listener("127.0.0.1", True)
    to = address_of(listener.getsockname())
    with accepted(listener, "127.0.0.1") as (sock, client):
        with pytest.raises(LoopError, match="--uid-owner"):
            original_destination(sock, True, ("127.0.0.1", 1), {(client, to)})
        another = ("10.9.0.2", 9092)  # from the same port, but to another broker
        assert original_destination(sock, True, ("127.0.0.1", 1), {(client, another)}) == to


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_is_known_before_it_is_accepted_and_forgotten_when_closed(host: str) -> None:
    async def connect() -> None:
        upstreams = Upstreams()
        with open_listener(host, False) as listener:
            listener.setblocking(True)
            to = address_of(listener.getsockname())
            sock = upstreams.begin(to)
            with listener.accept()[0] as came:
                own = address_of(came.getpeername()), to
                assert own in upstreams
                await asyncio.get_running_loop().sock_connect(sock, to)
                _, writer = await asyncio.open_connection(sock=sock)
                assert address_of(writer.get_extra_info("sockname")) == own[0]
                assert own in upstreams
                writer.close()
                await writer.wait_closed()
                del sock, writer
                await asyncio.sleep(0)
                assert own not in upstreams

    asyncio.run(connect())
    uvloop.run(connect())


def test_a_refused_connection() -> None:
    async def connect() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            to = address_of(free.getsockname())
        with Upstreams().begin(to) as sock, pytest.raises(ConnectionRefusedError):
            await asyncio.get_running_loop().sock_connect(sock, to)

    asyncio.run(connect())
    uvloop.run(connect())


@needs_transparent
@pytest.mark.parametrize(
    ("host", "client"),
    [("127.0.0.1", "127.7.7.7"), ("::1", "::1"), ("127.0.0.1", "::ffff:127.7.7.7")],
)
def test_the_address_of_the_client(host: str, client: str) -> None:
    with open_listener(host, False) as listener:
        listener.setblocking(True)
        with Upstreams().begin(address_of(listener.getsockname()), (client, 40_000)) as sock:
            own = address_of(sock.getsockname())
            assert own[0] == client.removeprefix("::ffff:")
            with listener.accept()[0] as came:
                assert address_of(came.getpeername()) == own


@needs_transparent
def test_an_address_of_the_other_family() -> None:
    with (
        open_listener("127.0.0.1", False) as listener,
        pytest.raises(TransparentError, match="cannot use the client's address 2001:db8::1"),
    ):
        Upstreams().begin(address_of(listener.getsockname()), ("2001:db8::1", 40_000))


@needs_linux
def test_without_the_privilege() -> None:
    code = (
        "import encodings.idna, os; from kproxy.proxy.listeners import bind; from kproxy.proxy.transparent import *\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: bind('127.0.0.1', 0, prepare=make_transparent)\n"
        "except TransparentError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert "CAP_NET_ADMIN" in done.stdout, done.stderr
    assert "Errno" not in done.stdout


@pytest.mark.parametrize(
    ("name", "address"),
    [
        (("10.0.0.1", 9092), ("10.0.0.1", 9092)),
        (("fd00::1", 9092, 0, 0), ("fd00::1", 9092)),
        (("::ffff:10.0.0.1", 9092, 0, 0), ("10.0.0.1", 9092)),
        (("fe80::1", 9092, 0, 1), (f"fe80::1%{socket.if_indextoname(1)}", 9092)),
    ],
)
def test_names_of_sockets(name: tuple[object, ...], address: Address) -> None:
    assert address_of(name) == address
