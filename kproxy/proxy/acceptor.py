"""Client connections, from the moment a client is accepted until its session forwards.

It connects to the broker before it reads from the client: no bytes have to be buffered without a destination, and a
client whose broker is down is refused just as the broker would refuse it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from time import time_ns
from typing import TYPE_CHECKING

from captures.interventions import NO_UPSTREAM, as_comment
from kproxy.addresses import address_text
from kproxy.proxy.authentication import Authentication
from kproxy.proxy.listeners import Listener, peek
from kproxy.proxy.own_requests import OwnRequestError
from kproxy.proxy.session import RESET, Session
from kproxy.proxy.settings import ClusterSettings
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.tls.contexts import ClientContexts, upstream_context
from kproxy.proxy.tls.sni import NEED_MORE, NodeNames, Role, server_name
from kproxy.proxy.transparent import NotRedirectedError, address_of
from kproxy.proxy.upstream import NullTransport, UnreachableError, connect
from kproxy.proxy.verdicts import Peers

if TYPE_CHECKING:
    from kproxy.proxy.brokers import UpstreamAddress
    from kproxy.proxy.cluster import Cluster
    from kproxy.proxy.outages import BrokerOutage
    from kproxy.proxy.tls.security import Identity

_ROLES: tuple[Role, ...] = ("broker", "controller")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HANDSHAKE_SECONDS = 10.0
_LEAST_HELLO = 8
"""Bytes needed to distinguish TLS from a request."""
_UNFORWARDED_SECONDS = 1.0
"""Seconds after which a client's connection is closed if nothing is forwarded."""


class _NotServedError(Exception):
    """A connection is not served; the message says why."""


class _DownError(Exception):
    """A rule says that the broker is down."""


