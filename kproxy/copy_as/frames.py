"""The bytes of an exchange's frames, which of them are secret, and their dumps: with text, in hexadecimal, in base64.

Values masked in the decoded exchange are hidden in its bytes, at the places given by a trace of the frame. A frame that
may contain secrets and was not decoded to its end is hidden from its body on: its contents are unknown. So is one whose
records were not to be read (``--payload none``).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from captures.exchanges import Exchange
from dissectors.frames import Body, trace_body
from dissectors.headers import SIZE_BYTES
from dissectors.masks import UNDECODED, merged
from dissectors.records import DECOMPRESSED
from dissectors.sides import SIDES, Side
from dissectors.trace import Node
from kproxy.copy_as.request import CannotCopyError

_LAST_STEP = re.compile(r"(?:\.[^.\[]*|\[[^\[]*)$")


@dataclass(frozen=True, slots=True)
class FrameCopy:
    """A frame as far as it was captured.

    :ivar data: its bytes, including the size field
    :ivar size: its bytes on the wire
    :ivar hidden: secret stretches of the data, as begin and end
    """

    data: bytes
    size: int
    hidden: tuple[tuple[int, int], ...] = ()


def frame(exchange: Exchange, side: Side, *, show_secrets: bool) -> FrameCopy | None:
    """Return a frame of an exchange, None if there is none."""
    size, body = exchange.size(side), exchange.body(side)
    if not size:
        return None
    payload = body.raw if body is not None else exchange.tokens[SIDES.index(side)]
    if payload is None:
        return None
    data = (size - SIZE_BYTES).to_bytes(SIZE_BYTES, "big") + payload
    if show_secrets:
        return FrameCopy(data, size)
    if body is None:  # SASL tokens are entirely secret
        return FrameCopy(data, size, ((SIZE_BYTES, len(data)),))
    return FrameCopy(data, size, _hidden(exchange, side, body, len(data)))


def open_frame(exchange: Exchange, side: Side, *, show_secrets: bool) -> FrameCopy:
    """Return a frame without secrets.

    :raises CannotCopyError: if there is no frame, or it contains secrets
    """
    found = frame(exchange, side, show_secrets=show_secrets)
    if found is None:
        raise CannotCopyError(f"exchange {exchange.number} has no {side}")
    if found.hidden:
        raise CannotCopyError(
            f"the {side} of exchange {exchange.number} holds secrets, which are masked; "
            "with --show-secrets its bytes can be copied"
        )
    return found


def complete_frame(exchange: Exchange, side: Side, *, show_secrets: bool) -> FrameCopy:
    """Return a frame without secrets and without missing bytes.

    :raises CannotCopyError: if there is none, it contains secrets, or bytes are missing
    """
    found = open_frame(exchange, side, show_secrets=show_secrets)
    if len(found.data) < found.size:
        missing = found.size - len(found.data)
        raise CannotCopyError(
            f"{missing:,} of {found.size:,} bytes of the {side} of exchange {exchange.number} were not captured"
        )
    return found


def _hidden(exchange: Exchange, side: Side, body: Body, end: int) -> tuple[tuple[int, int], ...]:
    masked = [path for path in exchange.annotations.masked if path.partition(".")[0] == side]
    unread = f"{side}.{UNDECODED}" in masked or _has_unread_records(body.value)
    found = _places(body, side, masked) if masked else []
    if unread:
        found.append((min(body.start, end), end))
    return merged((begin, min(stop, end)) for begin, stop in found)


def _has_unread_records(value: Any) -> bool:
    """Return whether there are batches whose records were not read, because they are not to be shown."""
    if isinstance(value, dict):
        if value.get("records") == [] and value.get("count"):
            return True
        return any(map(_has_unread_records, value.values()))
    return isinstance(value, list) and any(map(_has_unread_records, value))


def _places(body: Body, side: Side, masked: list[str]) -> list[tuple[int, int]]:
    """Return where the bytes of masked values are; of the enclosing value if they have none of their own."""
    root = trace_body(body, response=side == "response", records=True)
    places: dict[str, tuple[int, int]] = {}
    for child in root.children or ():
        path = side if child.name == "body" else f"{side}.{child.name}"
        end = child.end if child.end >= 0 else root.end
        places |= _by_path(child, path, (child.start, end))
    found = []
    for path in masked:
        while path not in places:
            shorter = _LAST_STEP.sub("", path)
            if shorter == path:
                found.append((body.start, root.end))
                break
            path = shorter
        else:
            found.append(places[path])
    return found


def _by_path(node: Node, path: str, outer: tuple[int, int]) -> list[tuple[str, tuple[int, int]]]:
    """Return the byte ranges of a node and all nodes below it; decompressed nodes have the range of their batch."""
    place = outer if node.kind == DECOMPRESSED or node.end < 0 else (node.start, node.end)
    found = [(path, place)]
    for child in node.children or ():
        found += _by_path(child, node.path_of(child, path), place)
    return found


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
    title = f"# {side} {exchange.number}: {exchange.title}, {found.size:,} bytes"
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
