"""A schema registry that the user named: the schemas of Confluent's wire format, asked for by their IDs.

A payload of that format is a byte 0, the ID of its schema in 4 bytes, and the payload itself. Registries of Confluent,
Karapace, Apicurio (in its compatible API) and Redpanda answer ``GET /schemas/ids/ID``. No other address is asked than
the one that was named, each ID once, and after a first failure to reach it no more.
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
from urllib.request import HTTPRedirectHandler, Request, build_opener

from captures.payloads.avro import AvroDecoder
from captures.payloads.payload import Payload, PayloadError, SchemaError
from captures.payloads.protobuf import ProtobufDecoder, compiled

_HEAD = struct.Struct(">BI")
_MAGIC = 0
_SECONDS = 10.0
_MOST_BYTES = 4 << 20
"""Of an answer: schemas are some KiB."""
_MOST_SCHEMAS = 1000
"""That are asked for: bytes of strangers shall not have the registry asked without end."""
_MOST_REFERENCES = 100
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


def schema_id(data: bytes | None) -> int | None:
    """Return the ID of the schema that a payload names; None if it cannot be one of Confluent's wire format."""
    if data is None or len(data) < _HEAD.size or data[0] != _MAGIC:
        return None
    return int(_HEAD.unpack_from(data)[1])


def unframed(data: bytes) -> bytes:
    """Return a payload without the ID of its schema."""
    return data[_HEAD.size :]


class _Same(HTTPRedirectHandler):
    """Follows no redirection: it could lead anywhere, with the password."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Schema:
    """A schema as the registry has it, and what reads its payloads."""

    def __init__(self, decoder: AvroDecoder | ProtobufDecoder | None, name: str) -> None:
        self._decoder = decoder
        self.name = name

    def payload(self, data: bytes) -> Payload:
        """Return what a payload without its frame means.

        :raises PayloadError: if it does not fit
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
    """Asks a registry for schemas, each once.

    :param url: as the user gave it, http or https, with ``user:password@`` where it asks for them
    :raises SchemaError: if it is not a URL of a registry

    :ivar failures: what went wrong, each once, fit to be shown
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
        self._opener = build_opener(_Same)
        self._known: dict[int, _Schema | None] = {}
        self._lost = False
        self.failures: list[str] = []

    def payload(self, data: bytes) -> Payload | None:
        """Return what bytes of the wire format mean; None if they are not of it, or the registry has no such schema.

        :raises PayloadError: if they do not fit their schema
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
            elif error.code != HTTPStatus.NOT_FOUND:  # which is the answer to what only looks like an ID
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

    def _references(self, answer: Any, met: set[str]) -> Iterator[tuple[str, str]]:
        """Yield names and texts of the schemas that one refers to, those first that others need."""
        for each in answer.get("references") or ():
            called = str(each["name"])
            if called in met:
                continue
            met.add(called)
            if len(met) > _MOST_REFERENCES:
                raise SchemaError(f"it refers to more than {_MOST_REFERENCES} others")
            place = f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(each['version'])}"
            inner = self._asked(place)
            yield from self._references(inner, met)
            yield called, str(inner["schema"])

    def _asked(self, path: str) -> Any:
        request = Request(f"{self._url}{path}", headers=self._headers)  # noqa: S310  # http or https, see above
        with self._opener.open(request, timeout=_SECONDS) as answer:
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
