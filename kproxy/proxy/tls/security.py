"""How to connect to brokers, as plain data, so that the front process can read files and the data plane need not.

Certificates and keys are PEM text. They include secrets: none are logged, ``repr`` omits them, and they are sent to the
data plane through a pipe.
"""

from __future__ import annotations

import msgspec


class Identity(msgspec.Struct, frozen=True):
    """A certificate and its key.

    :ivar chain: PEM, the certificate itself first, then its issuers
    :ivar key: PEM, PKCS #8, not encrypted
    """

    chain: str
    key: str

    def __repr__(self) -> str:
        return f"Identity(chain={self.chain!r}, key=...)"


class Tls(msgspec.Struct, frozen=True, omit_defaults=True):
    """TLS towards brokers.

    :ivar authorities: PEM of the trusted certificates, None for those of the system
    :ivar identity: shown if a broker asks for a client certificate
    :ivar verify: whether the broker's certificate must be signed by an authority
    :ivar verify_host: whether it must match the host name
    :ivar versions: lowest and highest protocol version by Kafka's names (``TLSv1.2``), None for OpenSSL's choice
    :ivar ciphers: cipher suites of TLS 1.2 in OpenSSL's notation, empty for its choice
    """

    authorities: str | None = None
    identity: Identity | None = None
    verify: bool = True
    verify_host: bool = True
    versions: tuple[str, str] | None = None
    ciphers: str = ""


class TokenEndpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where tokens for OAUTHBEARER are requested, and with which credentials.

    :ivar url: ``http://`` or ``https://``
    :ivar scope: of the token, empty for the server's choice
    :ivar urlencode: whether ID and secret are encoded (``sasl.oauthbearer.header.urlencode``)
    :ivar authorities: PEM of the certificates trusted for the server, None for those of the system
    """

    url: str
    client_id: str
    client_secret: str
    scope: str = ""
    urlencode: bool = False
    authorities: str | None = None

    def __repr__(self) -> str:
        return f"TokenEndpoint(url={self.url!r}, client_id={self.client_id!r}, client_secret=...)"


class Sasl(msgspec.Struct, frozen=True, omit_defaults=True):
    """How kproxy authenticates at brokers.

    :ivar mechanism: Kafka's name: ``PLAIN``, ``SCRAM-SHA-512``
    :ivar username: None if the configuration has no credentials that kproxy can use
    :ivar token_file: for OAUTHBEARER: path of a file with a token, read for each authentication; empty for none
    :ivar claims: for OAUTHBEARER: claims of unsecured tokens, which brokers accept for tests; None for none
    :ivar token_seconds: how long these tokens are valid
    :ivar token_endpoint: for OAUTHBEARER: where tokens are requested; None for nowhere
    """

    mechanism: str
    username: str | None = None
    password: str | None = None
    token_file: str = ""
    claims: dict[str, str | float | list[str]] | None = None
    token_seconds: int = 3600
    token_endpoint: TokenEndpoint | None = None

    def __repr__(self) -> str:
        return f"Sasl(mechanism={self.mechanism!r}, username={self.username!r}, password=...)"


class Security(msgspec.Struct, frozen=True, omit_defaults=True):
    """Security towards brokers. The four values of ``security.protocol`` follow from which fields are None."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """Kafka's name: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``."""
        transport = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.sasl else transport


PLAINTEXT = Security()
