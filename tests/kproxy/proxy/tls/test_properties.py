"""Client properties in the format of Kafka's tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.properties import PropertiesError, client_config, read_properties
from kproxy.proxy.tls.security import PLAINTEXT, Sasl, Security, Tls
from tests.kproxy.proxy.tls.kit import PASSWORD

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def _read(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "client.properties"
    path.write_text(text, "latin-1")
    return read_properties(str(path))


def test_the_syntax_is_that_of_java(tmp_path: Path) -> None:
    text = (
        "# a comment\n! another\na=1\n b : 2 \nc 3\n\\u0064=\\u00e9\\t\ne=one,\\\n    two\ncaf\xe9=\xfc\n"
        "a=4\nempty\nsp\\ ace=x\n"
    )
    assert _read(tmp_path, text) == {
        "a": "4", "b": "2 ", "c": "3", "d": "\xe9\t", "e": "one,two", "caf\xe9": "\xfc", "empty": "", "sp ace": "x"
    }  # fmt: skip


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(PropertiesError, match=r"nowhere cannot be read: No such file"):
        read_properties(str(tmp_path / "nowhere"))
    with pytest.raises(PropertiesError, match="four hexadecimal digits"):
        _read(tmp_path, "a=\\u12")


def test_plaintext_is_the_default() -> None:
    config = client_config({"bootstrap.servers": "a:1,b:2"})
    assert config.security == PLAINTEXT
    assert config.bootstrap == "a:1,b:2"
    assert config.warnings == []


def test_keys_that_are_not_used_are_named_once() -> None:
    config = client_config({"acks": "all", "ssl.provider": "x", "client.id": "me"})
    assert config.warnings == [
        "client properties that kproxy does not use are ignored: acks, client.id, ssl.provider"
    ]


def test_stores(java_stores: Path, authority: Authority) -> None:
    for kind in ("JKS", "PKCS12"):
        properties = {
            "security.protocol": "ssl",
            "ssl.truststore.location": str(java_stores / f"{kind}.trust"),
            "ssl.truststore.password": PASSWORD,
            "ssl.keystore.location": str(java_stores / f"{kind}.keys"),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }
        tls = client_config(properties).security.tls
        assert tls is not None
        assert tls.authorities is not None
        assert authority.certificate in tls.authorities
        assert tls.identity is not None
        assert tls.identity.chain.endswith(authority.certificate)
        assert tls.verify_host


def test_pem_in_the_properties(tmp_path: Path, authority: Authority) -> None:
    identity = authority.identity("me")
    lines = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate.replace("\n", "\\\n  "),
        "ssl.keystore.key": identity.key.replace("\n", "\\n"),
        "ssl.keystore.certificate.chain": identity.chain.replace("\n", " \\\n  "),
    }
    text = "".join(f"{key}={value}\n" for key, value in lines.items())
    config = client_config(_read(tmp_path, text))
    assert config.security.tls == Tls(authorities=authority.certificate, identity=identity)


def test_an_empty_algorithm_gives_up_the_check_of_names() -> None:
    config = client_config({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""})
    assert config.security.tls == Tls(verify_host=False)
    (warning,) = config.warnings
    assert "can impersonate a broker" in warning


@pytest.mark.parametrize(
    ("properties", "versions"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.enabled.protocols": " TLSv1.3 , TLSv1.1"}, ("TLSv1.1", "TLSv1.3")),
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.protocol": "TLS"}, None),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}, ("TLSv1.2", "TLSv1.2")),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, ("TLSv1.3", "TLSv1.3")),
    ],
)
def test_versions(properties: dict[str, str], versions: tuple[str, str] | None) -> None:
    tls = client_config({"security.protocol": "SSL", **properties}).security.tls
    assert tls is not None
    assert tls.versions == versions


def test_cipher_suites() -> None:
    chosen = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_NONSENSE"
    config = client_config({"security.protocol": "SSL", "ssl.cipher.suites": chosen})
    assert config.security.tls is not None
    assert config.security.tls.ciphers == "ECDHE-RSA-AES128-GCM-SHA256"
    assert config.warnings == ["ssl.cipher.suites that cannot be chosen here are left out: TLS_NONSENSE"]


def test_credentials_are_read_and_not_shown() -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{LOGIN} username="alice" password="hunter2";',
    }
    security = client_config(properties).security
    assert security == Security(sasl=Sasl("SCRAM-SHA-512", "alice", "hunter2"))
    assert security.protocol == "SASL_PLAINTEXT"
    assert "hunter2" not in repr(security)


def test_mechanisms_that_kproxy_does_not_have_pass_through() -> None:
    config = client_config({"security.protocol": "SASL_SSL"})
    assert config.security == Security(Tls(), Sasl("GSSAPI"))
    assert "clients pass through" in config.warnings[0]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is none of PLAINTEXT, SSL"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "nowhere"}, "nowhere cannot be read"),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": "x"},
            "ssl.truststore.certificates: it is neither",
        ),
        ({"security.protocol": "SSL", "ssl.keystore.key": "x"}, "can only be set together"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, "SSLv3 is none of"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"},
            "neither https nor empty",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs sasl.jaas.config"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f"{LOGIN} username=a;",
            },
            "ScramLoginModule has no password",
        ),
    ],
)
def test_what_makes_no_sense_is_told(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(PropertiesError, match=reason):
        client_config(properties)
