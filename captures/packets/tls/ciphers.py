"""Keys and record protection of TLS 1.2 and 1.3, on the cryptographic library.

Loading this module loads ``cryptography``; import it only once there is a secret to decrypt with. A record cipher
belongs to one direction and one set of keys. Its caller supplies the sequence number, because after a loss the
caller has to find it by trying.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from captures.packets.tls.records import TlsRecord, Undecryptable
from captures.packets.tls.suites import Mode, Suite

_SALT_BYTES = 4
_EXPLICIT_BYTES = 8
_NONCE_BYTES = 12
_BLOCK_BYTES = 16
_LENGTH_BYTES = 2

_HASHES = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384()}

Aead = AESGCM | AESCCM | ChaCha20Poly1305


class RecordCipher(ABC):
    """Opens the records of one direction under one set of keys."""

    @abstractmethod
    def open(self, sequence: int, record: TlsRecord) -> tuple[int, bytes]:
        """Return content type and content of a record.

        :param sequence: number of earlier records under these keys
        :raises Undecryptable: if the record does not authenticate
        """

    def likely_sequence(self, record: TlsRecord) -> int | None:
        """Return a guess at the sequence number of a record after lost ones, None if there is none."""
        return None


class Tls13Cipher(RecordCipher):
    """TLS 1.3: the nonce is the IV XORed with the sequence number, the type is encrypted (RFC 8446, section 5.2)."""

    def __init__(self, aead: Aead, iv: bytes) -> None:
        self._aead = aead
        self._iv = int.from_bytes(iv, "big")

    def open(self, sequence: int, record: TlsRecord) -> tuple[int, bytes]:
        nonce = (self._iv ^ sequence).to_bytes(_NONCE_BYTES, "big")
        plain = _decrypt(self._aead, nonce, record.payload, record.header)
        if plain and not plain[-1]:
            plain = plain.rstrip(b"\0")
        if not plain:
            raise Undecryptable("nothing but padding")
        return plain[-1], plain[:-1]


class ChaCha20Cipher(RecordCipher):
    """ChaCha20-Poly1305 in TLS 1.2 (RFC 7905): nonce as in TLS 1.3, type not encrypted."""

    def __init__(self, aead: Aead, iv: bytes, tag_bytes: int) -> None:
        self._aead = aead
        self._iv = int.from_bytes(iv, "big")
        self._tag_bytes = tag_bytes

    def open(self, sequence: int, record: TlsRecord) -> tuple[int, bytes]:
        nonce = (self._iv ^ sequence).to_bytes(_NONCE_BYTES, "big")
        size = len(record.payload) - self._tag_bytes
        return record.kind, _decrypt(
            self._aead, nonce, record.payload, _authenticated(sequence, record, size)
        )


class ExplicitNonceCipher(RecordCipher):
    """AES-GCM and AES-CCM in TLS 1.2: half of the nonce is in the record (RFC 5288, section 3; RFC 6655)."""

    def __init__(self, aead: Aead, salt: bytes, tag_bytes: int) -> None:
        self._aead = aead
        self._salt = salt
        self._overhead = _EXPLICIT_BYTES + tag_bytes
        self._last = (0, 0)  # sequence number and explicit nonce of the last record that opened

    def open(self, sequence: int, record: TlsRecord) -> tuple[int, bytes]:
        explicit = bytes(record.payload[:_EXPLICIT_BYTES])
        size = len(record.payload) - self._overhead
        authenticated = _authenticated(sequence, record, size)
        plain = _decrypt(self._aead, self._salt + explicit, record.payload[_EXPLICIT_BYTES:], authenticated)
        self._last = sequence, int.from_bytes(explicit, "big")
        return record.kind, plain

    def likely_sequence(self, record: TlsRecord) -> int | None:
        # every implementation in use increments the explicit nonce, from 0 or from a random number
        sequence, explicit = self._last
        return sequence + int.from_bytes(record.payload[:_EXPLICIT_BYTES], "big") - explicit


class CbcCipher(RecordCipher):
    """AES-CBC with HMAC in TLS 1.2 (RFC 5246, section 6.2.3.2), either order (RFC 7366)."""

    def __init__(self, suite: Suite, key: bytes, mac_key: bytes, *, encrypt_then_mac: bool) -> None:
        self._aes = AES(key)
        self._mac = hmac.new(mac_key, digestmod=suite.mac)
        self._mac_bytes = suite.mac_bytes
        self._encrypt_then_mac = encrypt_then_mac

    def open(self, sequence: int, record: TlsRecord) -> tuple[int, bytes]:
        payload = memoryview(record.payload)
        if self._encrypt_then_mac:
            payload = self._verified(sequence, record, payload)
            padded = self._decrypt(payload)
            return record.kind, padded[: self._unpadded(padded)]
        padded = self._decrypt(payload)
        content = memoryview(padded)[: self._unpadded(padded)]
        return record.kind, bytes(self._verified(sequence, record, content))

    def _decrypt(self, payload: memoryview) -> bytes:
        if len(payload) < 2 * _BLOCK_BYTES or len(payload) % _BLOCK_BYTES:
            raise Undecryptable("no whole blocks")
        return (
            Cipher(self._aes, modes.CBC(bytes(payload[:_BLOCK_BYTES])))
            .decryptor()
            .update(payload[_BLOCK_BYTES:])
        )

    @staticmethod
    def _unpadded(padded: bytes) -> int:
        """Return the size without padding, every byte of which is its size minus one."""
        padding = padded[-1]
        size = len(padded) - padding - 1
        if size < 0 or padded.count(padding, size) != padding + 1:
            raise Undecryptable("bad padding")
        return size

    def _verified(self, sequence: int, record: TlsRecord, data: memoryview) -> memoryview:
        size = len(data) - self._mac_bytes
        if size < 0:
            raise Undecryptable("too short for its MAC")
        mac = self._mac.copy()
        mac.update(_authenticated(sequence, record, size))
        mac.update(data[:size])
        if not hmac.compare_digest(mac.digest(), data[size:]):
            raise Undecryptable("bad MAC")
        return data[:size]


def _decrypt(aead: Aead, nonce: bytes, payload: bytes | memoryview, authenticated: bytes) -> bytes:
    try:
        return aead.decrypt(nonce, payload, authenticated)
    except (InvalidTag, ValueError) as error:  # ValueError: shorter than a nonce or tag
        raise Undecryptable(str(error)) from None


def _authenticated(sequence: int, record: TlsRecord, size: int) -> bytes:
    """Return the data authenticated along with the content in TLS 1.2 (RFC 5246, section 6.2.3.3)."""
    if size < 0:
        raise Undecryptable("too short")
    return sequence.to_bytes(8, "big") + record.header[:3] + size.to_bytes(_LENGTH_BYTES, "big")


def _aead(suite: Suite, key: bytes) -> Aead:
    match suite.mode:
        case Mode.GCM:
            return AESGCM(key)
        case Mode.CHACHA20:
            return ChaCha20Poly1305(key)
        case _:
            return AESCCM(key, suite.tag_bytes)


# -- TLS 1.3 (RFC 8446, section 7) -----------------------------------------------------------------------------


def expand_label(suite: Suite, secret: bytes, label: str, size: int) -> bytes:
    """Return HKDF-Expand-Label with an empty context."""
    full = b"tls13 " + label.encode("ascii")
    info = size.to_bytes(2, "big") + bytes((len(full),)) + full + b"\0"
    return HKDFExpand(_HASHES[suite.hash], size, info).derive(secret)


def tls13_cipher(suite: Suite, secret: bytes) -> RecordCipher:
    """Return the cipher for a traffic secret."""
    key = expand_label(suite, secret, "key", suite.key_bytes)
    return Tls13Cipher(_aead(suite, key), expand_label(suite, secret, "iv", _NONCE_BYTES))


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """Return the traffic secret that follows a key update (section 7.2)."""
    return expand_label(suite, secret, "traffic upd", suite.hash_bytes)


# -- TLS 1.2 (RFC 5246, sections 5 and 6.3) --------------------------------------------------------------------


def prf(hash_name: str, secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """Return the output of TLS 1.2's pseudorandom function."""
    seed = label + seed
    output, chained = b"", seed
    while len(output) < size:
        chained = hmac.digest(secret, chained, hash_name)
        output += hmac.digest(secret, chained + seed, hash_name)
    return output[:size]


