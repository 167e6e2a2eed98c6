"""TLS: which cipher suites of captured connections can be decrypted here, and which TLS the proxy itself uses.

Each suite is tried with keys of its size on a record that cannot authenticate: if the cryptographic library lacks an
algorithm, as in builds restricted to FIPS 140, it raises before it gets that far.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kproxy.doctor.examination import Check, State
from kproxy.doctor.packages import install_command, listed, requirements, version_of

if TYPE_CHECKING:
    from captures.packets.tls.suites import Suite

_RECORD_BYTES = 96  # longer than any nonce, tag and MAC, and whole AES blocks


def checks() -> Iterator[Check]:
    """Check both kinds of TLS."""
    yield captured()
    yield own()


def captured() -> Check:
    """Try the cipher suites of captured TLS."""
    from captures.packets.tls.suites import CODES, Mode, suite

    known = [found for code in CODES if (found := suite(code)) is not None]
    try:
        refused = [each for each in known if not decrypts(each)]
    except ImportError as error:
        asked = [f"{each.name}{each.bounds}" for each in requirements() if each.name == "cryptography"]
        about = "Captured TLS is listed, and not decrypted"
        return Check("decryption", State.BROKEN, str(error), about, install_command(*asked))
    count = f"{len(known) - len(refused)} of {len(known)} cipher suites"
    library = f"cryptography {version_of('cryptography')}, {linked_openssl()}"
    working = {each.mode for each in known if each not in refused}
    modes = [mode.value for mode in Mode if mode in working]
    text = f"{count}: {listed(modes)} ({library})" if modes else f"{count} ({library})"
    if not refused:
        return Check("decryption", State.OK, text)
    names = ", ".join(each.name for each in refused[:3]) + (" ..." if len(refused) > 3 else "")
    return Check("decryption", State.LIMITED, text, f"connections with these stay encrypted: {names}")


def decrypts(suite: Suite) -> bool:
    """Return whether the cryptographic library supports a suite."""
    from cryptography.exceptions import UnsupportedAlgorithm

    from captures.packets.tls.ciphers import tls12_ciphers, tls13_cipher
    from captures.packets.tls.records import APPLICATION_DATA, TlsRecord, Undecryptable

    record = TlsRecord(APPLICATION_DATA, 0, b"\x17\x03\x03\x00\x60", bytes(_RECORD_BYTES))
    try:
        if suite.tls13:
            ciphers = [tls13_cipher(suite, bytes(suite.hash_bytes))]
        else:
            ciphers = list(tls12_ciphers(suite, bytes(48), bytes(32), bytes(32), encrypt_then_mac=False))
        for cipher in ciphers:
            cipher.open(0, record)
    except Undecryptable:  # decryption was tried, with keys that are not real
        return True
    except (UnsupportedAlgorithm, ValueError):
        return False
    return True


def linked_openssl() -> str:
    """Return the version of the OpenSSL that decrypts."""
    from cryptography.hazmat.backends.openssl import backend

    return backend.openssl_version_text()


def own() -> Check:
    """Check the TLS that the proxy uses on both sides."""
    if ssl.HAS_TLSv1_3 and ssl.HAS_TLSv1_2:
        return Check("proxy TLS", State.OK, f"TLS 1.2 and 1.3 ({ssl.OPENSSL_VERSION})")
    have = "TLS 1.2" if ssl.HAS_TLSv1_2 else "neither TLS 1.2 nor 1.3"
    about = (
        "Clients and brokers that insist on another cannot be proxied; it takes a Python with OpenSSL 1.1.1"
    )
    return Check("proxy TLS", State.LIMITED, f"{have} ({ssl.OPENSSL_VERSION})", about)
