"""A decoded key, value or header."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

Format = Literal["null", "text", "json", "int", "hex", "avro", "protobuf", "kafka"]
"""``kafka``: a record of one of Kafka's internal topics, as fields."""


class Payload(NamedTuple):
    """Decoded bytes.

    :ivar format: format that they were decoded as
    :ivar data: None for ``null``; a text for ``text`` and ``hex``; a number for ``int``; else values for a JSON encoder
    :ivar size: number of bytes
    :ivar source: for JSON, the original text; empty otherwise
    :ivar schema: the schema that was used, in words; empty without one
    :ivar problem: why the requested format was not used; empty if it was
    """

    format: Format
    data: Any
    size: int
    source: str = ""
    schema: str = ""
    problem: str = ""


class SchemaError(Exception):
    """A schema cannot be used; the message says what is wrong, where, and what to do."""


class PayloadError(Exception):
    """Bytes do not match a schema; the message says why."""


class SchemaDecoder(Protocol):
    """Decodes bytes with a schema.

    :ivar format: the format that it decodes
    :ivar name: name of the schema, in words
    """

    @property
    def format(self) -> Format: ...

    @property
    def name(self) -> str: ...

    def decode(self, data: bytes) -> Any:
        """Return values for a JSON encoder.

        :raises PayloadError: if the bytes do not match the schema
        """
        ...
