"""What is too rare to be fast: link layers that only scapy knows, and IP fragments.

The one module that may import scapy, which happens on the first frame that needs it: it costs about a second.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from captures.packets.link import IPV4, IPV6

_MAX_DATAGRAMS = 1024
_MAX_DATAGRAM = 1 << 16


@lru_cache(maxsize=1)
def _layers() -> tuple[Any, Any, Any]:
    """scapy's link type table, IPv4 and IPv6 layers."""
    from scapy.config import conf
    from scapy.layers import dot11, inet, inet6, l2, ppp  # noqa: F401  # importing registers link types

    return conf.l2types.num2layer, inet.IP, inet6.IPv6


def find_ip(frame: bytes, link_type: int) -> tuple[int, int]:
    """Where IP begins in a frame of a link layer that scapy knows.

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


@dataclass(slots=True)
class _Datagram:
    """The fragments of one datagram so far, by offset, and its size once the last one is known."""

    parts: dict[int, bytes] = field(default_factory=dict)
    size: int = -1


class FragmentStore:
    """Puts fragmented datagrams together (RFC 791 section 3.2, RFC 8200 section 4.5).

    Where fragments overlap, the bytes at the lower offset win. At most 1024 datagrams wait at a time; the one
    that was begun longest ago is given up for a new one.

    :ivar waiting: fragments that belong to datagrams not yet complete
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._datagrams: OrderedDict[bytes, _Datagram] = OrderedDict()
        self._given_up = 0

    def add(self, key: bytes, offset: int, more: bool, payload: bytes) -> bytes | None:
        """Take in a fragment; returns the payload of the datagram if this completes it.

        A fragment that repeats an offset, or does not fit a datagram, counts as given up.
        """
        datagram = self._datagrams.get(key)
        if datagram is None:
            datagram = self._datagrams[key] = _Datagram()
            if len(self._datagrams) > _MAX_DATAGRAMS:
                _, oldest = self._datagrams.popitem(last=False)
                self.waiting -= len(oldest.parts)
                self._given_up += len(oldest.parts)
        if offset in datagram.parts or offset + len(payload) > _MAX_DATAGRAM or not payload:
            self._given_up += 1
            return None
        datagram.parts[offset] = payload
        self.waiting += 1
        if not more:
            datagram.size = offset + len(payload)
        if datagram.size < 0:
            return None
        whole = _join(datagram)
        if whole is not None:
            del self._datagrams[key]
            self.waiting -= len(datagram.parts)
        return whole

    def take_given_up(self) -> int:
        """Fragments given up since the last call."""
        number, self._given_up = self._given_up, 0
        return number


def _join(datagram: _Datagram) -> bytes | None:
    """The whole payload, or None while a part is missing."""
    whole = bytearray()
    for offset, part in sorted(datagram.parts.items()):
        if offset > len(whole):
            return None
        whole += part[len(whole) - offset :]
    return bytes(whole[: datagram.size]) if len(whole) >= datagram.size else None
