"""Key and trust stores of Kafka clients: PEM, PKCS #12, JKS and JCEKS files, recognised by content.

So does Java with JKS and PKCS #12 (``keystore.type.compat``), so a wrong ``ssl.truststore.type`` often goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.proxy.tls import jks
from kproxy.proxy.tls.certificates import PemBlock, certificate_pem, pem, pem_blocks
from kproxy.proxy.tls.security import Identity

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

_LARGEST = 64 << 20
_DER_SEQUENCE = b"\x30"


class StoreError(ValueError):
    """A store cannot be used; the message says why."""


def trusted_certificates(path: str, password: str | None = None) -> str:
    """Return the certificates of a trust store, as PEM.

    From a key entry, the key's own certificate is taken, as in Java.

    :raises StoreError: if it cannot be read or has none
    """
    data = _content(path)
    try:
        if data[:4] in (jks.JKS_MAGIC, jks.JCEKS_MAGIC):
            store = jks.read(data, password)
            found = certificate_pem(*store.trusted, *(key.chain[0] for key in store.keys if key.chain))
        elif data[:1] == _DER_SEQUENCE:
            found = _pkcs12_trusted(data, password)
        else:
            found = trusted_pem(_text(data))
    except ValueError as error:
        raise StoreError(f"{path} cannot be used as trust store: {error}") from None
    if not found:
        raise StoreError(f"{path} holds no certificate to trust")
    return found


def trusted_pem(text: str) -> str:
    """Return the certificates in PEM text, as PEM.

    :raises StoreError: if there are none
    """
    found = certificate_pem(*(block.data for block in _blocks(text) if block.label.endswith("CERTIFICATE")))
    if not found:
        raise StoreError("it is neither PEM with certificates nor a PKCS #12, JKS or JCEKS store")
    return found


def stored_identity(path: str, password: str | None = None, key_password: str | None = None) -> Identity:
    """Return the first key of a key store, with its certificates.

    :param key_password: of the key, if it differs from the store's
    :raises StoreError: if the store cannot be read or has no key
    """
    data = _content(path)
    try:
        if data[:4] in (jks.JKS_MAGIC, jks.JCEKS_MAGIC):
            return _jks_identity(data, password, key_password)
        if data[:1] == _DER_SEQUENCE:
            return _pkcs12_identity(data, password)
        return pem_identity(_text(data), key_password or password)
    except ValueError as error:
        raise StoreError(f"{path} cannot be used as key store: {error}") from None


def pem_identity(text: str, password: str | None = None) -> Identity:
    """Return the key and the certificates in PEM text.

    :param password: of the key, if it is encrypted
    :raises StoreError: if one of the two is missing, or the password is wrong
    """
    blocks = _blocks(text)
    chain = [block.data for block in blocks if block.label == "CERTIFICATE"]
    keys = [block for block in blocks if block.label.endswith("PRIVATE KEY")]
    if not keys:
        raise StoreError("it has no private key (-----BEGIN PRIVATE KEY-----)")
    if not chain:
        raise StoreError("it has no certificate (-----BEGIN CERTIFICATE-----)")
    return Identity(certificate_pem(*chain), _unencrypted(keys[0].label, keys[0].data, password))


def _content(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None


def _blocks(text: str) -> list[PemBlock]:
    try:
        return pem_blocks(text)
    except ValueError as error:
        raise StoreError(str(error)) from None


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")


def _unencrypted(label: str, data: bytes, password: str | None) -> str:
    """Return a private key as PKCS #8 in PEM."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    encrypted = label.startswith("ENCRYPTED")
    if encrypted and password is None:
        raise StoreError("its private key is encrypted: set ssl.key.password")
    secret = password.encode() if encrypted and password is not None else None
    try:
        key = load_pem_private_key(pem(label, data).encode(), secret)
    except UnsupportedAlgorithm as error:
        raise StoreError(f"its private key is of a kind that is not supported: {error}") from None
    except ValueError:
        raise StoreError("its private key cannot be read, or its password is wrong") from None
    return _pkcs8(key)


def _pkcs8(key: PrivateKeyTypes) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


# -- JKS -------------------------------------------------------------------------------------------------------


def _jks_identity(data: bytes, password: str | None, key_password: str | None) -> Identity:
    store = jks.read(data, password)
    if not store.keys:
        raise StoreError("it holds no private key")
    first = store.keys[0]
    secret = key_password or password
    if secret is None:
        raise StoreError("its key needs a password: set ssl.keystore.password or ssl.key.password")
    return Identity(certificate_pem(*first.chain), pem("PRIVATE KEY", jks.unprotect(first.protected, secret)))


# -- PKCS #12 --------------------------------------------------------------------------------------------------


def _pkcs12(data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        why = "it needs a password" if password is None else "its password is wrong, or it is damaged"
        raise StoreError(f"{why} ({error})") from None


def _pkcs12_trusted(data: bytes, password: str | None) -> str:
    store = _pkcs12(data, password)
    own = [] if store.cert is None else [store.cert]
    return _encoded(each.certificate for each in (*own, *store.additional_certs))


def _pkcs12_identity(data: bytes, password: str | None) -> Identity:
    store = _pkcs12(data, password)
    if store.key is None or store.cert is None:
        raise StoreError("it holds no private key with a certificate")
    by_subject = {each.certificate.subject: each.certificate for each in store.additional_certs}
    chain = [store.cert.certificate]
    while (issuer := by_subject.pop(chain[-1].issuer, None)) is not None:
        chain.append(issuer)
    return Identity(_encoded(chain), _pkcs8(store.key))


def _encoded(certificates: Iterable[Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)
