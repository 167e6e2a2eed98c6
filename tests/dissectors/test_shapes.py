"""Arrays of elements that look alike: when the table reading is used, when it declines, and what it keeps."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors import codegen, shapes, wire
from dissectors.schema import Array, Bytes, Field, Int8, Int16, Int32, String, Struct, Uuid
from dissectors.shapes import ShapedArray


def element(*fields: Field, flexible: bool = True) -> wire.Struct:
    return Struct(*fields).bound(0, flexible=flexible)


def made(con: wire.Struct) -> ShapedArray:
    found = ShapedArray.of(con, codegen.Generator().globals)
    assert found is not None
    return found


def rows(con: wire.Struct, values: list[dict[str, Any]]) -> bytes:
    return b"".join(con.build(value) for value in values)


ALL_KINDS = element(
    "n" / Int16, "s" / String.null(), "id" / Uuid, "b" / Bytes, "list" / Array(Int32).null(), "last" / Int8
)  # fmt: skip


def alike(count: int, name: str = "ab") -> list[dict[str, Any]]:
    return [
        {
            "n": n,
            "s": name,
            "id": wire.uuid_text(bytes([n % 250] * 16)),
            "b": b"x",
            "list": (n, -n),
            "last": 1,
        }
        for n in range(count)
    ]


def test_first_meetings_are_left_to_the_loop() -> None:
    """Code for a shape costs as much as some hundred elements: a shape must have been met in 64."""
    shaped, values = made(ALL_KINDS), alike(40)
    data = rows(ALL_KINDS, values)
    assert shaped(data, 0, 40) is None
    assert shaped(data, 0, 40) == (values, len(data))


def test_position_and_rest_of_the_buffer() -> None:
    shaped, values = made(ALL_KINDS), alike(100)
    data = rows(ALL_KINDS, values)
    assert shaped(b"???" + data + b"rest", 3, 100) == (values, 3 + len(data))


def test_nulls_and_empties_have_a_shape() -> None:
    shaped = made(ALL_KINDS)
    values = [{**value, "s": None, "list": None, "b": b""} for value in alike(70)]
    assert shaped(rows(ALL_KINDS, values), 0, 70) == (values, len(rows(ALL_KINDS, values)))
    values = [{**value, "s": "", "list": ()} for value in alike(70)]
    assert shaped(rows(ALL_KINDS, values), 0, 70) == (values, len(rows(ALL_KINDS, values)))


@pytest.mark.parametrize("odd", [0, 1, 50, 99])
@pytest.mark.parametrize(
    "change",
    [{"s": "abc"}, {"s": None}, {"b": b""}, {"list": ()}, {"_tags": {7: b"tag"}}, {"s": "a" * 200}],
)
def test_one_element_of_another_shape(odd: int, change: dict[str, Any]) -> None:
    shaped, values = made(ALL_KINDS), alike(100)
    shaped(rows(ALL_KINDS, values), 0, 100)
    values[odd] = {**values[odd], **change}
    assert shaped(rows(ALL_KINDS, values), 0, 100) is None


def test_shape_of_the_last_array_is_tried_first_and_others_are_found() -> None:
    shaped = made(ALL_KINDS)
    one, other = alike(80), alike(80, name="longer")
    for values in (one, other, one, one, other):
        data = rows(ALL_KINDS, values)
        assert shaped(data, 0, 80) == (values, len(data))


def test_announced_elements_beyond_the_buffer() -> None:
    shaped, data = made(ALL_KINDS), rows(ALL_KINDS, alike(100))
    assert shaped(data, 0, 100) is not None
    assert shaped(data, 0, 101) is None
    assert shaped(data, 0, 2**31) is None
    assert shaped(data[:-1], 0, 100) is None
    assert shaped(b"", 0, 4) is None


def test_null_where_none_is_allowed_is_left_to_the_loop() -> None:
    con = element("s" / String)
    assert made(con)(b"\x00\x00" * 100, 0, 100) is None


def test_bad_utf8_is_malformed() -> None:
    con = element("s" / String)
    with pytest.raises(codegen.MALFORMED):
        made(con)(b"\x02\xff\x00" * 100, 0, 100)


def test_shapes_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_MAX_SHAPES", 3)
    con = element("s" / String)
    shaped = made(con)
    for size in range(10):
        values = [{"s": "x" * size}] * 70
        found = shaped(rows(con, values), 0, 70)
        assert found == (None if size >= 3 else (values, 70 * (size + 2)))


def test_shapes_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_MAX_SEEN", 2)
    con = element("s" / String)
    shaped = made(con)
    for size in range(5):
        assert shaped(rows(con, [{"s": "x" * size}] * 5), 0, 5) is None
        assert len(shaped._seen) <= 2


def test_patience_with_arrays_that_never_fit() -> None:
    """After 16 misses only every 16th array is looked at; one that fits restores the interest."""
    con = element("s" / String)
    shaped = made(con)
    uneven = rows(con, [{"s": "a"}, {"s": "bb"}, {"s": "ccc"}, {"s": "dddd"}])
    even = rows(con, [{"s": "abcd"}] * 100)
    assert shaped(even, 0, 100) is not None
    for _ in range(40):
        assert shaped(uneven, 0, 4) is None
    other = rows(con, [{"s": "abcde"}] * 100)
    tried = next(number for number in range(1, 40) if shaped(other, 0, 100) is not None)
    assert 1 < tried <= 16
    assert shaped(even, 0, 100) is not None


@pytest.mark.parametrize(
    "con",
    [
        element("s" / String, flexible=False),
        element("list" / Array(Int32), flexible=False),
        element("list" / Array("x" / Int8)),
        element("names" / Array(String)),
        element("inner" / Struct("x" / Int8)),
        wire.INT32,
        wire.UUID,
    ],
)
def test_types_without_a_fixed_shape(con: wire.WireType) -> None:
    assert ShapedArray.of(con, {}) is None


def test_fixed_fields_alone_have_one_shape() -> None:
    con = element("a" / Int32, "b" / Int8, flexible=False)
    values = [{"a": n, "b": 1} for n in range(70)]
    assert made(con)(rows(con, values), 0, 70) == (values, 350)


def test_elements_of_one_tag_byte() -> None:
    assert made(element())(b"\x00" * 70, 0, 70) == ([{}] * 70, 70)
