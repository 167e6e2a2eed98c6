"""Other decoders of the same messages: kio, kafka-python, and construct in its usual style."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import construct
from construct import obj_, this

from benchmarks.messages import Sample
from dissectors import apis, wire

Decode = Callable[[bytes], Any]


def ours(sample: Sample) -> Decode:
    """Return the decoder generated from the declaration, with explained errors and a check of the message's end."""
    return sample.layout.parse


def kio(sample: Sample) -> Decode:
    """Return kio's reader: dataclasses, made by its Rust core."""
    from kio.index import load_request_schema, load_response_schema
    from kio.serial import entity_reader

    load = load_request_schema if sample.kind == "request" else load_response_schema
    read = entity_reader(load(sample.key, sample.layout.version))
    return lambda data: read(data, 0)


def kafka_python(sample: Sample) -> Decode:
    """Return kafka-python's reader: objects with slots, made by generated code."""
    name = apis.NAMES[sample.key]
    modules = {
        "Metadata": "metadata.metadata",
        "Fetch": "consumer.fetch",
        "Produce": "producer.produce",
        "JoinGroup": "consumer.group",
        "ApiVersions": "metadata.api_versions",
        "Heartbeat": "consumer.group",
    }
    message = getattr(import_module(f"kafka.protocol.{modules[name]}"), f"{name}{sample.kind.title()}")
    version = sample.layout.version
    return lambda data: message.decode(data, version=version)


# ---------------------------------------------------------------- construct as usually written
_LENGTH = construct.ExprAdapter(construct.VarInt, obj_ - 1, obj_ + 1)
_TAGS = construct.PrefixedArray(
    construct.VarInt,
    construct.Struct(
        "tag" / construct.VarInt, "data" / construct.Prefixed(construct.VarInt, construct.GreedyBytes)
    ),
)
_NUMBERS = {
    "bool": construct.Flag,
    "int8": construct.Int8sb,
    "int16": construct.Int16sb,
    "int32": construct.Int32sb,
    "int64": construct.Int64sb,
    "uuid": construct.Bytes(16),
}


def _nullable(content: construct.Construct) -> construct.Construct:
    return construct.FocusedSeq(
        "value",
        "length" / _LENGTH,
        "value" / construct.IfThenElse(this.length >= 0, content, construct.Computed(None)),
    )


def stock_construct(con: wire.WireType) -> construct.Construct:
    """Return construct's own building blocks for a wire type of a flexible version."""
    match con:
        case wire.Struct():
            fields = [member.name / stock_construct(member.con) for member in con.members]
            return construct.Struct(*fields, "tags" / _TAGS)
        case wire.Array():
            element = stock_construct(con.element)
            if con.nullable:
                return _nullable(construct.Array(this.length, element))
            return construct.PrefixedArray(_LENGTH, element)
        case wire.String():
            if con.nullable:
                return _nullable(construct.PaddedString(this.length, "utf8"))
            return construct.PascalString(_LENGTH, "utf8")
        case wire.Bytes():
            if con.nullable:
                return _nullable(construct.Bytes(this.length))
            return construct.Prefixed(_LENGTH, construct.GreedyBytes)
        case _:
            return _NUMBERS[con.kind]


def interpreted_construct(sample: Sample) -> Decode:
    """Return a stock construct Struct for the same layout, interpreted."""
    parse: Decode = stock_construct(sample.layout.struct).parse
    return parse


PEERS: dict[str, Callable[[Sample], Decode]] = {
    "kproxy": ours,
    "kio": kio,
    "kafka-python": kafka_python,
    "construct": interpreted_construct,
}
