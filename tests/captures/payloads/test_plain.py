"""Payloads that need no schema."""

from __future__ import annotations

import pytest

from captures.payloads.payload import Payload
from captures.payloads.plain import PlainFormat, read_plain


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (None, Payload("null", None, 0)),
        (b"", Payload("text", "", 0)),
        (b"customer-17", Payload("text", "customer-17", 11)),
        ("Grüße\nan alle".encode(), Payload("text", "Grüße\nan alle", 15)),
        (b'{"a": [1, 2]}', Payload("json", {"a": [1, 2]}, 13, '{"a": [1, 2]}')),
        (b'{"a": ', Payload("text", '{"a": ', 6)),
        (b"17", Payload("text", "17", 2)),
        (b"\x00\x00\x00\x01", Payload("hex", "00000001", 4)),
        (b"\x1b[31mred", Payload("hex", "1b5b33316d726564", 8)),
        (b"\xff\xfe", Payload("hex", "fffe", 2)),
    ],
)
def test_a_payload_is_what_it_looks_like(data: bytes | None, wanted: Payload) -> None:
    assert read_plain(data) == wanted


@pytest.mark.parametrize(
    ("data", "wanted", "shown"),
    [
        (b"17", "json", 17),
        (b"\xff\xff\xff\xff\xff\xff\xff\xfe", "int", -2),
        (b"\x01", "int", 1),
        (b"abc", "hex", "616263"),
        (b"a\xffb", "text", "a�b"),
    ],
)
def test_a_format_can_be_chosen(data: bytes, wanted: PlainFormat, shown: object) -> None:
    found = read_plain(data, wanted)
    assert (found.format, found.data, found.problem) == (wanted, shown, "")


@pytest.mark.parametrize(("data", "wanted"), [(b"abc", "int"), (b"{", "json"), (b"\xff", "json")])
def test_what_does_not_fit_comes_as_bytes_with_the_reason(data: bytes, wanted: PlainFormat) -> None:
    found = read_plain(data, wanted)
    assert (found.format, found.data) == ("hex", data.hex())
    assert found.problem


def test_json_nested_without_end_is_text() -> None:
    found = read_plain(b"[" * 100_000 + b"]" * 100_000)
    assert found.format == "text"
