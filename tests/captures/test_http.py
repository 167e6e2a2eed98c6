"""Time limits of requests to servers that the user named."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from http.client import HTTPConnection
from threading import Thread

import pytest

from captures.http import opener_within


def test_an_answer_that_is_complete_counts_also_if_the_limit_passes_then() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nokay")

        Thread(target=answer, daemon=True).start()
        with opener_within(2) as opener:
            with opener.open(f"http://127.0.0.1:{listening.getsockname()[1]}/", timeout=2) as answered:
                assert answered.read() == b"okay"
            time.sleep(2.1)


def test_a_connection_that_opens_after_the_limit_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = HTTPConnection.connect

    def slow(connection: HTTPConnection) -> None:
        connect(connection)
        time.sleep(0.3)

    monkeypatch.setattr(HTTPConnection, "connect", slow)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            client, _ = listening.accept()
            with client, suppress(OSError):
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    client.sendall(b"x")
                    time.sleep(0.02)

        dripping = Thread(target=drip, daemon=True)
        dripping.start()
        with pytest.raises(TimeoutError, match=r"no answer in 0\.1 s"), opener_within(0.1) as opener:
            opener.open(f"http://127.0.0.1:{listening.getsockname()[1]}/", timeout=5).read()
        dripping.join(5)
        assert not dripping.is_alive()
