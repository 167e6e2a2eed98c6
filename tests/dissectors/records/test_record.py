"""The fast record loop against the exact walk."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dissectors.budget import message_budget
from dissectors.errors import DecodeError
from dissectors.records import Record
from dissectors.records.build import build_batch, encode_varint
from dissectors.records.cursor import Cursor, walk_record
from dissectors.records.record import decode_records, most_records
from tests.dissectors.records.strategies import record_lists


def record(*fields: bytes | int, length: int | None = None) -> bytes:
    body = b"\x00" + b"".join(encode_varint(part) if isinstance(part, int) else part for part in fields)
    return encode_varint(len(body) if length is None else length) + body


GOOD = record(5, 0, -1, 1, b"v", 0)


def payload_of(rows: list[Record]) -> bytes:
    return build_batch(rows, base_offset=0, base_timestamp=0)[61:]


def exact(payload: bytes, count: int) -> tuple[list[tuple[object, ...]], DecodeError | None]:
    """The same by the walk: offset delta, timestamp delta, key, value, header values."""
    cursor = Cursor(payload, 0, len(payload))
    rows = []
    for index in range(count):
        try:
            walk_record(cursor, f"records[{index}]")
        except DecodeError as error:
            return rows, error
        fields = {span.name: span for span in cursor.nodes[-1].children}
        headers = [span.children[-1].value for name, span in fields.items() if name.startswith("headers[")]
        rows.append(
            (
                fields["offset_delta"].value,
                fields["timestamp_delta"].value,
                fields["key"].value,
                fields["value"].value,
                headers,
            )
        )
    return rows, None


def assert_same(payload: bytes, count: int) -> None:
    rows, fault = decode_records(payload, count, 0, 0, *most_records(message_budget()))
    expected, error = exact(payload, count)
    assert [(*row[:4], [value for _, value in row.headers]) for row in rows] == expected
    assert (fault is None) == (error is None and sum(map(len, [payload])) == _consumed(payload, count))
    if fault is not None and error is not None and error.offset < len(payload):
        assert fault.offset == error.offset


def _consumed(payload: bytes, count: int) -> int:
    cursor = Cursor(payload, 0, len(payload))
    for _ in range(count):
        walk_record(cursor, "record")
    return cursor.pos


@pytest.mark.slow
@settings(deadline=None)
@given(record_lists(start=0), st.data())
def test_agrees_on_mutations(rows: list[Record], draw: st.DataObject) -> None:
    payload = bytearray(payload_of(rows))
    for _ in range(draw.draw(st.integers(0, 3))):
        if payload:
            payload[draw.draw(st.integers(0, len(payload) - 1))] = draw.draw(st.integers(0, 255))
    assert_same(bytes(payload), draw.draw(st.integers(0, len(rows) + 1)))


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 5))
@example(record(0, 0, -2, 0, 0), 1)
@example(record(0, 0, b"\x81\x80\x00", b"\x81\x80\x00", 0), 1)  # null in three bytes
@example(record(0, 0, b"\x82\x80\x00", b"kv", b"\x00", 0), 1)
def test_agrees_on_noise(noise: bytes, count: int) -> None:
    assert_same(noise, count)
    assert_same(GOOD + noise, count + 1)


@pytest.mark.parametrize("delta", [0, -1, 63, 64, -64, -65, 8191, 8192, -8193, 1 << 20, 1 << 30, -(1 << 31)])
def test_offset_and_timestamp_deltas_of_every_size(delta: int) -> None:
    rows, fault = decode_records(
        record(delta * 1000, delta, -1, -1, 0), 1, 100, 200, *most_records(message_budget())
    )
    assert fault is None
    assert rows == [Record(100 + delta, 200 + delta * 1000, None, None)]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 100_000, 1_100_000])
def test_keys_and_values_of_every_size(size: int) -> None:
    data = bytes(size)
    for row in (Record(0, 0, data, None), Record(0, 0, None, data), Record(0, 0, b"", b"", (("h", data),))):
        rows, fault = decode_records(payload_of([row]), 1, 0, 0, *most_records(message_budget()))
        assert fault is None
        assert rows == [row]


def test_numbers_stay_64_bits_wide() -> None:
    top = (1 << 63) - 1
    rows, _ = decode_records(record(top, 1, -1, -1, 0), 1, top, 1, *most_records(message_budget()))
    assert rows == [Record(-top - 1, -top - 1, None, None)]
    rows, _ = decode_records(record(1, 1, -1, -1, 0), 1, 0, top, *most_records(message_budget()))
    assert rows == [Record(1, -top - 1, None, None)]


def test_header_key_that_is_not_utf_8() -> None:
    payload = record(0, 0, -1, -1, 1, 2, b"\xffk", -1)
    rows, fault = decode_records(payload, 1, 0, 0, *most_records(message_budget()))
    assert fault is None
    assert rows[0].headers == (("\ufffdk", None),)


@pytest.mark.parametrize(
    ("bad", "reason", "path"),
    [
        (record(0, 0, -1, 1, b"v", 0, length=200), "record announces 200 bytes", "length"),
        (record(0, 0, -1, 1, b"v", 0, length=6), "varint runs past the end", "headers_count"),
        (record(0, 0, -1, 1, b"v", 0, b"extra"), "5 bytes left inside the record", "length"),
        (record(0, 0, 50, 1, b"v", 0), "announces 50 bytes", "key"),
        (record(0, 0, -2, 1, b"v", 0), "length -2 is not allowed", "key"),
        (record(0, 0, -1, -3, b"v", 0), "length -3 is not allowed", "value"),
        (record(0, 0, -1, -1, -1), "-1 headers", "headers_count"),
        (record(0, 0, -1, -1, 9), "varint ends early", "headers[0].key_length"),
        (record(0, 0, -1, -1, 1, -1, -1), "length -1 is not allowed", "headers[0].key"),
        (record(0, 0, -1, -1, 1, 1, b"k", -2), "length -2 is not allowed", "headers[0].value"),
        (record(b"\xff" * 10 + b"\x01", 0, -1, -1, 0), "longer than 64 bits", "timestamp_delta"),
        (record(0, b"\xff" * 6, -1, -1, 0), "longer than 32 bits", "offset_delta"),
        (b"\x01", "record of -1 bytes", "length"),
        (b"\x00", "needs 1 bytes, 0 left", "attributes"),
    ],
)
def test_faults_are_named(bad: bytes, reason: str, path: str) -> None:
    rows, fault = decode_records(GOOD + bad, 2, 0, 0, *most_records(message_budget()))
    assert rows == [Record(0, 5, None, b"v")]
    assert fault is not None
    assert reason in fault.reason
    assert fault.field_path == f"records[1].{path}"
    assert fault.offset >= len(GOOD)
