"""Exchanges as JSON lines: one object per exchange in the documented shape (``docs/json.md``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from captures.exchanges import Exchange
from captures.faults import Faults, Uncontained


def write_json_lines(
    exchanges: Iterable[Exchange], file: BinaryIO, *, text: bool = False, faults: Faults | None = None
) -> int:
    """Write exchanges; return how many.

    :param exchanges: annotated, as :class:`~captures.exchanges.ExchangeReader` makes them by default
    :param text: bytes as text where they are UTF-8, else as base64
    :param faults: where to note what cannot be written by a fault of ours; without it, that is raised
    """
    faults = Uncontained() if faults is None else faults
    encode_into = msgspec.json.Encoder().encode_into
    line = bytearray()
    count = 0
    for exchange in exchanges:
        try:
            shape = exchange.to_json()
            encode_into(bytes_as_text(shape) if text else shape, line)
        except Exception as error:
            faults.note(error, "writing it as JSON", exchange.number)
            continue
        line += b"\n"
        file.write(line)
        count += 1
    return count


def bytes_as_text(value: Any) -> Any:
    """Return a JSON shape with bytes as text where they are UTF-8."""
    if isinstance(value, dict):
        return {name: bytes_as_text(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [bytes_as_text(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value
