from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content

from dissectors.printable import printable
from kproxy.text.cells import cut, fit, width
from kproxy.tui.safe import plain


@given(st.text(), st.integers(0, 40), st.booleans())
def test_text_takes_just_the_room_it_is_given(text: str, room: int, right: bool) -> None:
    shown = fit(text, room, right=right)
    assert cell_len(shown) == room
    assert shown.isprintable()


@given(st.text(max_size=60), st.integers(0, 30))
def test_what_is_cut_says_so(text: str, room: int) -> None:
    cleaned = printable(text)
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
