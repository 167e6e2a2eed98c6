"""The choice of a decoder for each topic: a named schema, the registry, or the content itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from captures.payloads.avro import AvroDecoder
from captures.payloads.payload import Payload, PayloadError, SchemaDecoder, SchemaError
from captures.payloads.plain import PlainFormat, read_plain
from captures.payloads.protobuf import ProtobufDecoder, files_of
from captures.payloads.registry import SchemaRegistry, schema_id, unframed

Part = Literal["key", "value"]

_AVRO_SUFFIXES = (".avsc", ".json")
_PROTOBUF_SUFFIXES = (".proto", ".pb", ".desc", ".protoset", ".bin")
ANY_TOPIC = ""
_LIKELY_IDS = 1 << 20
_NUMBERS = (5, 8)
"""Sizes of payloads that are more likely a number, or only an ID, than a payload with a schema."""
_NOTED = 20
"""Most reasons, and topics, that are recorded: each record may have another."""


def schema_of(text: str) -> tuple[str, SchemaDecoder]:
    """Return topic and schema of ``[TOPIC=]FILE[:MESSAGE]``; the topic is empty if the schema is for all topics.

    :raises SchemaError: if the file is not a schema, or cannot be read
    """
    topic, given, name = text.partition("=")
    if not given:
        topic, name = ANY_TOPIC, text
    place, _, message = name.rpartition(":")
    if not place or "/" in message or Path(name).exists():
        place, message = name, ""
    path = Path(place)
    try:
        if path.suffix in _AVRO_SUFFIXES:
            return topic, AvroDecoder(path.read_text(), place)
        if path.suffix in _PROTOBUF_SUFFIXES:
            return topic, ProtobufDecoder(files_of(path), place, message)
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"{place} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    known = " ".join(_AVRO_SUFFIXES + _PROTOBUF_SUFFIXES)
    raise SchemaError(f"{place!r} is not a schema by its name: Avro and Protobuf schemas end in {known}")


class PayloadDecoding(msgspec.Struct):
    """Decodes keys, values and headers.

    :ivar formats: formats of keys and values without a named schema
    :ivar schemas: decoders of keys and values, by topic; :data:`ANY_TOPIC` for all others
    :ivar registry: queried about payloads in Confluent's wire format
    :ivar unread: number of payloads that did not match their format, by reason
    :ivar framed: topics with payloads that may be in the wire format, each with a schema ID; recorded if no registry is
        named
    """

    formats: Mapping[Part, PlainFormat] = {}
    schemas: Mapping[tuple[Part, str], SchemaDecoder] = {}
    registry: SchemaRegistry | None = None
    unread: Counter[str] = msgspec.field(default_factory=Counter)
    framed: dict[str, int] = {}

    def read(self, data: bytes | None, topic: str, part: Part) -> Payload:
        """Return a decoded key or value."""
        if data is None:
            return read_plain(None)
        try:
            found = self._by_schema(data, topic, part)
        except PayloadError as error:
            self._note(str(error))
            return read_plain(data)._replace(problem=str(error))
        if found is not None:
            return found
        payload = read_plain(data, self.formats.get(part, "auto"))
        if payload.problem:
            self._note(payload.problem)
        elif payload.format == "hex" and self.registry is None and len(self.framed) < _NOTED:
            number = schema_id(data)
            if number is not None and 0 < number < _LIKELY_IDS and len(data) not in _NUMBERS:
                self.framed.setdefault(topic, number)
        return payload

    def _note(self, reason: str) -> None:
        known = reason in self.unread or len(self.unread) < _NOTED
        self.unread[reason if known else "other reasons"] += 1

    def _by_schema(self, data: bytes, topic: str, part: Part) -> Payload | None:
        schema = self.schemas.get((part, topic)) or self.schemas.get((part, ANY_TOPIC))
        if schema is not None:
            return Payload(schema.format, _framed_or_not(schema, data), len(data), schema=schema.name)
        return None if self.registry is None else self.registry.payload(data)

    @classmethod
    def of(
        cls,
        formats: Mapping[Part, PlainFormat],
        schemas: Mapping[Part, Iterable[str]],
        registry: str | None,
    ) -> PayloadDecoding:
        """Return the decoding for a user's options.

        :param schemas: schemas of keys and values, as :func:`schema_of` takes them
        :raises SchemaError: if one of them cannot be used
        """
        found = {
            (part, topic): decoder
            for part, texts in schemas.items()
            for topic, decoder in map(schema_of, texts)
        }
        return cls(formats, found, None if registry is None else SchemaRegistry(registry))


def _framed_or_not(schema: SchemaDecoder, data: bytes) -> object:
    """Return a payload decoded by a schema, with or without the frame of Confluent's wire format.

    :raises PayloadError: if it matches neither way
    """
    if schema_id(data) is not None:
        try:
            inner = unframed(data)
            return (
                schema.decode_indexed(inner) if isinstance(schema, ProtobufDecoder) else schema.decode(inner)
            )
        except PayloadError:
            pass
    return schema.decode(data)
