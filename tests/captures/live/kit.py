"""Shared code for tests of live capture: permissions, synthetic chunks, and traffic on the loopback interface."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from captures.live.device import Device, NotPermittedError, Settings
from captures.live.packet_socket import PacketSocket
from captures.live.pcap import libpcap
from captures.live.ring import Ring
from captures.packets import PacketReader, TcpAssembler, open_source, read_packets
from tests.captures.packets.kit import BROKER, CLIENT, T0, Record, packet, pcap
from tests.waiting import wait_until

HEADER = pcap([], nano=True)


def _may_capture() -> bool:
    if sys.platform != "linux":
        return False
    try:
        PacketSocket(Settings("lo")).close()
    except NotPermittedError:
        return False
    return True


needs_capturing = pytest.mark.skipif(not _may_capture(), reason="needs Linux and the privilege to capture")
needs_libpcap = pytest.mark.skipif(libpcap() is None, reason="needs libpcap")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def record(number: int, size: int = 1000, time: int | None = None) -> bytes:
    """A record of a nanosecond pcap file with a TCP packet that carries its number."""
    payload = struct.pack(">I", number).ljust(size, b".")
    frame = packet(CLIENT, BROKER, 1 + number * size, 1, 0x10, payload)
    moment = T0 + number * 1_000_000 if time is None else time
    return pcap([Record(frame, moment)], nano=True)[len(HEADER) :]


class Writer:
    """Writes records to a ring, as a sniffer would."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self.begin()

    def begin(self) -> None:
        self._file = self._ring.new_chunk()
        os.write(self._file, HEADER)
        self._ring.wrote(0)

    def write(self, *records: bytes) -> None:
        os.write(self._file, b"".join(records))
        if self._ring.wrote(len(records)):
            self.begin()


@contextmanager
def loopback() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection over the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with client, accepted:
            yield client, accepted


def as_nobody(action: Callable[[], None]) -> str:
    """Run a function in an unprivileged child process; return the type and text of its exception."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            action()
        except BaseException as error:
            os.write(writable, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as told:
        text = told.read()
    os.waitpid(child, 0)
    return text


def captured(device: Device, path: Path, expected: bytes) -> PacketReader:
    """Let a device write to a file until the bytes are in it; return a reader that has read it to its end."""
    with path.open("wb") as file:
        device.write_to(file.fileno())

        def is_captured() -> bool:
            device.pump(1000)
            device.flush()
            return expected in path.read_bytes()

        wait_until(is_captured)
        device.end_file()
    reader = read_packets(open_source(path))
    deque(reader, 0)
    return reader


def send(sender: socket.socket, receiver: socket.socket, data: bytes) -> None:
    """Send bytes, and receive them at the other end."""
    sending = threading.Thread(target=sender.sendall, args=(data,))
    sending.start()
    rest = len(data)
    while rest:
        rest -= len(receiver.recv(min(rest, 1 << 16)))
    sending.join()


def replay(capture: Path, server: socket.socket, times: int = 1) -> None:
    """Replay recorded connections on the loopback interface: their bytes, in the original order.

    :param server: listens in place of the brokers
    """
    with open_source(capture) as source:
        assembler = TcpAssembler()
        parts: list[tuple[int, int, bytes]] = []
        for block in read_packets(source):
            segments = assembler.feed(block)
            cells = zip(segments.delivered, segments.stream, segments.offset, segments.length, strict=True)
            parts += [
                (int(at), int(stream), source.read(int(of), int(size))) for at, stream, of, size in cells
            ]
    for _ in range(times):
        ends: dict[int, tuple[socket.socket, socket.socket]] = {}
        for _, stream, data in sorted(parts, key=lambda part: part[0]):
            if stream >> 1 not in ends:
                client = socket.create_connection(server.getsockname())
                ends[stream >> 1] = (client, server.accept()[0])
            client, broker = ends[stream >> 1]
            send(*((broker, client) if stream & 1 else (client, broker)), data)
        for pair in ends.values():
            for end in pair:
                end.close()
