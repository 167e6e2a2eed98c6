"""Payloads without a schema: null, text, JSON, numbers, bytes in hexadecimal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from captures.payloads.payload import Payload, PayloadError
from dissectors.printable import is_printable

PlainFormat = Literal["auto", "text", "json", "int", "hex"]

_NUMBER_SIZES = (1, 2, 4, 8)
"""Sizes of the numbers that Kafka's own serializers write (``LongSerializer.java``, ``IntegerSerializer.java`` ...)."""
_NESTED = 200
"""Number of brackets from which on JSON may be nested too deeply for an encoder."""
_SPACES = str.maketrans("", "", "\n\t\r")


def read_plain(data: bytes | None, wanted: PlainFormat = "auto") -> Payload:
    """Return decoded bytes.

    :param wanted: ``auto`` decodes JSON objects and arrays as JSON, printable UTF-8 as text, all else as bytes; if the
        bytes do not match another format, they are returned as bytes, with the reason
    """
    if data is None:
        return Payload("null", None, 0)
    if wanted == "auto":
        return _guessed(data)
    try:
        return _READERS[wanted](data)
    except PayloadError as error:
        return _hex(data)._replace(problem=str(error))


def _guessed(data: bytes) -> Payload:
    if data[:1] in (b"{", b"["):
        try:
            return _json(data)
        except PayloadError:
            pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _hex(data)
    return Payload("text", text, len(data)) if is_printable(text.translate(_SPACES)) else _hex(data)


def _json(data: bytes) -> Payload:
    try:
        found = msgspec.json.decode(data)
        if data.count(b"[") + data.count(b"{") > _NESTED:
            msgspec.json.encode(found)  # raises if it is nested too deeply to be shown
        return Payload("json", found, len(data), source=data.decode())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PayloadError(f"not JSON: {error}") from None


def _text(data: bytes) -> Payload:
    return Payload("text", data.decode(errors="replace"), len(data))


def _int(data: bytes) -> Payload:
    if len(data) not in _NUMBER_SIZES:
        raise PayloadError(f"{len(data)} bytes are not an integer: those have 1, 2, 4 or 8")
    return Payload("int", int.from_bytes(data, "big", signed=True), len(data))


def _hex(data: bytes) -> Payload:
    return Payload("hex", data.hex(), len(data))


_READERS: dict[PlainFormat, Callable[[bytes], Payload]] = {
    "json": _json,
    "text": _text,
    "int": _int,
    "hex": _hex,
}
