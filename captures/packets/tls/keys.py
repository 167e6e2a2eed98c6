"""From hellos and key log to record ciphers: the secret that an epoch needs, or the reason why there is none.

An epoch is a period of one direction under one kind of keys. In TLS 1.3 the generation counts key updates within the
application epoch; in TLS 1.2 there is only the application epoch, and the generation counts handshakes (the first
and renegotiations).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

import msgspec

from captures.packets.tls.handshake import TLS12, TLS13, ClientHello, ServerHello, version_name
from captures.packets.tls.keylog import KeyLog
from captures.packets.tls.records import TlsRecord, Undecryptable
from captures.packets.tls.suites import Suite, suite, suite_name
from dissectors.conversation import Side

if TYPE_CHECKING:
    from captures.packets.tls.ciphers import RecordCipher

_MAX_NEGOTIATIONS = 64
#: maximum number of key updates within a gap
_UPDATES_AHEAD = 3


class Epoch(IntEnum):
    """The protection of a record."""

    CLEAR = 0
    EARLY = 1
    HANDSHAKE = 2
    APPLICATION = 3


_LABELS = {
    (Side.CLIENT, Epoch.EARLY): "CLIENT_EARLY_TRAFFIC_SECRET",
    (Side.CLIENT, Epoch.HANDSHAKE): "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    (Side.BROKER, Epoch.HANDSHAKE): "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    (Side.CLIENT, Epoch.APPLICATION): "CLIENT_TRAFFIC_SECRET_0",
    (Side.BROKER, Epoch.APPLICATION): "SERVER_TRAFFIC_SECRET_0",
}


class Remedy(Enum):
    """What may still provide keys."""

    NONE = "nothing"
    KEY_LOG = "a longer key log"
    OTHER_SIDE = "the other side's hello"


class NoKeys(Exception):  # noqa: N818  # says what is wrong, reads well at the raise
    """There are no keys for an epoch; `cure` says what may still provide them."""

    def __init__(self, reason: str, cure: Remedy = Remedy.NONE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cure = cure


class Negotiation(msgspec.Struct):
    """One handshake: the first, or in TLS 1.2 a renegotiation.

    :ivar retried: the server answered the first ClientHello with a HelloRetryRequest
    :ivar resumed: an earlier session continues; None if unknown
    :ivar early_accepted: the server accepts early data; None if unknown
    :ivar ticket: TLS 1.2 session ticket issued by the server
    :ivar tried: generation of the key log whose sessions were tried without success
    """

    client: ClientHello | None = None
    server: ServerHello | None = None
    retried: bool = False
    resumed: bool | None = None
    early_accepted: bool | None = None
    ticket: bytes = b""
    tried: int = -1
    ciphers: tuple[RecordCipher, RecordCipher] | None = None
    # per side: generation and secret of the newest requested TLS 1.3 application keys
    updated: dict[Side, tuple[int, bytes]] = {}

    @property
    def tls13(self) -> bool:
        return self.server is not None and self.server.version >= TLS13


class Keys:
    """The keys of one connection, as far as the key log has them.

    :ivar negotiations: in the order of their ClientHello
    """

    def __init__(self, keylog: KeyLog | None) -> None:
        self.keylog = keylog
        self.negotiations: list[Negotiation] = []

    def negotiation(self, index: int) -> Negotiation:
        """Return the handshake with this number.

        :raises NoKeys: if there were too many
        """
        if index >= _MAX_NEGOTIATIONS:
            raise NoKeys(f"the connection was renegotiated more than {_MAX_NEGOTIATIONS} times")
        while len(self.negotiations) <= index:
            self.negotiations.append(Negotiation())
        return self.negotiations[index]

    def cipher(self, side: Side, epoch: Epoch, generation: int) -> RecordCipher:
        """Return the cipher of one direction in an epoch.

        :raises NoKeys: if the key log has no secret for it, or it cannot be decrypted at all
        """
        first = self.negotiation(0)
        if first.tls13:
            return self._tls13(first, side, epoch, generation)
        return self._tls12(self.negotiation(generation))[side is Side.BROKER]

    def successors(
        self, side: Side, epoch: Epoch, generation: int
    ) -> Iterator[tuple[Epoch, int, RecordCipher]]:
        """Yield the ciphers that may be in use after an epoch whose end was missed."""
        following: list[tuple[Epoch, int]] = []
        if self.negotiation(0).tls13:
            if epoch is Epoch.EARLY:
                following.append((Epoch.HANDSHAKE, 0))
            later = generation + 1 if epoch is Epoch.APPLICATION else 0
            following += [(Epoch.APPLICATION, later + update) for update in range(_UPDATES_AHEAD)]
        elif generation + 1 < len(self.negotiations):
            following.append((Epoch.APPLICATION, generation + 1))
        for each in following:
            try:
                yield *each, self.cipher(side, *each)
            except NoKeys:
                continue

    def cipher_by_trial(self, side: Side, generation: int, record: TlsRecord) -> RecordCipher | None:
        """Return the cipher of a TLS 1.2 connection without session ID, by trying the sessions in the key log.

        A server that issues a ticket may leave the session unnamed (RFC 5077, section 3.4), as OpenSSL does. A Java
        client then generates its own session ID, under which the agent logs the secret.

        :param record: the first protected record of this side
        """
        if self.negotiation(0).tls13:
            return None
        negotiation = self.negotiation(generation)
        client, server, chosen, keylog = self._hellos(negotiation)
        if server.session_id or negotiation.tried == keylog.generation:
            return None
        from captures.packets.tls import ciphers  # loads the cryptographic library

        for master in keylog.sessions():
            pair = ciphers.tls12_ciphers(
                chosen, master, client.random, server.random, encrypt_then_mac=server.encrypt_then_mac
            )
            try:
                pair[side is Side.BROKER].open(0, record)
            except Undecryptable:
                continue
            negotiation.ciphers = pair
            keylog.remember(negotiation.ticket, master)
            return pair[side is Side.BROKER]
        negotiation.tried = keylog.generation
        return None

    def issued(self, negotiation: Negotiation, ticket: bytes) -> None:
        """Record a TLS 1.2 session ticket, with which another connection may resume."""
        negotiation.ticket = ticket
        master = self._master(negotiation)
        if master is not None and self.keylog is not None:
            self.keylog.remember(ticket, master)

    # -- inside ------------------------------------------------------------------------------------------------

    def _hellos(self, negotiation: Negotiation) -> tuple[ClientHello, ServerHello, Suite, KeyLog]:
        """Return the inputs of every derivation.

        :raises NoKeys: if one of them is missing
        """
        if negotiation.client is None:
            raise NoKeys("the ClientHello was not captured", Remedy.OTHER_SIDE)
        server = negotiation.server
        if server is None:
            raise NoKeys("the ServerHello was not captured", Remedy.OTHER_SIDE)
        if server.version not in (TLS12, TLS13):
            raise NoKeys(f"{version_name(server.version)} is not decrypted, only TLS 1.2 and 1.3")
        chosen = suite(server.suite)
        if chosen is None or chosen.tls13 != (server.version == TLS13):
            raise NoKeys(f"cipher suite {suite_name(server.suite)} cannot be decrypted")
        if server.compression:
            raise NoKeys(f"compression method {server.compression} is not read")
        if self.keylog is None:
            raise NoKeys("no key log")
        return negotiation.client, server, chosen, self.keylog

    def _tls13(self, negotiation: Negotiation, side: Side, epoch: Epoch, generation: int) -> RecordCipher:
        from captures.packets.tls import ciphers  # loads the cryptographic library

        client, _, chosen, keylog = self._hellos(negotiation)
        label = _LABELS[side, epoch]
        secret = keylog.secret(label, client.random)
        if secret is None:
            raise NoKeys(f"no {label} in the key log for client random {client.random.hex()}", Remedy.KEY_LOG)
        if len(secret) != chosen.hash_bytes:
            raise NoKeys(f"{label} of {len(secret)} bytes does not match {chosen.name}")
        if epoch is Epoch.APPLICATION:
            have, newest = negotiation.updated.get(side, (0, secret))
            if have > generation:
                have, newest = 0, secret
            for _ in range(generation - have):
                newest = ciphers.next_secret(chosen, newest)
            secret = newest
            negotiation.updated[side] = generation, newest
        return ciphers.tls13_cipher(chosen, secret)

    def _tls12(self, negotiation: Negotiation) -> tuple[RecordCipher, RecordCipher]:
        if negotiation.ciphers is None:
            from captures.packets.tls import ciphers  # loads the cryptographic library

            client, server, chosen, keylog = self._hellos(negotiation)
            master = self._master(negotiation)
            if master is None:
                by_session = f" or session ID {server.session_id.hex()}" if server.session_id else ""
                raise NoKeys(
                    f"no secret in the key log for client random {client.random.hex()}{by_session}",
                    Remedy.KEY_LOG,
                )
            negotiation.ciphers = ciphers.tls12_ciphers(
                chosen, master, client.random, server.random, encrypt_then_mac=server.encrypt_then_mac
            )
            keylog.remember(server.session_id, master)
            keylog.remember(negotiation.ticket, master)
        return negotiation.ciphers

    def _master(self, negotiation: Negotiation) -> bytes | None:
        client, server, keylog = negotiation.client, negotiation.server, self.keylog
        if client is None or server is None or keylog is None:
            return None
        master = keylog.master(client.random, server.session_id)
        if master is None and negotiation.resumed and client.ticket:
            # an offered ticket belongs to the session only if the server accepted it
            master = keylog.resumed(client.ticket)
        return master
