"""Decoding from IP headers to TCP packets, for many frames at once, through tunnels.

Handled here, vectorised: IPv4 with options, IPv6 with extension headers, IP in IP, GRE, ERSPAN II, VXLAN,
Geneve, MPLS, PPPoE. Fragments and other link types go through :mod:`captures.packets.rare`.
Checksums are ignored: with checksum offload they are wrong in captures made on the sending host.
"""

from __future__ import annotations

import numpy as np

from captures.arrays import Bools, Bytes, Columns, Int64s, UInt16s, UInt32s, distinct_values
from captures.packets.addresses import AddressBook
from captures.packets.link import (
    ETHERNET,
    ETHERTYPE_NAMES,
    IPV4,
    IPV6,
    MPLS,
    PPPOE_SESSION,
    TRANSPARENT_ETHERNET,
    LinkFrames,
    be16,
    known_link_type,
    network_header,
)
from captures.packets.rare import FragmentStore, find_ip
from captures.packets.records import Interface, RecordColumns
from captures.packets.source import KEPT, Source
from captures.packets.table import PADDING, Statistics
from captures.packets.walk import view

_IPV4_HEADER = np.dtype(
    {
        "names": ["version", "total", "fragment", "protocol", "src", "dst"],
        "formats": ["u1", ">u2", ">u2", "u1", ">u4", ">u4"],
        "offsets": [0, 2, 6, 9, 12, 16],
        "itemsize": 20,
    }
)
_IPV6_HEADER = np.dtype(
    {
        "names": ["payload", "next", "src_high", "src_low", "dst_high", "dst_low"],
        "formats": [">u2", "u1", ">i8", ">i8", ">i8", ">i8"],
        "offsets": [4, 6, 8, 16, 24, 32],
        "itemsize": 40,
    }
)
_TCP_HEADER = np.dtype(
    {
        "names": ["src", "dst", "seq", "ack", "size", "flags", "window"],
        "formats": [">u2", ">u2", ">u4", ">u4", "u1", "u1", ">u2"],
        "offsets": [0, 2, 4, 8, 12, 13, 14],
        "itemsize": 16,
    }
)

# IANA protocol numbers
_IPIP, _TCP, _UDP, _IPV6_IN_IP, _GRE = 4, 6, 17, 41, 47
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION = 0, 43, 44, 51, 60
_EXTENSIONS = (_HOP_BY_HOP, _ROUTING, _FRAGMENT, _AUTHENTICATION, _DESTINATION)
_PROTOCOL_NAMES = {1: "ICMP", 2: "IGMP", _UDP: "UDP", 50: "ESP", 58: "ICMPv6", 59: "IPv6 without payload"}
_PROTOCOL_NAMES |= {89: "OSPF", 103: "PIM", 112: "VRRP", 132: "SCTP"}
_MAX_EXTENSIONS = 8

_VXLAN_PORTS = (4789, 8472)  # RFC 7348; Linux before it was assigned
_GENEVE_PORT = 6081  # RFC 8926
_ERSPAN_II = 0x88BE
_PPP_TYPES = {0x0021: IPV4, 0x0057: IPV6}  # RFC 1332, RFC 5072
_MAX_TUNNELS = 4

_NOT_DECLARED = -1
_CUT = "headers cut by the snapshot length"


class TcpColumns(Columns):
    """TCP packets of one buffer; columns as in :class:`captures.packets.table.PacketBlock`, endpoints and sizes int64.

    :ivar offset: start of the payload: index in the buffer, or an offset from ``KEPT`` up
    """

    row: Int64s
    src: Int64s
    dst: Int64s
    seq: UInt32s
    ack: UInt32s
    flags: Bytes
    window: UInt16s
    offset: Int64s
    length: Int64s
    captured: Int64s


class _Addresses(Columns):
    """The IP addresses of frames: of IPv4 whole, of IPv6 their upper halves."""

    src: Int64s
    dst: Int64s


class _Ipv6Addresses(_Addresses):
    """Also the lower halves."""

    src_low: Int64s
    dst_low: Int64s


