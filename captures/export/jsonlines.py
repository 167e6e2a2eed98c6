"""Exchanges as JSON lines: one object per exchange in the documented shape (``docs/json.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from captures.exchanges import Exchange
from captures.faults import RAISED, Faults
from captures.json_objects import to_json

_PIECE = 1 << 20
_MOST = 4 << 20
"""Most bytes of a piece: processes that pass pieces on hold several, and copy each."""
_LINE_FEED = 10


def write_json_lines(
    exchanges: Iterable[Exchange], file: BinaryIO, *, text: bool = False, faults: Faults = RAISED
) -> int:
    """Write exchanges; return how many.

    :param exchanges: annotated, as :class:`~captures.exchanges.ExchangeReader` returns them by default
    :param text: write bytes as text if they are UTF-8, else as base64
    :param faults: collects exchanges that could not be written because of a bug; without it, the error is raised
    """
    count = 0
    for piece in json_pieces(exchanges, text=text, least=1, faults=faults):
        file.write(piece)
        count += piece[-1] == _LINE_FEED
    return count


def json_pieces(
    exchanges: Iterable[Exchange], *, text: bool = False, least: int = _PIECE, faults: Faults = RAISED
) -> Iterator[bytearray]:
    """Yield what :func:`write_json_lines` writes: the lines of several exchanges, or a part of a long line, at a time.

    For callers that pass it on: the lines of one megabyte of exchanges may be gigabytes.

    :param least: least bytes of a piece, except the last; 1 for a piece per exchange
    :param faults: as for :func:`write_json_lines`
    """
    encode_into = msgspec.json.Encoder().encode_into
    lines = bytearray()

    def add(exchange: Exchange) -> None:
        before = len(lines)
        try:
            shape = to_json(exchange)
            encode_into(bytes_as_text(shape) if text else shape, lines, -1)  # append
            lines.append(_LINE_FEED)
        except Exception as error:
            del lines[before:]
            faults.note(error, "writing it as JSON", exchange.number)

    for _ in map(add, exchanges):  # keeps none while the next is decoded: each may have a million records
        if len(lines) >= least:
            if len(lines) <= _MOST:
                yield lines
            else:
                yield from (lines[begin : begin + _MOST] for begin in range(0, len(lines), _MOST))
            lines = bytearray()
    if lines:
        yield lines


def bytes_as_text(value: Any) -> Any:
    """Return a JSON-like value with bytes as text if they are UTF-8."""
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