def tls12_ciphers(
    suite: Suite, master: bytes, client_random: bytes, server_random: bytes, *, encrypt_then_mac: bool
) -> tuple[RecordCipher, RecordCipher]:
    """Return the ciphers of the client's and of the server's records.

    :param master: the master secret
    """
    iv_bytes = {Mode.CBC: 0, Mode.CHACHA20: _NONCE_BYTES}.get(suite.mode, _SALT_BYTES)
    sizes = [suite.mac_bytes, suite.mac_bytes, suite.key_bytes, suite.key_bytes, iv_bytes, iv_bytes]
    block = prf(suite.hash, master, b"key expansion", server_random + client_random, sum(sizes))
    parts = []
    for size in sizes:
        parts.append(block[:size])
        block = block[size:]
    client, server = parts[::2], parts[1::2]

    def cipher(mac_key: bytes, key: bytes, iv: bytes) -> RecordCipher:
        if suite.mode is Mode.CBC:
            return CbcCipher(suite, key, mac_key, encrypt_then_mac=encrypt_then_mac)
        if suite.mode is Mode.CHACHA20:
            return ChaCha20Cipher(_aead(suite, key), iv, suite.tag_bytes)
        return ExplicitNonceCipher(_aead(suite, key), iv, suite.tag_bytes)

    return cipher(*client), cipher(*server)
