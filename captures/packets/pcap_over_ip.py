"""PCAP over IP: a capture received over a TCP connection, as sent and received by PolarProxy, Arkime and NetworkMiner.

The sender writes a pcap or pcapng into the connection as into a file, and closes it at the end: there is no protocol
besides TCP. ``tcp://HOST:PORT`` connects to the sender. ``tcp-listen://[HOST]:PORT`` waits for the sender to connect;
without a host only senders on this machine can.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from captures.packets.errors import CaptureError
from captures.packets.feeds import PipeFeed, StopSignal

CONNECT, LISTEN = "tcp", "tcp-listen"

_CONNECT_SECONDS = 10.0
"""Connection timeout in seconds."""
_LOOPBACK = "127.0.0.1"


def is_pcap_over_ip(path: str) -> bool:
    """Return whether a path names a connection."""
    return path.partition("://")[0].lower() in (CONNECT, LISTEN) and "://" in path


class PcapOverIpFeed:
    """The bytes of one connection.

    :param path: ``tcp://HOST:PORT`` or ``tcp-listen://[HOST]:PORT``
    :raises CaptureError: if the path lacks a host or a port
    :raises OSError: if the sender cannot be reached, or the address cannot be listened on
    """

    def __init__(self, path: str, stop: StopSignal) -> None:
        scheme, host, port = _parts(path)
        self.damage = ""
        self._stop = stop
        self._pipe: PipeFeed | None = None
        if scheme == LISTEN:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = socket.create_server((host, port), family=family, backlog=1)
        else:
            self._connected(socket.create_connection((host, port), _CONNECT_SECONDS))

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; wait for the sender, and then for the first byte."""
        if self._pipe is None:
            if not self._stop.wait_readable(self._socket.fileno()):
                return b""
            listening, (sender, _) = self._socket, self._socket.accept()
            listening.close()  # one sender is one capture: refuse others
            self._connected(sender)
        assert self._pipe is not None
        try:
            return self._pipe.read(size)
        except ConnectionError as error:
            self.damage = f"the sender's connection ended early: {error.strerror}"
            return b""

    def consumed(self) -> float | None:
        return None

    def close(self) -> None:
        """Close the connection, or stop waiting for one."""
        self._socket.close()

    def _connected(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        self._socket = connection
        self._pipe = PipeFeed(connection.fileno(), self._stop)


def _parts(path: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(path)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise CaptureError(path, 0, f"no address: {error}") from None
    if port is None:
        raise CaptureError(path, 0, f"no port: {parts.scheme}://HOST:PORT")
    if not host and parts.scheme == CONNECT:
        raise CaptureError(
            path, 0, "no host: tcp://HOST:PORT connects, tcp-listen://:PORT waits for a sender"
        )
    return parts.scheme, host or _LOOPBACK, port
