from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.printable import is_printable, printable, printable_json

HOSTILE = {
    "escape sequence": "\x1b[2J\x1b[1;31mred\x1b]0;title\x07",
    "line ends": "one\ntwo\r\nthree\ttabbed\x0b\x0c\x85\u2028\u2029",
    "C1 controls": "\x9b31m\x90\x9d",
    "right to left": "user\u202egpj.exe\u2066\u2069\u200f",
    "zero width": "ad\u200bmin\ufeff\u2060\u00ad",
    "joined emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467\ufe0f",
    "tags": "\U000e0041\U000e007f",
    "private and unassigned": "\ue000\U000f0000\U0003ffff\ufdd0",
    "surrogates": "\ud800\udfff",
    "piled marks": "e" + "\u0301" * 40,
    "mark without a base": "\u0301\u0301",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_hostile_is_replaced(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    for character in shown:
        assert unicodedata.category(character)[0] != "C", f"U+{ord(character):04X}"
    assert "�" in shown


@pytest.mark.parametrize(
    "text", ["orders", "größe", "注文トピック", "заказы", "طلبات", "a [b]c[/b] d", "e\u0301"]
)
def test_what_is_text_stays(text: str) -> None:
    assert printable(text) == text


@given(st.text())
def test_printable_text_is_left_as_it_is(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    assert is_printable(text) == (shown == text)
    assert is_printable(shown)


def test_plain_blocks_hold_nothing_that_piles_up() -> None:
    """Text on the fast path is what the slow path would leave unchanged."""
    for code in (*range(0x20, 0x300), *range(0x2010, 0x20D0), *range(0x2100, 0x2C00)):
        character = chr(code)
        assert not character.isprintable() or unicodedata.category(character) not in ("Mn", "Me")


def test_endless_text_is_cut() -> None:
    assert printable("x" * 30_000, 400) == "x" * 399 + "…"
    assert printable("x" * 400, 400) == "x" * 400
    assert printable("\x1b" * 30_000, 10) == "�" * 9 + "…"


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_printed_json_says_the_same(text: str) -> None:
    shown = printable_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert all(character.isprintable() for character in shown)


def test_what_json_leaves_is_escaped() -> None:
    assert printable_json('"a\x7f\x9b\u202e\U000e0041é"\n') == '"a\\u007f\\u009b\\u202e\\udb40\\udc41é"\n'
