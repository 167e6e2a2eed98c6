"""Stores written by Java, created once per test process."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from kproxy.proxy.tls.authority import CERTIFICATE, Authority
from tests.kproxy.proxy.tls.kit import PASSWORD, command, need


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.open(tmp_path_factory.mktemp("data") / "authority")


@pytest.fixture(scope="session")
def java_stores(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Path:
    """Return a folder of stores, see ``Stores.java``; the key in them is for localhost, signed by the authority."""
    need("java", "javac")
    folder = tmp_path_factory.mktemp("stores")
    identity = authority.identity("localhost", "127.0.0.1")
    own = x509.load_pem_x509_certificate(identity.chain.encode())
    root = x509.load_pem_x509_certificate((authority.folder / CERTIFICATE).read_bytes())
    key = load_pem_private_key(identity.key.encode(), None)
    encryption = BestAvailableEncryption(PASSWORD.encode())
    store = pkcs12.serialize_key_and_certificates(b"me", key, own, [root], encryption)  # type: ignore[arg-type]
    (folder / "me.p12").write_bytes(store)
    command("java", "-Xmx100m", "-XX:TieredStopAtLevel=1", Path(__file__).with_name("Stores.java"), folder)
    return folder
