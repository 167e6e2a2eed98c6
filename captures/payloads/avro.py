"""Avro, decoded by fastavro: the only module that imports it."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from captures.payloads.payload import Format, PayloadError, SchemaError

_SINGLE_OBJECT = b"\xc3\x01"
"""Start of an object in Avro's single-object encoding; an 8-byte fingerprint of the schema follows."""
_FINGERPRINT = 10


class AvroDecoder:
    """Decodes the binary encoding of a schema.

    :param schema: the schema as JSON text
    :param name: where it comes from
    :param references: schemas that it refers to, dependencies first
    :raises SchemaError: if it is invalid, or fastavro is not installed
    """

    format: Format = "avro"

    def __init__(self, schema: str, name: str, references: tuple[str, ...] = ()) -> None:
        try:
            import fastavro
        except ImportError:
            raise SchemaError("Avro needs another package: pip install 'kproxy[schema]'") from None
        self.name = name
        self._read = fastavro.schemaless_reader
        known: dict[str, Any] = {}
        try:
            for each in references:
                fastavro.parse_schema(json.loads(each), named_schemas=known)
            self._schema = fastavro.parse_schema(json.loads(schema), named_schemas=known)
        except Exception as error:
            raise SchemaError(f"{name} is not an Avro schema: {_error_text(error)}") from error
        inside = list(_within(self._schema, known))
        if any(isinstance(each, str) and each in names for each, names in inside):
            # the C reader has no limit on recursion: a few bytes would crash the process
            from fastavro import _read_py

            self._read = _read_py.schemaless_reader
        if any(
            isinstance(each, dict) and each["type"] == "array" and _empty(each["items"], known)
            for each, _ in inside
        ):
            raise SchemaError(
                f"{name} has an array of items that take no bytes, of which a few bytes can announce any number: "
                "not decoded"
            )

    def decode(self, data: bytes) -> Any:
        """Return the datum as JSON values; bytes in base64.

        :raises PayloadError: if the bytes do not match the schema, or some are left over
        """
        if data.startswith(_SINGLE_OBJECT):
            data = data[_FINGERPRINT:]
        file = io.BytesIO(data)
        try:
            found = plain(self._read(file, self._schema, None))
        except Exception as error:
            raise PayloadError(f"does not fit {self.name}: {_error_text(error)}") from None
        rest = len(data) - file.tell()
        if rest:
            raise PayloadError(f"does not fit {self.name}: {rest} bytes are left over")
        return found


def plain(value: Any) -> Any:
    """Return a datum as values for a JSON encoder; logical types as text, bytes in base64."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta | Decimal | UUID):
        return str(value)
    return str(value)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _within(schema: Any, known: Mapping[str, Any]) -> Iterator[tuple[Any, frozenset[str]]]:
    """Yield all schemas inside a schema, each with the names of the enclosing records; each name is followed once."""
    waiting: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    followed: set[str] = set()
    while waiting:
        each, inside = waiting.pop()
        yield each, inside
        if isinstance(each, str):
            parts = [known[each]] if each in known and each not in followed else []
            followed.add(each)
        else:
            parts = _parts(each)
            if isinstance(each, dict) and each["type"] in ("record", "error"):
                inside |= {str(each.get("name"))}
        waiting += [(part, inside) for part in parts]


def _parts(schema: Any) -> list[Any]:
    """Return the schemas that a schema consists of: branches, fields, items, values, or the one that it annotates."""
    if isinstance(schema, list):
        return schema
    match schema:
        case {"type": "record" | "error", "fields": fields}:
            return [field["type"] for field in fields]
        case {"type": "array", "items": part} | {"type": "map", "values": part}:
            return [part]
        case {"type": dict() | list() as part}:
            return [part]
    return []


def _empty(schema: Any, known: Mapping[str, Any], within: frozenset[str] = frozenset()) -> bool:
    """Return whether a datum of a schema takes no bytes."""
    if isinstance(schema, str):
        if schema == "null":
            return True
        return schema in known and schema not in within and _empty(known[schema], known, within | {schema})
    if not isinstance(schema, dict):
        return False
    kind = schema["type"]
    if kind == "fixed":
        return not schema["size"]
    if kind in ("record", "error"):
        return all(_empty(each["type"], known, within) for each in schema["fields"])
    return kind == "null" or (isinstance(kind, dict) and _empty(kind, known, within))
