"""Contexts in handshakes on loopback, on both event loops."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.certificates import names_of
from kproxy.proxy.tls.contexts import ClientContexts, TlsConfigError, server_context, upstream_context
from kproxy.proxy.tls.security import PLAINTEXT, Identity, Security, Tls
from tests.kproxy.proxy.tls.kit import LOOPS, need, served, talk

Run = Callable[[Coroutine[Any, Any, Any]], Any]


def _client(authority: Authority, keylog: str = "", **options: Any) -> ssl.SSLContext:
    context = upstream_context(Security(tls=Tls(authorities=authority.certificate, **options)), keylog=keylog)
    assert context is not None
    return context


def test_plaintext_has_no_context() -> None:
    assert upstream_context(PLAINTEXT) is None


@LOOPS
def test_both_sides_together(run: Run, authority: Authority) -> None:
    server = server_context(authority.identity("localhost"))
    (answer, certificate), errors = run(served(server, lambda port: talk(port, _client(authority))))
    assert answer == b"hello"
    assert names_of(certificate) == ["localhost"]
    assert not errors


@LOOPS
def test_accepted_sockets(run: Run, authority: Authority) -> None:
    """Connections are accepted and peeked at before TLS starts, as in the data plane."""
    contexts = ClientContexts(authority.identity, own_names=["localhost"])

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast(asyncio.Transport, transport)

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)
            self.transport.close()

    async def go() -> tuple[bytes, bytes]:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            talking = asyncio.create_task(talk(listening.getsockname()[1], _client(authority), "b7.test"))
            accepted, _ = await loop.sock_accept(listening)
            await loop.connect_accepted_socket(Echo, accepted, ssl=contexts.of("b7.test"))
            return await talking

    answer, certificate = run(go())
    assert answer == b"?"
    assert names_of(certificate) == ["b7.test", "localhost"]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("elsewhere.test", {}, "not valid for 'elsewhere.test'"),
        ("localhost", {"authorities": None}, "unable to get local issuer certificate"),
    ],
)
def test_a_broker_is_verified(authority: Authority, name: str, options: dict[str, Any], reason: str) -> None:
    server = server_context(authority.identity("localhost"))
    client = upstream_context(Security(tls=Tls(**{"authorities": authority.certificate, **options})))
    assert client is not None
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        asyncio.run(served(server, lambda port: talk(port, client, name)))


@pytest.mark.parametrize("options", [{"verify_host": False}, {"verify": False, "authorities": None}])
def test_the_checks_can_be_given_up(authority: Authority, options: dict[str, Any]) -> None:
    server = server_context(authority.identity("localhost"))
    client = upstream_context(Security(tls=Tls(**{"authorities": authority.certificate, **options})))
    assert client is not None
    (answer, _), _ = asyncio.run(served(server, lambda port: talk(port, client, "elsewhere.test")))
    assert answer == b"hello"


def test_what_is_in_a_trust_store_is_trusted_as_it_is(authority: Authority) -> None:
    """A host's certificate without that of its authority is enough, as in Java."""
    identity = authority.identity("localhost")
    client = upstream_context(Security(tls=Tls(authorities=identity.chain)))
    assert client is not None
    (answer, _), _ = asyncio.run(served(server_context(identity), lambda port: talk(port, client)))
    assert answer == b"hello"


