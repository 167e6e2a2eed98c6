"""Messages for real failures: the errors are those of OpenSSL and asyncio in failed handshakes."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.addresses import address_text
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.tls.authority import Authority
from kproxy.proxy.tls.certificates import certificate_of
from kproxy.proxy.tls.contexts import server_context, upstream_context
from kproxy.proxy.tls.security import Security, Tls
from tests.kproxy.proxy.tls.kit import LOOPS, command, need, served, talk

WHERE = "broker.test:9093"


def _client(authority: Authority | None, **options: object) -> ssl.SSLContext:
    trusted = authority.certificate if authority else None
    context = upstream_context(Security(tls=Tls(authorities=trusted, **options)))  # type: ignore[arg-type]
    assert context is not None
    return context


def _told(run, server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """Return the messages about a failed handshake on the client's and the server's side."""

    async def fail(port: int) -> str:
        certificate = await certificate_of("127.0.0.1", port)
        try:
            answer, _ = await talk(port, client, name)
        except OSError as error:
            return diagnosis.broker_handshake(error, WHERE, name, certificate)
        assert not answer
        return diagnosis.broker_handshake(ConnectionResetError(), WHERE, name)

    said, errors = run(served(server, fail))
    return said, diagnosis.client_handshake(errors[-1], name)


@LOOPS
def test_a_certificate_for_another_name(run, authority: Authority) -> None:  # type: ignore[no-untyped-def]
    server = server_context(authority.identity("a.test", "b.test"))
    ours, theirs = _told(run, server, _client(authority), "c.test")
    assert (
        "certificate of broker.test:9093 is not for the name that was asked for, c.test, it is for a.test, b.test"
        in ours
    )
    assert "client" in theirs


@LOOPS
def test_an_unknown_authority(run, authority: Authority) -> None:  # type: ignore[no-untyped-def]
    server = server_context(authority.identity("localhost"))
    ours, theirs = _told(run, server, _client(None))
    assert (
        "broker.test:9093 (for localhost) is signed by an unknown authority (unable to get local issuer certificate)"
        in ours
    )
    assert "ssl.truststore.location" in ours
    assert "client" in theirs


@pytest.mark.slow
def test_clients_of_openssl_and_java_that_do_not_trust(authority: Authority) -> None:
    """OpenSSL sends the alert unknown_ca, Java sends certificate_unknown."""
    need("openssl")
    server = server_context(authority.identity("localhost"))

    async def s_client(port: int) -> None:
        client = ("s_client", "-connect", f"127.0.0.1:{port}", "-verify_return_error", "-tls1_2")
        process = await asyncio.create_subprocess_exec(
            "openssl", *client, stdin=asyncio.subprocess.DEVNULL, stdout=-3, stderr=-3
        )
        await process.wait()

    _, errors = asyncio.run(served(server, s_client))
    assert re.search(
        "refuses the certificate for localhost that kproxy showed: it does not trust the authority that signed it: "
        "give it kproxy's authority", diagnosis.client_handshake(errors[0], "localhost"),
    )  # fmt: skip

    need("java", "javac")

    async def java(port: int) -> None:
        program = ("java", "-Xmx100m", "-XX:TieredStopAtLevel=1", Path(__file__).with_name("Handshake.java"))
        store = (others / "authority.p12", "changeit")
        await asyncio.to_thread(command, *program, *store, str(port), "localhost")

    others = authority.folder.parent / "others"
    Authority.open(others)
    _, errors = asyncio.run(served(server, java))
    assert "its authority is not trusted there" in diagnosis.client_handshake(errors[0], "localhost")


@LOOPS
def test_nothing_in_common(run, authority: Authority) -> None:  # type: ignore[no-untyped-def]
    server = server_context(authority.identity("localhost"))
    server.minimum_version = ssl.TLSVersion.TLSv1_3
    ours, theirs = _told(run, server, _client(authority, versions=("TLSv1.2", "TLSv1.2")))
    assert WHERE in ours
    assert (
        theirs
        == "the client offers no TLS version or cipher suite that kproxy accepts (unsupported protocol)"
    )


@LOOPS
def test_no_client_certificate(run, authority: Authority) -> None:  # type: ignore[no-untyped-def]
    server = server_context(
        authority.identity("localhost"), client_auth="required", client_authorities=authority.certificate
    )
    _, theirs = _told(run, server, _client(authority, versions=("TLSv1.2", "TLSv1.2")))
    assert theirs.startswith("the client showed no certificate, and one is required")


def test_plaintext_where_tls_is_spoken_and_the_reverse(authority: Authority) -> None:
    async def plaintext(port: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\0\0\0\x20\0\x12\0\x03\0\0\0\0\0\x02me")
        writer.close()
        await writer.wait_closed()

    _, errors = asyncio.run(served(server_context(authority.identity("localhost")), plaintext))
    assert diagnosis.client_handshake(errors[0]).startswith(
        "the client does not speak TLS, and this port is for TLS"
    )

    async def tls(answer: bytes) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(5)
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            with pytest.raises(OSError) as told:
                await talk(server.sockets[0].getsockname()[1], _client(authority))
        return diagnosis.broker_handshake(told.value, WHERE, "localhost")

    assert "does not answer in TLS: it is a plaintext port" in asyncio.run(
        tls(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    )
    assert "closed the connection during the TLS handshake: it may be a plaintext port" in asyncio.run(
        tls(b"")
    )


@pytest.mark.parametrize(
    ("data", "tls", "words"),
    [
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc", False, "speaks TLS, and this port is plaintext"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc", False, "complain of a request of 369,295,618 bytes"),
        (b"\0\0\0\x20\0\x12\0\x03\0\0\0\0\0\x02me", True, "speaks plaintext Kafka (ApiVersions v3, client ID me)"),
        (b"\0\0\0\x20\0\x03\0\x0c", True, "speaks plaintext Kafka (Metadata v12), and this port is for TLS"),
        (b"GET /metrics HTTP/1.1\r\n", True, "the client speaks HTTP, and this is a Kafka port"),
        (b"GET /metrics HTTP/1.1\r\n", False, "the client speaks HTTP, and this is a Kafka port"),
        (b"hello there", True, "the client does not speak TLS"),
    ],
)  # fmt: skip
def test_first_bytes_of_a_client_at_the_wrong_port(data: bytes, tls: bool, words: str) -> None:
    assert words in diagnosis.client_start(data, tls=tls)


def test_what_is_expected_is_not_commented() -> None:
    assert diagnosis.client_start(b"\0\0\0\x20\0\x12\0\x03", tls=False) == ""
    assert diagnosis.client_start(b"\x16\x03\x01\x02\0\x01\0\x01\xfc", tls=True) == ""
    assert diagnosis.broker_answer(b"\0\0\1\0", WHERE) == ""


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"\x15\x03\x03\0\x02\x02\x50", "TLS alert: it is a TLS port"),
        (b"HTTP", "not a Kafka"),
        (b"SSH-2.0", "SSH"),
    ],
)
def test_first_bytes_of_what_is_no_broker(start: bytes, words: str) -> None:
    assert words in diagnosis.broker_answer(start, WHERE)


@given(st.binary(max_size=100))
def test_what_clients_sent_does_not_reach_the_terminal(data: bytes) -> None:
    frame = b"\0\0\0\x40\0\x12\0\x03\0\0\0\0" + len(data).to_bytes(2, "big") + data
    for said in (diagnosis.client_start(frame, tls=True), diagnosis.client_start(data, tls=True)):
        assert said.isprintable()


def test_addresses() -> None:
    assert address_text("a.test", 1) == "a.test:1"
    assert address_text("::1", 2) == "[::1]:2"
    assert "refuses connections" in diagnosis.broker_unreachable(ConnectionRefusedError(), WHERE)
    assert diagnosis.broker_ended(None, WHERE) == "broker.test:9093 closed the connection"
