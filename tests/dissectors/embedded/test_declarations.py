"""The declarations of embedded messages: against Kafka's definitions, against kio, and against themselves."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import pytest
from kio.serial import entity_writer

from dissectors.errors import DecodeError
from dissectors.message_version import MessageVersion
from tests.definitions import facts
from tests.definitions.declared import drift
from tests.dissectors.embedded.declarations import KAFKAS, OURS, EmbeddedValues, layouts, messages
from tests.dissectors.test_against_kio import Converter
from tests.dissectors.values import Values

#: never on the wire (files of the log directory), or the same bytes under another name
NOT_DECLARED = {
    "AbortedTxn",
    "ProducerSnapshot",
    "QuorumStateData",
    "ControlRecordTypeSchema",  # the key's second half, read by dissectors.records.control
    "SubscriptionInfo",  # the hand-written SubscriptionInfoData of 2.3
}


RECORDS = [
    message
    for message in facts.kept().of_kind("coordinator-key", "coordinator-value", "data", "metadata")
    if message.name not in NOT_DECLARED
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_every_layout_is_kafkas(record: facts.Message) -> None:
    assert drift(record) == []


def test_nothing_is_declared_that_kafka_has_not() -> None:
    known = {message.name: message for message in RECORDS}
    for name, message in messages(*KAFKAS).items():
        assert set(message.versions) <= set(known[name].layouts), name


# kio's package -> versions that both know
KIO = {
    "consumer_protocol_subscription": 4,
    "consumer_protocol_assignment": 4,
    "default_principal_data": 1,
    "leader_change_message": 2,
    "snapshot_header_record": 1,
    "snapshot_footer_record": 1,
    "k_raft_version_record": 1,
    "voters_record": 1,
    "end_txn_marker": 1,
}


@pytest.mark.parametrize("package", KIO)
def test_kio_writes_what_we_write(package: str) -> None:
    """kio 0.6.5 was generated from the message definitions of Kafka 4.3."""
    declared = {name.lower(): message for name, message in messages(*KAFKAS).items()}
    for version in range(KIO[package]):
        module = import_module(f"kio.schema.{package}.v{version}.data")
        name = package.replace("_", "")
        schema = next(item for key, item in vars(module).items() if key.lower() == name)
        layout = declared[name][version]
        for attempt in range(3):
            seed = f"{package} {version} {attempt}"
            value = Values(seed, unknown_tags=False).draw(layout.struct)
            entity = Converter(seed).entity(layout.struct, schema, value)
            out = io.BytesIO()
            entity_writer(schema)(out, entity)
            assert layout.build(value) == out.getvalue()
            assert layout.parse(out.getvalue()) == value


def label(layout: MessageVersion) -> str:
    return f"{layout.message.name} v{layout.version} {len(layout.struct.members)}"


@pytest.mark.sample(75)
@pytest.mark.parametrize("layout", list(layouts()), ids=label)
def test_what_is_built_is_read_and_traced(layout: MessageVersion) -> None:
    for attempt in range(2):
        value = EmbeddedValues(f"{label(layout)} {attempt}").draw(layout.struct)
        data = layout.build(value)
        traced = layout.trace(data)
        assert traced.error is None
        assert traced.end == len(data)
        assert traced.root.to_value() == value
        assert layout.decode(data) == (value, len(data))
        for cut in range(0, len(data), 1 + len(data) // 20):
            error = layout.trace(data[:cut]).error
            if not layout.older:
                assert isinstance(error, DecodeError)
                assert error.truncated


@pytest.mark.parametrize("name", messages(*OURS))
def test_every_field_says_what_it_means(name: str) -> None:
    def undocumented(fields: Any) -> list[str]:
        found = []
        for field in fields:
            found += [] if field.doc else [field.name]
            found += undocumented(getattr(getattr(field.type, "element", field.type), "fields", ()))
        return found

    assert undocumented(messages(*OURS)[name].fields) == []
