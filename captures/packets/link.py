"""Decoding from the first byte of a frame to the IP header, for many frames at once.

Handled here, vectorised: Ethernet with any VLAN tags, 802.2 SNAP, Linux cooked captures v1 and v2, BSD and
OpenBSD loopback, raw IP. Link type numbers: https://www.tcpdump.org/linktypes.html.
"""

from __future__ import annotations

import numpy as np

from captures.arrays import Bools, Bytes, Columns, Int64s
from captures.packets.walk import view

NULL = 0
ETHERNET = 1
LOOP = 108
LINUX_SLL = 113
LINUX_SLL2 = 276
RAW_TYPES = (12, 14, 101)
RAW_IPV4 = 228
RAW_IPV6 = 229

IPV4 = 0x0800
IPV6 = 0x86DD
MPLS = (0x8847, 0x8848)
PPPOE_SESSION = 0x8864
TRANSPARENT_ETHERNET = 0x6558

_VLAN_TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
_MAX_TAGS = 4
_SNAP = 0xAAAA03

# names of ethertypes other than IP, IEEE 802 numbers registry
ETHERTYPE_NAMES = {
    0x0806: "ARP",
    0x8035: "RARP",
    0x8100: "VLAN tags nested too deep",
    0x8808: "Ethernet flow control",
    0x8809: "slow protocols",
    0x8863: "PPPoE discovery",
    0x888E: "802.1X",
    0x88A8: "VLAN tags nested too deep",
    0x88CC: "LLDP",
    0x88E5: "MACsec",
    0x88F7: "PTP",
}
# address families in loopback headers: AF_INET, then AF_INET6 of Linux, NetBSD and OpenBSD, FreeBSD, macOS
_FAMILIES = {2: IPV4, 10: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}


class LinkFrames(Columns):
    """A set of frames positioned at some header, one row each.

    :ivar row: int64, row of the packet record
    :ivar at: int64, index of the header in the buffer
    :ivar end: int64, index of the first byte that was not captured
    :ivar wire_end: int64, value of `end` if the frame had been captured whole
    """

    row: Int64s
    at: Int64s
    end: Int64s
    wire_end: Int64s

    def advanced(self, size: int | Int64s) -> LinkFrames:
        """Return the same frames, `size` bytes further."""
        return LinkFrames(self.row, self.at + size, self.end, self.wire_end)

    def holds(self, size: int | Int64s) -> Bools:
        """Return a mask of the frames with at least `size` captured bytes from the header on."""
        return self.at + size <= self.end


def be16(data: Bytes, at: Int64s) -> Int64s:
    """Return the big-endian 16-bit integers at `at`."""
    return view(data, ">u2")[at].astype(np.int64)


def be32(data: Bytes, at: Int64s) -> Int64s:
    """Return the big-endian 32-bit integers at `at`."""
    return view(data, ">u4")[at].astype(np.int64)


def known_link_type(link_type: int) -> bool:
    """Return whether :func:`network_header` can read frames of this link type."""
    fixed = (NULL, ETHERNET, LOOP, LINUX_SLL, LINUX_SLL2, RAW_IPV4, RAW_IPV6)
    return link_type in fixed or link_type in RAW_TYPES


def network_header(data: Bytes, frames: LinkFrames, link_type: int) -> tuple[LinkFrames, Int64s]:
    """Advance past the link layer.

    :returns: the frames at their network header, and its ethertype; -1 if the link header is cut by the
        snapshot length, -2 if the frame is IEEE 802.2 without an ethertype, -3 for an unknown family
    """
    if link_type == ETHERNET:
        return _tagged(data, frames, 12)
    if link_type == LINUX_SLL:
        return _tagged(data, frames, 14)
    if link_type == LINUX_SLL2:
        whole = frames.holds(20)
        return frames.advanced(20), np.where(whole, be16(data, frames.at), -1)
    if link_type in (NULL, LOOP):
        return _loopback(data, frames)
    whole = frames.holds(1)
    version = data[np.where(whole, frames.at, 0)] >> 4
    ethertype = np.select([~whole, version == 4, version == 6], [-1, IPV4, IPV6], -3)
    return frames, ethertype


def _tagged(data: Bytes, frames: LinkFrames, type_field: int) -> tuple[LinkFrames, Int64s]:
    """Advance past a header that ends with an ethertype at `type_field`, and past any VLAN tags."""
    whole = frames.holds(type_field + 2)
    ethertype = np.where(whole, be16(data, frames.at + type_field), -1)
    frames = frames.advanced(type_field + 2)
    for _ in range(_MAX_TAGS):
        tagged = np.isin(ethertype, _VLAN_TAGS)
        if not tagged.any():
            break
        whole = frames.holds(4)
        inner = np.where(whole, be16(data, np.minimum(frames.at + 2, frames.end)), -1)
        ethertype = np.where(tagged, inner, ethertype)
        frames = frames.advanced(np.where(tagged, 4, 0))
    lengths = (ethertype >= 0) & (ethertype <= 1500)  # IEEE 802.3: a length, then 802.2
    if lengths.any():
        at = np.minimum(frames.at, frames.end)
        snap = lengths & frames.holds(3) & (be32(data, at) >> 8 == _SNAP)
        ethertype = np.where(lengths, np.where(frames.holds(3), -2, -1), ethertype)
        ethertype = np.where(snap, np.where(frames.holds(8), be16(data, at + 6), -1), ethertype)
        frames = frames.advanced(np.where(snap, 8, 0))
    return frames, ethertype


def _loopback(data: Bytes, frames: LinkFrames) -> tuple[LinkFrames, Int64s]:
    """Advance past a 32-bit address family: in network byte order (LOOP), or in that of the capturing host (NULL)."""
    whole = frames.holds(4)
    family = be32(data, frames.at)
    family = np.where(family > 0xFFFF, family.astype(np.uint32).byteswap().astype(np.int64), family)
    ethertype = np.full(len(frames), -3, np.int64)
    for number, meaning in _FAMILIES.items():
        ethertype[family == number] = meaning
    return frames.advanced(4), np.where(whole, ethertype, -1)
