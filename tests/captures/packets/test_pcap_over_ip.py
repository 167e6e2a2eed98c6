"""Captures over TCP: from a listening sender, from a connecting one, and from senders that break off."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

from captures.exchanges import ExchangeReader, open_capture
from captures.packets import CaptureError, open_source
from captures.packets.files import is_readable_once
from captures.packets.remote import is_remote
from kproxy.cli import main

_SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"
_CAPTURE = _SAMPLE.read_bytes()


def _sending(connection: Callable[[], socket.socket]) -> None:
    def send() -> None:
        with connection() as sender:
            sender.sendall(_CAPTURE)

    Thread(target=send, daemon=True).start()


def _server() -> tuple[socket.socket, str]:
    server = socket.create_server(("127.0.0.1", 0))
    return server, f"tcp://127.0.0.1:{server.getsockname()[1]}"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _summaries(path: str) -> list[str]:
    capture = open_capture(path)
    capture.read()
    return [exchange.summary for exchange in ExchangeReader(capture)]


def test_a_sender_that_listens_gives_the_exchanges_of_its_file() -> None:
    server, path = _server()
    with server:
        _sending(lambda: server.accept()[0])
        assert _summaries(path) == _summaries(str(_SAMPLE))


def test_a_sender_that_connects_is_read_by_a_command_and_others_are_refused() -> None:
    port = _free_port()

    def connect() -> socket.socket:
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port))
            except ConnectionRefusedError:
                continue  # the command is not listening yet

    _sending(connect)
    shown = CliRunner().invoke(main, ["read", "--json", f"tcp-listen://:{port}"])
    assert shown.exit_code == 0
    assert shown.stdout == CliRunner().invoke(main, ["read", "--json", str(_SAMPLE)]).stdout
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_connection_that_breaks_keeps_what_came_before_and_says_so() -> None:
    server, path = _server()
    with server:
        half = _CAPTURE[: len(_CAPTURE) // 2]
        with open_source(path) as source:
            sender, _ = server.accept()
            sender.sendall(half)
            assert source.wait_for(len(half))
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sender.close()  # by RST
            assert not source.wait_for(len(_CAPTURE))
            assert source.read(0, len(_CAPTURE)) == half
            assert "the sender's connection ended early: Connection reset by peer" in source.damage


def test_waiting_for_a_sender_can_be_stopped() -> None:
    with open_source(f"tcp-listen://:{_free_port()}") as source:
        Thread(target=source.stop).start()
        assert not source.wait_for(1)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("tcp://kafka-1", "no port"),
        ("tcp://:57012", "no host"),
        ("tcp://kafka-1:port", "no address"),
        ("tcp://127.0.0.1:{closed}", "Connection refused"),
    ],
)
def test_what_cannot_be_reached_is_an_error_with_its_path(path: str, reason: str) -> None:
    path = path.format(closed=_free_port())
    with pytest.raises(CaptureError) as error:
        open_capture(path)
    assert error.value.path == path
    assert reason in error.value.reason


def test_a_connection_is_no_remote_file_and_no_pattern() -> None:
    assert not is_remote("tcp://[::1]:57012")
    assert is_readable_once("tcp://[::1]:57012")
    assert is_remote("s3://bucket/kafka.pcap")
    assert not is_readable_once("s3://bucket/kafka.pcap")
