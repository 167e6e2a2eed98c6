"""Packets of synthetic TCP connections: Ethernet, IPv4 or IPv6, TCP, with correct lengths and checksums.

Used for traffic that was decrypted or that kproxy did not see as packets: by exports, and by the recorder of the live
proxy, which makes hundreds of thousands of packets a second. Therefore the constant part of a direction's headers is
laid out and summed for the checksum once.

Initial sequence numbers depend only on the connection's seed, so that a later writer can continue a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import NamedTuple

import numpy as np

from captures.arrays import Bools, Bytes, Int64s
from captures.export.checksum import words_sum

MAX_SEGMENT = 65_000  # with 60 bytes of headers still a valid IPv4 datagram; a multiple of 8, see words_sum

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16  # RFC 9293 section 3.1

_CLIENT_MAC, _BROKER_MAC = b"\x02kpxy\x01", b"\x02kpxy\x02"  # locally administered (IEEE 802, bit 1)
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_IPV4_HEADER = Struct(">BBHHHBBH4s4s")
_IPV6_HEADER = Struct(">IHBB16s16s")
# varying fields (total length, identification, checksum) between constant ones; RFC 791 section 3.1
_IPV4_PACKET = Struct(">16sHH4sH12sIIHHHH")
_IPV6_PACKET = Struct(">18sH38sIIHHHH")
_VARYING = (
    ("sequence", ">u4"),
    ("acknowledged", ">u4"),
    ("flags", ">u2"),
    ("window", ">u2"),
    ("checksum", ">u2"),
    ("", "V2"),
)
_IPV4_ROW = np.dtype(
    [
        ("", "V16"),
        ("total", ">u2"),
        ("number", ">u2"),
        ("", "V4"),
        ("ip_checksum", ">u2"),
        ("", "V12"),
        *_VARYING,
    ]
)
_IPV6_ROW = np.dtype([("", "V18"), ("total", ">u2"), ("", "V38"), *_VARYING])
_TCP_SIZE = 20
_TCP = 6
_HOPS = 64
_WINDOW = 65_535
# maximum segment size, then no-operation and window scale 14 (RFC 9293 section 3.7.1, RFC 7323 section 2.2)
_SYN_OPTIONS = b"\x02\x04" + MAX_SEGMENT.to_bytes(2) + b"\x01\x03\x03\x0e"
_DONT_FRAGMENT = 0x4000
_MAPPED = bytes(10) + b"\xff\xff"
_MASK = 0xFFFFFFFF
_SPREAD = 0x9E3779B1  # odd: every connection gets a different initial sequence number


class _Direction(NamedTuple):
    """The constant parts of all packets of one direction.

    :ivar before: from the first byte of the frame to the fields that vary
    :ivar between: IPv4: from after the identification to the checksum
    :ivar after: from after the IPv4 checksum, or the IPv6 length, to the ports
    :ivar ip_sum: sum of the 16-bit words of the IPv4 header, without those that vary
    :ivar tcp_sum: sum of the words of the pseudo header and ports, without those that vary
    :ivar pseudo_sum: sum of the words of the pseudo header alone, without those that vary
    """

    before: bytes
    between: bytes
    after: bytes
    ip_sum: int
    tcp_sum: int
    pseudo_sum: int


class Conversation:
    """One synthetic TCP connection: the packets of both ends.

    :param client: address and port, ``10.0.0.1:9092`` or ``[::1]:9092``
    :param broker: address and port
    :param seed: a different one for each connection between the same endpoints
    """

    def __init__(self, client: str, broker: str, seed: int = 0) -> None:
        one, other = _of_one_family(_endpoint(client), _endpoint(broker))
        self._directions = (
            _direction(one, other, _BROKER_MAC + _CLIENT_MAC),
            _direction(other, one, _CLIENT_MAC + _BROKER_MAC),
        )
        self._v6 = len(one[0]) == 16
        self._begin = (seed * _SPREAD + 1_000 & _MASK, seed * _SPREAD + 5_000_000 & _MASK)
        self._next = [start + 1 & _MASK for start in self._begin]
        self._windows = [_WINDOW, _WINDOW]
        self._datagrams = 0

    def handshake(self) -> tuple[bytes, bytes, bytes]:
        """Return SYN, SYN-ACK and the ACK."""
        syn = self._syn(0, SYN, 0)
        syn_ack = self._syn(1, SYN | ACK, self._begin[0] + 1 & _MASK)
        return syn, syn_ack, self._header(0, self._begin[0] + 1, ACK, 0, 0, self._begin[1] + 1 & _MASK)

    def segment(
        self, side: int, position: int, payload: bytes, *, push: bool = False, missing: int = 0
    ) -> bytes:
        """Return a packet with the bytes of one side's stream from ``position`` on.

        :param side: 0 client, 1 broker
        :param missing: further bytes of the packet that are unknown; the returned frame ends before them
        """
        size = len(payload) + missing
        # missing bytes count as zeros: they add nothing to the sum
        return self.segment_header(side, position, size, words_sum(payload), push=push) + payload

    def segment_header(
        self, side: int, position: int, size: int, payload_sum: int | None, *, push: bool = False
    ) -> bytes:
        """Return a packet up to its payload, which the caller appends.

        :param size: bytes of the payload
        :param payload_sum: :func:`~captures.export.checksum.words_sum` of it; None leaves the checksum partial, as in
            captures on hosts whose network card completes it (``CHECKSUM_PARTIAL`` of Linux); Wireshark does not
            complain about such a checksum unless it is set to validate
        """
        sequence = self._begin[side] + 1 + position
        self._next[side] = sequence + size & _MASK
        return self._header(
            side, sequence, ACK | PSH if push else ACK, size, payload_sum, self._next[1 - side]
        )

    def acknowledgment(self, side: int, position: int) -> bytes:
        """Return a packet without payload, after the bytes of one side's stream before ``position``.

        Its window differs by a byte from the one before: otherwise it would be a duplicate acknowledgment, a sign of
        loss (RFC 5681 section 2).
        """
        self._windows[side] ^= 1
        return self.segment_header(side, position, 0, 0)

    def finish(self, side: int) -> tuple[bytes, bytes]:
        """Return the FIN of one side, and the other's acknowledgment."""
        other = 1 - side
        fin = self._header(side, self._next[side], FIN | ACK, 0, 0, self._next[other])
        self._next[side] = self._next[side] + 1 & _MASK
        return fin, self._header(other, self._next[other], ACK, 0, 0, self._next[side])

    def reset(self, side: int) -> bytes:
        """Return the RST of one side."""
        return self._header(side, self._next[side], RST | ACK, 0, 0, self._next[1 - side])

    def _template(self, side: int) -> bytes:
        """Return the headers of a segment with zeros in the varying fields."""
        before, between, after, *_ = self._directions[side]
        if self._v6:
            return _IPV6_PACKET.pack(before, 0, after, 0, 0, 0, 0, 0, 0)
        return _IPV4_PACKET.pack(before, 0, 0, between, 0, after, 0, 0, 0, 0, 0, 0)

    def _syn(self, side: int, flags: int, acknowledged: int) -> bytes:
        size, options_sum = len(_SYN_OPTIONS), words_sum(_SYN_OPTIONS)
        return self._header(side, self._begin[side], flags, size, options_sum, acknowledged, 7) + _SYN_OPTIONS

    def _header(
        self,
        side: int,
        sequence: int,
        flags: int,
        size: int,
        payload_sum: int | None,
        acknowledged: int,
        words: int = 5,
    ) -> bytes:
        before, between, after, ip_sum, tcp_sum, pseudo_sum = self._directions[side]
        window = self._windows[side]
        sequence &= _MASK
        flags |= words << 12
        # a 32-bit number counts in the sum as its halves do: 2 ** 16 is 1 modulo 0xFFFF (RFC 1071)
        if payload_sum is None:
            checksum = (pseudo_sum + _TCP_SIZE + size) % 0xFFFF
        else:
            tcp_sum += _TCP_SIZE + size + sequence + acknowledged + flags + window + payload_sum
            checksum = -tcp_sum % 0xFFFF
        if self._v6:
            return _IPV6_PACKET.pack(
                before, _TCP_SIZE + size, after, sequence, acknowledged, flags, window, checksum, 0
            )
        self._datagrams = number = self._datagrams + 1 & 0xFFFF
        total = 40 + size
        return _IPV4_PACKET.pack(
            before,
            total,
            number,
            between,
            -(ip_sum + total + number) % 0xFFFF,
            after,
            sequence,
            acknowledged,
            flags,
            window,
            checksum,
            0,
        )


