"""The list of exchanges: moving in it, following, columns, the mouse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from textual.events import MouseScrollUp

from captures.filters import compile_filter
from kproxy.saved_choices import ProfileColumn
from kproxy.session.published import Order
from kproxy.tui.profiles import DEFAULT, Profile
from tests.kproxy.tui.kit import read_session
from tests.kproxy.tui.published import PublishedSession, held, summary
from tests.kproxy.tui.widgets.listing import BODY, SIZE, ListApp, renewed


# ------------------------------------------------------------ moving
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("keys", "number"),
    [
        (["j"], 2),
        (["down", "down", "k"], 2),
        (["space"], 1 + BODY),
        (["pagedown", "pagedown", "ctrl+b"], 1 + BODY),
        (["G"], 1_000),
        (["end", "k", "home"], 1),
        (["up"], 1),
        (["G", "down"], 1_000),
    ],
)
async def test_keys_move_the_cursor(keys: list[str], number: int) -> None:
    app = ListApp(PublishedSession(1_000))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        assert app.list.number == number
        assert app.said[-1] == number
        (line,) = (line for line in app.lines if line.startswith("▸"))
        assert line.split()[1] == str(number), "it is in sight"


@pytest.mark.slow
async def test_a_page_keeps_the_cursor_on_its_line_of_the_screen() -> None:
    app = ListApp(PublishedSession(1_000))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("j", "j", "j", "space")
        assert app.list.scroll_offset.y == BODY
        assert app.line(4).startswith("▸")


async def test_the_list_goes_to_an_exchange() -> None:
    app = ListApp(PublishedSession(1_000))
    async with app.run_test(size=SIZE) as pilot:
        assert app.list.go_to(500)
        await pilot.pause()
        assert app.list.number == 500
        assert app.line(1 + BODY // 2).startswith("▸"), "in the middle"
        assert not app.list.go_to(5_000)
        assert app.list.number == 500


@pytest.mark.slow
async def test_enter_and_clicking_twice_choose_an_exchange() -> None:
    app = ListApp(PublishedSession(10))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("j", "enter")
        assert app.said[-1] == ("entered", 2)
        await pilot.click(app.list, offset=(40, 5))
        assert app.said[-1] == 5
        await pilot.click(app.list, offset=(40, 5), times=2)
        assert app.said[-1] == ("entered", 5)
        await pilot.click(app.list, offset=(40, 15))
        assert app.list.number == 5, "there is no exchange"


@pytest.mark.slow
async def test_the_cursor_stays_with_its_exchange_while_others_come_and_go() -> None:
    app = ListApp(PublishedSession(1_000))
    async with app.run_test(size=SIZE) as pilot:
        app.list.go_to(500)
        await pilot.pause()
        line = app.lines.index(next(line for line in app.lines if line.startswith("▸")))
        app.session.show(range(2, 1_000, 2))
        await renewed(pilot)
        assert app.list.number == 500
        assert app.line(line).startswith("▸"), "it does not jump"
        app.session.show(list(range(999, 0, -1)), rising=False, order=Order("number", descending=True))
        await renewed(pilot)
        assert app.line(line).startswith("▸")
        assert app.list.number == 500
        app.session.show([1, 2, 3, 490, 505], order=None)
        await renewed(pilot)
        assert (app.list.number, app.said[-1]) == (505, 505)


# ------------------------------------------------------------ following
@pytest.mark.slow
async def test_following_stays_with_the_newest_until_one_moves_away() -> None:
    app = ListApp(PublishedSession(100))
    async with app.run_test(size=SIZE) as pilot:
        app.list.following = True
        await pilot.pause()
        assert (app.list.number, app.said[-1], app.list.following) == (100, 100, True)
        app.session.grow(5_000)
        await renewed(pilot)
        assert app.list.number == 5_000
        assert "  5000 " in app.line(BODY)
        await pilot.press("up")
        await pilot.pause()
        assert not app.list.following
        assert not app.list.following
        app.session.grow(6_000)
        await renewed(pilot)
        assert app.list.number == 4_999


@pytest.mark.sample(3)
@pytest.mark.parametrize("away", ["wheel", "home", "page", "go to"])
async def test_there_are_many_ways_to_end_following(away: str) -> None:
    app = ListApp(PublishedSession(1_000))
    async with app.run_test(size=SIZE) as pilot:
        app.list.following = True
        await pilot.pause()
        ways: dict[str, Callable[[], Awaitable[Any]]] = {
            "wheel": lambda: pilot._post_mouse_events([MouseScrollUp], app.list, times=1),
            "home": lambda: pilot.press("home"),
            "page": lambda: pilot.press("pageup"),
        }
        if away == "go to":
            app.list.go_to(3)
        else:
            await ways[away]()
        await pilot.pause()
        assert not app.list.following


@pytest.mark.slow
async def test_moving_to_the_end_goes_on_following() -> None:
    app = ListApp(PublishedSession(1_000))
    async with app.run_test(size=SIZE) as pilot:
        app.list.following = True
        await pilot.press("end", "down")
        await pilot.resize_terminal(100, 12)
        await pilot.pause()
        assert app.list.following
        assert app.line(11).startswith("▸")
        app.session.grow(20)
        await renewed(pilot)
        assert app.list.following
        assert app.list.number == 20


# ------------------------------------------------------------ held messages
@pytest.mark.slow
async def test_what_is_held_stays_at_the_bottom_of_the_screen() -> None:
    app = ListApp(PublishedSession(1_000))
    async with app.run_test(size=SIZE) as pilot:
        app.session.held = (held(7), held(8, waiting_behind=0))
        await renewed(pilot)
        app.list.scroll_to(y=400, animate=False)
        await pilot.pause()
        assert "7 09:14:03.218" in app.line(BODY - 1)
        assert "request held, 2 waiting" in app.line(BODY - 1)
        assert "‖ held, 29 s" in app.line(BODY - 1)
        await pilot.press("G")
        assert app.list.number == 1_000
        assert "  1000 " in app.line(BODY - 2)
        await pilot.press("G")
        await pilot.pause()
        assert app.list.held == held(8, waiting_behind=0)
        assert app.said[-1] == app.list.held
        assert app.line(BODY).startswith("▸")
        await pilot.click(app.list, offset=(40, BODY - 1))
        assert app.list.held == held(7)
        app.session.held = ()
        await renewed(pilot)
        assert app.list.number == 1_000


@pytest.mark.slow
async def test_many_held_messages_leave_room_for_exchanges_and_can_be_reached() -> None:
    app = ListApp(PublishedSession(100))
    async with app.run_test(size=SIZE) as pilot:
        app.session.held = tuple(held(number) for number in range(1, 31))
        await renewed(pilot)
        await pilot.press("G", "j", "j", "j", "j", "j", "j", "j", "j")
        assert app.list.held == held(8)
        assert app.line(BODY).startswith("▸")
        await pilot.press("k", "k", "k", "k", "k", "k")
        assert app.list.held == held(2)
        (line,) = (line for line in app.lines if line.startswith("▸"))
        assert line.split()[1] == "2"
        await pilot.press("k", "k")
        assert app.list.number == 100


# ------------------------------------------------------------ columns
@pytest.mark.slow
async def test_a_click_on_a_title_orders() -> None:
    app = ListApp(PublishedSession(10))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.click(app.list, offset=(app.line(0).index("client") + 1, 0))
        assert app.said[-1] == ("sort", "client_id")
        app.session.publish(order=Order("client_id", descending=True))
        await renewed(pilot)
        assert "▼" in app.line(0)
        said = len(app.said)
        await pilot.click(app.list, offset=(app.line(0).index("request →") + 1, 0))
        assert len(app.said) == said, "the list cannot be ordered by that"


@pytest.mark.slow
async def test_an_edge_is_dragged() -> None:
    app = ListApp(PublishedSession(10))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        before = app.line(0)
        edge = app.list._paint().layout.columns[3]
        x = edge.x + edge.width
        await pilot.mouse_down(app.list, offset=(x, 0))
        await pilot.hover(app.list, offset=(x + 6, 0))
        await pilot.mouse_up(app.list, offset=(x + 6, 0))
        await pilot.pause()
        assert app.line(0).index("broker") == before.index("broker") + 6
        assert app.said[-1] == DEFAULT.with_width("client", edge.width + 6)
        await pilot.hover(app.list, offset=(x + 12, 0))
        assert app.line(0).index("broker") == before.index("broker") + 6, "it was let go"


@pytest.mark.slow
async def test_columns_that_do_not_fit_are_scrolled() -> None:
    wide = Profile(
        "",
        (
            ProfileColumn("number", 8),
            ProfileColumn("client", 40),
            ProfileColumn("summary", 80),
            ProfileColumn("state", 20),
        ),
    )
    app = ListApp(PublishedSession(50), wide)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        assert "state" not in app.line(0)
        await pilot.press(*["l"] * 12)
        await pilot.pause()
        assert "state" in app.line(0)
        assert "✓ ok" in app.line(2)
        assert all(app.list.render_line(y).cell_length == 79 for y in range(19))
        await pilot.press(*["left"] * 12)
        await pilot.pause()
        assert app.line(0).split()[0] == "#"


async def test_columns_are_changed() -> None:
    app = ListApp(PublishedSession(3, lambda number: summary(number, cells={"topic": "orders"})))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.list.profile = Profile(
            "mine", (ProfileColumn("number"), ProfileColumn("topic"), ProfileColumn("state"))
        )
        await pilot.pause()
        assert app.line(0).split() == ["#", "topic", "state"]
        assert app.line(2).split() == ["2", "orders", "✓", "ok"]
        assert app.said[-1] == app.list.profile


async def test_a_narrow_terminal_has_fewer_columns_and_the_cursor_in_sight() -> None:
    app = ListApp(PublishedSession(100))
    async with app.run_test(size=(160, 40)) as pilot:
        app.list.go_to(30)
        await pilot.resize_terminal(80, 12)
        await pilot.pause()
        assert "broker" not in app.line(0)
        assert "bytes" not in app.line(0)
        assert app.list.render_line(1).cell_length == 79
        assert any(line.startswith("▸") for line in app.lines)


@pytest.mark.slow
async def test_columns_grow_with_what_is_in_them() -> None:
    app = ListApp(
        PublishedSession(2, lambda number: summary(number, client="a" * (10 if number == 1 else 22)))
    )
    async with app.run_test(size=(160, 20)) as pilot:
        await pilot.pause()
        await pilot.pause()
        assert "a" * 22 in app.line(2)


# ------------------------------------------------------------ with a session
@pytest.mark.slow
async def test_list_and_session_agree_whatever_is_asked_for() -> None:
    chance = Random(6)
    filters = [
        None,
        *map(
            compile_filter, ("api == Fetch", "client_id == m1", "error.any", "number > 200", "latency > 1s")
        ),
    ]
    orders = [None, Order("latency", descending=True), Order("client_id"), Order("topic")]
    async with read_session() as session:
        app = ListApp(session)  # type: ignore[arg-type]
        async with app.run_test(size=SIZE) as pilot:
            for _ in range(15):
                before = app.list.number
                if chance.random() < 0.5:
                    await session.set_filter(chance.choice(filters))
                else:
                    await session.set_order(chance.choice(orders))
                await renewed(pilot)
                await session.idle()
                await renewed(pilot)
                shown = session.shown
                assert app.list.virtual_size.height == 1 + len(shown)
                assert app.list.number is not None
                if before is not None and shown.index_of(before) is not None:
                    assert app.list.number == before
                top = app.list.scroll_offset.y
                numbers = [line[3:10].split()[0] for line in app.lines[1:] if line.strip()]
                assert numbers == [str(number) for number in shown.numbers(top, top + BODY)]
                await pilot.press(*chance.choices(["j", "k", "space", "G", "g"], k=3))
