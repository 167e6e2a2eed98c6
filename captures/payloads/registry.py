"""A schema registry that the user named: fetches the schemas of Confluent's wire format by ID.

A payload of that format is a byte 0, the ID of its schema in 4 bytes, and the payload itself. Registries of Confluent,
Karapace, Apicurio (in its compatible API) and Redpanda answer ``GET /schemas/ids/ID``. Only the named address is
contacted, once per ID, and no longer after it could not be reached.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request

from captures.http import opener_within
from captures.payloads.avro import AvroDecoder
from captures.payloads.payload import Payload, PayloadError, SchemaError
from captures.payloads.protobuf import ProtobufDecoder, compiled

_HEAD = struct.Struct(">BI")
_MAGIC = 0
_SECONDS = 10.0
_MOST_BYTES = 4 << 20
"""Most bytes of an answer: schemas have some KiB."""
_MOST_SCHEMAS = 1000
"""Most schemas that are fetched: untrusted bytes must not cause requests without end."""
_MOST_REFERENCES = 100
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


def schema_id(data: bytes | None) -> int | None:
    """Return the ID of a payload's schema; None if it cannot be in Confluent's wire format."""
    if data is None or len(data) < _HEAD.size or data[0] != _MAGIC:
        return None
    return int(_HEAD.unpack_from(data)[1])


def unframed(data: bytes) -> bytes:
    """Return a payload without magic byte and schema ID."""
    return data[_HEAD.size :]


class _Schema:
    """A schema of the registry, and the decoder of its payloads."""

    def __init__(self, decoder: AvroDecoder | ProtobufDecoder | None, name: str) -> None:
        self._decoder = decoder
        self.name = name

    def payload(self, data: bytes) -> Payload:
        """Return a decoded payload, given without its frame.

        :raises PayloadError: if it does not match
        """
        size = len(data) + _HEAD.size
        if self._decoder is None:
            try:
                return Payload("json", json.loads(data), size, data.decode(), self.name)
            except (ValueError, RecursionError) as error:
                raise PayloadError(f"is not JSON: {error}") from None
        if isinstance(self._decoder, ProtobufDecoder):
            return Payload("protobuf", self._decoder.decode_indexed(data), size, schema=self.name)
        return Payload("avro", self._decoder.decode(data), size, schema=self.name)


class SchemaRegistry:
    """Fetches schemas from a registry, each once.

    :param url: as the user gave it: http or https, with ``user:password@`` if the registry requires it
    :raises SchemaError: if it is not a URL of a registry
    :ivar failures: error messages, without repetitions and without secrets
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SchemaError(f"{_masked(url)!r} is not the URL of a schema registry: write http://host:8081")
        place = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        if parts.port is not None:
            place = f"{place}:{parts.port}"
        self._url = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": _ACCEPT}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._known: dict[int, _Schema | None] = {}
        self._lost = False
        self.failures: list[str] = []

    def payload(self, data: bytes) -> Payload | None:
        """Return decoded bytes of the wire format; None if they are not in it, or the registry lacks the schema.

        :raises PayloadError: if they do not match their schema
        """
        number = schema_id(data)
        if number is None:
            return None
        if number not in self._known:
            self._known[number] = self._fetched(number)
        schema = self._known[number]
        return None if schema is None else schema.payload(unframed(data))

    def _fetched(self, number: int) -> _Schema | None:
        if self._lost or len(self._known) >= _MOST_SCHEMAS:
            return None
        try:
            return self._schema(number)
        except HTTPError as error:
            if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                self._lost = True
                self._failed(f"{self._url} refuses: HTTP {error.code}; write http://user:password@host:port")
            elif error.code != HTTPStatus.NOT_FOUND:  # 404: it only looked like an ID
                self._failed(f"{self._url} has no answer for schema {number}: HTTP {error.code}")
        except (URLError, OSError) as error:
            self._lost = True
            self._failed(f"{self._url} cannot be reached: {getattr(error, 'reason', error)}")
        except (SchemaError, ValueError, KeyError, TypeError) as error:
            self._failed(f"schema {number} of {self._url} cannot be used: {error}")
        return None

    def _failed(self, message: str) -> None:
        if message not in self.failures:
            self.failures.append(message)

    def _schema(self, number: int) -> _Schema:
        answer = self._asked(f"/schemas/ids/{number}")
        kind, name = answer.get("schemaType", "AVRO"), f"schema {number}"
        if kind == "AVRO":
            references = tuple(text for _, text in self._references(answer, set()))
            return _Schema(AvroDecoder(answer["schema"], name, references), name)
        if kind == "PROTOBUF":
            imports = dict(self._references(answer, set()))
            return _Schema(ProtobufDecoder(compiled(answer["schema"], name, imports), name), name)
        if kind == "JSON":
            return _Schema(None, name)
        raise SchemaError(f"its type {kind!r} is not AVRO, PROTOBUF or JSON")

    def _references(self, answer: Any, visited: set[str]) -> Iterator[tuple[str, str]]:
        """Yield names and texts of the schemas that an answer refers to, dependencies first."""
        for each in answer.get("references") or ():
            called = str(each["name"])
            if called in visited:
                continue
            visited.add(called)
            if len(visited) > _MOST_REFERENCES:
                raise SchemaError(f"it refers to more than {_MOST_REFERENCES} others")
            place = f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(each['version'])}"
            inner = self._asked(place)
            yield from self._references(inner, visited)
            yield called, str(inner["schema"])

    def _asked(self, path: str) -> Any:
        request = Request(f"{self._url}{path}", headers=self._headers)  # noqa: S310  # http or https, see above
        with opener_within(_SECONDS) as opener, opener.open(request, timeout=_SECONDS) as answer:
            text = answer.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise SchemaError(f"its answer is larger than {_MOST_BYTES >> 20} MiB")
        found = json.loads(text)
        if not isinstance(found, dict):
            raise SchemaError("its answer is not a JSON object")
        return found


def _masked(url: str) -> str:
    """Return a URL without the password in it."""
    head, at, rest = url.rpartition("@")
    return f"{head.partition('://')[0]}://…@{rest}" if at else url
