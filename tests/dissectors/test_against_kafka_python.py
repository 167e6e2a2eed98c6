"""Our bytes against kafka-python's, mainly for the old versions that kio no longer has (Produce v0, Fetch v0 ...).

The same values give the same bytes, and our decoder gives the values back. Fields are matched by their place on the
wire, their names as a check. Tagged fields stay out: kafka-python writes them in the order of declaration, and kio
covers them.
"""

from __future__ import annotations

import pkgutil
import uuid
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.schemas.fields.codecs import BitField

from dissectors import apis, wire
from dissectors.message_version import MessageVersion
from tests.dissectors.values import Values

LAYOUTS = 524  # versions of all message classes of kafka-python 3.0.12
ROUNDS = 2

#: kafka-python's own names, or names from another revision of Kafka's definitions
RENAMED = {
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
    "generation_id_or_member_epoch": "generation_id",  # TxnOffsetCommit
}


def subclasses(of: type[Any]) -> Iterator[type[Any]]:
    for found in of.__subclasses__():
        yield found
        yield from subclasses(found)


@cache
def message_classes() -> dict[str, Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate_stubs" not in module.name:
            import_module(module.name)
    return {found.__name__: found for found in subclasses(ApiMessage) if found._class_version is None}


def layout_of(message: Any, version: int) -> MessageVersion:
    known = apis.api(message.API_KEY)
    assert known is not None
    return (known.request if message.is_request() else known.response)[version]


def converted(con: wire.WireType, field: Any, value: Any, version: int) -> Any:
    """A drawn value in kafka-python's form."""
    if value is None:
        return None
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if isinstance(con, wire.Array):
        element = con.element
        inner = field if isinstance(element, wire.Struct) else field.array_of
        return [converted(element, inner, item, version) for item in value]
    if isinstance(con, wire.Struct):
        return field(version=version, **arguments(con, field, value, version))
    if isinstance(con, wire.Uuid):
        return uuid.UUID(bytes=wire.uuid_bytes(value))
    if getattr(field, "_type", None) is BitField:
        return BitField.from_32_bit_field(value & 0xFFFFFFFF)
    return value


def arguments(con: wire.Struct, field: Any, value: dict[str, Any], version: int) -> dict[str, Any]:
    theirs = field.untagged_fields(version)
    assert len(theirs) == len(con.members)
    made = {}
    for member, inner in zip(con.members, theirs, strict=True):
        names = (plain(member.name), plain(RENAMED.get(member.name, member.name)))
        assert plain(inner.name) in names
        made[inner.name] = converted(member.con, inner, value[member.name], version)
    return made


def plain(name: str) -> str:
    return name.replace("_", "")


def test_kafka_python_has_as_many_layouts_as_we_think() -> None:
    assert sum(message.max_version + 1 for message in message_classes().values()) == LAYOUTS


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", sorted(message_classes()))
def test_kafka_python_writes_what_we_read(name: str) -> None:
    message = message_classes()[name]
    for version in range(message.max_version + 1):
        layout = layout_of(message, version)
        for number in range(ROUNDS):
            seed = f"{layout!r} {number}"
            value = Values(seed, unknown_tags=False, tags=0).draw(layout.struct)
            theirs = message(version=version, **arguments(layout.struct, message._struct, value, version))
            data = theirs.encode()
            assert layout.parse(data) == value, seed
            assert layout.build(value) == data, seed
