"""Stores written by Java, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key
from cryptography.x509 import load_der_x509_certificate

from kproxy.proxy.tls import jks
from tests.kproxy.proxy.tls.kit import PASSWORD

STORE = "st\u00f6re password"
KEYS = {"JKS": "k\u00e9y password", "JCEKS": "key password"}

KINDS = pytest.mark.parametrize("kind", KEYS)


def _store(java_stores: Path, kind: str) -> bytes:
    return (java_stores / f"{kind}.several").read_bytes()


@KINDS
def test_everything_in_a_store_is_read(java_stores: Path, kind: str) -> None:
    store = _store(java_stores, kind)
    read = jks.read(store, STORE)
    assert sorted(key.alias for key in read.keys) == ["one", "two"]
    for key in read.keys:
        certificate, issuer = key.chain
        assert issuer == read.trusted[0]
        assert load_der_x509_certificate(certificate).subject.rfc4514_string() == "CN=localhost"
    (trusted,) = read.trusted
    assert load_der_x509_certificate(trusted).subject.rfc4514_string().startswith("CN=kproxy authority")


@KINDS
def test_a_key_fits_its_certificate(java_stores: Path, kind: str) -> None:
    store = _store(java_stores, kind)
    for key in jks.read(store, STORE).keys:
        private = load_der_private_key(jks.unprotect(key.protected, KEYS[kind]), None)
        assert private.public_key() == load_der_x509_certificate(key.chain[0]).public_key()
        with pytest.raises(jks.JksError, match="password of its key is wrong"):
            jks.unprotect(key.protected, "another")


@KINDS
def test_a_wrong_password_and_damage_are_told(java_stores: Path, kind: str) -> None:
    store = _store(java_stores, kind)
    with pytest.raises(jks.JksError, match="password is wrong, or it is damaged"):
        jks.read(store, "another")
    with pytest.raises(jks.JksError, match="password is wrong, or it is damaged"):
        jks.read(store[:100] + bytes([store[100] ^ 1]) + store[101:], STORE)


@KINDS
def test_a_store_is_read_without_a_password(java_stores: Path, kind: str) -> None:
    store = _store(java_stores, kind)
    assert jks.read(store, None) == jks.read(store, STORE)


@KINDS
def test_damaged_stores_raise_nothing_else(java_stores: Path, kind: str) -> None:
    store = _store(java_stores, kind)
    for size in range(0, len(store), 7):
        with pytest.raises(jks.JksError):
            jks.read(store[:size], None)
    key = jks.read(store, STORE).keys[0]
    for size in range(len(key.protected)):
        with pytest.raises(jks.JksError):
            jks.unprotect(key.protected[:size], KEYS[kind])


def test_a_secret_key_is_told(java_stores: Path) -> None:
    with pytest.raises(jks.JksError, match="'aes' is a secret key"):
        jks.read((java_stores / "secret").read_bytes(), PASSWORD)
