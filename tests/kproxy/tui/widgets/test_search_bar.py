"""The search bar."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from kproxy.tui.search import Kind
from kproxy.tui.widgets.search_bar import SearchBar
from kproxy.tui.widgets.verdict import Validity
from tests.kproxy.tui.typing import quiet, state_home, told_by, type_in  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("state_home")


class SearchApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[SearchBar.Search] = []

    def compose(self) -> ComposeResult:
        yield SearchBar()

    @property
    def bar(self) -> SearchBar:
        return self.query_one(SearchBar)

    def on_search_bar_search(self, message: SearchBar.Search) -> None:
        self.asked.append(message)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("typed", "kind"),
    [("orders", Kind.TEXT), ("/^a/", Kind.REGEX), ("~ ^a", Kind.REGEX), ("0x0a1b", Kind.BYTES)],
)
async def test_what_is_typed_is_looked_for(typed: str, kind: Kind) -> None:
    app = SearchApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.ask("list", forward=False)
        await type_in(pilot, typed, "enter")
        [asked] = app.asked
        assert asked.search.kind is kind
        assert asked.search.text == typed
        assert not asked.forward
        assert not asked.deep
        assert not app.bar.is_open


@pytest.mark.slow
async def test_where_it_searches_is_said_and_the_key_makes_it_deep() -> None:
    app = SearchApp()
    async with app.run_test(size=(100, 24)) as pilot:
        app.bar.ask("list")
        await type_in(pilot, "orders")
        assert "in what is shown" in told_by(app.bar)
        await type_in(pilot, "", "ctrl+t")
        assert "in all fields and bytes" in told_by(app.bar)
        await type_in(pilot, "", "enter")
        assert app.asked[0].deep
        app.bar.ask("bytes", deep=False)
        await type_in(pilot, "orders", "ctrl+t", "enter")
        assert not app.asked[1].deep


@pytest.mark.slow
async def test_a_broken_expression_is_told_and_not_looked_for() -> None:
    app = SearchApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.ask("tree")
        await type_in(pilot, "/a[/", "enter")
        assert app.asked == []
        assert app.bar.verdict.validity is Validity.INVALID
        assert "this bracket is never closed" in told_by(app.bar)
        await type_in(pilot, "", "escape")


@pytest.mark.slow
async def test_nothing_is_not_looked_for() -> None:
    app = SearchApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.ask("list")
        await type_in(pilot, "", "enter")
        assert app.asked == []
        assert app.bar.is_open


@pytest.mark.slow
async def test_searches_have_a_history_of_their_own(state_home: Path) -> None:  # noqa: F811
    app = SearchApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.ask("list")
        await type_in(pilot, "orders", "enter")
        app.bar.ask("list")
        await quiet(pilot)
        await type_in(pilot, "", "up", "enter")
        assert [asked.search.text for asked in app.asked] == ["orders", "orders"]
    assert (state_home / "search").read_text() == '"orders"\n'
