"""Exchanges as JSON lines: one object per exchange in the documented shape (``docs/json.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from captures.exchanges import Exchange

_PIECE = 1 << 20


def write_json_lines(exchanges: Iterable[Exchange], file: BinaryIO, *, text: bool = False) -> int:
    """Write exchanges; return how many.

    :param exchanges: annotated, as :class:`~captures.exchanges.ExchangeReader` makes them by default
    :param text: bytes as text where they are UTF-8, else as base64
    """
    count = 0

    def counted() -> Iterator[Exchange]:
        nonlocal count
        for exchange in exchanges:
            yield exchange
            count += 1

    file.writelines(json_pieces(counted(), text=text, least=1))
    return count


def json_pieces(
    exchanges: Iterable[Exchange], *, text: bool = False, least: int = _PIECE
) -> Iterator[bytearray]:
    """Yield what :func:`write_json_lines` writes, the lines of one exchange or of several at a time.

    For those who hand it on: the lines of exchanges that are a megabyte together may be gigabytes.

    :param least: bytes of a piece, but for the last
    """
    encode_into = msgspec.json.Encoder().encode_into
    lines = bytearray()
    for exchange in exchanges:
        shape = exchange.to_json()
        encode_into(bytes_as_text(shape) if text else shape, lines, -1)  # behind what is there
        lines += b"\n"
        if len(lines) >= least:
            yield lines
            lines = bytearray()
    yield lines


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
