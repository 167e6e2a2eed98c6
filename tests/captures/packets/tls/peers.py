"""Synthetic TLS connections: two peers of Python's ssl module, joined in memory, with a key log."""

from __future__ import annotations

import contextlib
import datetime
import ssl
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from captures.packets.tls import Event, KeyLog, Plaintext, TlsConnection
from dissectors.conversation import Side

DATA = Path(__file__).resolve().parents[3] / "data"

NO_ENCRYPT_THEN_MAC = 0x80000  # SSL_OP_NO_ENCRYPT_THEN_MAC of OpenSSL's ssl.h

Flights = list[tuple[Side, bytes]]


@cache
def certificate() -> bytes:
    """A key and a self-signed certificate for it, PEM."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker-1")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    names = [x509.DNSName("broker-1.example"), x509.IPAddress(ip_address("10.0.0.2"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + made.public_bytes(Encoding.PEM)


def certificate_der() -> bytes:
    """The certificate alone."""
    _, begin, rest = certificate().decode().partition("-----BEGIN CERTIFICATE")
    return ssl.PEM_cert_to_DER_cert(begin + rest)


@dataclass
class TlsRecording:
    """A recorded connection.

    :ivar flights: the bytes of both sides in the order in which they were sent
    :ivar keylog: the client's key log
    :ivar said: data sent by each side's application
    :ivar suite: OpenSSL's name of the suite
    :ivar session: session for resumption
    """

    flights: Flights
    keylog: bytes
    said: dict[Side, bytes]
    suite: str
    session: ssl.SSLSession | None
    reused: bool | None


@dataclass
class Peers:
    """Settings of both peers; one object makes connections that can resume each other."""

    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""
    options: int = 0
    curve: str = ""
    alpn: tuple[str, ...] = ()
    client_certificate: bool = False

    def __post_init__(self) -> None:
        with TemporaryDirectory() as folder:
            pem = Path(folder) / "cert.pem"
            pem.write_bytes(certificate())
            self._set_up(pem)

    def _set_up(self, pem: Path) -> None:
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client.check_hostname = False
        self.client.verify_mode = ssl.CERT_NONE
        self.server.load_cert_chain(pem)
        for context in (self.client, self.server):
            context.minimum_version = context.maximum_version = self.version
            context.options |= self.options
            if self.ciphers:
                context.set_ciphers(f"{self.ciphers}:@SECLEVEL=0")
            if self.alpn:
                context.set_alpn_protocols(list(self.alpn))
        if self.curve:
            self.server.set_ecdh_curve(self.curve)
        if self.client_certificate:
            self.client.load_cert_chain(pem)
            self.server.load_verify_locations(pem)
            self.server.verify_mode = ssl.CERT_REQUIRED

    def connect(self, talk: list[tuple[Side, bytes]], session: ssl.SSLSession | None = None) -> TlsRecording:
        """Shake hands, exchange data, close."""
        with TemporaryDirectory() as folder:
            log = Path(folder) / "keys"
            self.client.keylog_filename = str(log)
            return self._connect(talk, session, log)

    def _connect(
        self, talk: list[tuple[Side, bytes]], session: ssl.SSLSession | None, log: Path
    ) -> TlsRecording:
        wires = {side: ssl.MemoryBIO() for side in Side}
        relays = {side: ssl.MemoryBIO() for side in Side}
        flights: Flights = []  # data from the wire to the relay
        ends = {
            Side.CLIENT: self.client.wrap_bio(
                relays[Side.BROKER], wires[Side.CLIENT], server_hostname="broker-1.example", session=session
            ),
            Side.BROKER: self.server.wrap_bio(relays[Side.CLIENT], wires[Side.BROKER], server_side=True),
        }

        def carry() -> bool:
            moved = False
            for side in (Side.CLIENT, Side.BROKER):
                data = wires[side].read()
                if data:
                    flights.append((side, data))
                    relays[side].write(data)
                    moved = True
            return moved

        waiting = set(Side)
        while waiting:
            for side in (Side.CLIENT, Side.BROKER):
                if side in waiting:
                    try:
                        ends[side].do_handshake()
                        waiting.discard(side)
                    except ssl.SSLWantReadError:
                        pass
                carry()
        said = dict.fromkeys(Side, b"")
        for side, data in talk:
            other = Side.BROKER if side is Side.CLIENT else Side.CLIENT
            ends[side].write(data)
            said[side] += data
            carry()
            left = len(data)
            while left:
                left -= len(ends[other].read(left))
        with contextlib.suppress(ssl.SSLWantReadError):
            ends[Side.CLIENT].read(1)  # receives session tickets
        suite, reused = ends[Side.CLIENT].cipher(), ends[Side.CLIENT].session_reused
        kept = ends[Side.CLIENT].session
        for side in (Side.CLIENT, Side.BROKER):
            with contextlib.suppress(ssl.SSLError):
                ends[side].unwrap()
            carry()
        assert suite is not None
        return TlsRecording(flights, log.read_bytes(), said, suite[0], kept, reused)


def keylog_of(data: bytes, *, growing: bool = False) -> KeyLog:
    """A key log from bytes."""
    keylog = KeyLog(growing=growing)
    keylog.add(data)
    return keylog


def feed(tls: TlsConnection, flights: Flights) -> list[Event]:
    """All events of a connection, to its end."""
    events: list[Event] = []
    for side, data in flights:
        events += tls.receive(side, data)
    return events + tls.finish()


def plain(events: list[Event]) -> dict[Side, bytes]:
    """The decrypted bytes of both sides; checks that positions match them."""
    found = dict.fromkeys(Side, b"")
    for each in events:
        if isinstance(each, Plaintext):
            assert each.position == len(found[each.side])
            found[each.side] += each.data
    return found


def recorded(name: str) -> tuple[Flights, bytes]:
    """A recording of tests/data/tls: flights and key log."""
    flights: Flights = []
    keys = []
    for line in (DATA / "tls" / f"{name}.txt").read_text(encoding="ascii").splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "key":
            keys.append(rest)
        elif kind != "#":
            flights.append((Side(kind), bytes.fromhex(rest)))
    return flights, "\n".join(keys).encode() + b"\n"
