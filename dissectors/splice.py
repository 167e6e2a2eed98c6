"""Replacement of chosen fields of an encoded message, with every other byte unchanged.

The length before a string, and the sizes of the tagged fields around it (KIP-482), change with the value. Nothing else
is rewritten: unknown tags, lengths encoded in more bytes than necessary and bytes after the message stay as the sender
wrote them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from dissectors import wire
from dissectors.locator import FieldLocation, TaggedField


def splice(data: bytes, edits: Iterable[tuple[FieldLocation, Any]]) -> bytes:
    """Return a message with some of its values replaced.

    :param data: the message in which a :class:`~dissectors.locator.FieldLocator` found the fields
    :param edits: locations and their new values, in any order, each location at most once
    :raises construct.ConstructError: if a value does not match the type of its field
    """
    pieces: list[tuple[int, int, bytes]] = []
    grown: dict[TaggedField, int] = {}
    for location, value in edits:
        new = encoded(location.con, value)
        pieces.append((location.start, location.end, new))
        if location.inside is not None:
            grown[location.inside] = (
                grown.get(location.inside, 0) + len(new) - (location.end - location.start)
            )
    while grown:
        # an inner field starts after the outer one, which grows with it
        field = max(grown)
        growth = grown.pop(field)
        if growth:
            new = wire.uvarint_bytes(field.size + growth)
            pieces.append((field.start, field.end, new))
            if field.outer is not None:
                growth += len(new) - (field.end - field.start)
                grown[field.outer] = grown.get(field.outer, 0) + growth
    return replaced(data, pieces)


def replaced(data: bytes, pieces: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return `data` with some ranges replaced.

    :param pieces: start, end and replacement; the ranges do not overlap
    """
    out: list[bytes] = []
    done = 0
    for start, end, new in sorted(pieces):
        out += (data[done:start], new)
        done = end
    out.append(data[done:])
    return b"".join(out)


def encoded(con: wire.Leaf, value: Any) -> bytes:
    """Return the bytes of a value, its length included.

    :raises construct.ConstructError: if it does not match the type
    """
    # saves construct's streams: this runs for every forwarded address
    data: bytes
    try:
        if isinstance(con, wire.FixedWidth):
            data = con.format.pack(value)
            return data
        if isinstance(con, wire.String) and value is not None:
            text: bytes = value.encode()
            data = wire.uvarint_bytes(len(text) + 1) if con.compact else con.prefix.pack(len(text))
            return data + text
    except (struct.error, AttributeError):
        pass  # construct reports what is wrong
    data = con.build(value)
    return data
