"""Rare cases that need not be fast: link layers that only scapy knows, and IP fragments.

This is the only module that may import scapy. It does so for the first frame that needs it, because the import takes
about a second.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from typing import Any

import msgspec

from captures.packets.coverage import Coverage
from captures.packets.link import IPV4, IPV6
from dissectors.budget import limit

_MAX_DATAGRAM = 1 << 16  # range of the length fields of both IP versions


@lru_cache(maxsize=1)
def _layers() -> tuple[Any, Any, Any]:
    from scapy.config import conf
    from scapy.layers import dot11, inet, inet6, l2, ppp  # noqa: F401  # importing registers link types

    return conf.l2types.num2layer, inet.IP, inet6.IPv6


def find_ip(frame: bytes, link_type: int) -> tuple[int, int]:
    """Return the position of IP in a frame of a link layer that scapy knows.

    :returns: the offset of the IP header in `frame` and its ethertype, or (0, -1) if scapy does not know
        the link type or finds no IP in the frame
    """
    by_number, ipv4, ipv6 = _layers()
    layer = by_number.get(link_type)
    if layer is None:
        return 0, -1
    try:
        packet = layer(frame)
    except Exception:  # scapy raises anything on malformed frames
        return 0, -1
    for kind, ethertype in ((ipv4, IPV4), (ipv6, IPV6)):
        found = packet.getlayer(kind)
        if found is not None:
            begin = frame.find(found.original)
            if begin >= 0 and found.original:
                return begin, ethertype
    return 0, -1


class _Datagram(msgspec.Struct):
    """The fragments of one datagram so far, by offset, and its size once the last one is known.

    :ivar there: the bytes covered by fragments
    :ivar held: number of bytes held, repeated ones counted each time
    """

    parts: dict[int, bytes] = {}
    there: Coverage = msgspec.field(default_factory=Coverage)
    held: int = 0
    size: int = -1

    @property
    def whole(self) -> bool:
        return self.size >= 0 and len(self.there) == 1 and self.there.has(0, self.size)


class FragmentStore:
    """Reassembles fragmented datagrams (RFC 791 section 3.2, RFC 8200 section 4.5).

    Where fragments overlap, the bytes at the lower offset win. When the waiting datagrams would exceed one of the
    limits ``datagrams`` and ``datagram_bytes``, the oldest one is given up.

    :ivar waiting: fragments of incomplete datagrams
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._datagrams: OrderedDict[bytes, _Datagram] = OrderedDict()
        self._held = 0
        self._most, self._most_held = limit("datagrams"), limit("datagram_bytes")
        self._given_up = 0

    def add(self, key: bytes, offset: int, more: bool, payload: bytes) -> bytes | None:
        """Add a fragment; return the payload of the datagram if this completes it.

        A fragment that repeats an offset, or exceeds the maximum datagram, counts as given up.
        """
        datagram = self._datagrams.get(key)
        if datagram is None:
            datagram = self._datagrams[key] = _Datagram()
            if len(self._datagrams) > self._most:
                self._give_up_oldest()
        if offset in datagram.parts or offset + len(payload) > _MAX_DATAGRAM or not payload:
            self._given_up += 1
            return None
        datagram.parts[offset] = payload
        datagram.there.add(offset, offset + len(payload))
        datagram.held += len(payload)
        self._held += len(payload)
        self.waiting += 1
        if not more:
            datagram.size = offset + len(payload)
        if datagram.whole:
            self._forget(key)
            return _join(datagram)
        while self._held > self._most_held:
            self._give_up_oldest()
        return None

    def _give_up_oldest(self) -> None:
        self._given_up += self._forget(next(iter(self._datagrams)))

    def _forget(self, key: bytes) -> int:
        datagram = self._datagrams.pop(key)
        self._held -= datagram.held
        self.waiting -= len(datagram.parts)
        return len(datagram.parts)

    def take_given_up(self) -> int:
        """Return the number of fragments given up since the last call."""
        number, self._given_up = self._given_up, 0
        return number


def _join(datagram: _Datagram) -> bytes:
    whole = bytearray()
    for offset, part in sorted(datagram.parts.items()):
        whole += part[len(whole) - offset :]
    return bytes(whole[: datagram.size])
