"""A pcapng writer: section header, interfaces, packets with comments, TLS key logs.

Layout: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/. Rules of this module:

* A block is written in one ``write`` and is complete then. A file whose writer was killed is readable up to its last
  block, and can be appended to (:func:`open_for_append`): an appended part is a section of its own.
* Times are nanoseconds since the epoch; every interface is declared with that resolution.
* Sections are written little-endian and with an unspecified length (-1), as live captures are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from struct import Struct
from typing import BinaryIO, NamedTuple

from captures import private
from captures.packets.link import ETHERNET

SNAPSHOT_LENGTH = 262_144

_SECTION_HEADER = 0x0A0D0D0A
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_INTERFACE_DESCRIPTION = 1
_ENHANCED_PACKET = 6

# option codes: 3.5 (comment), 4.1 (section), 4.2 (interface)
_COMMENT = 1
_USER_APPLICATION = 4
_IF_NAME, _IF_DESCRIPTION, _IF_RESOLUTION = 2, 3, 9
_NANOSECONDS = b"\x09"  # 10 to the power of -9

_HEAD = Struct("<II")
_TAIL = Struct("<I")
_OPTION = Struct("<HH")
_SECTION = Struct("<IHHq")
_INTERFACE = Struct("<HHI")
_PACKET = Struct("<IIIIIII")
_MAX_OPTION = 0xFFFF
_OVERHEAD = 12
_CONVINCING = 1 << 20  # more than the largest snapshot length in use
_PADS = (b"", b"\0\0\0", b"\0\0", b"\0")


class Packet(NamedTuple):
    """One packet to be written.

    :ivar interface: number that :meth:`PcapngWriter.interface` returned
    :ivar time: ns since the epoch
    :ivar data: the captured part of the frame
    :ivar wire: bytes of the frame on the wire; 0 means the size of ``data``
    :ivar comment: text, or empty
    """

    interface: int
    time: int
    data: bytes
    wire: int = 0
    comment: str = ""


class PcapngWriter:
    """Writes one section to a file object opened for binary writing.

    :param file: its ``write`` receives blocks; the caller flushes and closes it
    :param comment: text on the section, or empty
    :ivar packets: packets written so far
    :raises OSError: from every method, if the file cannot be written
    """

    def __init__(self, file: BinaryIO, *, comment: str = "") -> None:
        self._file = file
        self._interfaces = 0
        self.packets = 0
        body = _SECTION.pack(_BYTE_ORDER_MAGIC, 1, 0, -1)
        options = _options((_COMMENT, comment.encode()), (_USER_APPLICATION, b"kproxy"))
        file.write(_block(_SECTION_HEADER, body + options))

    def interface(
        self,
        link_type: int = ETHERNET,
        *,
        name: str = "",
        description: str = "",
        snapshot_length: int = SNAPSHOT_LENGTH,
    ) -> int:
        """Declare an interface; return its number for :attr:`Packet.interface`.

        :param link_type: https://www.tcpdump.org/linktypes.html
        :param snapshot_length: bytes kept of each packet, 0 if not limited
        """
        options = _options(
            (_IF_NAME, name.encode()), (_IF_DESCRIPTION, description.encode()), (_IF_RESOLUTION, _NANOSECONDS)
        )
        self._file.write(
            _block(_INTERFACE_DESCRIPTION, _INTERFACE.pack(link_type, 0, snapshot_length) + options)
        )
        self._interfaces += 1
        return self._interfaces - 1

    def write_packets(self, packets: Iterable[Packet]) -> None:
        """Write packets with a single ``write``, which makes writing many of them fast.

        :raises ValueError: if an interface was not declared; nothing is written then
        """
        parts: list[bytes] = []
        add = parts.append
        pack, tail, pads, known = _PACKET.pack, _TAIL.pack, _PADS, self._interfaces
        count = 0
        for interface, time, data, wire, comment in packets:
            if not 0 <= interface < known:
                raise ValueError(f"interface {interface} was not declared, there are {known}")
            size = len(data)
            options = _options((_COMMENT, comment.encode())) if comment else b""
            length = 32 + (size + 3 & ~3) + len(options)
            add(
                pack(
                    _ENHANCED_PACKET,
                    length,
                    interface,
                    time >> 32 & 0xFFFFFFFF,
                    time & 0xFFFFFFFF,
                    size,
                    wire or size,
                )
            )
            add(data)
            add(pads[size & 3])
            add(options)
            add(tail(length))
            count += 1
        if parts:
            self._file.write(b"".join(parts))
            self.packets += count


def open_for_append(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a pcapng file, readable only by its owner, to append another section; create the file if it is missing.

    An incomplete last block, as a killed writer may leave it, is cut off first.

    :returns: an unbuffered file, positioned at its end
    :raises ValueError: if the file is not a little-endian pcapng file
    :raises OSError: if it cannot be opened
    """
    descriptor = private.opened(path, os.O_RDWR | os.O_APPEND)
    file = os.fdopen(descriptor, "a+b", buffering=0)
    try:
        file.truncate(_whole_blocks(file))
    except BaseException:
        file.close()
        raise
    file.seek(0, os.SEEK_END)
    return file


def _whole_blocks(file: BinaryIO) -> int:
    """Return the size of the complete blocks at the start of the file."""
    size = file.seek(0, os.SEEK_END)
    position = size if _ends_with_whole_blocks(file.fileno(), size) else 0
    while size - position >= _OVERHEAD:
        file.seek(position)
        kind, length = _HEAD.unpack(file.read(_HEAD.size))
        if position == 0 and not _begins_section(kind, length):
            raise ValueError("not a pcapng file that this program can append to")
        if length < _OVERHEAD or length & 3 or position + length > size:
            break
        position += length
    if size and not position:
        raise ValueError("not a pcapng file that this program can append to")
    return position


def _begins_section(kind: int, length: int) -> bool:
    return kind == _SECTION_HEADER and not length & 3 and length <= 1 << 24


def _ends_with_whole_blocks(fd: int, size: int) -> bool:
    """Return whether a chain of blocks leads back from the end of the file, so that it need not be read from its start.

    Half a packet that itself contains a capture might look like that, but for no longer than the size of a packet.
    """
    if size < _OVERHEAD or not _begins_section(*_HEAD.unpack(os.pread(fd, _HEAD.size, 0))):
        return False
    position = size
    while position and size - position < _CONVINCING:
        if position < _OVERHEAD:
            return False
        (length,) = _TAIL.unpack(os.pread(fd, _TAIL.size, position - _TAIL.size))
        if length < _OVERHEAD or length & 3 or length > position:
            return False
        if _HEAD.unpack(os.pread(fd, _HEAD.size, position - length))[1] != length:
            return False
        position -= length
    return True


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + _OVERHEAD
    return _HEAD.pack(kind, length) + body + _TAIL.pack(length)


def _options(*options: tuple[int, bytes]) -> bytes:
    """Return options with their end mark; those with an empty value are left out."""
    parts: list[bytes] = []
    for code, value in options:
        if value:
            value = _cut(value)
            parts += (_OPTION.pack(code, len(value)), value, _PADS[len(value) & 3])
    return b"".join([*parts, bytes(_OPTION.size)]) if parts else b""


def _cut(value: bytes) -> bytes:
    """Return as much of UTF-8 as an option holds, without half a character at the end."""
    if len(value) <= _MAX_OPTION:
        return value
    return value[:_MAX_OPTION].decode(errors="ignore").encode()
