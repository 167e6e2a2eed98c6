"""Messages below an input line."""

from __future__ import annotations

import pytest

from captures.filters import FilterError, compile_filter
from kproxy.text.cells import width
from kproxy.tui.widgets.verdict import Validity, Verdict, objection, verdict_text


def test_carets_stand_before_the_message_where_that_has_no_room_behind() -> None:
    verdict = Verdict(f"{'x' * 50} bad", Validity.INVALID, "what is this", 51, 3)
    assert verdict_text(verdict, 5, 70) == f"{' ' * 43}what is this ^^^".rjust(59)
    assert verdict_text(verdict, 5, 200) == f"{' ' * 56}^^^ what is this"
    assert verdict_text(verdict, -60, 70) == "what is this"
    assert verdict_text(verdict, 5, 8) == "what is…"


def test_carets_are_as_wide_as_what_is_wrong() -> None:
    verdict = Verdict("日本 x", Validity.INVALID, "what is this", 0, 2)
    assert verdict_text(verdict, 3, 80) == "   ^^^^ what is this"
    behind = Verdict("日本 x", Validity.INVALID, "what is this", 3, 1)
    assert verdict_text(behind, 3, 80) == "        ^ what is this"


@pytest.mark.parametrize("room", [0, 1, 5, 20, 80])
def test_there_is_never_more_than_fits(room: int) -> None:
    for validity in Validity:
        verdict = Verdict("topic == a and", validity, "what is\x1b missing here", 14, 0)
        line = verdict_text(verdict, 9, room)
        assert width(line) <= max(room, 0)
        assert "\x1b" not in line


@pytest.mark.parametrize(
    ("text", "validity"),
    [
        ("api ==", Validity.INCOMPLETE),
        ("(api == Fetch", Validity.INCOMPLETE),
        ('topic == "a', Validity.INCOMPLETE),
        ("api in {Fetch", Validity.INCOMPLETE),
        ("api == Fetch and", Validity.INCOMPLETE),
        ("nope == 1", Validity.INVALID),
        ("api === Fetch", Validity.INVALID),
        ("api == Fetch )", Validity.INVALID),
    ],
)
def test_what_is_missing_is_no_mistake(text: str, validity: Validity) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(text)
    verdict = objection(caught.value, f"filter {text}", offset=7)
    assert verdict.validity is validity
    assert verdict.position == caught.value.position + 7
