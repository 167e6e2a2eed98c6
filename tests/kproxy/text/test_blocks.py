"""Blocks keep to their width, do not wrap copyable text, name their exchange, and escape markup."""

from __future__ import annotations

import pytest

from kproxy.text.blocks import LEAST, Block, Code, Fact, Heading, Line, Paragraph, escaped, wrapped
from kproxy.text.tables import Column, Row, Table

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
    assert list(Fact("do", TEXT, room=10).lines(40)) == [
        "    do        Group orders was not",
        "              consumed for 20 s",
    ]
    assert list(Fact("look", TOPIC, room=10, code=True).lines(40)) == [f"    look      {TOPIC}"]


def test_parts_of_a_heading_that_have_no_room_continue_below_it() -> None:
    heading = Heading(["09:14:03", "generation 1", "", "took 3 s"], 3, (2, 4))
    assert list(heading.lines(None)) == ["  09:14:03  generation 1  took 3 s"]
    assert list(heading.lines(24)) == ["  09:14:03  generation 1", "    took 3 s"]


@pytest.mark.usefixtures("colors")
def test_colours_take_no_room() -> None:
    red = Paragraph(TEXT, color="red", bold=True)
    plain = Paragraph(TEXT)
    assert len(list(red.lines(24))) == len(list(plain.lines(24))) == 2


def test_a_line_is_its_text() -> None:
    line = Line("sent  #55", 55)
    assert (line, line.number) == ("sent  #55", 55)
    assert Line("nothing").number is None


def test_what_looks_like_a_number_in_a_text_leads_nowhere() -> None:
    table = Table("Found", [Column("value")], [Row(["order #5"]), Row(["x"], number=7, below=["exchange 9"])])
    leading = {str(line).strip(): line.number for line in table.lines(None) if isinstance(line, Line)}
    assert leading == {"order #5": None, "x": 7}


@pytest.mark.parametrize(
    "block", [Heading([TEXT], number=7), Paragraph(TEXT, number=7), Fact("a", TEXT, number=7)]
)
def test_all_lines_of_a_block_lead_to_its_exchange(block: Block) -> None:
    assert {line.number for line in block.lines(30) if isinstance(line, Line)} == {7}


# ---------------------------------------------------------------- Markdown
def test_blocks_in_markdown() -> None:
    shown = [
        *Heading(["a_b_", "c"], 3).markdown(),
        *Paragraph("1. not a list").markdown(),
        *Paragraph("title", level=1).markdown(),
        *Fact("  seen  at ", "*3* times").markdown(),
        *Fact("look", "client_id == `b`", code=True).markdown(),
        *Code(["a=`x`", "# b"]).markdown(),
    ]
    assert shown == [
        "### a_b\\_, c",
        "1\\. not a list",
        "# title",
        "- seen at: \\*3\\* times",
        "- look: `` client_id == `b` ``",
        "```",
        "a=`x`",
        "# b",
        "```",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b_c <script>", r"a_b_c \<script\>"),
        ("line\n# heading", r"line�\# heading"),
        ("[x](y) `z` \\", r"\[x\](y) \`z\` \\"),
        ("- item", r"\- item"),
        ("    code", "code"),
        ("12. item", r"12\. item"),
        ("1) item 1)", r"1\) item 1)"),
        ("1.5 ms", "1.5 ms"),
        ("$x$", r"\$x\$"),
        ("a - b (c)", "a - b (c)"),
    ],
)
def test_names_from_the_wire_are_no_markup(text: str, shown: str) -> None:
    assert escaped(text) == shown
