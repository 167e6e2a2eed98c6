"""The local authority, verified with openssl and Java."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from kproxy.proxy.tls import authority as module
from kproxy.proxy.tls.authority import (
    CERTIFICATE,
    KEY,
    TRUST_STORE,
    TRUST_STORE_PASSWORD,
    Authority,
    AuthorityError,
    default_folder,
)
from kproxy.proxy.tls.contexts import ClientContexts
from kproxy.proxy.tls.stores import trusted_certificates
from tests.kproxy.proxy.tls.kit import command, need, served


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_it_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "authority"
    first = Authority.open(folder)
    again = Authority.open(folder)
    assert first.made
    assert not again.made
    assert first.certificate == again.certificate
    assert sorted(each.name for each in folder.iterdir()) == [KEY, TRUST_STORE, CERTIFICATE]
    assert sorted(each.name for each in folder.parent.iterdir()) == ["authority"]


def test_its_key_is_for_its_owner_only(authority: Authority) -> None:
    assert _mode(authority.folder / KEY) == 0o600
    assert "PRIVATE" not in (authority.folder / CERTIFICATE).read_text()


def test_several_that_begin_at_once_have_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: Authority.open(folder), range(8)))
    assert len({each.certificate for each in found}) == 1
    assert sum(each.made for each in found) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["authority"]


def test_the_folder_is_where_data_of_users_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "kproxy" / "authority"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_folder() == Path.home() / ".local" / "share" / "kproxy" / "authority"


@pytest.mark.parametrize(
    "name", ["b1.kafka.test", "localhost", "10.0.0.1", "::1", "under_score.test", "x" * 63 + ".test"]
)
def test_openssl_verifies_a_certificate(tmp_path: Path, authority: Authority, name: str) -> None:
    need("openssl")
    leaf = tmp_path / "leaf.pem"
    leaf.write_text(authority.identity(name, "other.test").chain)
    kind = "ip" if name[0] in "1:" else "hostname"
    strict = ("-x509_strict", "-purpose", "sslserver", "-CAfile", authority.folder / CERTIFICATE)
    assert "OK" in command("openssl", "verify", *strict, f"-verify_{kind}", name, leaf)
    assert "OK" in command("openssl", "verify", *strict, "-verify_hostname", "other.test", leaf)


def test_certificates_are_valid_as_long_as_browsers_allow(authority: Authority) -> None:
    leaf = load_pem_x509_certificate(authority.identity("a.test").chain.encode())
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc < timedelta(days=397)
    assert leaf.not_valid_after_utc > datetime.now(UTC) + timedelta(days=390)
    assert leaf.not_valid_before_utc < datetime.now(UTC) - timedelta(hours=12)  # for clocks that are slow


def test_names_that_are_none(authority: Authority) -> None:
    for name in ("", "a b", "a\0b", "x" * 64, "a." * 130):
        with pytest.raises(ValueError, match="neither a host name nor an IP address"):
            authority.identity(name)


@pytest.mark.slow
def test_java_trusts_it_and_compares_the_name(authority: Authority) -> None:
    need("java", "javac")
    contexts = ClientContexts(authority.identity, own_names=["localhost"])
    program = ("java", "-Xmx100m", "-XX:TieredStopAtLevel=1", Path(__file__).with_name("Handshake.java"))
    store = (authority.folder / TRUST_STORE, TRUST_STORE_PASSWORD)

    async def run() -> str:
        said, _ = await served(
            contexts.of("b1.kafka.test"),
            lambda port: asyncio.to_thread(
                command, *program, *store, str(port), "b1.kafka.test", "localhost", "b2.test"
            ),
        )
        return said

    said = asyncio.run(run()).splitlines()
    assert said[:2] == ["b1.kafka.test hello", "localhost hello"]
    assert "No subject alternative DNS name matching b2.test found" in said[2]


def test_we_read_its_trust_store(authority: Authority) -> None:
    store = str(authority.folder / TRUST_STORE)
    assert trusted_certificates(store, TRUST_STORE_PASSWORD) == authority.certificate


def test_a_damaged_one_is_told(tmp_path: Path, authority: Authority) -> None:
    folder = Authority.open(tmp_path / "authority").folder
    (folder / KEY).write_bytes((authority.folder / KEY).read_bytes())
    with pytest.raises(AuthorityError, match=r"do not belong together: remove .* to have a new one made"):
        Authority.open(folder)
    (folder / KEY).write_text("rubbish")
    with pytest.raises(AuthorityError, match="is damaged"):
        Authority.open(folder)
    (folder / KEY).unlink()
    with pytest.raises(AuthorityError, match="cannot be used: No such file"):
        Authority.open(folder)


def test_an_expired_one_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AUTHORITY_DAYS", 0.5)  # valid from a day ago
    with pytest.raises(AuthorityError, match="has expired"):
        Authority.open(tmp_path / "authority")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(AuthorityError, match="Permission denied"):
        Authority.open(tmp_path / "authority")