@pytest.mark.slow
@LOOPS
@pytest.mark.parametrize("versions", [("TLSv1.2", "TLSv1.2"), ("TLSv1.3", "TLSv1.3")])
def test_mutual_tls(run: Run, tmp_path: Path, versions: tuple[str, str]) -> None:
    clients = Authority.open(tmp_path / "clients")
    brokers = Authority.open(tmp_path / "brokers")
    required = server_context(
        brokers.identity("localhost"), client_auth="required", client_authorities=clients.certificate
    )
    known = _client(brokers, identity=_client_identity(tmp_path, clients), versions=versions)
    assert run(served(required, lambda port: talk(port, known)))[0][0] == b"hello"

    async def refused(port: int) -> bytes:
        with suppress(OSError):  # with TLS 1.3 a client is done before the server has checked it
            answer, _ = await talk(port, _client(brokers, versions=versions))
            return answer
        return b""

    nothing, errors = run(served(required, refused))
    assert not nothing
    assert [error.reason for error in errors if isinstance(error, ssl.SSLError)] == [
        "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    ]
    requested = server_context(
        brokers.identity("localhost"), client_auth="requested", client_authorities=clients.certificate
    )
    assert run(served(requested, lambda port: talk(port, _client(brokers))))[0][0] == b"hello"


def _client_identity(folder: Path, authority: Authority) -> Identity:
    """Return a client certificate made by openssl: those of the authority are for servers."""
    need("openssl")
    key, request, signed = folder / "client.key", folder / "client.csr", folder / "client.pem"
    new = ("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=client")
    subprocess.run([*new, "-keyout", key, "-out", request], check=True, capture_output=True)
    ca = ("-CA", authority.folder / "authority.pem", "-CAkey", authority.folder / "authority.key")
    sign = ("openssl", "x509", "-req", "-in", request, *ca, "-CAcreateserial", "-days", "2", "-out", signed)
    subprocess.run(sign, check=True, capture_output=True)
    return Identity(signed.read_text(), key.read_text())


def test_mutual_tls_needs_an_authority(authority: Authority) -> None:
    with pytest.raises(TlsConfigError, match="the authority that signs them is needed"):
        server_context(authority.identity("localhost"), client_auth="required")


def test_versions_and_ciphers_are_bounded(authority: Authority) -> None:
    context = _client(authority, versions=("TLSv1.2", "TLSv1.2"), ciphers="ECDHE-ECDSA-AES128-GCM-SHA256")
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    tls12 = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert tls12 == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    with pytest.raises(TlsConfigError, match="knows none of the cipher suites NONSENSE"):
        _client(authority, ciphers="NONSENSE")


def test_both_sides_write_key_logs_of_the_same_secrets(tmp_path: Path, authority: Authority) -> None:
    ours, theirs = tmp_path / "client.keys", tmp_path / "server.keys"
    theirs.touch(0o644)
    server = server_context(authority.identity("localhost"), keylog=str(theirs))
    asyncio.run(served(server, lambda port: talk(port, _client(authority, keylog=str(ours)))))
    assert ours.stat().st_mode & 0o777 == theirs.stat().st_mode & 0o777 == 0o600

    def secrets(path: Path) -> set[str]:
        return set(
            re.findall(r"^CLIENT_TRAFFIC_SECRET_0 [0-9a-f]{64} [0-9a-f]+$", path.read_text(), re.MULTILINE)
        )

    assert secrets(ours) == secrets(theirs)
    assert len(secrets(ours)) == 1


def test_a_key_log_follows_no_symbolic_link(tmp_path: Path, authority: Authority) -> None:
    victim, link = tmp_path / "victim", tmp_path / "keys"
    victim.write_text("a file")
    victim.chmod(0o644)
    link.symlink_to(victim)
    with pytest.raises(TlsConfigError, match="keys cannot be written: it is a symbolic link"):
        _client(authority, keylog=str(link))
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("a file", 0o644)


def test_a_key_log_that_cannot_be_written_is_told(tmp_path: Path, authority: Authority) -> None:
    with pytest.raises(TlsConfigError, match="keys cannot be written: No such file"):
        _client(authority, keylog=str(tmp_path / "nowhere" / "keys"))


def test_a_key_of_another_certificate_is_told(tmp_path: Path, authority: Authority) -> None:
    mixed = Identity(
        authority.identity("a.test").chain, Authority.open(tmp_path / "other").identity("a.test").key
    )
    with pytest.raises(TlsConfigError, match="cannot be used: key values mismatch"):
        server_context(mixed)
    with pytest.raises(TlsConfigError, match="certificate and key cannot be used"):
        server_context(Identity("", ""))


def test_a_key_is_loaded_without_memory_files_too(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    """macOS has no memory files."""
    monkeypatch.delattr("os.memfd_create", raising=False)
    server_context(authority.identity("localhost"))


class TestClientContexts:
    """The certificate presented to a client."""

    def test_one_context_for_each_name(self, authority: Authority) -> None:
        contexts = ClientContexts(authority.identity, own_names=["localhost", "127.0.0.1"])
        assert contexts.of("b1.test") is contexts.of("B1.test.")
        assert contexts.of("b1.test") is not contexts.of("b2.test")
        assert contexts.of("10.0.0.1") is not contexts.of("")
        for name in ("a b", "x" * 300, "é.test", "\0"):
            assert contexts.of(name) is contexts.of("")

    def test_a_given_certificate_is_for_all(self, authority: Authority) -> None:
        contexts = ClientContexts(authority.identity("a.test"))
        assert contexts.of("b1.test") is contexts.of("b2.test") is contexts.of("")

    @pytest.mark.slow
    def test_names_of_clients_do_not_add_up(self, authority: Authority) -> None:
        made: list[str] = []

        def identity(*names: str) -> Identity:
            made.append(names[0])
            return authority.identity(*names)

        contexts = ClientContexts(identity, own_names=["localhost"])
        for number in range(ClientContexts._MOST + 5):
            contexts.of(f"b{number}.test")
        assert len(contexts._made) == ClientContexts._MOST
        assert made[:2] == ["localhost", "b0.test"]

    def test_certificates_are_renewed_before_they_expire(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: now)
        contexts = ClientContexts(authority.identity, own_names=["localhost"])
        first = contexts.of("a.test")
        now = 29 * 86_400.0
        assert contexts.of("a.test") is first
        now = 31 * 86_400.0
        assert contexts.of("a.test") is not first
