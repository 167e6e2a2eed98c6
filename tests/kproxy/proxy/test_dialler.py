"""Host names with several addresses: which is chosen, and the notices about those that do not respond."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kproxy.proxy.dialler import AllFailedError, Dialler, first_of
from tests.waiting import PATIENCE

V4, V6 = socket.AF_INET, socket.AF_INET6


class Network:
    """The addresses of a name, and the result of connecting to each, replacing the loop's functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **outcomes: Callable[[], Awaitable[None]]) -> None:
        self.tried: list[str] = []
        self.outcomes = {name.replace("_", "."): outcome for name, outcome in outcomes.items()}
        self.found: list[tuple[int, str]] = [(V4, host) for host in self.outcomes]
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", self._resolve, raising=False)
        monkeypatch.setattr(loop, "sock_connect", self._connect, raising=False)

    async def _resolve(self, host: str, port: int, **_: Any) -> list[Any]:
        return [(family, socket.SOCK_STREAM, 0, "", (each, port)) for family, each in self.found]

    async def _connect(self, _: socket.socket, where: tuple[str, int]) -> None:
        self.tried.append(where[0])
        await self.outcomes[where[0]]()


async def works() -> None:
    pass


async def refuses() -> None:
    raise ConnectionRefusedError(111, "Connection refused")


async def swallows() -> None:
    await asyncio.Event().wait()


async def test_an_address_that_swallows_packets_costs_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, **{"10_0_0_1": swallows, "10_0_0_2": works})
    dialler = Dialler(delay=0.01)
    async with asyncio.timeout(PATIENCE):
        (await dialler.dial(("kafka", 9092))).close()
        assert network.tried == ["10.0.0.1", "10.0.0.2"]
        (await dialler.dial(("kafka", 9092))).close()
    assert network.tried[2:] == ["10.0.0.2"]  # the address that responded is tried first from then on


async def test_an_address_that_refuses_is_followed_by_the_next_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network(monkeypatch, **{"10_0_0_1": refuses, "10_0_0_2": works})
    async with asyncio.timeout(PATIENCE):
        (await Dialler(delay=1000).dial(("kafka", 9092))).close()
    assert network.tried == ["10.0.0.1", "10.0.0.2"]


async def test_families_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("6_1", "6_2", "4_1", "4_2")
    network = Network(monkeypatch, **dict.fromkeys(names, refuses))
    network.found = [(V6, "6.1"), (V6, "6.2"), (V4, "4.1"), (V4, "4.2")]
    with pytest.raises(ConnectionRefusedError):
        await Dialler().dial(("kafka", 9092))
    assert network.tried == ["6.1", "4.1", "6.2", "4.2"]


async def test_why_each_address_failed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    Network(monkeypatch, **{"10_0_0_1": refuses, "10_0_0_2": swallows})
    with pytest.raises(OSError, match=r"10.0.0.1: Connection refused; 10.0.0.2: no answer within 0.01 s"):
        await Dialler(each=0.01, delay=0.001).dial(("kafka", 9092))


async def test_one_address_fails_with_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    Network(monkeypatch, **{"10_0_0_1": refuses})
    with pytest.raises(ConnectionRefusedError):
        await Dialler().dial(("kafka", 9092))


async def test_no_connection_goes_where_none_may(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(monkeypatch, **{"10_0_0_1": works, "10_0_0_2": works})
    (await Dialler().dial(("kafka", 9092), lambda ip: ip == "10.0.0.2")).close()
    with pytest.raises(OSError, match=r"leads to 10.0.0.1, 10.0.0.2, which is not allowed"):
        await Dialler().dial(("kafka", 9092), lambda ip: False)
    with pytest.raises(OSError, match="kproxy itself"):
        await Dialler(refuses=lambda address: "kproxy itself").dial(("kafka", 9092))
    assert network.tried == ["10.0.0.2"]


async def test_a_name_that_is_none_is_an_error_like_others() -> None:
    with pytest.raises(OSError, match="not a valid host name"):
        await Dialler().dial(("a" * 70 + ".example", 9092))


async def test_what_comes_too_late_is_discarded() -> None:
    discarded: list[int] = []

    def attempt(number: int) -> Callable[[], Awaitable[int]]:
        async def run() -> int:
            return number

        return run

    number, result = await first_of([attempt(1), attempt(2)], 1000, discarded.append)
    assert (number, result) == (0, 1)

    both = asyncio.Event()

    async def waits(number: int) -> int:
        await both.wait()
        return number

    async def releases() -> int:
        both.set()
        await asyncio.Event().wait()
        return 3

    found = await first_of([lambda: waits(1), lambda: waits(2), releases], 0.001, discarded.append)
    await asyncio.sleep(0)
    assert sorted([found[1], *discarded]) == [1, 2]


async def test_all_that_failed_is_told_in_order() -> None:
    async def fails(text: str) -> None:
        raise OSError(text)

    with pytest.raises(AllFailedError, match="a; b"):
        await first_of([lambda: fails("a"), lambda: fails("b")], 1000, lambda _: None)


async def test_what_is_not_about_the_network_is_raised() -> None:
    async def breaks() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await first_of([breaks, breaks], 1000, lambda _: None)
