"""How to connect to brokers, as plain data, so that the front process can read files and the data plane need not.

Certificates and keys are PEM text. It contains secrets: nothing of it is logged, ``repr`` leaves them out, and it goes
to the data plane through a pipe.
"""

from __future__ import annotations

import msgspec


class Identity(msgspec.Struct, frozen=True):
    """A certificate and its key.

    :ivar chain: PEM, the certificate itself first, then what signed it
    :ivar key: PEM, PKCS #8, not encrypted
    """

    chain: str
    key: str

    def __repr__(self) -> str:
        return f"Identity(chain={self.chain!r}, key=...)"


class Tls(msgspec.Struct, frozen=True, omit_defaults=True):
    """How TLS is spoken to brokers.

    :ivar authorities: PEM of the certificates that are trusted, None for those of the system
    :ivar identity: what kproxy shows where the broker asks for a client certificate
    :ivar verify: whether the broker's certificate has to be signed by an authority
    :ivar verify_host: whether it has to be for the name that was asked for
    :ivar versions: lowest and highest protocol version as Kafka names them (``TLSv1.2``), None for OpenSSL's choice
    :ivar ciphers: cipher suites of TLS 1.2 in OpenSSL's notation, empty for its choice
    """

    authorities: str | None = None
    identity: Identity | None = None
    verify: bool = True
    verify_host: bool = True
    versions: tuple[str, str] | None = None
    ciphers: str = ""


class Sasl(msgspec.Struct, frozen=True):
    """How kproxy authenticates its own requests. Those of clients pass through.

    :ivar mechanism: as Kafka names it: ``PLAIN``, ``SCRAM-SHA-512``
    :ivar username: None where the configuration names no credentials that kproxy can use
    """

    mechanism: str
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Sasl(mechanism={self.mechanism!r}, username={self.username!r}, password=...)"


class Security(msgspec.Struct, frozen=True, omit_defaults=True):
    """How brokers are reached: the four values of ``security.protocol`` are what is and what is not None here."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """As Kafka names it: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``."""
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.sasl else transport


PLAINTEXT = Security()
