"""Frames as dumps: with offsets and text, as hexadecimal digits, as base64."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from captures.exchanges import Exchange
from dissectors.sides import Side
from kproxy.copy_as.frames import FrameCopy, complete_frame, frame

_WIDTH = 16
_HIDDEN = "**"
_OF_HEX = 3 * _WIDTH + 1
"""Width of a line's digits, with the wider gap in the middle."""


def hex_dump(exchange: Exchange, side: Side, *, show_secrets: bool) -> str:
    """Return a frame as lines of offset, 16 bytes and text, with a title.

    Offsets count from the first byte of the size field. Secret bytes are shown as ``**``.
    """
    found = frame(exchange, side, show_secrets=show_secrets)
    if found is None:
        return f"# exchange {exchange.number} has no {side}\n"
    version = "" if exchange.version is None else f" v{exchange.version}"
    title = f"# {side} {exchange.number}: {exchange.api}{version}, {found.size:,} bytes"
    if len(found.data) < found.size:
        title += f", {found.size - len(found.data):,} of them not captured"
    if found.hidden:
        title += f", {sum(end - begin for begin, end in found.hidden):,} of them secret"
    return "".join(f"{line}\n" for line in (title, *_lines(found)))


def _lines(found: FrameCopy) -> Iterator[str]:
    digits = [f"{byte:02x}" for byte in found.data]
    shown = bytearray(found.data)
    for begin, end in found.hidden:
        digits[begin:end] = [_HIDDEN] * (end - begin)
        shown[begin:end] = b"*" * (end - begin)
    half = _WIDTH // 2
    for at in range(0, len(digits), _WIDTH):
        left, right = digits[at : at + half], digits[at + half : at + _WIDTH]
        row = f"{' '.join(left)}  {' '.join(right)}"
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in shown[at : at + _WIDTH])
        yield f"{at:08x}  {row:<{_OF_HEX}} |{text}|"


def raw_hex(exchange: Exchange, side: Side, *, show_secrets: bool) -> str:
    """Return a frame, its size field included, as hexadecimal digits in one line.

    :raises CannotCopyError: if some of its bytes are secret or missing
    """
    return f"{complete_frame(exchange, side, show_secrets=show_secrets).data.hex()}\n"


def base64(exchange: Exchange, side: Side, *, show_secrets: bool) -> str:
    """Return a frame, its size field included, as base64 in one line.

    :raises CannotCopyError: if some of its bytes are secret or missing
    """
    return f"{b64encode(complete_frame(exchange, side, show_secrets=show_secrets).data).decode()}\n"