class Acceptor:
    """Accepts client connections for a cluster and connects each to its broker.

    :ivar upstream: TLS context towards brokers, None for plaintext
    :raises TlsConfigError: if certificates cannot be used
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._plane = cluster.plane
        self._settings = cluster.plane.settings
        keylog = self._settings.keylog
        self.upstream = upstream_context(cluster.settings.security, keylog=keylog)
        self._clients = _contexts(cluster.settings, keylog)

    # ------------------------------------------------------------ listening
    def open_first(self) -> Listener:
        """Open the listener that the user named.

        :raises OSError: if it cannot be opened
        """
        return self.listen(self._cluster.mode.open())

    def listen(self, sockets: list[socket.socket], upstream: UpstreamAddress | None = None) -> Listener:
        """Accept connections on `sockets`.

        :param upstream: the broker that clients reach there
        """
        return Listener(self._plane.loop, sockets, self._accept, self._plane.reports.warn, upstream)

    # ------------------------------------------------------------ arriving
    def _accept(self, client: socket.socket, listener: Listener) -> None:
        plane = self._plane
        plane.counts.connections += 1
        if len(plane.sessions) + len(plane.pending) >= self._settings.most_connections:
            plane.counts.refused += 1
            most = self._settings.most_connections
            plane.reports.warn(
                f"there are {most:,} connections already (--max-connections): more are refused"
            )
            client.close()
            return
        if not plane.forwarding and self._settings.forward:
            plane.counts.refused += 1
            client.close()
            return
        task = plane.loop.create_task(self._serve(client, listener, plane.next_number()))
        plane.pending.add(task)
        task.add_done_callback(plane.pending.discard)

    async def _serve(self, client: socket.socket, listener: Listener, number: int) -> None:
        """Serve a connection, or report why not and close it."""
        try:
            address = address_of(client.getpeername())
        except OSError:  # the client has already disconnected
            client.close()
            return
        peers = Peers(number, address, ("", 0), cluster=self._cluster.name)
        try:
            await self._connect(client, listener, peers)
        except (_NotServedError, NotRedirectedError) as error:
            self._plane.counts.refused += 1
            where = address_text(*address)
            self._plane.reports.warn(f"{where}: {error}", about=f"{address[0]} {error}")
            client.close()
        except _DownError:
            self._plane.counts.refused += 1
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()
        except UnreachableError as error:
            self._plane.counts.unreachable += 1
            self._plane.reports.warn(str(error))
            client.close()
        except OSError:  # the client has disconnected meanwhile
            client.close()
        except BaseException:
            client.close()
            raise

    async def _connect(self, client: socket.socket, listener: Listener, peers: Peers) -> None:
        plane = self._plane
        upstream = listener.upstream
        named = ""
        if self._clients is not None:
            named = await self._requested_name(client)
            if self._cluster.settings.sni:
                upstream = self._place_named(named)
        peers.node_id = None if upstream is None else upstream.node_id
        session = Session(self._cluster, peers)
        down = self._cluster.outages.of(upstream)
        if down is None:
            down = await self._connect_broker(session, client, listener, upstream, named)
        if down is not None:
            if not down.is_silent:
                session.abort()
                down.count_hit()
                raise _DownError
            if session.responses.transport is None:
                peers.broker = address_of(client.getsockname())
                session.responses.transport = NullTransport(
                    lambda: None, lambda: session.lost(session.responses, None)
                )
        now = time_ns()
        recording = plane.recordings.open(peers.client, peers.broker, now)
        if recording is not None and peers.upstream != NO_UPSTREAM:
            recording.note(1, as_comment(peers.upstream), now)
        session.record(recording)
        try:
            await self._read_from(client, session, named)
            plane.begun(session)
            if down is not None:
                down.end(session)
        except BaseException:
            session.abort()
            plane.ended(session)
            raise

    async def _read_from(self, client: socket.socket, session: Session, named: str) -> None:
        requests = session.requests
        if self._clients is None:
            await self._plane.loop.connect_accepted_socket(lambda: requests, client)
        else:
            context = self._clients.of(named or client.getsockname()[0])
            try:
                await self._plane.loop.connect_accepted_socket(
                    lambda: requests, client, ssl=context, ssl_handshake_timeout=_HANDSHAKE_SECONDS
                )
            except (OSError, TimeoutError) as error:
                raise _NotServedError(diagnosis.client_handshake(error, named or None)) from None
        if session.closed or session.responses.ended:
            session.close()  # the broker has closed the connection meanwhile

    async def _requested_name(self, client: socket.socket) -> str:
        """Return the host name in the client's TLS server name indication, empty if there is none."""
        try:
            async with asyncio.timeout(_HANDSHAKE_SECONDS):
                start = await peek(
                    self._plane.loop,
                    client,
                    lambda data: len(data) >= _LEAST_HELLO and server_name(data) is not NEED_MORE,
                )
        except (OSError, TimeoutError) as error:
            raise _NotServedError(diagnosis.client_handshake(error)) from None
        if not start:
            raise _NotServedError("the client closed the connection without sending anything")
        wrong = diagnosis.client_start(start, tls=True)
        if wrong:
            raise _NotServedError(wrong)
        named = server_name(start)
        return named if isinstance(named, str) else ""

    def _place_named(self, name: str) -> UpstreamAddress | None:
        """Return the broker that the host name stands for; None if it is the bootstrap address."""
        names = NodeNames(self._cluster.settings.sni)
        for role in _ROLES:
            node_id = names.node_id(name, role)
            if node_id is None:
                continue
            upstream = self._cluster.brokers.get(role, node_id)
            if upstream is None:
                raise _NotServedError(f"the client asks for {name}, but there is no {role} {node_id}")
            return upstream
        return None

    # ------------------------------------------------------------ brokers
    async def _connect_broker(
        self,
        session: Session,
        client: socket.socket,
        listener: Listener,
        upstream: UpstreamAddress | None,
        named: str,
    ) -> BrokerOutage | None:
        """Connect to the broker; return its outage if its address shows that a rule has taken it down.

        :param named: host name that the client asked for in TLS, or empty
        :raises UnreachableError: if no connection can be made
        :raises _NotServedError: if the broker refuses kproxy's credentials
        """
        settings, cluster = self._settings, self._cluster
        if not settings.forward:
            self._forward_nothing(session)
            session.peers.broker = address_of(client.getsockname())
            return None
        route = await cluster.mode.route(client, listener.addresses[0], upstream, named)
        outages = cluster.outages
        targets = [each for each in route.targets if outages.at(each.address) is None]
        if not targets:
            return outages.at(route.targets[0].address)
        dialler, reachability = self._plane.dialler, cluster.reachability
        try:
            await connect(
                session.responses,
                targets,
                self.upstream,
                dialler,
                settings.connect_timeout,
                route.begin,
            )
        except UnreachableError as error:
            if upstream is None:
                raise
            why = reachability.what_to_do(upstream, error)
            reachability.note(upstream, why)
            raise UnreachableError(why) from None
        reached = address_of(session.responses.transport.get_extra_info("peername"))
        if upstream is not None:
            reachability.note(upstream, "")
            cluster.report_oddity(upstream, reached[0])
        else:  # a bootstrap server
            upstream = cluster.brokers.at(*(targets[0].address if len(targets) == 1 else reached))
        session.peers.broker = reached
        session.peers.node_id = None if upstream is None else upstream.node_id
        down = outages.at(reached)
        if down is None and cluster.settings.authenticate:
            session.authentication = Authentication(session)
            try:
                await session.authentication.begin()
            except OwnRequestError as error:
                raise _NotServedError(str(error)) from None
        return down

    def _forward_nothing(self, session: Session) -> None:
        """Connect a session to nothing: its requests are recorded, and answered if kproxy can."""
        loop, stub = self._plane.loop, self._settings.stub

        def wrote() -> None:
            if not stub and not session.closed:
                loop.call_later(_UNFORWARDED_SECONDS, session.close)

        session.responses.transport = NullTransport(wrote, lambda: session.lost(session.responses, None))


def _contexts(settings: ClusterSettings, keylog: str) -> ClientContexts | None:
    """Return the TLS contexts towards clients, None for plaintext.

    :raises TlsConfigError: if OpenSSL rejects a certificate, or the local authority cannot be used
    """
    tls = settings.client_tls
    if tls is None:
        return None
    return ClientContexts(
        tls.identity or _local_authority(),
        own_names=[settings.advertised or settings.listen[0] or "localhost", *_LOOPBACK],
        client_auth=tls.client_auth,
        client_authorities=tls.client_authorities,
        keylog=keylog,
    )


def _local_authority() -> Callable[..., Identity]:
    from kproxy.proxy.tls.authority import Authority  # loads the cryptographic library

    return Authority.open().identity
