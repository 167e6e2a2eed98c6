"""Many connections to one port, over plain sockets: simultaneous or one after the other.

They send ApiVersions, the first request of every client.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from itertools import cycle

from dissectors.apis import api
from dissectors.frames import decode_response
from dissectors.headers import RequestHeader, request_header_version
from tests.lanes.tools import Wrong

_API_VERSIONS, _VERSION = 18, 3
_SIZE = struct.Struct(">i")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST
_TIMEOUT_S = 30


def _request(correlation_id: int) -> bytes:
    known = api(_API_VERSIONS)
    assert known is not None
    header = {
        "request_api_key": _API_VERSIONS,
        "request_api_version": _VERSION,
        "correlation_id": correlation_id,
        "client_id": "crowd",
    }
    body = {"client_software_name": "crowd", "client_software_version": "1"}
    payload = RequestHeader[request_header_version(known.request, _VERSION)].build(header)
    payload += known.request[_VERSION].build(body)
    return _SIZE.pack(len(payload)) + payload


def _receive(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise Wrong("a connection was closed in the middle of a response")
    return data


def _answer(connection: socket.socket, correlation_id: int) -> None:
    payload = _receive(connection, *_SIZE.unpack(_receive(connection, _SIZE.size)))
    got = _SIZE.unpack_from(payload)[0]
    if got != correlation_id:
        raise Wrong(f"the answer to {correlation_id} was one to {got}")
    body = decode_response(payload, _API_VERSIONS, _VERSION)
    if body.problems or not body.value or body.value["error_code"]:
        raise Wrong("ApiVersions was answered with something else")


def _dial(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), _TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def at_once(ports: Sequence[int], count: int, requests: int, meanwhile: Callable[[], None]) -> None:
    """Open connections, then send several requests on each, in turns.

    :param meanwhile: called once all are open and have received their first response
    :raises Wrong: if a response is missing or wrong
    """
    connections = [_dial(port) for port, _ in zip(cycle(ports), range(count), strict=False)]
    try:
        for number in range(requests):
            for connection in connections:
                connection.sendall(_request(number))
            for connection in connections:
                _answer(connection, number)
            if not number:
                meanwhile()
    finally:
        for connection in connections:
            connection.close()


def one_by_one(ports: Sequence[int], count: int) -> None:
    """Open and close connections, each in one of the ways in which clients close them.

    :raises Wrong: if a response is missing or wrong
    """
    request = _request(7)
    for number, port in zip(range(count), cycle(ports), strict=False):
        connection = _dial(port)
        match number % 5:
            case 0:  # without a request
                pass
            case 1:  # within a request
                connection.sendall(request[: 5 + number % 20])
            case 2:  # before the response
                connection.sendall(request)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            case 3:  # half-closed, waiting for the responses
                connection.sendall(request + request)
                connection.shutdown(socket.SHUT_WR)
                _answer(connection, 7)
                _answer(connection, 7)
            case _:
                connection.sendall(request)
                _answer(connection, 7)
        connection.close()
