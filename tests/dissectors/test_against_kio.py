"""Our bytes against kio's, which was generated from Kafka's message definitions by independent code.

Every request and response of every version that kio supports: the same values give the same bytes in both, and our
decoder gives the values back. Fields are matched by their position on the wire, with their names as a check.
"""

from __future__ import annotations

import io
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from pkgutil import resolve_name
from typing import Any, get_args
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import EntityField, EntityTupleField, classify_field
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta, i64Timedelta

from dissectors import apis, wire
from dissectors.message_version import MessageVersion
from tests.dissectors.values import Values

ENTITIES = 604  # requests and responses of kio 0.6.5: those of Kafka 4.3
ROUNDS = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_000  # 9999-12-31, where Python's datetime ends

#: fields that kio names after another revision of Kafka's definitions, without underscores
RENAMED = {
    ("TxnOffsetCommitRequest", "generationidormemberepoch"): "generationid",
    ("StreamsGroupHeartbeatResponse", "acceptablerecoverylaglegacy"): "acceptablerecoverylag",
}


def entities(key: int) -> list[tuple[MessageVersion, type[Any]]]:
    known = apis.api(key)
    assert known is not None
    found = []
    for version, kinds in schema_name_map[api_key_map[key]].items():
        for kind, message in ((EntityType.request, known.request), (EntityType.response, known.response)):
            if kind in kinds:
                found.append((message[version], resolve_name(kinds[kind])))
    return found


class Converter:
    """Converts a drawn value to a kio entity, and removes what kio cannot represent from the value."""

    def __init__(self, seed: str) -> None:
        self.rng = Values(seed).rng

    def entity(self, con: wire.Struct, schema: type[Any], value: dict[str, Any]) -> Any:
        """Return the entity. Tagged fields at their default are removed from ``value``: kio does not write them."""
        untagged = [field for field in fields(schema) if "tag" not in field.metadata]
        tagged = {field.metadata["tag"]: field for field in fields(schema) if "tag" in field.metadata}
        assert len(untagged) == len(con.members)
        assert sorted(tagged) == sorted(con.tagged or {})
        arguments = {field.name: tagged_default(field) for field in tagged.values()}
        for member, field in zip(con.members, untagged, strict=True):
            check_name(schema, member.name, field)
            arguments[field.name] = self.field(member, field, value)
        for tag, member in (con.tagged or {}).items():
            check_name(schema, member.name, tagged[tag])
            if member.name in value:
                made = self.field(member, tagged[tag], value)
                if made is None:
                    del value[member.name]
                else:
                    arguments[tagged[tag].name] = made
        made = schema(**arguments)
        for tag, member in (con.tagged or {}).items():
            default = tagged_default(tagged[tag])
            if member.name in value and getattr(made, tagged[tag].name) == default:
                del value[member.name]
        return made

    def field(self, member: wire.Member, field: Any, into: dict[str, Any]) -> Any:
        con, value = member.con, into[member.name]
        if isinstance(con, wire.NullableStruct):
            con = con.struct
        if value is None:
            return None
        kind = classify_field(field)
        if isinstance(kind, EntityField):
            assert isinstance(con, wire.Struct)
            return self.entity(con, kind.type_, value)
        if isinstance(kind, EntityTupleField):
            assert isinstance(con, wire.Array)
            assert isinstance(con.element, wire.Struct)
            return tuple(self.entity(con.element, kind.type_, item) for item in value)
        kafka_type = field.metadata["kafka_type"]
        if isinstance(con, wire.Array):
            pairs = [self.primitive(kafka_type, item, field) for item in value]
            into[member.name] = type(value)(ours for ours, _ in pairs)
            return tuple(theirs for _, theirs in pairs)
        into[member.name], theirs = self.primitive(kafka_type, value, field)
        return theirs

    def primitive(self, kafka_type: str, value: Any, field: Any) -> tuple[Any, Any]:
        """Return a value that both can represent, in our form and in kio's."""
        match kafka_type:
            case "error_code":
                code = self.rng.choice(list(ErrorCode))
                return int(code), code
            case "timedelta_i32":
                return value, i32Timedelta.parse(timedelta(milliseconds=value))
            case "timedelta_i64":
                value %= 2**50
                return value, i64Timedelta.parse(timedelta(milliseconds=value))
            case "datetime_i64":
                if type(None) in get_args(field.type) and value < 0:
                    return -1, None
                value = value % LAST_MS // 1000 * 1000  # kio's datetimes have whole seconds
                return value, EPOCH + timedelta(milliseconds=value)
            case "uuid":
                data = wire.uuid_bytes(value)
                return value, UUID(bytes=data) if any(data) else None
            case "float64":
                return value, value
        return value, value


def tagged_default(field: Any) -> Any:
    return field.default if field.default is not MISSING else get_tagged_field_default(field)


def check_name(schema: type[Any], ours: str, field: Any) -> None:
    plain = ours.replace("_", "")
    if field.metadata.get("kafka_type", "").startswith(("timedelta", "datetime")):
        plain = plain.removesuffix("ms")  # the unit is in kio's type
    assert RENAMED.get((schema.__name__, plain), plain) == field.name.replace("_", "")


@pytest.mark.slow
def test_kio_knows_what_we_think_it_knows() -> None:
    assert sum(len(entities(key)) for key in api_key_map) == ENTITIES


@pytest.mark.sample(8)
@pytest.mark.parametrize("key", sorted(api_key_map), ids=apis.NAMES.__getitem__)
def test_kio_writes_what_we_read_and_we_write_what_it_writes(key: int) -> None:
    for layout, schema in entities(key):
        for number in range(ROUNDS):
            seed = f"{layout!r} {number}"
            value = Values(seed, unknown_tags=False).draw(layout.struct)
            entity = Converter(seed).entity(layout.struct, schema, value)
            buffer = io.BytesIO()
            entity_writer(schema)(buffer, entity)
            assert layout.parse(buffer.getvalue()) == value, seed
            assert layout.build(value) == buffer.getvalue(), seed
