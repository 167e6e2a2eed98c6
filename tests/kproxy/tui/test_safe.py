from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content

from kproxy.tui.safe import clean, cut, fit, plain, width

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
    shown = clean(text)
    assert shown.isprintable()
    for character in shown:
        assert unicodedata.category(character)[0] != "C", f"U+{ord(character):04X}"
    assert "�" in shown


@pytest.mark.parametrize(
    "text", ["orders", "größe", "注文トピック", "заказы", "طلبات", "a [b]c[/b] d", "e\u0301"]
)
def test_what_is_text_stays(text: str) -> None:
    assert clean(text) == text


@given(st.text(), st.integers(0, 40), st.booleans())
def test_text_takes_just_the_room_it_is_given(text: str, room: int, right: bool) -> None:
    shown = fit(text, room, right=right)
    assert cell_len(shown) == room
    assert shown.isprintable()


@given(st.text(max_size=60), st.integers(0, 30))
def test_what_is_cut_says_so(text: str, room: int) -> None:
    cleaned = clean(text)
    shown = cut(cleaned, room)
    assert width(shown) <= room
    if width(cleaned) > room > 0:
        assert shown.endswith("…")
        assert cleaned.startswith(shown[:-1])
    else:
        assert shown == (cleaned if room or not cleaned else "")


def test_numbers_stand_on_the_right_and_texts_on_the_left() -> None:
    assert fit("17", 5, right=True) == "   17"
    assert fit("17", 5) == "17   "


def test_wide_characters_are_not_halved() -> None:
    assert fit("注文", 4) == "注文"
    assert fit("注文x", 4) == "注… "
    assert fit("注文", 3) == "注…"


def test_nothing_is_taken_for_markup() -> None:
    assert plain("[red]x[/red] [@click=app.quit]y").plain == "[red]x[/red] [@click=app.quit]y"
    assert plain("[b]").spans == Content("[b]").spans == []
