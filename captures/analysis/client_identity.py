"""What clients state about themselves at the start of connections: their software, and their identity.

The software is in ApiVersions v3 (KIP-511); older clients do not state it, and nothing is guessed. The identity is the
clear text of SASL tokens: the user of PLAIN and SCRAM, the subject of an OAUTHBEARER token. No secret is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from captures.exchanges import Exchange, Flag
from captures.exchanges.columns import ExchangeColumns
from dissectors import embedded
from dissectors.api_keys import CONNECTING, ApiKey
from dissectors.error_codes import error_name

_SOFTWARE = ("software_name", "software_version")
"""The message columns that :meth:`Introductions.add_software` uses."""


class ConnectionKey(NamedTuple):
    """A connection of any capture."""

    connection: int
    client: str
    broker: str


def connection_key(exchange: Exchange) -> ConnectionKey:
    """Return the connection of an exchange; its endpoints distinguish it from those of other captures."""
    return ConnectionKey(exchange.connection, exchange.client, exchange.broker)


def client_name(exchange: Exchange) -> str:
    """Return the client ID, or the address without its port if there is none."""
    return exchange.client_id or exchange.client.rpartition(":")[0]


class Introduction(msgspec.Struct):
    """What one connection stated.

    :ivar software: name and version, as in ``apache-kafka-java 4.3.0``; None if not stated
    :ivar mechanism: SASL mechanism; None if there was none
    :ivar principal: principal stated by the client; None if it is not visible
    :ivar authenticated: True once a request that requires it was answered, False after a refusal, None while open
    :ivar refusal: name of the error that refused it
    :ivar authentications: how often authentication began; more than once is re-authentication (KIP-368)
    """

    software: str | None = None
    mechanism: str | None = None
    principal: str | None = None
    authenticated: bool | None = None
    refusal: str | None = None
    authentications: int = 0


class ClientIdentity:
    """The identity of a client, from its connections."""

    def __init__(self) -> None:
        self._software: Counter[str] = Counter()
        self._principals: Counter[str] = Counter()
        self._hosts: dict[str, None] = {}
        self._brokers: dict[str, None] = {}

    def add(self, key: ConnectionKey, intro: Introduction) -> None:
        """Add a connection with its introduction."""
        self._hosts[key.client.rpartition(":")[0]] = None
        self._brokers[key.broker] = None
        if intro.software:
            self._software[intro.software] += 1
        if intro.principal:
            self._principals[f"{intro.principal} ({intro.mechanism})"] += 1

    @property
    def software(self) -> list[str]:
        """Names and versions of its software, most connections first."""
        return [name for name, _ in self._software.most_common()]

    @property
    def principals(self) -> list[str]:
        """Principals with the SASL mechanism, most connections first: ``alice (SCRAM-SHA-256)``."""
        return [name for name, _ in self._principals.most_common()]

    @property
    def hosts(self) -> list[str]:
        """Its addresses, without ports, in the order of its connections."""
        return list(self._hosts)

    @property
    def brokers(self) -> list[str]:
        """``host:port`` of its brokers, in the order of its connections."""
        return list(self._brokers)


class Introductions:
    """Collects introductions by connection."""

    def __init__(self) -> None:
        self._known: dict[ConnectionKey, Introduction] = {}

    def of(self, key: ConnectionKey) -> Introduction:
        """Return the introduction of a connection so far."""
        return self._known.get(key) or Introduction()

    def add_software(self, columns: ExchangeColumns) -> None:
        """Learn the software of all connections, without the exchanges that state it."""
        connections, first = np.unique(columns.flat("connection"), return_index=True)
        stated = [columns.flat(name)[first].tolist() for name in _SOFTWARE]
        names, versions, clients, brokers = map(columns.texts, (*_SOFTWARE, "client", "broker"))
        for connection, name, version in zip(connections.tolist(), *stated, strict=True):
            if name >= 0 or version >= 0:
                texts = (names[name] if name >= 0 else "", versions[version] if version >= 0 else "")
                key = ConnectionKey(connection, clients[connection] or "", brokers[connection] or "")
                known = self._known.setdefault(key, Introduction())
                known.software = " ".join(filter(None, texts)).strip() or known.software

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        key = exchange.api_key
        if Flag.SASL_TOKEN in exchange.flag:
            self._token(self._introduction(exchange), exchange)
        elif key in CONNECTING:
            introduction = self._introduction(exchange)
            request = exchange.request_body
            if key == ApiKey.API_VERSIONS:
                _software(introduction, request)
            elif key == ApiKey.SASL_HANDSHAKE:
                introduction.mechanism = request.get("mechanism") or introduction.mechanism
                introduction.authentications += 1
                _refused(introduction, exchange)
            else:
                self._identify(introduction, request.get("auth_bytes"), exchange, "request.auth_bytes")
                _refused(introduction, exchange)
        elif exchange.response_size and key is not None:
            known = self._known.get(connection_key(exchange))
            if known is not None and known.mechanism:
                known.authenticated = True

    def _introduction(self, exchange: Exchange) -> Introduction:
        return self._known.setdefault(connection_key(exchange), Introduction())

    def _token(self, introduction: Introduction, exchange: Exchange) -> None:
        if not introduction.authentications:  # 0.9 has tokens without a handshake
            introduction.authentications = 1
        self._identify(introduction, exchange.tokens[0], exchange, "request.token")

    @staticmethod
    def _identify(introduction: Introduction, token: Any, exchange: Exchange, path: str) -> None:
        if token:
            decoded = embedded.decode(
                "sasl_token", token, embedded.Hints(mechanism=introduction.mechanism)
            ).value
        else:  # masked: its clear text is among the annotations
            decoded = exchange.annotations.decoded.get(path)
        introduction.principal = embedded.identity(decoded) or introduction.principal
        if introduction.mechanism is None and isinstance(decoded, dict):
            introduction.mechanism = decoded.get("mechanism")


def _software(introduction: Introduction, request: Mapping[str, Any]) -> None:
    name_and_version = (
        f"{request.get('client_software_name') or ''} {request.get('client_software_version') or ''}".strip()
    )
    introduction.software = name_and_version or introduction.software


def _refused(introduction: Introduction, exchange: Exchange) -> None:
    if exchange.errors:
        introduction.authenticated = False
        introduction.refusal = error_name(exchange.errors[0].code)
