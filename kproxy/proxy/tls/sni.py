"""One port for all brokers: the host name that a client asks for in TLS, and the broker with that name.

Clients send the name in their ClientHello (RFC 6066, section 3). kproxy peeks at it before TLS begins; that needs only
a few length fields here, not the parser for captures (:mod:`captures.packets.tls.handshake`), which would bring numpy
into the data plane.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Literal

_HANDSHAKE_RECORD = 22
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HOST_NAME = 0
_RECORD_HEADER = 5
_MOST_RECORD = 1 << 14
_MOST_HELLO = 1 << 16  # post-quantum key shares and sessions take some kilobytes

#: host names in DNS, including underscores, which Docker and Kubernetes use
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_MOST_NAME = 253

Role = Literal["broker", "controller"]


class _NeedMoreBytes(Enum):
    NEED_MORE = "more bytes are needed"


NEED_MORE = _NeedMoreBytes.NEED_MORE
"""The bytes end before the server name."""


class _EndError(Exception):
    """A length exceeds its container."""


def host_name(text: str) -> str | None:
    """Return a host name for comparison, in lower case and without the last dot; None if it cannot be one."""
    name = text.lower().removesuffix(".")
    return name if len(name) <= _MOST_NAME and _NAME.fullmatch(name) else None


def server_name(data: bytes) -> str | Literal[_NeedMoreBytes.NEED_MORE] | None:
    """Return the host name that a client asks for, :data:`NEED_MORE` if its bytes end before it.

    None if it sends no name, or the bytes are not a ClientHello. Never raises.

    :param data: the first bytes from a client, up to 64 KiB
    """
    hello = _client_hello(data)
    if not isinstance(hello, bytes):
        return hello
    try:
        return _name_in(hello)
    except _EndError:
        return None


def _client_hello(data: bytes) -> bytes | Literal[_NeedMoreBytes.NEED_MORE] | None:
    """Return the body of the first handshake message, joined from its records."""
    message = b""
    at = 0
    while at < len(data):
        header = data[at : at + _RECORD_HEADER]
        if header[0] != _HANDSHAKE_RECORD or header[1:2] not in (b"", b"\x03"):
            return None
        size = int.from_bytes(header[3:5], "big")
        if len(header) == _RECORD_HEADER and not 0 < size <= _MOST_RECORD:
            return None
        at += _RECORD_HEADER
        message += data[at : at + size]
        at += size
        if message[:1] not in (b"", bytes([_CLIENT_HELLO])):
            return None
        if len(message) >= 4:
            end = 4 + int.from_bytes(message[1:4], "big")
            if end > _MOST_HELLO:
                return None
            if len(message) >= end:
                return message[4:end]
    return NEED_MORE


def _vector(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return a vector whose length field has `size` bytes, and the position after it."""
    start = at + size
    end = start + int.from_bytes(data[at:start], "big")
    if start > len(data) or end > len(data):
        raise _EndError
    return data[start:end], end


def _name_in(hello: bytes) -> str | None:
    at = 2 + 32  # version, random
    for length_of in (1, 2, 1):  # session ID, cipher suites, compression methods
        _, at = _vector(hello, at, length_of)
    if at == len(hello):
        return None  # a hello may end before its extensions
    extensions, _ = _vector(hello, at, 2)
    at = 0
    while at < len(extensions):
        kind = int.from_bytes(extensions[at : at + 2], "big")
        content, at = _vector(extensions, at + 2, 2)
        if kind == _SERVER_NAME:
            return _first_host(_vector(content, 0, 2)[0])
    return None


def _first_host(names: bytes) -> str | None:
    at = 0
    while at < len(names):
        kind = names[at]
        name, at = _vector(names, at + 1, 2)
        if kind == _HOST_NAME:
            return host_name(name.decode("ascii", "replace"))
    return None


# -- names of brokers ------------------------------------------------------------------------------------------


class NodeNamesError(ValueError):
    """A pattern cannot name brokers; the message says why."""


_PLACEHOLDER = "{node_id}"
_CONTROLLER = "controller-"


class NodeNames:
    """Host names of brokers by node ID. They all lead to the same port, as does the bootstrap address.

    Controllers, which may share node IDs with brokers, have the prefix ``controller-``.

    :param pattern: contains ``{node_id}`` once: ``b{node_id}.kafka.example``
    :raises NodeNamesError: if it cannot produce names, or not distinct ones
    """

    def __init__(self, pattern: str) -> None:
        example = host_name(pattern.replace(_PLACEHOLDER, "1"))
        if pattern.count(_PLACEHOLDER) != 1:
            raise NodeNamesError(
                f"{pattern!r} must contain {_PLACEHOLDER} once, as in b{_PLACEHOLDER}.kafka.example"
            )
        if example is None:
            raise NodeNamesError(f"{pattern!r} does not make a host name")
        self._before, _, self._after = pattern.lower().removesuffix(".").partition(_PLACEHOLDER)

    def name(self, node_id: int, role: Role = "broker") -> str:
        """Return the host name of a broker."""
        prefix = _CONTROLLER if role == "controller" else ""
        return f"{prefix}{self._before}{node_id}{self._after}"

    def node_id(self, name: str, role: Role = "broker") -> int | None:
        """Return the node ID of the broker with a host name, None if no broker can have it."""
        match = _node_pattern(self._before, self._after, role).fullmatch(name.lower().removesuffix("."))
        return int(match[1]) if match else None


@lru_cache(maxsize=64)
def _node_pattern(before: str, after: str, role: Role) -> re.Pattern[str]:
    prefix = _CONTROLLER if role == "controller" else ""
    return re.compile(rf"{re.escape(prefix + before)}(0|[1-9][0-9]{{0,9}}){re.escape(after)}")
