"""The secret that an epoch needs, and why there is none."""

from __future__ import annotations

import pytest

from captures.packets.tls import KeyLog
from captures.packets.tls.handshake import ClientHello, ServerHello
from captures.packets.tls.keys import Epoch, Keys, NoKeys, Remedy
from dissectors.conversation import Side

RANDOM = bytes(range(32))


def hellos(keys: Keys, version: int, suite: int, compression: int = 0, ticket: bytes = b"") -> None:
    negotiation = keys.negotiation(0)
    negotiation.client = ClientHello(RANDOM, b"", (suite,), (version,), ticket=ticket)
    negotiation.server = ServerHello(RANDOM[::-1], b"", suite, compression, version)


def keylog(label: str, size: int) -> KeyLog:
    log = KeyLog()
    log.add(f"{label} {RANDOM.hex()} {bytes(size).hex()}\n".encode())
    return log


def reason(keys: Keys, side: Side = Side.CLIENT, epoch: Epoch = Epoch.APPLICATION) -> tuple[str, Remedy]:
    with pytest.raises(NoKeys) as caught:
        keys.cipher(side, epoch, 0)
    return caught.value.reason, caught.value.cure


def test_what_is_missing() -> None:
    keys = Keys(KeyLog())
    assert reason(keys) == ("the ClientHello was not captured", Remedy.OTHER_SIDE)
    keys.negotiation(0).client = ClientHello(RANDOM, b"", (), ())
    assert reason(keys) == ("the ServerHello was not captured", Remedy.OTHER_SIDE)
    hellos(keys, 0x0304, 0x1301)
    expected = f"no SERVER_HANDSHAKE_TRAFFIC_SECRET in the key log for client random {RANDOM.hex()}"
    assert reason(keys, Side.BROKER, Epoch.HANDSHAKE) == (expected, Remedy.KEY_LOG)
    hellos(keys, 0x0303, 0xC02F)
    assert reason(keys) == (f"no secret in the key log for client random {RANDOM.hex()}", Remedy.KEY_LOG)


@pytest.mark.parametrize(
    ("version", "suite", "compression", "expected"),
    [
        (0x0301, 0xC013, 0, "TLS 1.0 is not decrypted, only TLS 1.2 and 1.3"),
        (0x0303, 0x0005, 0, "cipher suite TLS_RSA_WITH_RC4_128_SHA cannot be decrypted"),
        (0x0303, 0x1301, 0, "cipher suite TLS_AES_128_GCM_SHA256 cannot be decrypted"),
        (0x0304, 0xC02F, 0, "cipher suite TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 cannot be decrypted"),
        (0x0303, 0xC02F, 1, "compression method 1 is not read"),  # DEFLATE (RFC 3749)
    ],
)
def test_what_cannot_be_decrypted(version: int, suite: int, compression: int, expected: str) -> None:
    keys = Keys(KeyLog())
    hellos(keys, version, suite, compression)
    assert reason(keys) == (expected, Remedy.NONE)


def test_secret_of_the_wrong_size() -> None:
    keys = Keys(keylog("CLIENT_TRAFFIC_SECRET_0", 48))
    hellos(keys, 0x0304, 0x1301)
    assert reason(keys) == (
        "CLIENT_TRAFFIC_SECRET_0 of 48 bytes does not match TLS_AES_128_GCM_SHA256",
        Remedy.NONE,
    )


def test_successors() -> None:
    keys = Keys(keylog("CLIENT_TRAFFIC_SECRET_0", 32))
    hellos(keys, 0x0304, 0x1301)
    after = [each[:2] for each in keys.successors(Side.CLIENT, Epoch.HANDSHAKE, 0)]
    assert after == [(Epoch.APPLICATION, 0), (Epoch.APPLICATION, 1), (Epoch.APPLICATION, 2)]
    after = [each[:2] for each in keys.successors(Side.CLIENT, Epoch.APPLICATION, 5)]
    assert after == [(Epoch.APPLICATION, 6), (Epoch.APPLICATION, 7), (Epoch.APPLICATION, 8)]
    assert list(keys.successors(Side.BROKER, Epoch.HANDSHAKE, 0)) == []


def test_ticket_counts_only_if_the_server_took_it() -> None:
    log = KeyLog()
    log.remember(b"ticket", bytes(48))
    keys = Keys(log)
    hellos(keys, 0x0303, 0xC02F, ticket=b"ticket")
    assert reason(keys)[1] is Remedy.KEY_LOG
    keys.negotiation(0).resumed = True
    assert keys.cipher(Side.CLIENT, Epoch.APPLICATION, 0) is not None


def test_negotiations_are_bounded() -> None:
    keys = Keys(None)
    keys.negotiation(63)
    with pytest.raises(NoKeys, match="more than 64 times"):
        keys.negotiation(64)
