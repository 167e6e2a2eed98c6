"""Mutation of captures with intact framing: packets removed, repeated, moved or changed. Not a target itself."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from fuzz.mutate import havoc

_PCAP_HEADER, _RECORD_HEADER, _BLOCK = 24, 16, 12
_LITTLE = (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1", b"\x34\xcd\xb2\xa1")
_PCAP = (*_LITTLE, *(magic[::-1] for magic in _LITTLE))
_SECTION, _LITTLE_SECTION = b"\x0a\x0d\x0d\x0a", b"\x4d\x3c\x2b\x1a"
_ENHANCED = 6
_ENHANCED_HEADER = 28
_LONGEST_PACKET = 2048
_MOST_EDITS = 4


def pcap(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return a pcap file with mutated packets."""
    order = "<" if data[:4] in _LITTLE else ">"
    records = _records(data, order)
    header = data[:_PCAP_HEADER]
    if rng.random() < 0.05:
        header = havoc(header, rng, _PCAP_HEADER)

    def changed(record: bytes) -> bytes:
        head, frame = bytearray(record[:_RECORD_HEADER]), record[_RECORD_HEADER:]
        if rng.random() < 0.3:
            struct.pack_into(
                f"{order}I", head, 4 * rng.choice((0, 1, 3)), rng.getrandbits(rng.choice((4, 12, 32)))
            )
        else:
            frame = havoc(frame, rng, _LONGEST_PACKET, other=other)
        struct.pack_into(f"{order}I", head, 8, len(frame))
        if rng.random() < 0.8:
            struct.pack_into(f"{order}I", head, 12, len(frame))
        return bytes(head) + frame

    same_order = other[:4] in _LITTLE if order == "<" else other[:4] not in _LITTLE
    return header + b"".join(edited(records, _records(other, order) if same_order else [], rng, changed))


def pcapng(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return a pcapng file with mutated blocks."""
    order = "<" if data[8:12] == _LITTLE_SECTION else ">"

    def changed(block: bytes) -> bytes:
        kind, body = block[:4], block[8:-4]
        if (
            kind == struct.pack(f"{order}I", _ENHANCED)
            and len(body) >= _ENHANCED_HEADER
            and rng.random() < 0.6
        ):
            frame = havoc(body[20:], rng, _LONGEST_PACKET)
            body = body[:12] + struct.pack(f"{order}II", len(frame), len(frame)) + frame
        else:
            body = havoc(body, rng, _LONGEST_PACKET, other=other)
        body += bytes(-len(body) % 4)
        size = struct.pack(f"{order}I", len(body) + _BLOCK)
        return kind + size + body + size

    return b"".join(edited(_blocks(data, order), _blocks(other, order), rng, changed))


#: joins files; also returns those left out
Join = Callable[[Sequence[bytes]], tuple[bytes, list[bytes]]]


def join_pcap(inputs: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Join pcap files; return the result, and the files left out because of another kind or damage.

    Each file gets its own addresses, so that their connections stay separate.
    """
    sound = [data for data in inputs if data[:4] in _PCAP and _is_sound(data)]
    kinds = Counter(data[:_PCAP_HEADER] for data in sound)
    if not kinds:
        return b"", list(inputs)
    header = kinds.most_common(1)[0][0]
    joined, left = header, []
    for number, data in enumerate(inputs):
        if data[:_PCAP_HEADER] == header and data in sound:
            joined += _renamed(data[_PCAP_HEADER:], number)
        else:
            left.append(data)
    return joined, left


def join_pcapng(inputs: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """Join pcapng files as sections; return the result, and the files left out because of damage."""
    joined, left = b"", []
    for number, data in enumerate(inputs):
        order = "<" if data[8:12] == _LITTLE_SECTION else ">"
        if data[:4] == _SECTION and sum(map(len, _blocks(data, order))) == len(data):
            joined += _renamed(data, number)
        else:
            left.append(data)
    return joined, left


def _is_sound(data: bytes) -> bool:
    """Return whether a pcap file consists of complete records."""
    order = "<" if data[:4] in _LITTLE else ">"
    return sum(map(len, _records(data, order))) == len(data) - _PCAP_HEADER


def _renamed(data: bytes, number: int) -> bytes:
    return data.replace(b"\x0a\0\0\1", bytes((10, 0, 100 + number, 1)))


def edited(
    parts: list[bytes], others: list[bytes], rng: Random, changed: Callable[[bytes], bytes]
) -> list[bytes]:
    """Return parts with a few of them removed, repeated, moved, changed, or copied from another input."""
    parts = list(parts)
    for _ in range(1 + int(rng.random() ** 2 * _MOST_EDITS)):
        at = int(rng.random() * len(parts)) if parts else 0
        match int(rng.random() * 8):
            case 0:
                del parts[at : at + 1 + int(rng.random() ** 3 * len(parts))]
            case 1:
                parts[at:at] = parts[at : at + 1 + int(rng.random() ** 3 * 8)]
            case 2 if parts:
                parts.insert(int(rng.random() * len(parts)), parts.pop(at))
            case 3 if others:
                begin = int(rng.random() * len(others))
                parts[at:at] = others[begin : begin + 1 + int(rng.random() ** 3 * 8)]
            case _ if parts:
                parts[at] = changed(parts[at])
    return parts


def _records(data: bytes, order: str) -> list[bytes]:
    found, at = [], _PCAP_HEADER
    while at + _RECORD_HEADER <= len(data):
        end = at + _RECORD_HEADER + int(struct.unpack_from(f"{order}I", data, at + 8)[0])
        found.append(data[at:end])
        at = end
    return found


def _blocks(data: bytes, order: str) -> list[bytes]:
    found, at = [], 0
    while at + _BLOCK <= len(data):
        size = int(struct.unpack_from(f"{order}I", data, at + 4)[0])
        end = at + max(size + size % 4, _BLOCK)
        found.append(data[at:end])
        at = end
    return found
