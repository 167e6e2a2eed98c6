"""TCP connections to a host name with several addresses: the first that answers is used (RFC 8305).

The next address is tried when the one before has failed, or has not answered for a quarter of a second. So an address
that swallows packets costs a moment, not the whole timeout, and a name that was reached once is reached at the same
address the next time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from typing import Any, TypeVar

from kproxy.addresses import Address

ATTEMPT_DELAY = 0.25
"""Seconds after which the next address is tried in parallel (RFC 8305, section 5)."""
EACH_SECONDS = 5.0
"""Seconds that one address has to answer."""

_MOST_ADDRESSES = 16
"""Addresses of one name that are tried."""
_MOST_PREFERRED = 4096

T = TypeVar("T")


class AllFailedError(OSError):
    """All attempts failed.

    :ivar errors: of each attempt, in order
    """

    def __init__(self, errors: Sequence[BaseException], text: str = "") -> None:
        super().__init__(text or "; ".join(map(str, errors)))
        self.errors = tuple(errors)


class Dialler:
    """Connects to host names, and remembers which of their addresses answered.

    :param each: seconds for one address
    :param delay: seconds after which the next one is tried too
    :param refuses: returns why no connection may go to an IP address and port, empty if it may
    """

    def __init__(
        self,
        each: float = EACH_SECONDS,
        delay: float = ATTEMPT_DELAY,
        refuses: Callable[[Address], str] = lambda _: "",
    ) -> None:
        self._each = each
        self._delay = delay
        self._refuses = refuses
        self._preferred: dict[Address, str] = {}

    async def dial(self, address: Address, permits: Callable[[str], bool] = lambda _: True) -> socket.socket:
        """Return a socket connected to one of the host's addresses. The caller bounds the time.

        :param permits: whether a connection may go to an IP address
        :raises OSError: if the host has no permitted address, or none answers; the message gives the reason for each
        """
        found = await self._resolved(address)
        allowed = [each for each in found if permits(str(each[1][0]))]
        if not allowed:
            leads = ", ".join(dict.fromkeys(str(each[1][0]) for each in found))
            raise OSError(f"it leads to {leads}, which is not allowed (--allow-brokers)")
        try:
            number, connected = await first_of(
                [self._attempt(*each) for each in allowed], self._delay, socket.socket.close
            )
        except AllFailedError as failed:
            raise _combined([str(each[1][0]) for each in allowed], failed.errors) from None
        if len(self._preferred) > _MOST_PREFERRED:
            self._preferred.clear()
        self._preferred[address] = str(allowed[number][1][0])
        return connected

    async def _resolved(self, address: Address) -> list[tuple[int, Any]]:
        """Return family and address for each address of a host, the one that answered last time first."""
        host, port = address
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:
            raise OSError(f"{host[:60]!a} is not a valid host name") from None
        known = self._preferred.get(address)
        ordered = list(dict.fromkeys((each[0], each[4]) for each in found))
        first = [each for each in ordered if each[1][0] == known]
        return [*first, *(each for each in _alternating(ordered) if each not in first)][:_MOST_ADDRESSES]

    def _attempt(self, family: int, where: Any) -> Callable[[], Awaitable[socket.socket]]:
        async def attempt() -> socket.socket:
            refused = self._refuses((str(where[0]), where[1]))
            if refused:
                raise OSError(refused)
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.setblocking(False)
                with suppress(OSError):
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    async with asyncio.timeout(self._each):
                        await asyncio.get_running_loop().sock_connect(made, where)
                except TimeoutError:
                    raise TimeoutError(f"no answer within {self._each:g} s") from None
            except BaseException:
                made.close()
                raise
            return made

        return attempt


async def first_of(
    attempts: Sequence[Callable[[], Awaitable[T]]], delay: float, discard: Callable[[T], None]
) -> tuple[int, T]:
    """Return the index and the result of the first attempt that succeeds.

    Each starts when the one before has failed, or has run for `delay`.

    :param delay: seconds
    :param discard: disposes of the results of other attempts that succeed at the same time
    :raises AllFailedError: if all raise an OSError
    """
    errors: dict[int, BaseException] = {}
    running: dict[asyncio.Task[T], int] = {}
    begun = 0
    try:
        while begun < len(attempts) or running:
            if begun < len(attempts):
                running[asyncio.ensure_future(attempts[begun]())] = begun
                begun += 1
            wait = delay if begun < len(attempts) else None
            done, _ = await asyncio.wait(running, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                number = running.pop(task)
                error = task.exception()
                if error is None:
                    return number, task.result()
                if not isinstance(error, OSError):
                    raise error
                errors[number] = error
        raise AllFailedError([errors[number] for number in sorted(errors)])
    finally:
        for task in running:
            task.add_done_callback(lambda each: _discard(each, discard))
            task.cancel()


def _discard(task: asyncio.Task[T], discard: Callable[[T], None]) -> None:
    if not task.cancelled() and task.exception() is None:
        discard(task.result())


def _alternating(found: Sequence[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield addresses of both families alternately, starting with the family of the first (RFC 8305, section 4)."""
    first = [each for each in found if each[0] == found[0][0]]
    others = [each for each in found if each[0] != found[0][0]]
    return (each for each in chain.from_iterable(zip_longest(first, others)) if each is not None)


def _combined(hosts: Sequence[str], errors: Sequence[BaseException]) -> BaseException:
    """Return one error for the errors of all addresses of a name."""
    if len(errors) == 1 or all(isinstance(each, ConnectionRefusedError) for each in errors):
        return errors[0]
    reasons = (
        f"{host}: {(each.strerror if isinstance(each, OSError) else None) or each}"
        for host, each in zip(hosts, errors, strict=True)
    )
    return AllFailedError(errors, "; ".join(reasons))
