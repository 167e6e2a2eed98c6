"""Rows of tables: their order, their widths, and the lines they become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.tui.widgets.table_rows import MOST_WIDTH, Cell, Lines, Order, Role, Row, counted, sized

NUMBERS = st.integers(0, 50)


def row(key: int, value: int, children: int = 0) -> Row:
    below = tuple(Row((key, child), (counted(child), "child")) for child in range(children))
    return Row(key, (counted(value), f"name {value % 7}"), below)


ROWS = st.lists(NUMBERS, unique=True, max_size=20).flatmap(
    lambda keys: st.tuples(*(st.builds(row, st.just(key), NUMBERS, st.integers(0, 3)) for key in keys))
)
ORDERS = st.none() | st.builds(Order, st.integers(0, 1), st.booleans())


@pytest.mark.slow
@given(rows=ROWS, order=ORDERS, unfolded=st.sets(NUMBERS))
def test_every_row_is_on_one_line_with_its_children_below(
    rows: tuple[Row, ...], order: Order | None, unfolded: set[int]
) -> None:
    lines = Lines(rows, order, unfolded)
    assert {line.row.key for line in lines if not line.depth} == {row.key for row in rows}
    assert len(lines) == len(rows) + sum(len(row.children) for row in rows if row.key in unfolded)
    parent: Row | None = None
    for place, line in enumerate(lines):
        assert lines.index_of(line.row.key) == place
        if not line.depth:
            parent = line.row
        else:
            assert parent is not None
            assert line.row in parent.children


@given(rows=ROWS, descending=st.booleans())
def test_numbers_are_in_order_and_what_is_empty_comes_last(rows: tuple[Row, ...], descending: bool) -> None:
    lines = Lines(rows, Order(0, descending), set())
    values = [cell.value for line in lines if isinstance(cell := line.row.cells[0], Cell)]
    filled = [value for value in values if value]
    assert filled == sorted(filled, reverse=descending)
    assert not any(values[len(filled) :])


def test_letters_sort_whatever_their_case() -> None:
    rows = [Row(name, (name,)) for name in ("b", "A", "c")]
    assert [line.row.key for line in Lines(rows, Order(0), set())] == ["A", "b", "c"]


def test_widths_are_those_of_what_is_shown() -> None:
    rows = [Row(1, ("日本", Cell("x" * 500))), Row(2, ("a\x1b[2J", "")), Row(3, ("", "\u202eab"))]
    assert [each.widths for each in rows] == [(4, MOST_WIDTH), (5, 0), (0, 3)]
    assert Lines(rows, None, set()).longest(2) == [5, MOST_WIDTH]
    assert Lines([], None, set()).longest(2) == [0, 0]


def test_children_are_indented() -> None:
    rows = [row(1, 1, children=2)]
    assert Lines(rows, None, set()).longest(2)[0] == 3
    assert Lines(rows, None, {1}).longest(2)[0] == 5


def test_cells_of_numbers() -> None:
    assert counted(12_345) == Cell("12,345", Role.PLAIN, 12_345)
    assert counted(0, Role.ERROR) == Cell("", Role.ERROR, 0)
    assert sized(2048) == Cell("2.0k", Role.PLAIN, 2048)
    assert sized(0).text == ""


def test_rows_are_searched_by_all_their_texts() -> None:
    assert Row(1, ("orders", counted(3), "")).text() == "orders  3  "
