"""Addresses and other wide keys interned as small numbers, so that columns stay narrow and comparisons cheap."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from ipaddress import IPv6Address, ip_address

import numpy as np

from captures.arrays import Int64s

_IPV6 = 1 << 62
_APART = 1 << 61


class Interner:
    """Numbers int64 keys 0, 1, 2 ... in the order of first appearance, many at a time."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, np.int64)
        self._ids = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._sorted)

    def ids(self, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return the number of each key, and the rows of `keys` with the first appearance of new ones, in order of
        number.
        """
        if not len(keys):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        positions, known = self._find(keys)
        if known.all():
            return self._ids[positions], np.empty(0, np.int64)
        unknown = np.flatnonzero(~known)
        fresh, rows = np.unique(keys[unknown], return_index=True)
        rows = unknown[rows]
        by_row = np.argsort(rows)
        numbers = np.empty(len(rows), np.int64)
        numbers[by_row] = np.arange(len(self), len(self) + len(rows))
        at = np.searchsorted(self._sorted, fresh)
        self._sorted = np.insert(self._sorted, at, fresh)
        self._ids = np.insert(self._ids, at, numbers)
        positions, known = self._find(keys)
        assert known.all()
        return self._ids[positions], rows[by_row]

    def _find(self, keys: Int64s) -> tuple[Int64s, np.ndarray]:
        if not len(self._sorted):
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        positions = np.searchsorted(self._sorted, keys)
        np.minimum(positions, len(self._sorted) - 1, out=positions)
        return positions, self._sorted[positions] == keys


class AddressBook:
    """Every endpoint (IP address and TCP port) of a capture, numbered from 0 in arbitrary order."""

    def __init__(self) -> None:
        self._endpoints = Interner()
        self._halves = Interner()  # 64-bit halves of IPv6 addresses
        self._ipv6 = Interner()  # pairs of halves
        self._addresses: list[bytes] = []
        self._ports: list[int] = []
        self._texts: dict[int, str] = {}
        self._mark = 0

    def __len__(self) -> int:
        return len(self._ports)

    def apart(self) -> AddressBook:
        """Return a book with the same endpoints that gives other ids to those that it interns itself."""
        other = copy(self)
        other._mark = _APART
        return other

    def intern_ipv4(self, addresses: Int64s, ports: Int64s) -> Int64s:
        """Return the endpoint ids of IPv4 addresses (as integers) and ports."""
        ids, fresh = self._endpoints.ids(self._mark | addresses << 16 | ports)
        for row in fresh.tolist():
            self._addresses.append(int(addresses[row]).to_bytes(4, "big"))
            self._ports.append(int(ports[row]))
        return ids

    def intern_ipv6(self, high: Int64s, low: Int64s, ports: Int64s) -> Int64s:
        """Return the endpoint ids of IPv6 addresses, given as their upper and lower 64 bits, and ports."""
        halves, _ = self._halves.ids(np.concatenate([high, low]))
        address, _ = self._ipv6.ids(halves[: len(high)] << 31 | halves[len(high) :])
        ids, fresh = self._endpoints.ids(self._mark | _IPV6 | address << 16 | ports)
        for row in fresh.tolist():
            both = int(high[row]) % (1 << 64) << 64 | int(low[row]) % (1 << 64)
            self._addresses.append(both.to_bytes(16, "big"))
            self._ports.append(int(ports[row]))
        return ids

    def intern(self, address: bytes, port: int) -> int:
        """Return the id of one endpoint, given its 4- or 16-byte address."""
        if len(address) == 4:
            value = int.from_bytes(address, "big")
            return int(self.intern_ipv4(np.array([value], np.int64), np.array([port], np.int64))[0])
        high = int.from_bytes(address[:8], "big", signed=True)
        low = int.from_bytes(address[8:], "big", signed=True)
        return int(self.intern_ipv6(*(np.array([value], np.int64) for value in (high, low, port)))[0])

    def restore(self, endpoints: Sequence[tuple[bytes, int]]) -> None:
        """Take the place of another one, by address and port of each endpoint; no more are interned then."""
        self._addresses, self._ports = map(list, zip(*endpoints, strict=True)) if endpoints else ([], [])

    def address(self, endpoint: int) -> bytes:
        """Return the 4 or 16 bytes of the address."""
        return self._addresses[endpoint]

    def host(self, endpoint: int) -> str:
        """Return the address as text, without port or brackets."""
        address = ip_address(self._addresses[endpoint])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return f"::ffff:{address.ipv4_mapped}"  # RFC 5952 section 5; Python 3.13 does so by itself
        return str(address)

    def port(self, endpoint: int) -> int:
        return self._ports[endpoint]

    def text(self, endpoint: int) -> str:
        """Return ``10.0.0.1:9092`` or ``[2001:db8::1]:9092``."""
        text = self._texts.get(endpoint)
        if text is None:
            host = self.host(endpoint)
            text = f"[{host}]:{self.port(endpoint)}" if ":" in host else f"{host}:{self.port(endpoint)}"
            self._texts[endpoint] = text
        return text