class NetworkDecoder:
    """Converts packet records into TCP columns and counts other packets."""

    def __init__(
        self,
        source: Source,
        addresses: AddressBook,
        statistics: Statistics,
        fragments: FragmentStore | None = None,
    ) -> None:
        self._source = source
        self._addresses = addresses
        self._statistics = statistics
        self._fragments = FragmentStore() if fragments is None else fragments
        self._found: list[TcpColumns] = []
        self._data: Bytes = np.zeros(PADDING, np.uint8)

    def decode(self, data: Bytes, records: RecordColumns, interfaces: list[Interface]) -> TcpColumns:
        """Return the TCP packets among `records`, in their order."""
        self._data, self._found = data, []
        whole = LinkFrames(
            np.arange(len(records)),
            records.frame,
            records.frame + records.captured,
            records.frame + records.wire,
        )
        present = np.flatnonzero(np.bincount(records.interface + 1))
        link_types = np.full(int(present[-1]) + 1 if len(present) else 1, _NOT_DECLARED)
        for number in present[present > 0].tolist():
            link_types[number] = interfaces[number - 1].link_type
        link_type = link_types[records.interface + 1]
        for kind in distinct_values(link_type).tolist():
            frames = whole.take(link_type == kind)
            if kind == _NOT_DECLARED:
                self._count("interface not declared", len(frames))
            else:
                self._link(frames, kind, 0)
        return self._collect()

    def _collect(self) -> TcpColumns:
        found = TcpColumns.concatenated(self._found)
        return found if len(self._found) < 2 else found.take(np.argsort(found.row, kind="stable"))

    def _count(self, reason: str, number: int) -> None:
        if number:
            self._statistics.not_tcp[reason] += number

    def _select(self, frames: LinkFrames, mask: Bools, reason: str) -> LinkFrames:
        kept = frames.take(mask)
        self._count(reason, len(frames) - len(kept))
        return kept

    # -- link layer

    def _link(self, frames: LinkFrames, link_type: int, depth: int) -> None:
        if not len(frames):
            return
        if known_link_type(link_type):
            frames, ethertype = network_header(self._data, frames, link_type)
            self._network(frames, ethertype, depth)
            return
        ethertypes = np.empty(len(frames), np.int64)
        at = frames.at.copy()
        view_ = self._data.data
        for index, (begin, end) in enumerate(zip(frames.at.tolist(), frames.end.tolist(), strict=True)):
            offset, ethertypes[index] = find_ip(bytes(view_[begin:end]), link_type)
            at[index] += offset
        known = ethertypes >= 0
        moved = LinkFrames(frames.row, at, frames.end, frames.wire_end)
        moved = self._select(moved, known, f"link type {link_type} without recognisable IP")
        self._network(moved, ethertypes[known], depth)

    def _network(self, frames: LinkFrames, ethertype: Int64s, depth: int) -> None:
        if not len(frames):
            return
        for kind in distinct_values(ethertype).tolist():
            some = frames.take(ethertype == kind)
            if kind == IPV4:
                self._ipv4(some, depth)
            elif kind == IPV6:
                self._ipv6(some, depth)
            elif kind in MPLS:
                self._mpls(some, depth)
            elif kind == PPPOE_SESSION:
                self._pppoe(some, depth)
            elif kind == TRANSPARENT_ETHERNET:
                self._enter(some, ETHERNET, depth, "Ethernet over GRE or Geneve")
            else:
                names = {-1: _CUT, -2: "IEEE 802.2", -3: "not IP"} | ETHERTYPE_NAMES
                self._count(names.get(kind, f"ethertype {kind:#06x}"), len(some))

    # -- IP

    def _ipv4(self, frames: LinkFrames, depth: int) -> None:
        frames = self._select(frames, frames.holds(20), _CUT)
        header = view(self._data, _IPV4_HEADER)[frames.at]
        size = (header["version"] & 15).astype(np.int64) * 4
        total = header["total"].astype(np.int64)
        # segmentation offload leaves a length of 0: the packet is longer than the field can encode
        ip_end = np.where(total == 0, frames.wire_end, frames.at + total)
        good = (header["version"] >> 4 == 4) & (size >= 20) & (ip_end - frames.at >= size)
        if not good.all():
            frames = self._select(frames, good, "malformed IP")
            header, size, ip_end = header[good], size[good], ip_end[good]
        fragmented = header["fragment"] & 0x3FFF != 0
        if fragmented.any():
            self._ipv4_fragments(
                frames.take(fragmented), header[fragmented], size[fragmented], ip_end[fragmented]
            )
            frames, header, size = frames.take(~fragmented), header[~fragmented], size[~fragmented]
            ip_end = ip_end[~fragmented]
        network = _Addresses(header["src"].astype(np.int64), header["dst"].astype(np.int64))
        inner = LinkFrames(frames.row, frames.at + size, np.minimum(frames.end, ip_end), ip_end)
        self._transport(inner, header["protocol"].astype(np.int64), network, depth)

    def _ipv4_fragments(self, frames: LinkFrames, header: np.ndarray, size: Int64s, ip_end: Int64s) -> None:
        for index in range(len(frames)):
            at = int(frames.at[index])
            protocol = int(header["protocol"][index])
            if protocol != _TCP:
                name = _PROTOCOL_NAMES.get(protocol, f"IP protocol {protocol}")
                self._count(f"IP fragment of {name}", 1)
                continue
            head = self._data[at : at + 20].tobytes()
            position = int(header["fragment"][index])
            self._fragment(
                row=int(frames.row[index]),
                key=head[4:6] + head[12:20],
                offset=(position & 0x1FFF) * 8,
                more=bool(position & 0x2000),
                begin=at + int(size[index]),
                end=int(ip_end[index]),
                captured_end=int(frames.end[index]),
            )

    def _ipv6(self, frames: LinkFrames, depth: int) -> None:
        frames = self._select(frames, frames.holds(40), _CUT)
        header = view(self._data, _IPV6_HEADER)[frames.at]
        payload = header["payload"].astype(np.int64)
        # 0: a jumbogram (RFC 2675), or segmentation offload
        ip_end = np.where(payload == 0, frames.wire_end, frames.at + 40 + payload)
        good = (self._data[frames.at] >> 4 == 6) & (ip_end >= frames.at + 40)
        frames = self._select(frames, good, "malformed IP")
        header, ip_end = header[good], ip_end[good]
        halves = ("src_high", "dst_high", "src_low", "dst_low")
        network = _Ipv6Addresses(*[header[name].astype(np.int64) for name in halves])
        inner = LinkFrames(frames.row, frames.at + 40, np.minimum(frames.end, ip_end), ip_end)
        self._extensions(inner, header["next"].astype(np.int64), network, depth)

    def _extensions(self, frames: LinkFrames, protocol: Int64s, network: _Ipv6Addresses, depth: int) -> None:
        """Advance past IPv6 extension headers (RFC 8200 section 4)."""
        for _ in range(_MAX_EXTENSIONS):
            extended = np.isin(protocol, _EXTENSIONS)
            if not extended.any():
                break
            good = ~extended | frames.holds(8)
            if not good.all():
                frames = self._select(frames, good, _CUT)
                network, protocol, extended = network.take(good), protocol[good], extended[good]
            at = np.minimum(frames.at, frames.end)
            fragment = extended & (protocol == _FRAGMENT) & (be16(self._data, at + 2) & 0xFFF9 != 0)
            if fragment.any():
                self._ipv6_fragments(frames.take(fragment), network.take(fragment))
                frames, network, at = frames.take(~fragment), network.take(~fragment), at[~fragment]
                protocol, extended = protocol[~fragment], extended[~fragment]
            units = self._data[at + 1].astype(np.int64)
            size = np.where(protocol == _AUTHENTICATION, (units + 2) * 4, (units + 1) * 8)
            size[protocol == _FRAGMENT] = 8
            frames = frames.advanced(np.where(extended, size, 0))
            protocol = np.where(extended, self._data[at], protocol)
        self._transport(frames, protocol, network, depth)

    def _ipv6_fragments(self, frames: LinkFrames, network: _Ipv6Addresses) -> None:
        for index in range(len(frames)):
            at = int(frames.at[index])
            head = self._data[at : at + 8].tobytes()
            if head[0] != _TCP:
                name = _PROTOCOL_NAMES.get(head[0], f"IP protocol {head[0]}")
                self._count(f"IP fragment of {name}", 1)
                continue
            position = int.from_bytes(head[2:4], "big")
            numbers = (network.src, network.src_low, network.dst, network.dst_low)
            addresses = b"".join(int(column[index]).to_bytes(8, "big", signed=True) for column in numbers)
            self._fragment(
                row=int(frames.row[index]),
                key=head[4:8] + addresses,
                offset=position & 0xFFF8,
                more=bool(position & 1),
                begin=at + 8,
                end=int(frames.wire_end[index]),
                captured_end=int(frames.end[index]),
            )

    def _fragment(
        self, row: int, key: bytes, offset: int, more: bool, begin: int, end: int, captured_end: int
    ) -> None:
        """Add one fragment of a datagram that carries TCP; if it completes the datagram, decode it."""
        if captured_end < end:
            self._count("IP fragment cut by the snapshot length", 1)
            return
        payload = self._data[begin:end].tobytes()
        waiting = self._fragments.waiting
        datagram = self._fragments.add(key, offset, more, payload)
        self._count("IP fragment given up", self._fragments.take_given_up())
        if datagram is None:
            self._statistics.fragments_waiting = self._fragments.waiting
            return
        self._count("IP fragment reassembled with others", waiting - self._fragments.waiting)
        self._statistics.fragments_waiting = self._fragments.waiting
        self._whole_datagram(row, key, datagram)

    def _whole_datagram(self, row: int, key: bytes, datagram: bytes) -> None:
        """Decode a reassembled IP payload, which is stored beside the capture, not in it."""
        position = self._source.keep(datagram)
        addresses = key[2:] if len(key) == 10 else key[4:]
        half = len(addresses) // 2
        outer, found = self._data, len(self._found)
        self._data = np.frombuffer(datagram + bytes(PADDING), np.uint8)
        one = np.array([row], np.int64)
        size = np.array([len(datagram)], np.int64)
        parts = [addresses[:half], addresses[half:]]
        if half == 4:
            values = [np.array([int.from_bytes(part, "big")], np.int64) for part in parts]
            network = _Addresses(*values)
        else:
            halves = np.frombuffer(addresses, ">i8").astype(np.int64)
            network = _Ipv6Addresses(halves[0:1], halves[2:3], halves[1:2], halves[3:4])
        self._tcp(LinkFrames(one, np.zeros(1, np.int64), size, size), network)
        self._data = outer
        for part in self._found[found:]:
            part.offset += position

    # -- transport and tunnels

    def _transport(self, frames: LinkFrames, protocol: Int64s, network: _Addresses, depth: int) -> None:
        if not len(frames):
            return
        for number in distinct_values(protocol).tolist():
            mask = protocol == number
            some = frames.take(mask)
            if number == _TCP:
                self._tcp(some, network.take(mask))
            elif number == _IPIP:
                self._enter(some, IPV4, depth, "IP in IP")
            elif number == _IPV6_IN_IP:
                self._enter(some, IPV6, depth, "IPv6 in IP")
            elif number == _GRE:
                self._gre(some, depth)
            elif number == _UDP:
                self._udp(some, depth)
            else:
                self._count(_PROTOCOL_NAMES.get(number, f"IP protocol {number}"), len(some))

    def _tcp(self, frames: LinkFrames, network: _Addresses) -> None:
        whole = frames.holds(16)
        if not whole.all():
            frames, network = self._select(frames, whole, _CUT), network.take(whole)
        header = view(self._data, _TCP_HEADER)[frames.at]
        size = (header["size"] >> 4).astype(np.int64) * 4
        offset = frames.at + size
        length = frames.wire_end - offset
        good = (size >= 20) & (length >= 0)
        if not good.all():
            frames, network = self._select(frames, good, "malformed TCP"), network.take(good)
            header, offset, length = header[good], offset[good], length[good]
        if not len(frames):
            return
        src_port, dst_port = header["src"].astype(np.int64), header["dst"].astype(np.int64)
        if isinstance(network, _Ipv6Addresses):
            src = self._addresses.intern_ipv6(network.src, network.src_low, src_port)
            dst = self._addresses.intern_ipv6(network.dst, network.dst_low, dst_port)
        else:
            src = self._addresses.intern_ipv4(network.src, src_port)
            dst = self._addresses.intern_ipv4(network.dst, dst_port)
        captured = np.clip(frames.end - offset, 0, length)
        self._statistics.tcp += len(frames)
        self._statistics.cut += int(np.count_nonzero(captured < length))
        self._found.append(
            TcpColumns(
                row=frames.row,
                src=src,
                dst=dst,
                seq=header["seq"].astype(np.uint32),
                ack=header["ack"].astype(np.uint32),
                flags=header["flags"].astype(np.uint8),
                window=header["window"].astype(np.uint16),
                offset=offset,
                length=length,
                captured=captured,
            )
        )

    def _enter(self, frames: LinkFrames, inside: int, depth: int, name: str) -> None:
        if depth >= _MAX_TUNNELS:
            self._count("tunnels nested too deep", len(frames))
            return
        before = self._statistics.tcp
        if inside == ETHERNET:
            self._link(frames, ETHERNET, depth + 1)
        else:
            self._network(frames, np.full(len(frames), inside, np.int64), depth + 1)
        if self._statistics.tcp > before:
            self._statistics.tunnels[name] += self._statistics.tcp - before

    def _gre(self, frames: LinkFrames, depth: int) -> None:
        """Decode GRE (RFC 2784), with key and sequence number (RFC 2890)."""
        frames = self._select(frames, frames.holds(4), _CUT)
        bits = be16(self._data, frames.at)
        frames, bits = (
            self._select(frames, bits & 0x4007 == 0, "GRE version 1 or with routing"),
            bits[bits & 0x4007 == 0],
        )
        kind = be16(self._data, frames.at + 2)
        size = 4 + 4 * ((bits >> 15 & 1) + (bits >> 13 & 1) + (bits >> 12 & 1))
        for ethertype in distinct_values(kind).tolist():
            mask = kind == ethertype
            inner = frames.advanced(size).take(mask)
            if ethertype == _ERSPAN_II:
                self._enter(inner.advanced(8), ETHERNET, depth, "ERSPAN")
            else:
                self._enter(inner, ethertype, depth, "GRE")

    def _udp(self, frames: LinkFrames, depth: int) -> None:
        port = np.where(frames.holds(8), be16(self._data, frames.at + 2), 0)
        vxlan, geneve = np.isin(port, _VXLAN_PORTS), port == _GENEVE_PORT
        self._count("UDP", int(np.count_nonzero(~(vxlan | geneve))))
        if vxlan.any():
            some = frames.take(vxlan)
            some = self._select(some, some.holds(16), _CUT)
            valid = self._data[some.at + 8] & 0x08 != 0  # RFC 7348: this flag must be set
            some = self._select(some, valid, "UDP")
            self._enter(some.advanced(16), ETHERNET, depth, "VXLAN")
        if geneve.any():
            some = frames.take(geneve)
            some = self._select(some, some.holds(16), _CUT)
            some = self._select(some, self._data[some.at + 8] >> 6 == 0, "UDP")
            options = (self._data[some.at + 8] & 0x3F).astype(np.int64) * 4
            kind = be16(self._data, some.at + 10)
            for ethertype in distinct_values(kind).tolist():
                self._enter(some.advanced(16 + options).take(kind == ethertype), ethertype, depth, "Geneve")

    def _mpls(self, frames: LinkFrames, depth: int) -> None:
        """Pop the label stack (RFC 3032); the first nibble after it identifies the content."""
        for _ in range(16):
            frames = self._select(frames, frames.holds(5), _CUT)
            if not len(frames):
                return
            bottom = self._data[frames.at + 2] & 1 == 1
            frames = frames.advanced(4)
            inner = frames.take(bottom)
            nibble = self._data[inner.at] >> 4
            self._enter_some(inner, nibble == 4, IPV4, depth)
            self._enter_some(inner, nibble == 6, IPV6, depth)
            # a pseudowire with control word (RFC 4448)
            self._enter_some(inner.advanced(4), nibble == 0, ETHERNET, depth)
            self._count(
                "MPLS without IP", int(np.count_nonzero((nibble != 4) & (nibble != 6) & (nibble != 0)))
            )
            frames = frames.take(~bottom)
        self._count("MPLS label stack too deep", len(frames))

    def _enter_some(self, frames: LinkFrames, mask: Bools, inside: int, depth: int) -> None:
        if mask.any():
            self._enter(frames.take(mask), inside, depth, "MPLS")

    def _pppoe(self, frames: LinkFrames, depth: int) -> None:
        """Decode PPPoE (RFC 2516 section 4): six bytes, then a PPP protocol number."""
        frames = self._select(frames, frames.holds(8), _CUT)
        protocol = be16(self._data, frames.at + 6)
        for number, ethertype in _PPP_TYPES.items():
            if (protocol == number).any():
                self._enter(frames.advanced(8).take(protocol == number), ethertype, depth, "PPPoE")
        self._count("PPPoE without IP", int(np.count_nonzero(~np.isin(protocol, list(_PPP_TYPES)))))


def relocated(offset: Int64s, file_offset: int) -> Int64s:
    """Return payload offsets in the source, from indexes in a buffer that starts at `file_offset`."""
    return np.where(offset >= KEPT, offset, offset + file_offset)
