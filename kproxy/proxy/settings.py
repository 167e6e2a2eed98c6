"""The settings of a run of the proxy, which the front passes to the data plane: JSON on its standard input."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dissectors.units import MIB
from kproxy.addresses import Address
from kproxy.proxy.modes import MODES
from kproxy.proxy.recorder import RecordingOptions
from kproxy.proxy.run_folder import RunFolder
from kproxy.proxy.tls.contexts import ClientAuth
from kproxy.proxy.tls.security import PLAINTEXT, Identity, Security


class ClientTls(msgspec.Struct, frozen=True, omit_defaults=True):
    """TLS towards clients.

    :ivar identity: certificate and key shown to clients; None for certificates of the local authority
    :ivar client_auth: whether clients must show a certificate
    :ivar client_authorities: PEM of the authorities that must have signed their certificates
    """

    identity: Identity | None = None
    client_auth: ClientAuth = "none"
    client_authorities: str | None = None


class ClusterSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of one cluster behind the proxy.

    :ivar name: the user's name for it; "" if it has none, as only a single cluster may
    :ivar bootstrap: bootstrap servers
    :ivar listen: address of the first listener
    :ivar advertised: host that clients get for all brokers; "" for that of ``listen``
    :ivar ports: of the listeners of brokers: ``9093+`` (this plus the node ID), ``9093-9120`` (a range, in order of
        appearance), ``any``; "" for the port after that of ``listen`` plus the node ID
    :ivar sni: pattern of the host names of brokers, ``b{node_id}.kafka.test``; all share the port of ``listen``
    :ivar allowed_brokers: where brokers may be, as networks and names; anywhere if empty
        (:mod:`kproxy.proxy.broker_policy`)
    :ivar mapped: where brokers are from here (:mod:`kproxy.proxy.address_map`)
    :ivar security: security towards brokers
    :ivar authenticate: whether kproxy authenticates clients' connections at brokers, with the credentials of
        ``security``
    :ivar client_tls: None for plaintext towards clients
    """

    name: str = ""
    bootstrap: tuple[Address, ...] = ()
    listen: Address = ("127.0.0.1", 9092)
    advertised: str = ""
    ports: str = ""
    sni: str = ""
    allowed_brokers: tuple[str, ...] = ()
    mapped: tuple[str, ...] = ()
    security: Security = PLAINTEXT
    authenticate: bool = False
    client_tls: ClientTls | None = None


class Settings(ClusterSettings, frozen=True, omit_defaults=True):
    """The settings of one run of the data plane, with those of its first cluster.

    :ivar run_folder: of this run (:mod:`kproxy.proxy.run_folder`); the process that ends last removes it
    :ivar others: the clusters after the first
    :ivar mode: name of one of :data:`~kproxy.proxy.modes.MODES`
    :ivar tproxy: in transparent mode: connections arrive by TPROXY, not by REDIRECT
    :ivar keep_client_address: with TPROXY: brokers see the address of the client
    :ivar keylog: file to which secrets of TLS connections are appended
    :ivar forward: whether anything is forwarded at all
    :ivar stub: kproxy answers a client's first requests like a broker
    :ivar faults: rules
    :ivar rules_file: file of more rules, which is watched; "" for none
    :ivar hold: filter of frames to hold, "" for none
    :ivar client_timeout: seconds that clients wait for an answer; held frames continue before that
    :ivar force: rules may match everything, and kproxy may authenticate on addresses other than loopback
    :ivar most_connections: limit on connections; further ones are refused
    :ivar most_frame: bytes of the largest request; the first bytes of TLS, read as a size, give 352 MiB or more
    :ivar idle_timeout: seconds without a byte after which a connection is closed, 0 for never
    :ivar first_timeout: seconds within which the first request must arrive, 0 for no limit
    :ivar connect_timeout: seconds to reach a broker, over all its addresses
    :ivar drain: seconds for requests in flight at the end
    :ivar sample: seconds between two samples of the TCP state, 0 for none
    :ivar detached: continues without the front
    """

    run_folder: str = ""
    others: tuple[ClusterSettings, ...] = ()
    mode: str = next(iter(MODES))
    keylog: str = ""
    tproxy: bool = False
    keep_client_address: bool = False
    recorded: RecordingOptions = RecordingOptions()
    forward: bool = True
    stub: bool = False
    faults: tuple[str, ...] = ()
    rules_file: str = ""
    hold: str = ""
    client_timeout: float = 30.0
    force: bool = False
    most_connections: int = 10_000
    most_frame: int = 256 * MIB
    idle_timeout: float = 1200.0
    first_timeout: float = 120.0
    connect_timeout: float = 10.0
    drain: float = 10.0
    sample: float = 1.0
    detached: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"there is no mode {self.mode!r}")

    @property
    def clusters(self) -> tuple[ClusterSettings, ...]:
        """The settings of all clusters."""
        return (self, *self.others)

    @property
    def recording(self) -> RecordingOptions:
        """:attr:`recorded`, with the spool in the run folder."""
        return msgspec.structs.replace(self.recorded, folder=str(RunFolder(Path(self.run_folder)).capture))
