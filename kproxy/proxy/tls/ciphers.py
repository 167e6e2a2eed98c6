"""OpenSSL's names of cipher suites. Kafka configures suites by Java's names, which are IANA's.

OpenSSL's names consist of the same parts, but omit ``TLS_``, ``WITH``, the key exchange if it is RSA, CBC, and the hash
of ChaCha20. Suites of TLS 1.3 cannot be selected by that interface: OpenSSL offers all that it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_TLS12 = re.compile(
    r"TLS_(?P<exchange>RSA|(?:ECDHE|DHE)_(?:RSA|ECDSA|DSS))_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)_(?P<hash>SHA(?:256|384)?)|CHACHA20_POLY1305_SHA256)"
)
_TLS13 = re.compile(r"TLS_(?:AES|CHACHA20)_\w+")


class Suites(NamedTuple):
    """Cipher suites of a configuration.

    :ivar openssl: OpenSSL's names of those up to TLS 1.2
    :ivar tls13: those of TLS 1.3
    :ivar unknown: suites that are not recognised
    """

    openssl: list[str]
    tls13: list[str]
    unknown: list[str]


def sorted_out(suites: Iterable[str]) -> Suites:
    """Group cipher suites by how they can be selected."""
    sorted_ = Suites([], [], [])
    for suite in suites:
        if match := _TLS12.fullmatch(suite):
            sorted_.openssl.append(_openssl_name(match))
        elif _TLS13.fullmatch(suite):
            sorted_.tls13.append(suite)
        else:
            sorted_.unknown.append(suite)
    return sorted_


def _openssl_name(suite: re.Match[str]) -> str:
    parts = [] if suite["exchange"] == "RSA" else suite["exchange"].split("_")
    if suite["bits"] is None:
        return "-".join([*parts, "CHACHA20", "POLY1305"])
    mode = ["GCM"] if suite["mode"] == "GCM" else []
    return "-".join([*parts, f"AES{suite['bits']}", *mode, suite["hash"]])
