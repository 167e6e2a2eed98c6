"""Names of cipher suites, compared with openssl's list."""

from __future__ import annotations

import re

from kproxy.proxy.tls.properties import sorted_out
from tests.kproxy.proxy.tls.kit import command, need


def test_openssl_has_the_same_names() -> None:
    need("openssl")
    listed = command("openssl", "ciphers", "-stdname", "-s", "-tls1_2", "ALL:@SECLEVEL=0")
    names = dict(
        re.findall(r"^(TLS_(?:(?:ECDHE|DHE)_)?(?:RSA|ECDSA|DSS)_WITH_\S+) +- +(\S+)", listed, re.MULTILINE)
    )
    java = {name: names[name] for name in names if re.search("AES_..._(GCM|CBC)|CHACHA20", name)}
    assert len(java) > 20
    suites = sorted_out(java)
    assert suites.openssl == list(java.values())
    assert not suites.tls13
    assert not suites.unknown


def test_others_are_told_apart() -> None:
    suites = sorted_out(
        ["TLS_AES_256_GCM_SHA384", "TLS_RSA_WITH_RC4_128_MD5", "nonsense", "TLS_CHACHA20_POLY1305_SHA256"]
    )
    assert suites == (
        [],
        ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"],
        ["TLS_RSA_WITH_RC4_128_MD5", "nonsense"],
    )
