"""The properties of a cipher suite from its name."""

from __future__ import annotations

import pytest

from captures.packets.tls.suites import _NAMES, Mode, suite, suite_name


@pytest.mark.parametrize(
    ("code", "name", "expected"),
    [  # numbers and names: IANA; parameters: the RFC that defines the suite
        (0x1301, "TLS_AES_128_GCM_SHA256", (Mode.GCM, 16, 16, "", "sha256", True)),
        (0x1302, "TLS_AES_256_GCM_SHA384", (Mode.GCM, 32, 16, "", "sha384", True)),
        (0x1303, "TLS_CHACHA20_POLY1305_SHA256", (Mode.CHACHA20, 32, 16, "", "sha256", True)),
        (0x1305, "TLS_AES_128_CCM_8_SHA256", (Mode.CCM, 16, 8, "", "sha256", True)),
        (0xC030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", (Mode.GCM, 32, 16, "", "sha384", False)),
        (0xC013, "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", (Mode.CBC, 16, 0, "sha1", "sha256", False)),
        (0x003D, "TLS_RSA_WITH_AES_256_CBC_SHA256", (Mode.CBC, 32, 0, "sha256", "sha256", False)),
        (0xC028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", (Mode.CBC, 32, 0, "sha384", "sha384", False)),
        (0xC0AE, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", (Mode.CCM, 16, 8, "", "sha256", False)),
        (0xCCA8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", (Mode.CHACHA20, 32, 16, "", "sha256", False)),
    ],
)
def test_parameters(code: int, name: str, expected: tuple[object, ...]) -> None:
    found = suite(code)
    assert found is not None
    assert found.name == suite_name(code) == name
    assert (found.mode, found.key_bytes, found.tag_bytes, found.mac, found.hash, found.tls13) == expected


def test_suites_that_have_only_a_name() -> None:
    assert suite(0x0005) is None  # TLS_RSA_WITH_RC4_128_SHA
    assert suite_name(0x0005) == "TLS_RSA_WITH_RC4_128_SHA"
    assert suite(0xC061) is None
    assert suite_name(0xC061) == "0xC061"


def test_every_aes_and_chacha20_suite_is_read() -> None:
    for code, name in _NAMES.items():
        assert (suite(code) is not None) == ("_AES_" in name or "CHACHA20" in name), name


def test_sizes() -> None:
    cbc, gcm = suite(0xC013), suite(0x1302)
    assert cbc is not None
    assert gcm is not None
    assert (cbc.mac_bytes, cbc.hash_bytes, gcm.mac_bytes, gcm.hash_bytes) == (20, 32, 0, 48)
