"""Paragraphs keep to their width, and leave whole what is to be copied."""

from __future__ import annotations

from kproxy.text.paragraphs import LEAST, Paragraphs, wrapped

TEXT = "Group orders was not consumed for 20 s"
TOPIC = "a-topic-with-a-name-that-is-longer-than-the-line"


def test_a_text_is_wrapped_behind_its_first_words() -> None:
    assert wrapped(TEXT, 24, "  ", first="do ") == ["do Group orders was not", "  consumed for 20 s"]


def test_a_pipe_gets_one_line() -> None:
    assert wrapped(TEXT, None, "  ") == [f"  {TEXT}"]


def test_narrow_terminals_leave_room_for_some_text() -> None:
    assert max(map(len, wrapped(TEXT, 1, "    "))) <= LEAST + 4


def test_long_words_are_cut_only_if_asked() -> None:
    assert wrapped(TOPIC, 30) == [TOPIC]
    assert wrapped(TOPIC, 30, cuts_words=True) == [TOPIC[:30], TOPIC[30:]]


def test_an_empty_text_is_a_line() -> None:
    assert wrapped("", 30, "  ") == ["  "]


def test_labels_stand_before_the_first_line() -> None:
    page = Paragraphs(40, color=False)
    assert list(page.labelled("do", TEXT)) == [
        "    do        Group orders was not",
        "              consumed for 20 s",
    ]
    assert page.whole("look", TOPIC) == f"    look      {TOPIC}"
