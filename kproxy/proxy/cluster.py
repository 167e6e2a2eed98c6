"""A cluster behind the proxy: its listeners, its brokers, and how clients reach them. One proxy may have several."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from captures.interventions import Intervention, as_comment
from dissectors.apis import api_name
from dissectors.error_codes import ErrorCode
from kproxy.addresses import Address, address_text
from kproxy.proxy.acceptor import Acceptor
from kproxy.proxy.address_map import AddressMap, Target
from kproxy.proxy.address_watch import AddressWatch
from kproxy.proxy.addresses import Broker, ResponseHandling, treatment_of
from kproxy.proxy.broker_policy import BrokerPolicy, network
from kproxy.proxy.brokers import Brokers, Ports, UpstreamAddress
from kproxy.proxy.listeners import Listener, bind
from kproxy.proxy.modes import MODES
from kproxy.proxy.outages import Outages
from kproxy.proxy.own_requests import OwnRequestError, cluster_of
from kproxy.proxy.reachability import Reachability
from kproxy.proxy.rules.answers import error_response
from kproxy.proxy.rules.errors import AnswerError
from kproxy.proxy.run_folder import state_folder
from kproxy.proxy.tls.sni import NodeNames
from kproxy.proxy.verdicts import Ending, Frame, Peers, Verdict

if TYPE_CHECKING:
    from kproxy.proxy.plane import Plane
    from kproxy.proxy.session import Session
    from kproxy.proxy.settings import ClusterSettings

_PROBE_TIMEOUT = 5.0


class Cluster:
    """A cluster behind the proxy.

    :ivar name: the user's name for it; empty if it has none
    :ivar listeners: the first one, and those of brokers
    :ivar mode: how the broker of a connection is found
    :ivar rewrites: whether brokers' addresses are rewritten, so that clients stay behind the proxy
    :ivar outages: brokers that a rule takes down
    :ivar reachability: which brokers can be reached
    :raises TlsConfigError: if certificates cannot be used
    """

    def __init__(self, plane: Plane, settings: ClusterSettings) -> None:
        self.plane = plane
        self.settings = settings
        self.name = settings.name
        self.listeners: list[Listener] = []
        self.mode = MODES[plane.settings.mode](self)
        self.rewrites = self.mode.rewrites
        self.outages = Outages(self)
        self.serving = Acceptor(self)
        self.reachability = Reachability(self, self.serving.upstream)
        self.brokers: Brokers
        self._mapped = AddressMap(settings.mapped)
        self.announced = BrokerPolicy(
            settings.allowed_brokers, [host for host, _ in settings.bootstrap], self._mapped
        )
        self._odd: set[str] = set()
        self._watch = AddressWatch()

    def named(self, upstream: UpstreamAddress | Broker) -> str:
        """Return the name of a broker in sentences: ``broker 2``, ``broker 2 of east``."""
        return f"{upstream.role} {upstream.node_id}{f' of {self.name}' if self.name else ''}"

    @property
    def sessions(self) -> list[Session]:
        """The open connections to it, the oldest first."""
        return [each for each in self.plane.sessions if each.cluster is self]

    # ------------------------------------------------------------ the start
    def open(self) -> Address:
        """Open the listener that the user named, and return its address.

        :raises OSError: if it cannot be opened
        """
        listener = self.serving.open_first()
        self.listeners.append(listener)
        self.brokers = self._known_brokers(listener.port)
        return listener.addresses[0]

    def _known_brokers(self, port: int) -> Brokers:
        """Create the registry of brokers.

        :param port: of the first listener
        """
        settings = self.settings
        host, asked = settings.listen
        file = state_folder() / f"brokers-{port}.json" if self.rewrites and asked else None
        return Brokers(
            Ports.parse(settings.ports if settings.ports or asked else "any", port),
            settings.advertised or host,
            self._listen_for,
            self._broker_changed,
            announced=self.announced,
            refused=self._broker_left_out,
            sni=(NodeNames(settings.sni), port) if settings.sni else None,
            file=file,
            bootstrap=settings.bootstrap,
        )

    async def find_brokers(self) -> None:
        """Learn the brokers before any client does, so that their ports are open from the start."""
        self.brokers.remember()
        settings = self.settings
        if not settings.bootstrap or not self.plane.settings.forward:
            return
        await self._find_home()
        try:
            view = await cluster_of(
                settings.bootstrap, settings.security, _PROBE_TIMEOUT, self._mapped, self.plane.dialler
            )
        except OwnRequestError as error:
            whose = f" of {self.name}" if self.name else ""
            self.plane.reports.note(f"brokers{whose} will be known when a client asks for them: {error}")
            return
        for node_id, host, port in view.brokers:
            self.brokers.advertise(Broker("broker", node_id, host, port))

    async def _find_home(self) -> None:
        """Learn the networks of the bootstrap servers."""
        for host, port in self.settings.bootstrap:
            with suppress(OSError):
                async with asyncio.timeout(_PROBE_TIMEOUT):
                    found = await self.plane.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                self.announced.home.update(network(str(each[4][0])) for each in found)

    async def save_brokers(self) -> None:
        save = self.brokers.saving()
        if save is not None:
            await asyncio.to_thread(save)

    # ------------------------------------------------------------ brokers
    def _broker_left_out(self, broker: Broker, why: str) -> None:
        self.plane.reports.warn(
            f"{self.named(broker)} gets no connections: {why}", about=f"left out {self.name} {why}"
        )

    def mapped_to(self, upstream: UpstreamAddress) -> Address | None:
        """Return the address that ``--map`` gives for a broker, None if there is none."""
        return self._mapped.lookup(upstream.host, upstream.port, (upstream.role, upstream.node_id))

    def target_of(self, upstream: UpstreamAddress) -> Target:
        """Return where to connect to reach a broker."""
        mapped = self.mapped_to(upstream)
        if mapped is not None:
            return Target(mapped, upstream.host)
        host = upstream.host
        return Target((host, upstream.port), host, lambda ip: self.announced.permits(host, ip))

    def bootstrap_target(self, address: Address) -> Target:
        """Return where to connect to reach a bootstrap server."""
        return Target(self._mapped.lookup(*address) or address, address[0])

    def report_oddity(self, upstream: UpstreamAddress, host: str) -> None:
        """Report an odd address of a broker, once for each kind of oddity.

        :param host: as announced, or the IP address that was reached
        """
        if self.mapped_to(upstream) is not None:
            return  # the user has said so
        odd = self.announced.oddity(host)
        if odd and odd not in self._odd:
            self._odd.add(odd)
            self.plane.reports.note(
                f"{self.named(upstream)} is at {host}, {odd}: clients' connections go there "
                "(--allow-brokers says where they may go)"
            )

    def _listen_for(self, upstream: UpstreamAddress, port: int) -> int:
        """Open the listener of a broker; return its port, 0 if none can be opened."""
        name, host, warn = self.named(upstream), self.settings.listen[0], self.plane.reports.warn
        try:
            sockets = bind(host, port)
        except OSError as taken:
            try:
                sockets = bind(host, 0)
            except OSError as error:
                warn(f"clients cannot connect to {name} for now: {error.strerror}")
                return 0
            warn(f"{name} gets another port than {port}: {taken.strerror}")
        listener = self.serving.listen(sockets, upstream)
        self.listeners.append(listener)
        down = self.outages.of(upstream)
        if down is not None and down.is_refused:
            listener.shut()
        return listener.port

    def _broker_changed(self, upstream: UpstreamAddress, before: str) -> None:
        host, port = self.brokers.address_of(upstream)
        self._watch.learn(upstream.broker)
        self._watch.allow(host, port)
        self.report_oddity(upstream, upstream.host)
        mapped = self.mapped_to(upstream)
        self.plane.reports.event(
            "broker",
            cluster=self.name,
            role=upstream.role,
            node_id=upstream.node_id,
            address=address_text(upstream.host, upstream.port),
            dialled="" if mapped is None else address_text(*mapped),
            at=address_text(host, port),
            before=before,
        )
        if self.plane.settings.forward:
            self.reachability.check(upstream)

    # ------------------------------------------------------------ called by sessions
    def treatment(self, api_key: int, version: int) -> ResponseHandling | None:
        """Return how responses are treated, None if they simply pass."""
        return treatment_of(api_key, version) if self.rewrites else None

    def watch_for_escapes(self, peers: Peers, api_key: int, version: int, data: bytes) -> None:
        """Report broker addresses in bytes sent to a client."""
        for broker in self._watch.escaped(data):
            self.plane.counts.escaped += 1
            self.plane.reports.event(
                "escaped",
                cluster=self.name,
                node_id=broker.node_id,
                address=address_text(broker.host, broker.port),
                api=f"{api_name(api_key)} v{version}",
                client=peers.client_text,
            )

    def unauthenticated(self, peers: Peers) -> None:
        """Report a client that a broker rejected at its first request."""
        where = address_text(*peers.broker)
        protocol = "SASL_PLAINTEXT" if self.settings.client_tls is None else "SASL_SSL"
        self.plane.reports.warn(
            f"{where} closed the connection of {peers.client_text} at its first request for Metadata: it may want "
            f"authentication, then use security.protocol={protocol} and sasl.mechanism in the client",
            about=f"unauthenticated {where}",
        )

    def refuse_handshake(self, frame: Frame) -> Verdict:
        """Report a client that authenticates although kproxy has; return what to do with its SaslHandshake."""
        protocol = "PLAINTEXT" if self.settings.client_tls is None else "SSL"
        self.plane.reports.warn(
            f"SaslHandshake of {frame.peers.client_text} is refused, because kproxy authenticates (--authenticate): "
            f"use security.protocol={protocol} in the client",
            about=f"{frame.peers.client[0]} SaslHandshake",
        )
        comments = [as_comment(Intervention(not_forwarded=True))]
        try:  # a broker that expects none gives the same answer (KafkaApis.handleSaslHandshakeRequest)
            answer = error_response(frame.data, ErrorCode.ILLEGAL_SASL_STATE)
        except AnswerError:
            return Verdict(data=b"", ending=Ending.CLOSE, comments=comments)
        return Verdict(data=b"", answer=answer, comments=comments)
