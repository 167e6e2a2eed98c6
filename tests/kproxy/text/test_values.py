"""Values as text: short, on one line, and harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.domains import ERROR_CODE
from dissectors.schema import Int16
from kproxy.text.values import advice_on, has_parts, parts_of, short

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-1, "-1"),
        ("orders", '"orders"'),
        ("a\x1b[2J", '"a�[2J"'),
        (b"plain", '"plain" (5 bytes)'),
        (b"\0\1", "00 01 (2 bytes)"),
        ([1, 2], "[1, 2]"),
        (list(range(51)), f"[{', '.join(map(str, range(50)))}, …]"),
        ("x" * 200, f'"{"x" * 160}…"'),
        (b"x" * 200, f'"{"x" * 160}"… (200 bytes)'),
        (b"\xff" * 40, f"{'ff ' * 31}ff… (40 bytes)"),
        ("ä".encode() * 100 + b"x", f'"{"ä" * 80}"… (201 bytes)'),
        (b"x" + "ä".encode() * 100, f'"x{"ä" * 79}"… (201 bytes)'),
        (b"x" * 159 + "ä".encode()[:1], f"{'78 ' * 31}78… (160 bytes)"),
    ],
)
def test_a_value(value: object, text: str) -> None:
    assert short(value) == text


@given(st.text() | st.binary())
def test_texts_of_the_wire_are_harmless(value: str | bytes) -> None:
    assert short(value).isprintable()


@pytest.mark.slow
@given(ANY)
def test_parts_are_all_of_a_value(value: object) -> None:
    parts = list(parts_of(value))
    if has_parts(value):
        assert isinstance(value, dict | list)
        assert len(parts) == len(value)
    if isinstance(value, list) and has_parts(value):
        assert [name for name, _ in parts] == [f"[{index}]" for index in range(len(value))]


def test_advice_is_given_on_errors_only() -> None:
    field = "error_code" / Int16.of(ERROR_CODE)
    assert "JoinGroup" in advice_on(field, 27)
    assert advice_on(field, 0) == ""
    assert advice_on(field, 31_000) == ""
    assert advice_on("x" / Int16, 27) == ""
    assert advice_on(None, 27) == ""