class SegmentColumns(NamedTuple):
    """Segments with payload, in the order in which they were sent.

    :ivar of: index of the segment's conversation
    :ivar side: 0 client, 1 broker
    :ivar position: position of the first byte in the stream of its side
    :ivar size: bytes of the payload, at most :data:`MAX_SEGMENT`
    :ivar payload_sum: a number congruent to the sum of its words, modulo 0xFFFF
    """

    of: Int64s
    side: Int64s
    position: Int64s
    size: Int64s
    payload_sum: Int64s


def segment_headers(
    conversations: Sequence[Conversation], segments: SegmentColumns
) -> list[tuple[Bools, Bytes]]:
    """Return what :meth:`Conversation.segment_header` returns for many segments, each with a push, in one pass.

    :returns: for IPv4 and for IPv6: a mask of the segments, and their headers, one row each
    """
    of, side, position, size, payload_sum = segments
    sequence = np.array([each._begin for each in conversations])[of, side] + 1 + position & _MASK
    acknowledged, number = _continued(conversations, of, side, sequence + size & _MASK)
    flags = 5 << 12 | ACK | PSH
    window = np.array([each._windows for each in conversations])[of, side]
    direction = 2 * of + side
    sums = np.array([(each.ip_sum, each.tcp_sum) for one in conversations for each in one._directions])
    total = _TCP_SIZE + size
    checksum = -(sums[direction, 1] + total + sequence + acknowledged + flags + window + payload_sum) % 0xFFFF
    v6 = np.array([each._v6 for each in conversations])[of]
    found = []
    for row, chosen in ((_IPV4_ROW, ~v6), (_IPV6_ROW, v6)):
        if not chosen.any():
            continue
        unused = bytes(row.itemsize)
        templates = b"".join(
            one._template(each) if one._v6 == (row is _IPV6_ROW) else unused
            for one in conversations
            for each in (0, 1)
        )
        rows = np.frombuffer(templates, row)[direction[chosen]]
        rows["sequence"], rows["acknowledged"] = sequence[chosen], acknowledged[chosen]
        rows["flags"], rows["window"], rows["checksum"] = flags, window[chosen], checksum[chosen]
        rows["total"] = total[chosen]
        if row is _IPV4_ROW:
            length, ident = total[chosen] + 20, number[chosen] & 0xFFFF
            rows["total"], rows["number"] = length, ident
            rows["ip_checksum"] = -(sums[direction[chosen], 0] + length + ident) % 0xFFFF
        found.append((chosen, rows.view(np.uint8).reshape(-1, row.itemsize)))
    return found


