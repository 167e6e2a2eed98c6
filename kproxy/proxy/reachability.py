"""Which brokers can be reached from here: each is tried once when it becomes known, and by every client's connection.

Addresses that brokers advertise need not work where kproxy runs. Users should learn that at the start and for each
broker, not from clients that time out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kproxy.addresses import address_text
from kproxy.proxy.upstream import UnreachableError, connect

if TYPE_CHECKING:
    import ssl

    from kproxy.proxy.brokers import Key, UpstreamAddress
    from kproxy.proxy.cluster import Cluster

_AT_ONCE = 16
_SECONDS = 6.0  # longer than the limit for one address of a name


class Reachability:
    """Tries the brokers of a cluster, and remembers the results.

    :param context: TLS context towards brokers, None for plaintext
    """

    def __init__(self, cluster: Cluster, context: ssl.SSLContext | None) -> None:
        self._cluster = cluster
        self._plane = cluster.plane
        self._context = context
        self._found: dict[Key, tuple[str, int, str]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._checks: set[asyncio.Task[None]] = set()

    def of(self, upstream: UpstreamAddress) -> str | None:
        """Return why the last attempt to reach a broker failed, empty if it succeeded, None if there was none."""
        host, port, why = self._found.get((upstream.role, upstream.node_id), ("", 0, ""))
        return why if (host, port) == (upstream.host, upstream.port) else None

    def note(self, upstream: UpstreamAddress, why: str) -> None:
        """Record the result of an attempt.

        :param why: the reason for its failure; empty if it succeeded
        """
        self._found[upstream.role, upstream.node_id] = upstream.host, upstream.port, why

    def what_to_do(self, upstream: UpstreamAddress, error: UnreachableError) -> str:
        """Return the message of an error, with advice if the broker may have another address from here."""
        if not error.is_elsewhere:
            return str(error)
        if self._cluster.mapped_to(upstream) is not None:
            return f"{error} (that is where --map says it is: does the port-forward or tunnel run?)"
        where = address_text(upstream.host, upstream.port)
        return f"{error}; if it has another address from here, by a port-forward or tunnel: --map {where}=HOST:PORT"

    def check(self, upstream: UpstreamAddress) -> None:
        """Start to check whether a broker can be reached; if not, it is reported."""
        task = self._plane.loop.create_task(self._check(upstream))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def settle(self, seconds: float) -> None:
        """Wait for running checks, `seconds` at most; later results are reported as they arrive."""
        if self._checks:
            await asyncio.wait(set(self._checks), timeout=seconds)

    def stop(self) -> None:
        """Cancel running checks."""
        for task in self._checks:
            task.cancel()

    async def _check(self, upstream: UpstreamAddress) -> None:
        tried = upstream.host, upstream.port
        probe = _Probe()
        async with self._room:
            try:
                await connect(
                    probe, [self._cluster.target_of(upstream)], self._context, self._plane.dialler, _SECONDS
                )
                why = ""
            except UnreachableError as error:
                why = self.what_to_do(upstream, error)
            finally:
                probe.close()
        if (upstream.host, upstream.port) != tried:
            return  # it has moved meanwhile
        self.note(upstream, why)
        if why:
            self._plane.reports.event(
                "unreachable",
                cluster=self._cluster.name,
                role=upstream.role,
                node_id=upstream.node_id,
                address=address_text(upstream.host, upstream.port),
                why=why,
            )


class _Probe(asyncio.Protocol):
    """A connection that sends nothing."""

    def __init__(self) -> None:
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
