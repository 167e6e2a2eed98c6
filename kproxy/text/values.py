"""Values of fields as text, and their parts, for every tree of fields, on paper or on a screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from captures.meaning import words
from dissectors.domains import ERROR_CODE
from dissectors.error_codes import BY_CODE
from dissectors.printable import is_printable
from dissectors.schema import Field

MAX_TEXT = 160
"""Most characters of a value by default."""

_MAX_ITEMS = 50
_HEX_SHARE = 5
"""Divisor of the limit for hexadecimal: a byte takes three characters, and few users read them."""


def short(value: Any, most: int = MAX_TEXT) -> str:
    """Return a leaf as text.

    :param most: most characters of a text, or of printable bytes
    """
    if isinstance(value, bytes):
        return _bytes_text(value, most)
    if isinstance(value, str):
        text = value if len(value) <= most else f"{value[:most]}…"
        return f'"{words.line(text)}"'
    if isinstance(value, list | tuple):
        text = ", ".join(short(item, most) for item in value[:_MAX_ITEMS])
        return f"[{text}{', …' if len(value) > _MAX_ITEMS else ''}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes_text(value: bytes, most: int) -> str:
    head = value[:most]
    text = _text_of(head, cut=len(head) < len(value))
    if text is not None:
        return f'"{text}"{"…" if len(head) < len(value) else ""} ({len(value)} bytes)'
    digits = most // _HEX_SHARE
    return f"{head[:digits].hex(' ')}{'…' if len(value) > digits else ''} ({len(value)} bytes)"


def _text_of(data: bytes, *, cut: bool) -> str | None:
    """Return bytes as printable text, None if they are not; a truncated last character is dropped."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if not cut or error.reason != "unexpected end of data":
            return None
        text = data[: error.start].decode()
    return text if is_printable(text) else None


def parts_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a dict or list, with names: field names, or ``[0]``."""
    if isinstance(value, dict):
        yield from ((str(name), item) for name, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))


def has_parts(value: Any) -> bool:
    """Return whether a value is shown by its parts: a dict, or a list of more than plain values."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple) for item in value)


def advice_on(field: Field | None, value: Any) -> str:
    """Return expert advice on an error code; empty if the field is not one, or there is no error."""
    if field is None or field.type.domain is not ERROR_CODE or not value:
        return ""
    error = BY_CODE.get(value)
    return "" if error is None else error.advice
