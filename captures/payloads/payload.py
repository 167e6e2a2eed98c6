"""A key, value or header that was read."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

Format = Literal["null", "text", "json", "int", "hex", "avro", "protobuf", "kafka"]
"""``kafka``: a record of one of Kafka's own topics, in fields."""


class Payload(NamedTuple):
    """What some bytes mean.

    :ivar format: that they were read in
    :ivar data: None for ``null``; a text for ``text`` and ``hex``; a number for ``int``; else what an encoder of JSON
        takes
    :ivar size: of the bytes
    :ivar source: the text as it came, of JSON; empty otherwise
    :ivar schema: which schema it was read with, in words; empty without one
    :ivar problem: why it was not read in the format that was asked for; empty if it was
    """

    format: Format
    data: Any
    size: int
    source: str = ""
    schema: str = ""
    problem: str = ""


class SchemaError(Exception):
    """A schema that cannot be used: what, where, what to do."""


class PayloadError(Exception):
    """Bytes that do not fit a schema; its text says why."""


class SchemaDecoder(Protocol):
    """Reads bytes by a schema.

    :ivar format: what it reads
    :ivar name: of the schema, in words
    """

    @property
    def format(self) -> Format: ...

    @property
    def name(self) -> str: ...

    def decode(self, data: bytes) -> Any:
        """Return what an encoder of JSON takes.

        :raises PayloadError: if the bytes do not fit the schema
        """
        ...
