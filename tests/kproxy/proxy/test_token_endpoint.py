"""OAUTHBEARER tokens, requested from an HTTP server as by Kafka's clients."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from kproxy.proxy import token_endpoint
from kproxy.proxy.sasl import SaslError
from kproxy.proxy.tls.properties import PropertiesError, client_config
from kproxy.proxy.tls.security import TokenEndpoint
from kproxy.proxy.token_endpoint import Tokens

#: the second, if the server pauses for longer than the limit between two bytes
_NO_ANSWER = r"^no token from .*: (no answer in 0\.3 s|timed out)$"
JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


class Server(ThreadingHTTPServer):
    """Issues tokens.

    :ivar asked: credentials and form of each request
    :ivar answer: status and body
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.answer: tuple[int, Any] = 200, {"access_token": "t1", "expires_in": 3600}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        basic = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.server.asked.append((basic, parse_qs(body)))
        status, answer = self.server.answer
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_token_serves_until_most_of_its_lifetime_is_over(server: Server) -> None:
    tokens, endpoint = Tokens(), TokenEndpoint(server.url, "app", "s3:cret", "kafka read")
    assert [asyncio.run(tokens.get(endpoint)) for _ in range(3)] == ["t1"] * 3
    form = {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert server.asked == [("app:s3:cret", form)]
    server.answer = 200, {"access_token": "t2"}  # without a lifetime
    other = TokenEndpoint(server.url, "a pp", "s&", urlencode=True)
    assert [asyncio.run(tokens.get(other)) for _ in range(2)] == ["t2"] * 2
    assert server.asked[1:] == [("a+pp:s%26", {"grant_type": ["client_credentials"]})] * 2


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            (401, {"error": "invalid_client", "error_description": "wrong secret"}),
            r"refuses a token: 401 Unauthorized \(invalid_client: wrong secret\)",
        ),
        ((302, {}), "refuses a token: 302 Found$"),
        ((503, b"<html>"), "refuses a token: 503 Service Unavailable$"),
        ((200, b"<html>"), "has no access_token"),
        ((200, {"access_token": 7}), "has no access_token"),
    ],
)
def test_why_there_is_no_token(server: Server, answer: tuple[int, Any], why: str) -> None:
    server.answer = answer
    with pytest.raises(SaslError, match=why):
        asyncio.run(Tokens().get(TokenEndpoint(server.url, "app", "secret")))


def test_a_server_that_cannot_be_reached(server: Server) -> None:
    with pytest.raises(SaslError, match=r"no token from http://127.0.0.1:1/: .*refused"):
        asyncio.run(Tokens().get(TokenEndpoint("http://127.0.0.1:1/", "app", "secret")))


def answering(data: bytes) -> tuple[socket.socket, str]:
    """Return a listening socket that responds to one request with `data`, and its URL."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        client, _ = listening.accept()
        with client:
            client.recv(1 << 16)
            client.sendall(data)

    Thread(target=answer, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}/"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x15\x03\x01 no HTTP\r\n\r\n", "no token from "),
        (b"HTTP/1.1 401 No\r\nContent-Length: 9\r\n\r\n{", "refuses a token: 401 No$"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "has no access_token|no token from "),
    ],
)
def test_an_answer_that_is_not_whole(data: bytes, why: str) -> None:
    listening, url = answering(data)
    with listening, pytest.raises(SaslError, match=why):
        asyncio.run(Tokens().get(TokenEndpoint(url, "app", "secret")))


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", _NO_ANSWER),
        (b"HTTP/1.1 200 OK\r\n\r\n", _NO_ANSWER),
        # a refusal needs no body if the server pauses for longer than the limit
        (b"HTTP/1.1 401 No\r\n\r\n", rf"{_NO_ANSWER}|refuses a token: 401 No$"),
    ],
)
def test_an_answer_that_drips_ends(start: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_endpoint, "_TIMEOUT", 0.3)
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        client, _ = listening.accept()
        with client, suppress(OSError):
            client.recv(1 << 16)
            client.sendall(start)
            while True:
                client.sendall(b"x")
                time.sleep(0.02)

    dripping = Thread(target=drip)
    dripping.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    with listening, pytest.raises(SaslError, match=why):
        asyncio.run(Tokens().get(TokenEndpoint(url, "app", "secret")))
    dripping.join(5)
    assert not dripping.is_alive()


def test_those_who_wait_share_a_request(server: Server) -> None:
    server.answer = 401, {}
    tokens, endpoint = Tokens(), TokenEndpoint(server.url, "app", "secret")

    async def get() -> list[str | BaseException]:
        first = asyncio.create_task(tokens.get(endpoint))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.gather(*(tokens.get(endpoint) for _ in range(20)), return_exceptions=True)

    assert [type(each) for each in asyncio.run(get())] == [SaslError] * 20
    assert len(server.asked) == 1
    server.answer = 200, {"access_token": "t"}
    assert asyncio.run(tokens.get(endpoint)) == "t"


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.jaas.config": f'{JAAS} clientId="app" clientSecret="s" scope="x";'},
        {
            "sasl.oauthbearer.client.credentials.client.id": "app",
            "sasl.oauthbearer.client.credentials.client.secret": "s",
            "sasl.oauthbearer.scope": "x",
        },
    ],
)
def test_client_properties(given: dict[str, str], tmp_path: Path) -> None:
    common = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    url = {"sasl.oauthbearer.token.endpoint.url": "https://issuer.test/token"}
    config = client_config(common | url | given)
    assert config.security.sasl is not None
    assert config.security.sasl.token_endpoint == TokenEndpoint("https://issuer.test/token", "app", "s", "x")
    assert not config.warnings
    with pytest.raises(PropertiesError, match="needs clientId and clientSecret"):
        client_config(common | url)


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://app:hunter2@issuer.test/token",
        "sasl.jaas.config": f'{JAAS} clientId="app" clientSecret="s";',
    }
    with pytest.raises(PropertiesError, match="must not contain a user name or a password") as caught:
        client_config(given)
    assert "hunter2" not in str(caught.value)
