"""Notices at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.settings import ClientTls, Settings
from kproxy.proxy.tls.differences import what_differs
from kproxy.proxy.tls.security import Identity, Security, Tls
from tests.kproxy.proxy.tls.kit import command, need

MUTUAL = Security(tls=Tls(identity=Identity("", "")))


def settings_of(**given: Any) -> Settings:
    return Settings("", **({"advertised": "localhost"} | given))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["max.connections.per.ip", "the name localhost: SASL"]),
        ({"mode": "passthrough"}, ["max.connections.per.ip", "the name localhost: SASL"]),
        ({"mode": "transparent"}, ["max.connections.per.ip"]),
        ({"mode": "transparent", "keep_client_address": True}, []),
        ({"security": MUTUAL}, ["per.ip", "SASL", "every client is the principal"]),
        (
            {"security": Security(tls=Tls()), "listen": ("10.0.0.1", 9092)},
            ["per.ip", "SASL", "10.0.0.1 without TLS"],
        ),
        ({"security": Security(tls=Tls()), "listen": ("::1", 9092)}, ["per.ip", "SASL"]),
        ({"security": Security(tls=Tls()), "client_tls": ClientTls()}, ["per.ip", "SASL", "authority.pem"]),
        (
            {"client_tls": ClientTls()},
            ["per.ip", "SASL", "authority.p12", "in clear between kproxy and the brokers"],
        ),
        (
            {"security": Security(tls=Tls()), "client_tls": ClientTls(client_auth="required")},
            ["per.ip", "SASL", "User:ANONYMOUS", "authority.pem"],
        ),
        (
            {"security": MUTUAL, "client_tls": ClientTls(client_auth="required")},
            ["per.ip", "principal", "SASL", "authority.pem"],
        ),
    ],
)
def test_what_follows_from_the_settings_is_said(settings: dict[str, Any], words: list[str]) -> None:
    said = what_differs(settings_of(**settings))
    assert len(said) == len(words)
    for word in words:
        assert sum(word in sentence for sentence in said) == 1


@pytest.mark.parametrize(
    ("names", "advertised", "fits"),
    [
        (["proxy.test"], "Proxy.test", True),
        (["proxy.test"], "other.test", False),
        (["10.0.0.1"], "10.0.0.1", True),
        (["x.test", "*.kafka.test"], "b{node_id}.kafka.test", True),
        (["*.test"], "b{node_id}.kafka.test", False),
        (["b1.kafka.test"], "kafka.test", False),
    ],
)
def test_a_certificate_for_other_names_is_told(
    tmp_path: Path, names: list[str], advertised: str, fits: bool
) -> None:
    shown = _certificate(tmp_path, names)
    settings = settings_of(client_tls=ClientTls(shown), security=Security(tls=Tls()), advertised=advertised)
    said = [each for each in what_differs(settings) if "will refuse the certificate" in each]
    assert len(said) == (not fits)
    assert all(names[0] in each for each in said)


def _certificate(folder: Path, names: list[str]) -> Identity:
    need("openssl")
    key, certificate = folder / "key", folder / "certificate"
    alternative = ",".join(f"{'IP' if name[0].isdigit() else 'DNS'}:{name}" for name in names)
    new = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=x",
    )
    command(*new, "-addext", f"subjectAltName={alternative}", "-keyout", key, "-out", certificate)
    return Identity(certificate.read_text(), key.read_text())
