"""Common kinds of stores, made by Java and openssl."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificates

from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.stores import (
    StoreError,
    pem_identity,
    stored_identity,
    trusted_certificates,
    trusted_pem,
)
from tests.kproxy.proxy.tls.kit import PASSWORD, command, need

KINDS = pytest.mark.parametrize("kind", ["PKCS12", "JKS", "JCEKS", "legacy"])


def _subjects(pem: str) -> list[str]:
    return [each.subject.rfc4514_string() for each in load_pem_x509_certificates(pem.encode())]


def _chain(authority: Authority) -> list[str]:
    return ["CN=localhost", *_subjects(authority.certificate)]


@pytest.mark.slow
@KINDS
def test_certificates_of_a_trust_store(java_stores: Path, authority: Authority, kind: str) -> None:
    trusted = trusted_certificates(str(java_stores / f"{kind}.trust"), PASSWORD)
    assert sorted(_subjects(trusted)) == sorted(_chain(authority))


@pytest.mark.slow
@KINDS
def test_a_key_comes_with_its_chain_in_order(java_stores: Path, authority: Authority, kind: str) -> None:
    need("openssl")
    identity = stored_identity(str(java_stores / f"{kind}.keys"), PASSWORD)
    assert _subjects(identity.chain) == _chain(authority)
    public = command("openssl", "pkey", "-pubout", stdin=identity.key)
    assert command("openssl", "x509", "-pubkey", "-noout", stdin=identity.chain) == public


@pytest.mark.slow
@KINDS
def test_the_key_is_nowhere_in_what_is_shown(java_stores: Path, kind: str) -> None:
    identity = stored_identity(str(java_stores / f"{kind}.keys"), PASSWORD)
    assert "PRIVATE KEY" not in repr(identity)


@pytest.mark.slow
@KINDS
def test_a_wrong_password_is_told(java_stores: Path, kind: str) -> None:
    for read in (trusted_certificates, stored_identity):
        with pytest.raises(
            StoreError, match=r"keys cannot be used as .* store: its password is wrong, or it is damaged"
        ):
            read(str(java_stores / f"{kind}.keys"), "another")


@pytest.mark.slow
@KINDS
def test_a_trust_store_has_no_key(java_stores: Path, kind: str) -> None:
    with pytest.raises(StoreError, match="no private key"):
        stored_identity(str(java_stores / f"{kind}.trust"), PASSWORD)


@pytest.mark.slow
def test_a_trust_store_without_a_password(java_stores: Path) -> None:
    """Like cacerts of JDK 18 and later: neither encrypted nor with an integrity check."""
    assert len(_subjects(trusted_certificates(str(java_stores / "bare.trust")))) == 2


@pytest.mark.slow
def test_a_store_that_openssl_made(tmp_path: Path) -> None:
    need("openssl")
    key, certificate, store = tmp_path / "key", tmp_path / "certificate", tmp_path / "store"
    subject = ("-subj", "/CN=me", "-days", "2", "-nodes")
    command("openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, "-keyout", key, "-out", certificate)
    files = ("-inkey", key, "-in", certificate, "-out", store)
    command("openssl", "pkcs12", "-export", *files, "-passout", f"pass:{PASSWORD}")
    identity = stored_identity(str(store), PASSWORD)
    assert identity == pem_identity(key.read_text() + certificate.read_text())
    # a key entry counts as trusted, too, as in Java
    assert _subjects(trusted_certificates(str(store), PASSWORD)) == ["CN=me"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["as it is", "one line", "blanks"])
def test_pem_with_an_encrypted_key(tmp_path: Path, form: str) -> None:
    need("openssl")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subject = ("-subj", "/CN=me", "-days", "2", "-passout", f"pass:{PASSWORD}")
    command("openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, "-keyout", key, "-out", certificate)
    text = certificate.read_text() + key.read_text()
    text = {"as it is": text, "one line": text.replace("\n", ""), "blanks": text.replace("\n", " ")}[form]
    identity = pem_identity(text, PASSWORD)
    assert identity.key.startswith("-----BEGIN PRIVATE KEY-----\n")
    assert _subjects(identity.chain) == ["CN=me"]
    with pytest.raises(ValueError, match=r"encrypted: set ssl\.key\.password"):
        pem_identity(text)
    with pytest.raises(ValueError, match="its password is wrong"):
        pem_identity(text, "another")


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with pytest.raises(StoreError, match=r"store cannot be read: No such file"):
        trusted_certificates(str(path))
    path.write_text("hello")
    with pytest.raises(StoreError, match="neither PEM with certificates nor a PKCS #12, JKS or JCEKS store"):
        trusted_certificates(str(path))
    with pytest.raises(StoreError, match="it has no private key"):
        stored_identity(str(path))
    path.write_bytes(b"\x30\x82 rubbish")
    with pytest.raises(StoreError, match="damaged"):
        stored_identity(str(path), PASSWORD)
    with pytest.raises(ValueError, match="not base64"):
        trusted_pem("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----")
