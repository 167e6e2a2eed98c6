"""The table of views: cursor, order, unfolding, search, and drawing."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from captures.filters.regex import TextRegex
from kproxy.text.cells import fit
from kproxy.text.tables import Column
from kproxy.tui.widgets import row_table, table_rows
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Order, Role, Row, counted, sized

COLUMNS = [
    Column("topic", least=8),
    Column("records", right=True),
    Column("bytes", right=True, rank=2),
    Column("errors", rank=1, least=10),
]


def topic(name: str, records: int, *, partitions: int = 0, error: str = "") -> Row:
    children = tuple(
        Row((name, number), (Cell(f"{number}", value=number), counted(number + 1), sized(100), ""))
        for number in range(partitions)
    )
    cells = (name, counted(records), sized(records * 1000), Cell(error, Role.ERROR))
    return Row(name, cells, children)


TOPICS = [
    topic("payments", 20, partitions=3),
    topic("orders", 1200, error="3 NOT_LEADER_OR_FOLLOWER"),
    topic("Audit", 0),
]


class TableApp(App[None]):
    def __init__(self, rows: Sequence[Row] = (), order: Order | None = None) -> None:
        super().__init__()
        self.rows = rows
        self.order = order
        self.met: list[tuple[str, Hashable]] = []

    def compose(self) -> ComposeResult:
        yield RowTable(COLUMNS, empty="No topics yet.", order=self.order)

    def on_mount(self) -> None:
        self.table.set_rows(self.rows)

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def on_row_table_row_selected(self, message: RowTable.RowSelected) -> None:
        self.met.append(("selected", message.key))

    def on_row_table_row_entered(self, message: RowTable.RowEntered) -> None:
        self.met.append(("entered", message.key))


def lines(app: TableApp, count: int = 8) -> list[str]:
    """Return the text of the table, without the empty lines at the end."""
    shown = [app.table.render_line(y).text.rstrip() for y in range(min(count, app.table.size.height))]
    while shown and not shown[-1]:
        shown.pop()
    return shown


def keys(app: TableApp) -> list[str]:
    return [line[1:].split()[0] for line in lines(app)[1:]]


@pytest.fixture
def opened() -> Callable[..., Any]:
    def run(rows: Sequence[Row] = TOPICS, size: tuple[int, int] = (80, 12), **options: Any) -> Any:
        return TableApp(rows, **options).run_test(size=size)

    return run


async def test_rows_stand_under_their_titles(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        assert lines(pilot.app) == [
            " topic       records  bytes  errors",
            "▌▸ payments       20    20k",
            "   orders      1,200   1.1M  3 NOT_LEADER_OR_FOLLOWER",
            "   Audit",
        ]


@pytest.mark.slow
async def test_an_empty_table_says_so(opened: Callable[..., Any]) -> None:
    async with opened([]) as pilot:
        assert lines(pilot.app) == [" topic", " No topics yet."]
        await pilot.press("down", "enter", "u", "end")
        assert not pilot.app.met


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("pressed", "selected"),
    [
        (["down"], "orders"),
        (["j", "j"], "Audit"),
        (["down", "up"], "payments"),
        (["end"], "Audit"),
        (["G", "g"], "payments"),
        (["pagedown"], "Audit"),
        (["end", "pageup"], "payments"),
        (["up"], "payments"),
        (["end", "down"], "Audit"),
    ],
)
async def test_the_cursor_moves(opened: Callable[..., Any], pressed: list[str], selected: str) -> None:
    async with opened() as pilot:
        await pilot.press(*pressed)
        assert pilot.app.table.selected.key == selected
        assert pilot.app.met[-1] == ("selected", selected)


@pytest.mark.slow
async def test_enter_chooses_a_row(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        await pilot.press("down", "enter")
        assert pilot.app.met == [("selected", "payments"), ("selected", "orders"), ("entered", "orders")]


@pytest.mark.slow
async def test_rows_unfold_and_fold(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        await pilot.press("u")
        assert lines(pilot.app) == [
            " topic       records  bytes  errors",
            "▌▾ payments       20    20k",
            "     0             1  100 B",
            "     1             2  100 B",
            "     2             3  100 B",
            "   orders      1,200   1.1M  3 NOT_LEADER_OR_FOLLOWER",
            "   Audit",
        ]
        await pilot.press("down", "down")
        assert pilot.app.table.selected.key == ("payments", 1)
        await pilot.press("u")
        assert pilot.app.table.selected.key == "payments"
        assert len(lines(pilot.app)) == 4
        await pilot.press("down", "u")  # it contains nothing to unfold
        assert len(lines(pilot.app)) == 4


@pytest.mark.slow
async def test_the_cursor_and_what_is_unfolded_stay_with_their_rows(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        await pilot.press("u", "down", "down")
        pilot.app.table.set_rows([topic("new", 1), *TOPICS])
        assert pilot.app.table.selected.key == ("payments", 1)
        assert len(lines(pilot.app)) == 8
        pilot.app.table.set_rows([topic("new", 1)])
        assert pilot.app.table.selected.key == "new"
        await pilot.pause()
        assert pilot.app.met[-1] == ("selected", "new")


@pytest.mark.slow
async def test_the_line_of_the_screen_stays_when_rows_come_above(opened: Callable[..., Any]) -> None:
    rows = [topic(f"t{number:03}", number + 1) for number in range(100)]
    async with opened(rows) as pilot:
        await pilot.press("pagedown", "pagedown", "up", "up")
        key = pilot.app.table.selected.key
        at = next(y for y, line in enumerate(lines(pilot.app, 12)) if line.startswith("▌"))
        pilot.app.table.set_rows([topic("new", 1), topic("newer", 1), *rows])
        assert lines(pilot.app, 12)[at].startswith(f"▌{key}")


async def test_a_table_that_grows_after_the_user_came_back_shows_the_same_lines(
    opened: Callable[..., Any],
) -> None:
    rows = [topic(f"t{number:03}", number + 1) for number in range(16)]
    async with opened(rows) as pilot:
        table = pilot.app.table
        table.styles.height = 10
        await pilot.pause()
        await pilot.press(*["down"] * 11, *["up"] * 3)
        before, place = lines(pilot.app, 10), table.position
        table.styles.height = 4
        table.set_rows(rows[:1])
        await pilot.pause()
        table.set_rows(rows)
        table.come_back(place)
        await pilot.pause()
        table.styles.height = 10
        await pilot.pause()
        assert lines(pilot.app, 10) == before
        await pilot.press("down")
        table.styles.height = 9
        await pilot.pause()
        assert lines(pilot.app, 10) != before


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order(1), ["▸", "orders", "Audit"]),
        (Order(1, descending=True), ["orders", "▸", "Audit"]),
        (Order(0), ["Audit", "orders", "▸"]),
        (None, ["▸", "orders", "Audit"]),
    ],
)
async def test_numbers_sort_as_numbers_and_nothing_comes_last(
    opened: Callable[..., Any], order: Order | None, expected: list[str]
) -> None:
    async with opened(order=order) as pilot:
        assert keys(pilot.app) == expected


async def test_columns_are_sorted_by_keys(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        table = pilot.app.table
        table.action_sort(1)
        assert table.order == Order(0)
        table.action_sort(1)
        assert table.order == Order(1, descending=True)  # the largest first
        assert "records▼" in lines(pilot.app)[0]
        table.action_table_reverse()
        assert table.order == Order(1)
        table.action_sort(-1)
        table.action_sort(-1)
        assert table.order is None
        table.action_table_reverse()
        assert table.order is None
        assert table.selected.key == "payments"


@pytest.mark.slow
async def test_a_click_on_a_title_sorts(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        found = []
        for _ in range(4):
            await pilot.click(RowTable, offset=(15, 0))
            found.append(pilot.app.table.order)
        assert found == [Order(1, descending=True), Order(1), None, Order(1, descending=True)]


@pytest.mark.slow
async def test_the_mouse_selects_unfolds_and_chooses(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        await pilot.click(RowTable, offset=(20, 2))
        assert pilot.app.table.selected.key == "orders"
        await pilot.click(RowTable, offset=(1, 1))
        assert ("payments", 0) in [line.row.key for line in pilot.app.table._lines]
        await pilot.click(RowTable, offset=(20, 5), times=2)
        assert pilot.app.met[-1] == ("entered", "orders")
        await pilot.click(RowTable, offset=(20, 10))  # below the rows
        assert pilot.app.table.selected.key == "orders"


async def test_a_search_goes_round_and_unfolds(opened: Callable[..., Any]) -> None:
    def search(text: str, *, forward: bool = True) -> bool:
        return app.table.search(TextRegex(text), forward=forward)

    async with opened() as pilot:
        app: TableApp = pilot.app
        assert search("audit")
        assert app.table.selected.key == "Audit"
        assert search("pay|order")
        assert app.table.selected.key == "payments"
        assert search("^2 ")
        assert app.table.selected.key == ("payments", 2)
        assert search("NOT_LEADER", forward=False)
        assert app.table.selected.key == "orders"
        assert not search("nowhere")
        assert app.table.selected.key == "orders"


@pytest.mark.slow
async def test_narrow_tables_leave_columns_out_and_scrolling_brings_them_back(
    opened: Callable[..., Any],
) -> None:
    async with opened(size=(34, 12)) as pilot:
        assert lines(pilot.app)[0] == " topic       records  errors"
        await pilot.press("right")
        assert lines(pilot.app)[0].startswith("     records  bytes  errors")
        await pilot.press("left", "left")
        assert lines(pilot.app)[0] == " topic       records  errors"
        await pilot.resize_terminal(80, 12)
        await pilot.pause()
        assert lines(pilot.app)[0] == " topic       records  bytes  errors"


async def test_what_came_from_the_wire_does_no_harm(opened: Callable[..., Any]) -> None:
    rows = [topic("[red]\x1b[2Jab\u202e", 1), topic("日本語", 2)]
    async with opened(rows) as pilot:
        shown = lines(pilot.app)
        assert shown[1:] == ["▌[red]�[2Jab�        1  1000 B", " 日本語              2    2.0k"]


@pytest.mark.slow
async def test_of_ten_thousand_rows_only_those_on_the_screen_are_drawn(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [topic(f"topic-{number}", number, error="x" * 40) for number in range(10_000)]
    cells: list[str] = []
    monkeypatch.setattr(
        row_table, "fit", lambda *texts, **options: cells.append("") or fit(*texts, **options)
    )
    monkeypatch.setattr(
        table_rows, "printable", lambda _: pytest.fail("rows are measured when they are made")
    )
    async with opened([]) as pilot:
        table: RowTable = pilot.app.table
        table.set_rows(rows)
        for y in range(table.size.height):
            table.render_line(y)
        await pilot.press("end")
        assert table.selected.key == "topic-9999"
    assert len(cells) < 1000


@pytest.mark.slow
async def test_text_can_be_selected(opened: Callable[..., Any]) -> None:
    async with opened() as pilot:
        await pilot.mouse_down(RowTable, offset=(3, 1))
        await pilot.hover(RowTable, offset=(8, 2))
        await pilot.mouse_up(RowTable, offset=(8, 2))
        assert pilot.app.screen.get_selected_text() == "payments       20    20k\n   orders"


@pytest.mark.slow
def test_tables_look_as_they_should(snap_compare: Callable[..., bool]) -> None:
    async def before(pilot: Pilot[None]) -> None:
        table = pilot.app.query_one(RowTable)
        table.sort_by(1, descending=True)
        await pilot.press("end", "up", "u")

    assert snap_compare(TableApp(TOPICS), terminal_size=(70, 10), run_before=before)


@pytest.mark.slow
async def test_the_cursor_stays_with_its_row_whatever_happens(opened: Callable[..., Any]) -> None:
    chance = random.Random(7)
    async with opened([]) as pilot:
        table: RowTable = pilot.app.table
        for _ in range(300):
            before = table.selected
            moved = table._moved
            names = chance.sample(range(60), chance.randint(0, 40))
            rows = [topic(f"t{name}", chance.randint(0, 9), partitions=name % 3) for name in names]
            if chance.random() < 0.3:
                table.sort_by(chance.choice([None, 0, 1, 2]), descending=chance.random() < 0.5)
            table.set_rows(rows)
            after = table.selected
            assert (after is None) == (not rows)
            if moved and before is not None and before.key in [row.key for row in rows]:
                assert after is not None
                assert after.key == before.key
            if after is not None:
                on_screen = table.cursor - table.scroll_offset.y
                assert 0 <= table.cursor < len(table._lines)
                assert table._selected == after.key
                if moved:
                    assert 0 <= on_screen < table.page
            moves = "move(1) move(-1) move_page(1) move_page(-1) move_to_first move_to_last table_unfold table_reverse"
            move = chance.choice(moves.split())
            assert await pilot.app.run_action(move, table)


class SentencesApp(App[None]):
    def compose(self) -> ComposeResult:
        yield RowTable([Column("severity"), Column("what", least=10, wraps=True)])

    def on_mount(self) -> None:
        sentences = [
            "one two three four five six",
            "short",
            "",
            "seven eight nine ten eleven twelve thirteen",
        ]
        table = self.query_one(RowTable)
        table.set_rows([Row(number, ("high", text)) for number, text in enumerate(sentences)])
        table.focus()


async def test_sentences_are_wrapped_and_the_cursor_goes_from_row_to_row() -> None:
    app = SentencesApp()
    async with app.run_test(size=(28, 5)) as pilot:
        table = app.query_one(RowTable)
        lines = [table.line_text(y).rstrip() for y in range(table.line_count())]
        assert lines == [
            " severity  what",
            "▌high      one two three",
            "▌          four five six",
            " high      short",
            " high",
            " high      seven eight nine",
            "           ten eleven",
            "           twelve thirteen",
        ]
        await pilot.press("down", "down", "down")
        assert table.selected is not None
        assert (table.selected.key, table.scroll_offset.y) == (3, 3), (
            "all of the row is in sight, or its first line"
        )
        await pilot.press("pageup")
        assert table.selected.key == 0
        await pilot.resize_terminal(28, 2)
        await pilot.press("pagedown")
        assert table.selected.key == 1, "a row that is higher than a page is left"
        await pilot.resize_terminal(28, 5)
        await pilot.press("up")
        await pilot.click(table, offset=(12, 3))
        assert table.selected.key == 1
        place = table.position
        assert place is not None
        await pilot.press("end")
        table.come_back(place)
        assert (table.selected.key, table.scroll_offset.y) == (1, place.top)
        await pilot.resize_terminal(60, 5)
        assert table.line_count() == 5