def _continued(
    conversations: Sequence[Conversation], of: Int64s, side: Int64s, end: Int64s
) -> tuple[Int64s, Int64s]:
    """Continue conversations with segments; return their acknowledgment numbers and datagram numbers.

    Each segment acknowledges the latest earlier one of the other side of its conversation.

    :param end: sequence number after each segment
    """
    order = np.argsort(of, kind="stable")
    index = np.arange(len(of))
    of_sorted, side_sorted, end_sorted = of[order], side[order], end[order]
    first = np.searchsorted(of_sorted, np.arange(len(conversations)))
    last = np.append(first[1:], len(of)) - 1
    latest = [np.maximum.accumulate(np.where(side_sorted == each, index, -1)) for each in (0, 1)]
    other = np.where(side_sorted == 0, latest[1], latest[0])
    nexts = np.array([each._next for each in conversations])
    acknowledged, number = np.empty_like(end), np.empty_like(of)
    acknowledged[order] = np.where(
        other >= first[of_sorted], end_sorted[other], nexts[of_sorted, 1 - side_sorted]
    )
    number[order] = index - first[of_sorted] + 1
    number += np.array([each._datagrams for each in conversations])[of]
    ends = (found[last].tolist() for found in latest)
    for each, begin, stop, *of_sides in zip(conversations, first.tolist(), last.tolist(), *ends, strict=True):
        for one, found in enumerate(of_sides):
            if found >= begin:
                each._next[one] = int(end_sorted[found])
        if not each._v6:
            each._datagrams = each._datagrams + stop - begin + 1 & 0xFFFF
    return acknowledged, number


def _direction(source: tuple[bytes, int], target: tuple[bytes, int], macs: bytes) -> _Direction:
    ports = source[1].to_bytes(2) + target[1].to_bytes(2)
    pseudo_sum = words_sum(source[0] + target[0]) + _TCP
    tcp_sum = pseudo_sum + words_sum(ports)
    if len(source[0]) == 16:
        ip = macs + _IPV6 + _IPV6_HEADER.pack(6 << 28, 0, _TCP, _HOPS, source[0], target[0])
        return _Direction(ip[:18], b"", ip[20:] + ports, 0, tcp_sum, pseudo_sum)
    header = _IPV4_HEADER.pack(0x45, 0, 0, 0, _DONT_FRAGMENT, _HOPS, _TCP, 0, source[0], target[0])
    ip = macs + _IPV4 + header
    return _Direction(ip[:16], ip[20:24], ip[26:] + ports, words_sum(header), tcp_sum, pseudo_sum)


def _of_one_family(*ends: tuple[bytes, int]) -> list[tuple[bytes, int]]:
    """Return endpoints of the same address family: an IPv4 address is mapped into IPv6 if the other one is IPv6.

    A proxy may be reached over one family, and reach its broker over the other (mapped addresses: RFC 4291 section
    2.5.5.2).
    """
    size = max(len(address) for address, _ in ends)
    return [(address if len(address) == size else _MAPPED + address, port) for address, port in ends]


def _endpoint(text: str) -> tuple[bytes, int]:
    """Return the address and port of ``10.0.0.1:9092`` or ``[::1]:9092``."""
    host, _, port = text.rpartition(":")
    address = ip_address(host.strip("[]").partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).packed, int(port)
