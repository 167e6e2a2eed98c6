"""Control records."""

from __future__ import annotations

import pytest

from dissectors.errors import DecodeError
from dissectors.records import ControlType, control_record
from tests.batches import batches
from tests.dissectors.records.strategies import MARKER


def test_abort_marker_of_a_broker() -> None:
    (batch,) = batches(MARKER)
    assert batch.control
    assert batch.transactional
    (record,) = batch.records()
    found = control_record(record.key, record.value)
    assert found == ("ABORT", 0, b"\x00" * 6, 0, 0)


@pytest.mark.parametrize("kind", list(ControlType)[2:])
def test_messages_inside_are_handed_on(kind: ControlType) -> None:
    key = b"\x00\x00\x00" + bytes((kind,))
    assert control_record(key, b"\x00\x01message") == (kind.name, 0, b"\x00\x01message", None, kind)
    assert control_record(key, None).value is None


def test_commit_with_coordinator_epoch() -> None:
    found = control_record(bytes.fromhex("00000001"), bytes.fromhex("0000 00000007"))
    assert (found.type_name, found.coordinator_epoch) == ("COMMIT", 7)


def test_later_versions_may_be_longer() -> None:
    found = control_record(bytes.fromhex("00010001ff"), bytes.fromhex("0001 00000007 ff"))
    assert (found.version, found.coordinator_epoch) == (1, 7)


def test_unknown_type() -> None:
    assert control_record(bytes.fromhex("0000002a"), b"?").type_name == "UNKNOWN(42)"
    assert control_record(bytes.fromhex("0000ffff"), None).type_name == "UNKNOWN(-1)"


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_short_key(key: bytes | None) -> None:
    with pytest.raises(DecodeError) as caught:
        control_record(key, b"")
    assert caught.value.field_path == "key"


@pytest.mark.parametrize("value", [None, b"", b"\x00" * 5])
def test_short_marker(value: bytes | None) -> None:
    with pytest.raises(DecodeError) as caught:
        control_record(bytes(4), value)
    assert caught.value.field_path == "value"
