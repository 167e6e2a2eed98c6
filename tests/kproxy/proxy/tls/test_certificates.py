"""PEM files in common forms, and names in certificates."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.certificates import certificate_pem, names_of, pem, pem_blocks
from tests.kproxy.proxy.tls.kit import command, need


def _der(text: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(text)


def test_pem_there_and_back(authority: Authority) -> None:
    text = authority.certificate
    (block,) = pem_blocks("Bag Attributes\n" + text + "# more")
    assert block == ("CERTIFICATE", _der(text))
    assert pem(*block) == certificate_pem(block.data) == text
    assert pem_blocks(text.replace("\n", " ") + text.replace("\n", "")) == [block, block]


def test_names(tmp_path: Path, authority: Authority) -> None:
    assert names_of(_der(authority.identity("a.test", "10.0.0.1", "::1").chain)) == [
        "a.test",
        "10.0.0.1",
        "::1",
    ]
    need("openssl")
    out = ("-keyout", tmp_path / "key", "-out", tmp_path / "certificate")
    subject = ("-subj", "/O=some/CN=common.test", "-nodes", "-days", "2")
    command("openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, *out)
    assert names_of(_der((tmp_path / "certificate").read_text())) == ["common.test"]


@pytest.mark.parametrize("data", [b"", b"rubbish", b"\x30\x03\x02\x01\x01"])
def test_what_is_no_certificate_has_no_names(data: bytes) -> None:
    assert names_of(data) == []
