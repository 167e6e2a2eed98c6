"""Tables in text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.text.tables import Column, Row, Table

COLUMNS = [
    Column("name", least=4),
    Column("count", right=True),
    Column("note", least=6, rank=1),
    Column("extra", rank=2),
]
COLORED = Table("Things", COLUMNS, [Row(["a", "1", "n", "e"], color="red")])
ROWS = [Row(["alphabet", "1,204", "a note of some length", "x"]), Row(["b", "7", "", "y"])]


def lines(width: int | None, limit: int | None = None, rows: list[Row] = ROWS) -> list[str]:
    return list(Table("Things", COLUMNS, rows, "what they are", limit).lines(width))


def test_columns_are_aligned() -> None:
    assert lines(None) == [
        "Things  what they are",
        "  name      count  note                   extra",
        "  alphabet  1,204  a note of some length  x",
        "  b             7                         y",
    ]


@pytest.mark.parametrize(
    ("width", "first"),
    [
        (45, "  alphabet  1,204  a note of some len…  x"),
        (32, "  alp…bet  1,204  a note…  x"),  # both are shortened, the widest first
        (26, "  alp…bet  1,204  a note …"),
        (18, "  alphabet  1,204"),
        (12, "  alp…  1,204"),
    ],
)
def test_what_has_no_room_is_cut_then_left_out(width: int, first: str) -> None:
    assert lines(width)[2] == first


def test_a_column_with_nothing_in_it_is_not_shown() -> None:
    assert lines(None, rows=[Row(["a", "1", "", ""])])[1] == "  name  count"


def test_wide_characters_take_two_columns() -> None:
    wide = [Row(["订单主题", "1", "", ""]), Row(["orders", "2,000", "", ""])]
    assert lines(None, rows=wide)[1:] == ["  name      count", "  订单主题      1", "  orders    2,000"]
    assert lines(14, rows=wide)[2] == "  订单…      1"  # half a wide character is not shown
    assert lines(13, rows=wide)[2] == "  订…       1"


def test_columns_with_what_makes_their_cells() -> None:
    columns = [(Column("name"), str.title), (Column("size", right=True), lambda name: f"{len(name)}")]
    table = Table.of(
        "Things",
        ["ab", "c"],
        columns,
        about="what they are",
        color=lambda name: "red" if name == "c" else None,
        below=lambda name: [f"of {name}"],
        number=len,
    )
    assert list(table.lines(None)) == [
        "Things  what they are",
        "  name  size",
        "  Ab       2",
        "    of ab",
        "  C        1",
        "    of c",
    ]
    assert [(row.color, row.number) for row in table.rows] == [(None, 2), ("red", 1)]


def test_rows_over_the_limit_are_counted() -> None:
    assert lines(None, 1)[3:] == ["  … 1 more, --all shows them"]


def test_what_belongs_to_a_row_stays_with_it() -> None:
    row = Row(
        ["a", "1", "", ""], more=[["  of it", "22", "", ""]], below=["a story that is longer than the line"]
    )
    assert lines(24, 1, [row, row])[2:] == [
        "  a            1",
        "    of it     22",
        "    a story that is",
        "    longer than the line",
        "  … 1 more, --all shows them",
    ]


def test_there_are_no_colours_unless_chosen() -> None:
    assert "\x1b" not in "".join(COLORED.lines(80))


@pytest.mark.usefixtures("colors")
def test_rows_have_colours() -> None:
    assert "\x1b[31m" in "".join(COLORED.lines(80))


def test_markdown_is_a_table_of_github() -> None:
    rows = [Row(["a|b", "1,204", "", "x"], below=["*why*"]), *ROWS[1:]]
    assert list(Table("Things_", COLUMNS, rows, "1. what they are", 1).markdown()) == [
        "### Things\\_",
        "",
        "1\\. what they are",
        "",
        "| name | count | extra |",
        "| --- | ---: | --- |",
        "| a\\|b | 1,204 | x |",
        "",
        "- a\\|b: \\*why\\*",
        "",
        "… 1 more, --all shows them",
    ]


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=60)] * 4),
        max_size=5,
    ),
    st.integers(20, 200),
)
def test_no_line_is_wider_than_the_terminal(cells: list[tuple[str, ...]], width: int) -> None:
    rows = [Row(list(row), below=[" ".join(row)]) for row in cells]
    # "count" cannot be shortened or left out: its longest text is part of a table's minimum width
    needed = 2 + 4 + 2 + max([5, *(len(row[1]) for row in cells)])
    assert all(len(line) <= max(width, needed, 30) for line in lines(width, 3, rows))
