"""Key derivation against published vectors; record protection against hand-protected records."""

from __future__ import annotations

import struct

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from captures.packets.tls.ciphers import (
    CbcCipher,
    Tls13Cipher,
    expand_label,
    next_secret,
    prf,
    tls12_ciphers,
    tls13_cipher,
)
from captures.packets.tls.records import TlsRecord, Undecryptable
from captures.packets.tls.suites import Suite, suite


def known(code: int) -> Suite:
    found = suite(code)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("secret", "key", "iv"),
    [  # RFC 8448, section 3 (simple 1-RTT handshake): server and client handshake traffic secrets
        (
            "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
            "3fce516009c21727d0f2e4e86ee403bc",
            "5d313eb2671276ee13000b30",
        ),
        (
            "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21",
            "dbfaa693d1762c5b666af5d950258d01",
            "5bd3c71b836e0b76bb73265f",
        ),
    ],
)
def test_expand_label(secret: str, key: str, iv: str) -> None:
    aes = known(0x1301)
    assert expand_label(aes, bytes.fromhex(secret), "key", 16).hex() == key
    assert expand_label(aes, bytes.fromhex(secret), "iv", 12).hex() == iv


def test_prf() -> None:
    # the P_SHA256 vector posted to the IETF TLS working group list with RFC 5246's publication
    made = prf(
        "sha256",
        bytes.fromhex("9bbe436ba940f017b17652849a71db35"),
        b"test label",
        bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c"),
        100,
    )
    assert made.hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af"
        "0fa022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701"
        "87347b66"
    )


def protected13(key: bytes, iv: bytes, sequence: int, inner: bytes) -> TlsRecord:
    """RFC 8446, section 5.2, by hand."""
    header = struct.pack(">BHH", 23, 0x0303, len(inner) + 16)
    nonce = (int.from_bytes(iv, "big") ^ sequence).to_bytes(12, "big")
    return TlsRecord(23, 0, header, AESGCM(key).encrypt(nonce, inner, header))


def test_tls13_content_type_and_padding() -> None:
    key, iv = bytes(range(16)), bytes(range(12))
    cipher = Tls13Cipher(AESGCM(key), iv)
    assert cipher.open(0, protected13(key, iv, 0, b"data\x17")) == (23, b"data")
    assert cipher.open(9, protected13(key, iv, 9, b"data\0\x16\0\0\0")) == (22, b"data\0")
    with pytest.raises(Undecryptable, match="padding"):
        cipher.open(1, protected13(key, iv, 1, b"\0\0\0"))
    with pytest.raises(Undecryptable):
        cipher.open(2, protected13(key, iv, 1, b"data\x17"))
    with pytest.raises(Undecryptable):
        cipher.open(0, TlsRecord(23, 0, b"\x17\x03\x03\x00\x01", b"x"))


def test_next_secret_is_another_key() -> None:
    aes, secret = known(0x1302), bytes(48)
    following = next_secret(aes, secret)
    assert len(following) == 48
    assert following == expand_label(aes, secret, "traffic upd", 48) != secret
    sealed = protected13(
        expand_label(aes, following, "key", 32), expand_label(aes, following, "iv", 12), 0, b"x\x17"
    )
    assert tls13_cipher(aes, following).open(0, sealed) == (23, b"x")
    with pytest.raises(Undecryptable):
        tls13_cipher(aes, secret).open(0, sealed)


def test_short_records_do_not_open() -> None:
    for code in (0x009C, 0xC09C, 0xCCA8, 0xC013):
        for cipher in tls12_ciphers(known(code), bytes(48), bytes(32), bytes(32), encrypt_then_mac=False):
            for size in (0, 1, 7, 8, 15, 16, 17, 24, 31, 32, 48):
                with pytest.raises(Undecryptable):
                    cipher.open(0, TlsRecord(23, 0, struct.pack(">BHH", 23, 0x0303, size), bytes(size)))


@pytest.mark.parametrize("encrypt_then_mac", [False, True])
def test_cbc_refuses_what_was_changed(encrypt_then_mac: bool) -> None:
    from hmac import digest

    from cryptography.hazmat.primitives.ciphers import Cipher, modes
    from cryptography.hazmat.primitives.ciphers.algorithms import AES

    key, mac_key, iv = b"k" * 16, b"m" * 20, b"i" * 16

    def encrypted(plain: bytes) -> bytes:
        return iv + Cipher(AES(key), modes.CBC(iv)).encryptor().update(plain)

    def mac(data: bytes) -> bytes:  # RFC 5246, section 6.2.3.1; RFC 7366, section 3
        return digest(mac_key, struct.pack(">QBHH", 5, 23, 0x0303, len(data)) + data, "sha1")

    def padded(data: bytes) -> bytes:
        size = 16 - len(data) % 16
        return data + bytes((size - 1,)) * size

    if encrypt_then_mac:
        sealed = encrypted(padded(b"some data"))
        payload = sealed + mac(sealed)
    else:
        payload = encrypted(padded(b"some data" + mac(b"some data")))
    header = struct.pack(">BHH", 23, 0x0303, len(payload))
    cipher = CbcCipher(known(0xC013), key, mac_key, encrypt_then_mac=encrypt_then_mac)
    assert cipher.open(5, TlsRecord(23, 0, header, payload)) == (23, b"some data")
    with pytest.raises(Undecryptable):
        cipher.open(6, TlsRecord(23, 0, header, payload))
    for at in range(len(payload)):
        changed = bytearray(payload)
        changed[at] ^= 1
        with pytest.raises(Undecryptable):
            cipher.open(5, TlsRecord(23, 0, header, bytes(changed)))
