"""Java's own key stores, JKS and JCEKS, read without Java.

The library for them (pyjks) has had no release since 2020 and brings four others along; the format is small. It is
defined by ``sun/security/provider/JavaKeyStore.java`` and ``com/sun/crypto/provider/JceKeyStore.java`` in OpenJDK:
big-endian numbers, strings with a 16-bit length, and at the end a SHA-1 digest that includes the store's password.
Private keys are protected one by one, with a key stream made of SHA-1 (JKS, ``KeyProtector.java``) or with triple DES
under keys made of MD5 (JCEKS, ``PBES1Core.java``). None of this is strong; kproxy only reads it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

JKS_MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"

_PRIVATE_KEY, _CERTIFICATE, _SECRET_KEY = 1, 2, 3
_DIGEST = 20  # bytes of SHA-1
_WHITENER = b"Mighty Aphrodite"

# DER of the object identifiers: 1.3.6.1.4.1.42.2.17.1.1 and 1.3.6.1.4.1.42.2.19.1
_JKS_PROTECTION = bytes.fromhex("2b060104012a02110101")
_JCEKS_PROTECTION = bytes.fromhex("2b060104012a021301")
_SEQUENCE, _OCTETS, _OBJECT_ID = 0x30, 0x04, 0x06


class JksError(ValueError):
    """A store cannot be read; the message says why."""


@dataclass(slots=True)
class PrivateKey:
    """A private key of a store and its certificates, the key's own first (DER).

    :ivar protected: the key as stored, see :func:`unprotect`
    """

    alias: str
    protected: bytes
    chain: list[bytes]


@dataclass(slots=True)
class KeyStore:
    """The entries of a store, in order; certificates are DER."""

    keys: list[PrivateKey] = field(default_factory=list)
    trusted: list[bytes] = field(default_factory=list)


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if len(part) < size:
            raise JksError(f"it ends in the middle of an entry, at byte {len(self.data)}")
        self.at += size
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        return self.take(self.number(2)).decode("utf-8", "replace")


def read(data: bytes, password: str | None) -> KeyStore:
    """Read a store.

    :param password: of the store; None reads it without an integrity check, as Java does
    :raises JksError: if it is damaged, the password is wrong, or it contains an unreadable entry
    """
    if data[:4] not in (JKS_MAGIC, JCEKS_MAGIC):
        raise JksError("it is not a JKS or JCEKS store")
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if password is not None:
        expected = hashlib.sha1(_utf16(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, digest):
            raise JksError("its password is wrong, or it is damaged")
    cursor = _Cursor(body)
    cursor.take(4)
    version, entries = cursor.number(4), cursor.number(4)
    if version not in (1, 2):
        raise JksError(f"its version is {version}, known are 1 and 2")
    store = KeyStore()
    for _ in range(entries):
        _read_entry(cursor, version, store)
    return store


def _read_entry(cursor: _Cursor, version: int, store: KeyStore) -> None:
    kind, alias = cursor.number(4), cursor.text()
    cursor.take(8)  # time of creation
    if kind == _PRIVATE_KEY:
        protected = cursor.take(cursor.number(4))
        chain = [_certificate(cursor, version) for _ in range(cursor.number(4))]
        store.keys.append(PrivateKey(alias, protected, chain))
    elif kind == _CERTIFICATE:
        store.trusted.append(_certificate(cursor, version))
    elif kind == _SECRET_KEY:
        # a serialized Java object without a length: the next entry cannot be found
        raise JksError(
            f"its entry {alias!r} is a secret key, which only Java reads: keep it in another store"
        )
    else:
        raise JksError(f"its entry {alias!r} is of the unknown kind {kind}")


def _certificate(cursor: _Cursor, version: int) -> bytes:
    if version == 2:
        kind = cursor.text()
        if kind != "X.509":
            raise JksError(f"it holds a certificate of the kind {kind!r}, known is X.509")
    return cursor.take(cursor.number(4))


# -- private keys ----------------------------------------------------------------------------------------------


def unprotect(protected: bytes, password: str) -> bytes:
    """Return a private key in PKCS #8 (DER).

    :param protected: an EncryptedPrivateKeyInfo (RFC 5958, section 3) with one of Sun's algorithms
    :raises JksError: if the password is wrong or the algorithm is a different one
    """
    _, info, _ = _der(protected, 0, _SEQUENCE)
    _, algorithm, at = _der(info, 0, _SEQUENCE)
    _, encrypted, _ = _der(info, at, _OCTETS)
    _, object_id, at = _der(algorithm, 0, _OBJECT_ID)
    if object_id == _JKS_PROTECTION:
        return _unprotect_jks(encrypted, password)
    if object_id == _JCEKS_PROTECTION:
        return _unprotect_jceks(encrypted, algorithm[at:], password)
    raise JksError(f"its key is protected by an unknown algorithm ({object_id.hex()})")


def _unprotect_jks(encrypted: bytes, password: str) -> bytes:
    secret = _utf16(password)
    salt, hidden, digest = encrypted[:_DIGEST], encrypted[_DIGEST:-_DIGEST], encrypted[-_DIGEST:]
    stream = bytearray()
    block = salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block, usedforsecurity=False).digest()
        stream += block
    key = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
        raise JksError("the password of its key is wrong")
    return key


def _unprotect_jceks(encrypted: bytes, parameters: bytes, password: str) -> bytes:
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes
    from cryptography.hazmat.primitives.padding import PKCS7

    _, values, _ = _der(parameters, 0, _SEQUENCE)
    _, salt, at = _der(values, 0, _OCTETS)
    _, rounds, _ = _der(values, at)
    made = _pbe_md5(password.encode("ascii", "replace"), salt, int.from_bytes(rounds, "big"))
    decryptor = Cipher(TripleDES(made[:24]), modes.CBC(made[24:])).decryptor()
    unpadder = PKCS7(64).unpadder()
    try:
        padded = decryptor.update(encrypted) + decryptor.finalize()
        key = unpadder.update(padded) + unpadder.finalize()
        # one wrong password in 256 yields valid padding
        if _der(key, 0, _SEQUENCE)[2] == len(key):
            return key
    except ValueError:
        pass
    raise JksError("the password of its key is wrong")


def _pbe_md5(password: bytes, salt: bytes, rounds: int) -> bytes:
    """Return key and initialization vector of PBEWithMD5AndTripleDES: MD5 iterated over each half of the salt."""
    half = len(salt) // 2
    made = b""
    for block in (salt[:half], salt[half:]):
        for _ in range(rounds):
            block = hashlib.md5(block + password, usedforsecurity=False).digest()
        made += block
    return made


def _der(data: bytes, at: int, expected: int | None = None) -> tuple[int, bytes, int]:
    """Return tag, content, and end of the value at a position."""
    header = data[at : at + 2]
    if len(header) < 2 or (expected is not None and header[0] != expected):
        raise JksError("its key is damaged")
    size, start = header[1], at + 2
    if size & 0x80:
        more = size & 0x7F
        size, start = int.from_bytes(data[start : start + more], "big"), start + more
    if start + size > len(data):
        raise JksError("its key is damaged")
    return header[0], data[start : start + size], start + size


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")
