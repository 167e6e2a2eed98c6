"""Blocks as text and as Markdown."""

from __future__ import annotations

from kproxy.text.blocks import BLANK, WIDE, Fact, Heading, Paragraph, markdown_lines, spaced, text_lines

BLOCKS = [Heading(["orders"], 2), Fact("seen", "once"), Fact("do", "nothing"), BLANK, Paragraph("word " * 60)]


def test_prose_is_short_enough_to_be_read_also_in_a_pipe() -> None:
    assert max(map(len, text_lines(BLOCKS, None, prose=True))) <= WIDE
    assert len(list(text_lines(BLOCKS, None))) == 5
    assert 100 < max(map(len, text_lines(BLOCKS, 400, prose=True))) <= 110


def test_facts_in_a_row_are_one_list_of_markdown() -> None:
    assert list(markdown_lines(BLOCKS[:4])) == ["## orders", "", "- seen: once", "- do: nothing"]


def test_an_empty_line_is_between_two_blocks_only() -> None:
    assert list(text_lines(spaced([Paragraph("a"), Paragraph("b")]), None)) == ["a", "", "b"]
