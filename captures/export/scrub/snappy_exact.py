"""Raw snappy of an exact size (https://github.com/google/snappy/blob/main/format_description.txt).

A block is a length and elements: literals, and copies of earlier bytes. A copy can be written as a literal, a literal
can be split in two, and a literal's length may take more bytes than needed. So every size can be met, from the best
compression to well beyond none.
"""

from __future__ import annotations

import cramjam
import msgspec

_LITERAL, _COPY_1, _COPY_2 = 0, 1, 2
_COPY_BYTES = {_COPY_1: 2, _COPY_2: 3, 3: 5}
_SHORT_LITERAL = 60
_MAX_HEADER = 5
_LEAST_WIDENED_LAST = 3
"""Length of a last literal that may be widened: cramjam refuses a block that ends within 4 bytes after the tag of a
literal whose length takes bytes of its own."""


class _Element(msgspec.Struct):
    """One element.

    :ivar start: position of its first byte in the plain data
    :ivar length: bytes it decodes to
    :ivar copy: its encoding if it is a copy, empty for a literal
    :ivar header: bytes of a literal's tag and length
    """

    start: int
    length: int
    copy: bytes = b""
    header: int = 0


def compress(plain: bytes, size: int) -> bytes | None:
    """Compress to raw snappy of ``size`` bytes; None if it cannot be that short."""
    packed = bytes(cramjam.snappy.compress_raw(plain))
    extra = size - len(packed)
    if extra < 0:
        return None
    if not extra:
        return packed
    begin, elements = _parse(packed)
    extra = _spell_out(elements, extra)
    extra = _widen(elements, extra)
    if extra:
        elements, extra = _split(elements, extra)
    if extra:
        return None
    return packed[:begin] + b"".join(_encoded(element, plain) for element in elements)


def _parse(packed: bytes) -> tuple[int, list[_Element]]:
    """Return the offset of the elements, and the elements, of a block that is known to be valid."""
    pos = 0
    while packed[pos] & 0x80:
        pos += 1
    pos += 1
    begin, start = pos, 0
    elements = []
    while pos < len(packed):
        tag = packed[pos]
        kind = tag & 3
        if kind == _LITERAL:
            wide = max((tag >> 2) - _SHORT_LITERAL + 1, 0)
            length = (int.from_bytes(packed[pos + 1 : pos + 1 + wide], "little") if wide else tag >> 2) + 1
            elements.append(_Element(start, length, header=1 + wide))
            pos += 1 + wide + length
        else:
            length = (tag >> 2 & 7) + 4 if kind == _COPY_1 else (tag >> 2) + 1
            after = pos + _COPY_BYTES[kind]
            elements.append(_Element(start, length, packed[pos:after]))
            pos = after
        start += length
    return begin, elements


def _spell_out(elements: list[_Element], extra: int) -> int:
    """Turn copies into literals while that takes at most ``extra`` bytes; return the bytes still missing."""
    for element in reversed(elements):
        if element.copy:
            header = _least_header(element.length)
            growth = header + element.length - len(element.copy)
            if 0 <= growth <= extra:
                element.copy, element.header = b"", header
                extra -= growth
    return extra


def _widen(elements: list[_Element], extra: int) -> int:
    """Encode the lengths of literals in more bytes than needed; return the bytes still missing."""
    for element in elements:
        if not extra:
            break
        if not element.copy and (element is not elements[-1] or element.length >= _LEAST_WIDENED_LAST):
            more = min(extra, _MAX_HEADER - element.header)
            element.header += more
            extra -= more
    return extra


def _split(elements: list[_Element], extra: int) -> tuple[list[_Element], int]:
    """Split single bytes off literals, each with its own header; return the elements and the bytes still missing."""
    made: list[_Element] = []
    for element in elements:
        while extra and not element.copy and element.length > 1:
            header = min(extra, _MAX_HEADER)
            made.append(_Element(element.start, 1, header=header))
            element = _Element(element.start + 1, element.length - 1, header=element.header)
            extra -= header
        made.append(element)
    return made, extra


def _least_header(length: int) -> int:
    return 1 if length <= _SHORT_LITERAL else 1 + (max(length - 1, 1).bit_length() + 7) // 8


def _encoded(element: _Element, plain: bytes) -> bytes:
    if element.copy:
        return element.copy
    data = plain[element.start : element.start + element.length]
    length, wide = element.length - 1, element.header - 1
    if not wide:
        return bytes((length << 2,)) + data
    return bytes(((_SHORT_LITERAL + wide - 1) << 2,)) + length.to_bytes(wide, "little") + data
