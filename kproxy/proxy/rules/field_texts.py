"""Values of fields as people write them: in rules (``set``), and in the UI when editing a held message."""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from typing import Any

from dissectors import wire
from dissectors.domains import Domain

_BASE64 = "base64:"


class InvalidError(ValueError):
    """A text is not a value of its field; the message says what one looks like."""


def value_of(con: wire.WireType, domain: Domain | None, text: str) -> Any:
    """Parse the value of a field; ``null`` gives None if the field is nullable.

    :raises InvalidError: if the text is not a value of the field
    """
    bare = text.strip()
    if con.nullable and bare == "null":
        return None
    if isinstance(con, wire.String):
        return _quoted(bare) if bare.startswith('"') else text
    if isinstance(con, wire.Bytes):
        return bytes_of(bare)
    if isinstance(con, wire.Array | wire.Struct | wire.NullableStruct):
        try:
            return json.loads(bare)
        except json.JSONDecodeError as error:
            raise InvalidError(f"this is not JSON: {error.msg} at column {error.colno}") from None
    if con.kind == "bool":
        if bare.lower() not in ("true", "false"):
            raise InvalidError("write true or false")
        return bare.lower() == "true"
    if con.kind == "uuid":
        return bare
    return _number(con, domain, bare)


def _number(con: wire.WireType, domain: Domain | None, text: str) -> Any:
    named = None if domain is None else domain.value_of(text)
    if named is not None:
        return named
    try:
        value = float(text) if con.kind == "float64" else int(text.replace("_", ""), 0)
    except ValueError:
        raise InvalidError(f"write a number{' or a name' if domain is not None else ''}") from None
    if con.kind != "float64":
        low, high = _limits(con.kind)
        if not low <= value <= high:
            raise InvalidError(f"{con.kind} goes from {low} to {high}")
    return value


def _limits(kind: str) -> tuple[int, int]:
    signed = not kind.startswith("u")
    bits = int(re.sub(r"\D", "", kind))
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


def _quoted(text: str) -> str:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidError(f'what begins with " is a JSON string: {error.msg}') from None
    if not isinstance(value, str):
        raise InvalidError('what begins with " is a JSON string')
    return value


def bytes_of(text: str) -> bytes:
    """Parse bytes written as ``0x`` and hexadecimal digits, as ``base64:``, or as ``"text"``.

    :raises InvalidError: if the text is none of these
    """
    if text.startswith('"'):
        try:
            return _quoted(text).encode()
        except UnicodeEncodeError:
            raise InvalidError("half of a surrogate pair is not text") from None
    if text.startswith(_BASE64):
        try:
            return b64decode(text.removeprefix(_BASE64), validate=True)
        except binascii.Error as error:
            raise InvalidError(f"{text[:40]!r} is not base64: {error}") from None
    try:
        return binascii.unhexlify(text.removeprefix("0x").replace(" ", ""))
    except (binascii.Error, ValueError):
        raise InvalidError('write bytes as 0x and hexadecimal digits, or as "text"') from None


def payload_of(text: str) -> bytes | None:
    """Parse the key, value or header of a record, written as text or JSON, ``base64:...``, or ``null``.

    :raises InvalidError: if base64 or a JSON string is malformed
    """
    bare = text.strip()
    if bare == "null":
        return None
    return bytes_of(bare) if bare.startswith((_BASE64, '"')) else text.encode()
